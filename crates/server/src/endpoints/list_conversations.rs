//! A user's conversations with an app, newest first.

use futures::FutureExt;
use http::Method;

use super::{query, schema_of};
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::resources::ConversationList;
use crate::route::{Answers, Route};

/// Conversations in a list, where the request does not say otherwise.
const DEFAULT_CONVERSATIONS: usize = 50;

/// Conversations that a list may have.
const MAX_CONVERSATIONS: usize = 1_000;

pub(super) const ROUTE: Route = Route {
    method: &Method::GET,
    path: "/api/v1/conversations",
    name: "list_conversations",
    summary: "The user's conversations, the one with the newest message first",
    query: &[query::<usize>("limit", "1 to 1,000; 50 by default")],
    answers: &[(200, Answers::Json(schema_of::<ConversationList>))],
    handler: |call| list(call).boxed(),
    ..Route::OF_USERS
};

async fn list(call: Call) -> Result<Reply, Problem> {
    let runtime = call.runtime()?;
    let limit = call.limit(DEFAULT_CONVERSATIONS, MAX_CONVERSATIONS)?;
    let viewer = runtime.viewer(call.user());
    let found = runtime.store().conversations(&viewer, limit).await?;
    Ok(Reply::json(&ConversationList {
        conversations: found.into_iter().map(Into::into).collect(),
    }))
}
