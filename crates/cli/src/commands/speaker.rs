//! Who speaks on this machine, and in which conversation.

use convoke::{Incoming, Runtime, UserId, local_user};
use uuid::Uuid;

use crate::cli::SpeakerArgs;
use crate::exit::UsageError;

/// The user and conversation that a command speaks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Speaker {
    pub(crate) user: UserId,
    pub(crate) conversation: Uuid,
}

impl Speaker {
    /// Reads the command line, and finds the last conversation where that is asked for.
    pub(crate) async fn find(args: &SpeakerArgs, runtime: &Runtime) -> anyhow::Result<Self> {
        let user = match &args.user {
            Some(text) => UserId::parse(text)?,
            None => local_user(),
        };
        let conversation = match &args.conversation {
            Some(text) => parse_id("conversation", text)?,
            None if args.r#continue => {
                let last = runtime
                    .store()
                    .conversations(&runtime.viewer(user), 1)
                    .await?;
                last.first().map(|conversation| conversation.id).ok_or_else(|| {
                    UsageError::new(
                        "conversation.none",
                        "there is no conversation to go on with; leave out --continue to begin one",
                    )
                })?
            }
            None => runtime.ids().next(),
        };
        Ok(Self { user, conversation })
    }

    /// A message of this speaker's.
    pub(crate) fn says(&self, text: String, args: &SpeakerArgs, key: Option<String>) -> Incoming {
        let incoming = Incoming::new(self.user, text)
            .conversation(self.conversation)
            .channel(args.channel);
        match key {
            Some(key) => incoming.key(key),
            None => incoming,
        }
    }
}

/// Reads an id from the command line.
pub(crate) fn parse_id(what: &str, text: &str) -> Result<Uuid, UsageError> {
    Uuid::parse_str(text).map_err(|_| {
        UsageError::new(
            "id.malformed",
            format!(
                "`{text}` is no {what} id; write a UUID such as {}",
                Uuid::nil()
            ),
        )
    })
}
