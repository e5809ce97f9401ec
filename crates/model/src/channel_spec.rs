//! What a channel supports: length of a message, markdown, and where a long text is split.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::channel::Channel;
use crate::valid::{Report, Rules, Valid};

/// Limit of one text message, in characters.
pub const SMS_MAX_LENGTH: usize = 1_600;

/// Smallest limit that leaves room for a continuation mark such as `(10/12)` and a word.
pub const MIN_MAX_LENGTH: usize = 40;

/// A validated channel specification.
pub type ChannelSpec = Valid<ChannelSpecFields>;

/// What one channel supports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ChannelSpec")]
pub struct ChannelSpecFields {
    /// The channel.
    pub channel: Channel,
    /// Limit of one message, in characters; no limit if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<usize>,
    /// Whether it renders markdown.
    #[serde(default)]
    pub supports_markdown: bool,
    /// The markdown it renders.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub markdown_features: Vec<MarkdownFeature>,
    /// Whether it renders emojis.
    #[serde(default = "supports_emojis")]
    pub supports_emojis: bool,
    /// Where a text that is too long is split.
    #[serde(default)]
    pub split_strategy: SplitStrategy,
}

fn supports_emojis() -> bool {
    true
}

/// A kind of markdown.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum MarkdownFeature {
    /// `**bold**`
    Bold,
    /// `*italic*`
    Italic,
    /// `## Header`
    Headers,
    /// `| a | b |`
    Tables,
    /// `[text](address)`
    Links,
    /// `` `code` `` and fenced blocks.
    Code,
}

impl MarkdownFeature {
    /// Every feature.
    pub const ALL: [Self; 6] = [
        Self::Bold,
        Self::Italic,
        Self::Headers,
        Self::Tables,
        Self::Links,
        Self::Code,
    ];
}

/// Where a text that is too long is split.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SplitStrategy {
    /// Between sentences.
    #[default]
    Sentence,
    /// Between paragraphs.
    Paragraph,
    /// Between words.
    Word,
}

impl Valid<ChannelSpecFields> {
    /// The defaults of a channel.
    pub fn of(channel: Channel) -> Self {
        use MarkdownFeature::{Bold, Code, Italic};
        let (max_length, features) = match channel {
            Channel::Sms => (Some(SMS_MAX_LENGTH), Vec::new()),
            Channel::WhatsApp => (Some(4_096), vec![Bold, Italic, Code]),
            Channel::Teams => (Some(28_000), MarkdownFeature::ALL.to_vec()),
            Channel::Terminal => (None, Vec::new()),
            Channel::Email | Channel::Http | Channel::A2a | Channel::Mcp | Channel::OpenAi => {
                (None, MarkdownFeature::ALL.to_vec())
            }
        };
        let split_strategy = match channel {
            Channel::Teams | Channel::Email => SplitStrategy::Paragraph,
            _ => SplitStrategy::Sentence,
        };
        // A unit test checks that all of these are valid.
        Self::unchecked(ChannelSpecFields {
            channel,
            max_length,
            supports_markdown: !features.is_empty(),
            markdown_features: features,
            supports_emojis: true,
            split_strategy,
        })
    }
}

impl Rules for ChannelSpecFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            self.max_length
                .is_none_or(|length| length >= MIN_MAX_LENGTH),
            "max_length",
            "channel_spec.max_length_small",
            format_args!(
                "max_length must be at least {MIN_MAX_LENGTH}, to hold a word and `(1/3)`"
            ),
        );
        report.require(
            self.channel != Channel::Sms
                || self
                    .max_length
                    .is_some_and(|length| length <= SMS_MAX_LENGTH),
            "max_length",
            "channel_spec.sms_length",
            format_args!("a text message has at most {SMS_MAX_LENGTH} characters"),
        );
        report.require(
            self.channel != Channel::Sms || !self.supports_markdown,
            "supports_markdown",
            "channel_spec.sms_markdown",
            "SMS does not render markdown",
        );
        report.require(
            self.markdown_features.is_empty() || self.supports_markdown,
            "markdown_features",
            "channel_spec.features_without_markdown",
            "markdown_features needs supports_markdown: true",
        );
        let mut features = BTreeSet::new();
        report.require(
            self.markdown_features
                .iter()
                .all(|feature| features.insert(feature)),
            "markdown_features",
            "channel_spec.feature_twice",
            "a markdown feature is listed twice; list each once",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_specification_is_valid() {
        for channel in Channel::ALL {
            let spec = ChannelSpec::of(channel);
            assert_eq!(spec.channel, channel);
            assert_eq!(ChannelSpec::new(spec.clone().into_fields()), Ok(spec));
        }
    }
}
