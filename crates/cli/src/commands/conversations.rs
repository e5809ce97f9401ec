//! `convoke conversations`: the conversations in the store, and whether they are still active.

use std::collections::BTreeSet;

use convoke_model::{
    Activity, Clock as _, Conversation, ConversationFields, Message, Role, SystemClock, UserId,
};
use convoke_store::{ConversationRecord, Filter, Page, Store, Viewer};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::speaker::parse_id;
use crate::cli::{ConversationsCommand, StoreArgs};
use crate::exit::{Exit, UsageError};
use crate::output::{self, Text};
use crate::start;
use crate::times::second;

/// Characters of a message that `list` shows.
const SHOWN: usize = 60;

/// Messages that `list` reads of each conversation.
const NEWEST: usize = 1;

pub(crate) async fn run(command: &ConversationsCommand, json: bool) -> anyhow::Result<Exit> {
    match command {
        ConversationsCommand::List { limit, store: args } => {
            let store = start::open_store_to_read(args)?;
            let listed = store.conversations(&Viewer::System, None, *limit).await?;
            list(&*store, &listed, args, json).await?;
        }
        ConversationsCommand::Show {
            id,
            messages,
            store: args,
        } => {
            let store = start::open_store_to_read(args)?;
            let id = find(&*store, id).await?;
            let record = store
                .conversation(&Viewer::System, id, None, *messages)
                .await?;
            let record = record.ok_or_else(|| not_found(id))?;
            show(&*store, record, args, json).await?;
        }
    }
    Ok(Exit::Done)
}

/// The conversation for an id or `last`.
async fn find(store: &dyn Store, text: &str) -> anyhow::Result<Uuid> {
    if text != "last" {
        return Ok(parse_id("conversation", text)?);
    }
    let newest = store.conversations(&Viewer::System, None, 1).await?;
    let newest = newest.first().map(|record| record.id);
    newest
        .ok_or_else(|| UsageError::new("conversation.none", "there is no conversation yet").into())
}

fn not_found(id: Uuid) -> anyhow::Error {
    let message = format!("there is no conversation `{id}`");
    UsageError::new("conversation.not_found", message).into()
}

async fn list(
    store: &dyn Store,
    listed: &[ConversationRecord],
    args: &StoreArgs,
    json: bool,
) -> anyhow::Result<()> {
    let mut rows = Vec::with_capacity(listed.len());
    for record in listed {
        let state = activity(store, record, args).await?;
        if json {
            output::json_line(&json!({
                "session_id": record.id, "app": record.app, "owner": record.owner,
                "channel": record.channel, "state": state, "created_at": record.created_at,
                "last_updated": record.updated_at,
            }));
            continue;
        }
        let read = store
            .conversation(&Viewer::System, record.id, None, NEWEST)
            .await?;
        let newest = read.iter().flat_map(|record| &record.messages).next_back();
        rows.push([
            record.id.to_string(),
            record.app.clone(),
            name_of(state).to_owned(),
            second(record.updated_at),
            output::short(newest.map_or("", |message| &message.content), SHOWN),
        ]);
    }
    if json {
        return Ok(());
    }
    if rows.is_empty() {
        output::line("No conversations.");
        return Ok(());
    }
    let headings = ["CONVERSATION", "APP", "STATE", "UPDATED", "LAST MESSAGE"];
    output::line(output::table(headings, &rows, &[]));
    Ok(())
}

async fn show(
    store: &dyn Store,
    record: ConversationRecord,
    args: &StoreArgs,
    json: bool,
) -> anyhow::Result<()> {
    let state = activity(store, &record, args).await?;
    let (app, older) = (record.app.clone(), record.older);
    let conversation = conversation(record)?;
    if json {
        let mut object = json!(conversation);
        object["app"] = json!(app);
        object["state"] = json!(state);
        object["older"] = json!(older);
        output::json_line(&object);
        return Ok(());
    }
    let facts = format!(
        "{} · {app} · {} · {}",
        conversation.session_id,
        name_of(state),
        second(conversation.last_updated)
    );
    output::note(Text::new().dimmed(facts));
    for message in &conversation.messages {
        let who = match message.role {
            Role::User => "> ",
            Role::Assistant | Role::Tool | Role::System => "",
        };
        output::line(format!("{who}{}", message.content));
    }
    if older > 0 {
        output::note(format!(
            "{older} older messages are not shown; raise --messages"
        ));
    }
    Ok(())
}

/// The stored conversation as the model describes it, from the first message of the user that was read.
fn conversation(record: ConversationRecord) -> anyhow::Result<Conversation> {
    let is_before = |message: &Message| message.role != Role::User;
    let messages: Vec<Message> = record.messages.into_iter().skip_while(is_before).collect();
    let metadata = Map::from_iter([
        ("user_id".to_owned(), json!(record.owner)),
        (
            "domains_accessed".to_owned(),
            json!(domains_accessed(&messages)),
        ),
    ]);
    Ok(Conversation::new(ConversationFields {
        session_id: record.id,
        owner: Some(UserId::from(record.owner)),
        channel: record.channel,
        messages,
        created_at: record.created_at,
        last_updated: record.updated_at,
        metadata,
    })?)
}

/// The data domains that were queried for any message.
fn domains_accessed(messages: &[Message]) -> BTreeSet<&str> {
    let domains = messages.iter().filter_map(|message| {
        let domains = message.metadata.get("domains")?;
        domains.as_array()
    });
    domains.flatten().filter_map(Value::as_str).collect()
}

/// Whether the last message is younger than the time that the conversation's app sets.
async fn activity(
    store: &dyn Store,
    record: &ConversationRecord,
    args: &StoreArgs,
) -> anyhow::Result<Activity> {
    let idle_after_ms = 1_000 * u64::from(idle_seconds(store, record.id, args).await?);
    let quiet = SystemClock.now().duration_since(record.updated_at);
    Ok(Activity::after(quiet, idle_after_ms))
}

/// `limits.conversation_idle_seconds` of the app, as it was when the newest task started; the default if that app cannot
/// be read.
async fn idle_seconds(
    store: &dyn Store,
    conversation: Uuid,
    args: &StoreArgs,
) -> anyhow::Result<u32> {
    let filter = Filter {
        conversation: Some(conversation),
        ..Filter::default()
    };
    let page = Page {
        after: None,
        limit: 1,
    };
    let page = store.query(&Viewer::System, filter, page).await?;
    let newest = page.tasks.first().map(|task| task.id);
    let loaded = match newest {
        Some(task) => store.load(&Viewer::System, task, u64::MAX).await?,
        None => None,
    };
    let app = match &loaded {
        Some(task) => start::app_of(store, &task.record, None, args, false)
            .await
            .ok(),
        None => None,
    };
    let limits = app.map(|app| app.config.limits.clone());
    Ok(limits.unwrap_or_default().conversation_idle_seconds)
}

fn name_of(state: Activity) -> &'static str {
    match state {
        Activity::Active => "active",
        Activity::Idle => "idle",
    }
}
