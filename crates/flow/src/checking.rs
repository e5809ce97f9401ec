//! Holding values against schemas without keeping others from the executor.

use std::sync::Arc;

use convoke_schema::{CheckError, Complexity, Schema};
use serde_json::Value;

/// How much of a check is done at once, in steps: about as long as handing it to another thread takes.
pub const PROMPT_STEPS: u64 = 2_000;

/// Holds a value against a schema and gives it back if it fits. A check that takes long goes on in a
/// thread of its own, so that whoever waits for it can give up in time.
pub async fn check(schema: Arc<Schema>, value: Value) -> Result<Value, CheckError> {
    match schema.check_within(&value, PROMPT_STEPS) {
        Ok(()) => return Ok(value),
        Err(CheckError::TooComplex(Complexity::Steps(_))) => {}
        Err(error) => return Err(error),
    }
    off_the_executor(move || schema.check(&value).map(|()| value)).await
}

/// Does bounded work in a thread that may be kept busy.
pub async fn off_the_executor<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends, and everybody who waits with it.
            Err(_) => std::future::pending().await,
        },
    }
}
