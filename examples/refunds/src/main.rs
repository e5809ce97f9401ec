//! Runs an app folder in a program that depends only on the crate `convoke`, with its own functions as
//! tools, and shows all operations on tasks.

use std::error::Error;

use convoke::schemars::JsonSchema;
use convoke::serde::{Deserialize, Serialize};
use convoke::{
    EventCursor, ForkPoint, IncomingRequest, QuestionAnswer, Runtime, RuntimeError, RustTool,
    StoreChoice, TaskEventKind, TaskQuery, TaskState, ToolContext, ToolError, UserId, Uuid, Value,
};

const APP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/app");

/// Refunds above this amount, in euros, need approval.
const FREE_AMOUNT: i64 = 100;

#[derive(Deserialize, JsonSchema)]
#[serde(crate = "convoke::serde")]
#[schemars(crate = "convoke::schemars")]
struct OrderNumber {
    /// The order's number.
    number: String,
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(crate = "convoke::serde")]
#[schemars(crate = "convoke::schemars")]
struct Refund {
    /// The order's number.
    number: String,
    /// The amount of the refund, in euros.
    amount: i64,
}

fn order() -> RustTool {
    let find = |_: ToolContext, order: OrderNumber| async move {
        let amount = match order.number.as_str() {
            "A-1" => 40,
            "A-2" => 250,
            _ => return Err(ToolError::new("order.unknown", "There is no such order.")),
        };
        let number = order.number;
        Ok(Refund { number, amount })
    };
    let tool = RustTool::new("order", "Finds an order.", find);
    tool.server("shop").read_only()
}

fn refund() -> RustTool {
    let pay = |_: ToolContext, refund: Refund| async move { Ok::<_, ToolError>(refund) };
    let is_dear = |arguments: &convoke::Map<String, Value>| {
        arguments["amount"]
            .as_i64()
            .is_none_or(|amount| amount > FREE_AMOUNT)
    };
    let tool = RustTool::new("refund", "Pays back.", pay);
    tool.server("shop")
        .idempotent()
        .approval_required_if(is_dear)
}

/// Prints a task's events until it ends or asks a question. Returns the question.
async fn run_until_question(
    runtime: &Runtime,
    user: UserId,
    task: Uuid,
) -> Result<Option<Uuid>, RuntimeError> {
    let mut events = runtime.follow(user, task, EventCursor::START).await?;
    while let Some(event) = events.next_event().await {
        let event = event?;
        print(format_args!("{} {:?}", event.cursor, event.kind));
        if let TaskEventKind::QuestionAsked { question } = event.kind {
            print(&question.prompt);
            return Ok(Some(question.id));
        }
    }
    Ok(None)
}

/// The results of the program.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    refunded: String,
    forked: String,
    completed: usize,
    canceled: TaskState,
}

async fn serve() -> Result<Outcome, Box<dyn Error>> {
    let runtime = Runtime::builder()
        .app(APP)
        .tool(order())
        .tool(refund())
        .store(StoreChoice::Memory)
        .build()
        .await?;
    // In a real program, the sign-in determines the user.
    let user = UserId::parse("123e4567-e89b-12d3-a456-426614174000")?;
    let text = |ended: convoke::TaskOutcome| ended.answer.map(|answer| answer.text.clone());

    let incoming = IncomingRequest::new(user, "A-2")
        .tags(["refund"])
        .keep_days(90);
    let task = runtime.submit(incoming).await?;
    let question = run_until_question(&runtime, user, task).await?;
    let cursor = runtime.task(user, task).await?.cursor;
    let approve = QuestionAnswer::approve().saying("the parcel came back");
    let refunded = runtime.answer(user, task, question, approve).await?;

    // The same order with an amount that needs no approval.
    let point = ForkPoint::at(cursor).set("amount", 60);
    let fork = runtime.fork(user, task, point).await?;
    let forked = runtime.wait(user, fork).await?;

    let doubtful = runtime.submit(IncomingRequest::new(user, "A-2")).await?;
    run_until_question(&runtime, user, doubtful).await?;
    runtime.cancel(user, doubtful, Some("asked twice")).await?;
    let mut events = runtime.follow(user, doubtful, EventCursor::START).await?;
    while let Some(event) = events.next_event().await {
        event?;
    }
    let canceled = runtime.task(user, doubtful).await?.info.state;

    let mut query = TaskQuery::new().tag("refund").state(TaskState::Completed);
    let mut completed = 0;
    loop {
        let page = runtime.tasks(user, query.clone().limit(1)).await?;
        completed += page.tasks.len();
        match page.next {
            Some(next) => query = query.after(next),
            None => break,
        }
    }
    runtime.shutdown().await?;
    Ok(Outcome {
        refunded: text(refunded).unwrap_or_default(),
        forked: text(forked).unwrap_or_default(),
        completed,
        canceled,
    })
}

#[expect(clippy::print_stdout, reason = "the program prints its results")]
fn print(text: impl std::fmt::Display) {
    println!("{text}");
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let outcome = serve().await?;
    print(format_args!("{outcome:#?}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_program_needs_no_other_crate_of_convoke() {
        let outcome = serve().await.unwrap();
        let expected = Outcome {
            refunded: "Refunded 250 for order A-2.".into(),
            forked: "Refunded 60 for order A-2.".into(),
            completed: 2,
            canceled: TaskState::Canceled,
        };
        assert_eq!(outcome, expected);
    }
}
