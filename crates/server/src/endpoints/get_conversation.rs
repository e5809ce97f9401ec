//! A conversation with its newest messages.

use futures::FutureExt;
use http::Method;
use uuid::Uuid;

use super::{limit, query, schema_of};
use crate::call::{Call, unknown_conversation};
use crate::problem::Problem;
use crate::reply::Reply;
use crate::resources::ConversationResource;
use crate::route::{Answers, Route};

/// Messages of a conversation, where the request does not say otherwise.
const DEFAULT_MESSAGES: usize = 50;

/// Messages of a conversation that one request may have.
const MAX_MESSAGES: usize = 1_000;

pub(super) const ROUTE: Route = Route {
    method: &Method::GET,
    path: "/api/v1/conversations/{conversation}",
    name: "get_conversation",
    summary: "A conversation with its newest messages, oldest first",
    query: &[
        query::<Uuid>("before", "Only messages before this task"),
        limit::<MAX_MESSAGES>("Messages; 50 by default"),
    ],
    answers: &[(200, Answers::Json(schema_of::<ConversationResource>))],
    handler: |call| read(call).boxed(),
    ..Route::OF_USERS
};

async fn read(call: Call) -> Result<Reply, Problem> {
    let runtime = call.runtime()?;
    let limit = call.limit(DEFAULT_MESSAGES, MAX_MESSAGES)?;
    let before = call.query_value::<Uuid>("before")?;
    let viewer = runtime.viewer(call.user());
    let conversation = runtime
        .store()
        .conversation(&viewer, call.conversation()?, before, limit)
        .await?;
    let conversation = conversation.ok_or_else(unknown_conversation)?;
    Ok(Reply::json(&ConversationResource::from(conversation)))
}
