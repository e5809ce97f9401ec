//! A user's conversations with an app, newest first, or those in which something was said.

use convoke::{ConversationCursor, MAX_CONVERSATIONS_PER_PAGE};
use futures::FutureExt;
use http::Method;

use super::{limit, query, schema_of};
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::resources::ConversationList;
use crate::route::{Answers, Route};

/// Conversations in a list, where the request does not say otherwise.
const DEFAULT_CONVERSATIONS: usize = 50;

pub(super) const ROUTE: Route = Route {
    method: &Method::GET,
    path: "/api/v1/conversations",
    name: "list_conversations",
    summary: "The user's conversations, the one with the newest message first",
    query: &[
        query::<String>(
            "text",
            "Only those in which a message has this text, in whatever case",
        ),
        limit::<MAX_CONVERSATIONS_PER_PAGE>("Conversations per page; 50 by default"),
        query::<String>("cursor", "`next` of the page before"),
    ],
    answers: &[(200, Answers::Json(schema_of::<ConversationList>))],
    handler: |call| list(call).boxed(),
    ..Route::OF_USERS
};

async fn list(call: Call) -> Result<Reply, Problem> {
    let runtime = call.runtime()?;
    let limit = call.limit(DEFAULT_CONVERSATIONS, MAX_CONVERSATIONS_PER_PAGE)?;
    let after = call.query_value::<ConversationCursor>("cursor")?;
    let text = call.query_value::<String>("text")?;
    let text = text.as_deref().filter(|text| !text.is_empty());
    let page = runtime
        .conversations(call.user(), text, after, limit)
        .await?;
    Ok(Reply::json(&ConversationList {
        conversations: page.conversations.into_iter().map(Into::into).collect(),
        next: page.next.map(|next| next.to_string()),
    }))
}
