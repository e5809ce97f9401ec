//! An answer in the form that its channel carries: whole, or in numbered parts.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::channel::Channel;
use crate::channel_spec::{ChannelSpec, MarkdownFeature, SMS_MAX_LENGTH};
use crate::markup::{has_emoji, markdown_in};
use crate::valid::{Invalid, Report, Rules, Valid};

/// A formatted response whose rules hold.
pub type FormattedResponse = Valid<FormattedResponseFields>;

/// One answer, ready to be sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FormattedResponse")]
pub struct FormattedResponseFields {
    /// The task whose answer it is.
    pub request_id: Uuid,
    /// Where it goes.
    pub channel: Channel,
    /// The whole text. If it is split, the parts are what is sent.
    pub content: String,
    /// Whether it goes out in parts.
    #[serde(default)]
    pub is_split: bool,
    /// The parts, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<MessagePart>,
    /// The structured card, for Teams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<Value>,
    /// What formatting did, such as the emojis it used.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// When it was formatted.
    pub formatted_at: Timestamp,
}

/// One of several messages that carry an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessagePart {
    /// Its number, from 1.
    #[schemars(range(min = 1))]
    pub sequence: u32,
    /// Its share of the text.
    pub content: String,
    /// How the reader is told that there is more, such as `(1/3)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuation_indicator: Option<String>,
}

impl MessagePart {
    /// What is sent: the share of the text, and the mark.
    pub fn text(&self) -> String {
        match &self.continuation_indicator {
            Some(mark) => format!("{} {mark}", self.content),
            None => self.content.clone(),
        }
    }

    /// Numbers the shares of a text, each with its mark.
    pub fn number(shares: Vec<String>) -> Vec<Self> {
        let count = shares.len();
        shares
            .into_iter()
            .zip(1_u32..)
            .map(|(content, sequence)| Self {
                sequence,
                content,
                continuation_indicator: Some(format!("({sequence}/{count})")),
            })
            .collect()
    }
}

impl FormattedResponseFields {
    /// The messages that go out, in order.
    pub fn messages(&self) -> Vec<String> {
        if self.is_split {
            self.parts.iter().map(MessagePart::text).collect()
        } else {
            vec![self.content.clone()]
        }
    }

    fn bounded(&self, most: Option<usize>, report: &mut Report) {
        let Some(most) = most else { return };
        for message in self.messages() {
            let length = message.chars().count();
            report.require(
                length <= most,
                if self.is_split { "parts" } else { "content" },
                "formatted.too_long",
                format_args!(
                    "{} carries {most} characters a message, not {length}",
                    self.channel
                ),
            );
        }
    }

    fn unmarked(&self, shown: &[MarkdownFeature], report: &mut Report) {
        for feature in markdown_in(&self.content) {
            report.require(
                shown.contains(&feature),
                "content",
                "formatted.markdown",
                format_args!(
                    "{} does not show markdown such as {feature:?}",
                    self.channel
                ),
            );
        }
    }
}

impl Valid<FormattedResponseFields> {
    /// Whether the response keeps what the app says of its channel.
    pub fn check_against(&self, spec: &ChannelSpec) -> Result<(), Invalid> {
        let mut report = Report::default();
        report.require(
            self.channel == spec.channel,
            "channel",
            "formatted.channel_other",
            format_args!("the response is for {}, not {}", self.channel, spec.channel),
        );
        self.bounded(spec.max_length, &mut report);
        self.unmarked(&spec.markdown_features, &mut report);
        report.require(
            spec.supports_emojis || !has_emoji(&self.content),
            "content",
            "formatted.emoji",
            format_args!("{} does not show emojis", self.channel),
        );
        report.finish()
    }
}

impl Rules for FormattedResponseFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            !self.content.trim().is_empty(),
            "content",
            "formatted.content_empty",
            "content is empty; there is nothing to send",
        );
        report.require(
            self.is_split != self.parts.is_empty(),
            "parts",
            "formatted.parts",
            "a response has parts exactly when it is split",
        );
        report.require(
            self.card.is_none() || self.channel == Channel::Teams,
            "card",
            "formatted.card",
            "only Teams shows cards",
        );
        let count = self.parts.len();
        report.within("parts", |report| {
            for (index, part) in self.parts.iter().enumerate() {
                let number = index + 1;
                report.require(
                    usize::try_from(part.sequence).is_ok_and(|sequence| sequence == number),
                    index,
                    "formatted.sequence",
                    format_args!(
                        "parts are numbered from 1 without gaps; this one must be {number}"
                    ),
                );
                let mark = format!("({number}/{count})");
                report.require(
                    part.continuation_indicator
                        .as_ref()
                        .is_none_or(|given| *given == mark),
                    index,
                    "formatted.indicator",
                    format_args!("the mark of this part is `{mark}`"),
                );
                report.require(
                    !part.content.trim().is_empty(),
                    index,
                    "formatted.part_empty",
                    "content is empty; a part carries some of the text",
                );
            }
        });
        if self.channel == Channel::Sms {
            self.bounded(Some(SMS_MAX_LENGTH), report);
            self.unmarked(&[], report);
        }
    }
}
