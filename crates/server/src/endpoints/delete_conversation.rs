//! Deletes a conversation with its tasks.

use futures::FutureExt;
use http::{Method, StatusCode};

use crate::call::{Call, unknown_conversation};
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Answers, Route};

pub(super) const ROUTE: Route = Route {
    method: &Method::DELETE,
    path: "/api/v1/conversations/{conversation}",
    name: "delete_conversation",
    summary: "Delete a conversation with its tasks, once all of them have ended",
    audited: true,
    answers: &[(204, Answers::Nothing)],
    handler: |call| delete(call).boxed(),
    ..Route::OF_USERS
};

async fn delete(call: Call) -> Result<Reply, Problem> {
    let runtime = call.runtime()?;
    let conversation = call.conversation()?;
    if runtime
        .delete_conversation(call.user(), conversation)
        .await?
    {
        return Ok(Reply::empty(StatusCode::NO_CONTENT));
    }
    Err(unknown_conversation())
}
