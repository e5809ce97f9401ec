//! Channels: where a request comes from and where its answer goes.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::valid::Invalid;

/// A channel that requests arrive and answers leave on.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Channel {
    /// Text messages.
    Sms,
    /// E-mail.
    Email,
    /// WhatsApp.
    WhatsApp,
    /// Microsoft Teams.
    Teams,
    /// The command line.
    Terminal,
    /// The REST interface.
    Http,
    /// The A2A protocol.
    A2a,
    /// The Model Context Protocol.
    Mcp,
    /// The OpenAI-compatible interface.
    OpenAi,
}

impl Channel {
    /// Every channel, in display order.
    pub const ALL: [Self; 9] = [
        Self::Sms,
        Self::Email,
        Self::WhatsApp,
        Self::Teams,
        Self::Terminal,
        Self::Http,
        Self::A2a,
        Self::Mcp,
        Self::OpenAi,
    ];

    /// The spelling in files and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sms => "sms",
            Self::Email => "email",
            Self::WhatsApp => "whatsapp",
            Self::Teams => "teams",
            Self::Terminal => "terminal",
            Self::Http => "http",
            Self::A2a => "a2a",
            Self::Mcp => "mcp",
            Self::OpenAi => "openai",
        }
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Channel {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::ALL
            .into_iter()
            .find(|channel| channel.as_str() == text)
            .ok_or_else(|| {
                let known = Self::ALL.map(Self::as_str).join(", ");
                Invalid::one(
                    "channel.unknown",
                    format!("`{text}` is not a channel; use one of {known}"),
                )
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spelling_is_the_one_on_the_wire() {
        for channel in Channel::ALL {
            assert_eq!(serde_json::to_value(channel).unwrap(), channel.as_str());
            assert_eq!(channel.as_str().parse(), Ok(channel));
        }
    }

    #[test]
    fn an_unknown_channel_is_refused_with_those_that_exist() {
        let unknown = "fax".parse::<Channel>().unwrap_err();
        assert!(unknown.has("channel.unknown"));
        assert!(unknown.to_string().contains("whatsapp"), "{unknown}");
    }
}
