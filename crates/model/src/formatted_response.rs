//! An answer as its channel sends it: whole or in numbered parts.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::channel::Channel;
use crate::channel_spec::{ChannelSpec, MarkdownFeature, SMS_MAX_LENGTH};
use crate::markup::{has_emoji, markdown_in};
use crate::valid::{Invalid, Report, Rules, Valid};

/// A validated formatted response.
pub type FormattedResponse = Valid<FormattedResponseFields>;

/// One answer, ready to be sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FormattedResponse")]
pub struct FormattedResponseFields {
    /// The task.
    pub request_id: Uuid,
    /// The channel.
    pub channel: Channel,
    /// The whole text. If it is split, the parts are sent instead.
    pub content: String,
    /// Whether it is sent in parts.
    #[serde(default)]
    pub is_split: bool,
    /// The parts, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<MessagePart>,
    /// The structured card, for Teams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<Value>,
    /// Data about formatting, such as the emojis used.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// When it was formatted.
    pub formatted_at: Timestamp,
}

/// One of several messages that carry an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessagePart {
    /// Its number, starting at 1.
    #[schemars(range(min = 1))]
    pub sequence: u32,
    /// Its part of the text.
    pub content: String,
    /// Continuation mark, such as `(1/3)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuation_indicator: Option<String>,
}

impl MessagePart {
    /// The text to send: content and mark.
    pub fn text(&self) -> String {
        match &self.continuation_indicator {
            Some(mark) => format!("{} {mark}", self.content),
            None => self.content.clone(),
        }
    }

    /// Numbers the parts of a text and adds the marks.
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
    /// The messages to send, in order.
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
                    "a message on {} has at most {most} characters, not {length}",
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
                    "{} does not render markdown such as {feature:?}",
                    self.channel
                ),
            );
        }
    }
}

impl Valid<FormattedResponseFields> {
    /// Checks the response against the specification of its channel.
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
            format_args!("{} does not render emojis", self.channel),
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
            "only Teams supports cards",
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
                    format_args!("the continuation_indicator of this part must be `{mark}`"),
                );
                report.require(
                    !part.content.trim().is_empty(),
                    index,
                    "formatted.part_empty",
                    "content is empty; every part has text",
                );
            }
        });
        if self.channel == Channel::Sms {
            self.bounded(Some(SMS_MAX_LENGTH), report);
            self.unmarked(&[], report);
        }
    }
}
