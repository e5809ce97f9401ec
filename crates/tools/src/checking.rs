//! Checks values against schemas without blocking the executor.

use std::sync::Arc;

use convoke_schema::{CheckError, Complexity, Schema};
use serde_json::Value;

/// How many steps of a check run on the caller's thread: about the cost of moving the check to another one.
pub const PROMPT_STEPS: u64 = 2_000;

/// Checks a value against a schema and returns it if it fits. A long check moves to a blocking thread, so that a
/// caller with a timeout is not held up.
pub async fn check(schema: Arc<Schema>, value: Value) -> Result<Value, CheckError> {
    match schema.check_within(&value, PROMPT_STEPS) {
        Ok(()) => return Ok(value),
        Err(CheckError::TooComplex(Complexity::Steps(_))) => {}
        Err(error) => return Err(error),
    }
    off_the_executor(move || schema.check(&value).map(|()| value)).await
}

/// Runs bounded, CPU-bound work on a blocking thread.
pub async fn off_the_executor<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}
