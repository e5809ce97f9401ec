//! A user's request, bounded before it is processed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::channel::Channel;
use crate::message::Message;
use crate::user::UserId;
use crate::valid::{Invalid, Report, Rules, Valid};

/// A validated request. Its user id comes from a verified token, so it is never deserialized from a
/// client's input: use [`Request::receive`].
pub type Request = Valid<RequestFields>;

/// One request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Request")]
pub struct RequestFields {
    /// The user, if signed in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    /// The conversation to continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<Uuid>,
    /// The channel it arrived on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<Channel>,
    /// The message.
    #[schemars(length(min = 1))]
    pub message: String,
    /// Earlier messages, oldest first.
    #[serde(
        default,
        alias = "conversation_history",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub history: Vec<Message>,
    /// Number of older messages that were cut.
    #[serde(default)]
    pub history_cut: usize,
    /// The limits it was received under. They are part of it, so that it validates wherever it is read
    /// again.
    #[serde(default)]
    pub limits: RequestLimits,
}

/// Limits of a request, set per app.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RequestLimits {
    /// Limit of the message, in characters.
    #[schemars(range(min = 1))]
    pub message_characters: usize,
    /// Limit of messages of history.
    pub history_messages: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            message_characters: 2_000,
            history_messages: 50,
        }
    }
}

impl Valid<RequestFields> {
    /// Receives a request: trims the message and cuts the history to the newest messages.
    pub fn receive(
        user_id: Option<Uuid>,
        message: &str,
        mut history: Vec<Message>,
        limits: &RequestLimits,
    ) -> Result<Self, Invalid> {
        let history_cut = history.len().saturating_sub(limits.history_messages);
        history.drain(..history_cut);
        Self::new(RequestFields {
            user_id: user_id.map(UserId),
            session_id: None,
            channel: None,
            message: message.trim().to_owned(),
            history,
            history_cut,
            limits: *limits,
        })
    }

    /// Sets the channel and the conversation to continue.
    #[must_use]
    pub fn on(self, channel: Channel, session_id: Option<Uuid>) -> Self {
        // Neither field has a rule, so the result stays valid.
        let mut fields = self.into_fields();
        fields.channel = Some(channel);
        fields.session_id = session_id;
        Self::unchecked(fields)
    }
}

impl Rules for RequestLimits {
    fn rules(&self, report: &mut Report) {
        report.require(
            self.message_characters > 0,
            "message_characters",
            "request_limits.zero",
            "message_characters must be at least 1",
        );
    }
}

impl Rules for RequestFields {
    fn rules(&self, report: &mut Report) {
        report.within("limits", |report| self.limits.rules(report));
        let length = self.message.trim().chars().count();
        let most = self.limits.message_characters;
        report.require(
            length > 0,
            "message",
            "request.message_empty",
            "the message is empty; say what you would like",
        );
        report.require(
            length <= most,
            "message",
            "request.message_long",
            format_args!("the message has {length} characters; at most {most} are accepted"),
        );
        report.require(
            self.history.len() <= self.limits.history_messages,
            "history",
            "request.history_long",
            format_args!(
                "the history has {} messages; at most {} are accepted",
                self.history.len(),
                self.limits.history_messages
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn older_history_is_cut_and_the_cut_is_recorded() {
        let history: Vec<_> = (0..53)
            .map(|turn| Message::user(format!("turn {turn}"), Timestamp::UNIX_EPOCH).unwrap())
            .collect();
        let request = Request::receive(None, "hello", history, &RequestLimits::default()).unwrap();
        assert_eq!(request.history.len(), 50);
        assert_eq!(request.history_cut, 3);
        assert_eq!(request.history[0].content, "turn 3");
    }

    #[test]
    fn the_limit_counts_characters_after_trimming() {
        let limits = RequestLimits {
            message_characters: 3,
            history_messages: 0,
        };
        let request = Request::receive(None, "  äöü \n", Vec::new(), &limits).unwrap();
        assert_eq!(request.message, "äöü");
        let long = Request::receive(None, "äöüß", Vec::new(), &limits).unwrap_err();
        assert!(long.has("request.message_long"));
    }

    #[test]
    fn a_request_received_under_wider_limits_can_be_read_again() {
        let limits = RequestLimits {
            message_characters: 5_000,
            history_messages: 50,
        };
        let request = Request::receive(None, &"x".repeat(4_000), Vec::new(), &limits).unwrap();
        let json = serde_json::to_string(&request).unwrap();
        assert_eq!(serde_json::from_str::<Request>(&json).unwrap(), request);
    }
}
