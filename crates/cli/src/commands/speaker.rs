//! The user and conversation of a command.

use convoke::{
    IncomingRequest, Message, QuestionReply, Runtime, RuntimeError, TaskOutcome, UserId, local_user,
};
use uuid::Uuid;

use crate::cli::SpeakerArgs;
use crate::exit::UsageError;

/// The user and conversation of a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Speaker {
    pub(crate) user: UserId,
    pub(crate) conversation: Uuid,
}

impl Speaker {
    /// Reads the command line, and finds the last conversation for `--continue`.
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
                    .conversations(&runtime.viewer(user), None, 1)
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

    /// Answers a question, and waits for what comes of the task.
    pub(crate) async fn replies(
        self,
        reply: QuestionReply,
        runtime: &Runtime,
    ) -> Result<TaskOutcome, RuntimeError> {
        let answered = runtime
            .answer(self.user, reply.task, Some(reply.question), reply.answer)
            .await?;
        if reply.task == reply.whole {
            return Ok(answered);
        }
        runtime.wait_for_person(self.user, reply.whole).await
    }

    /// A message of this user in the conversation.
    pub(crate) fn says(
        &self,
        text: String,
        args: &SpeakerArgs,
        key: Option<String>,
    ) -> IncomingRequest {
        let incoming = IncomingRequest::new(self.user, text).conversation(self.conversation);
        addressed(incoming, args, key)
    }

    /// A message of this user after the messages of a history, in no stored conversation.
    pub(crate) fn says_after(
        &self,
        history: Vec<Message>,
        text: String,
        args: &SpeakerArgs,
        key: Option<String>,
    ) -> IncomingRequest {
        let incoming = IncomingRequest::new(self.user, text).history(history);
        addressed(incoming, args, key)
    }
}

/// The message on its channel, under its key.
fn addressed(
    incoming: IncomingRequest,
    args: &SpeakerArgs,
    key: Option<String>,
) -> IncomingRequest {
    let incoming = incoming.channel(args.channel);
    match key {
        Some(key) => incoming.key(key),
        None => incoming,
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
