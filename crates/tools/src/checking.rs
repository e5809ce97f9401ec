//! Compiles schemas and checks values against them without blocking the executor.

use std::sync::Arc;

use convoke_schema::{CheckError, Complexity, Limits, Schema, SchemaError};
use serde_json::Value;

/// How many steps of a check run on the caller's thread: about the cost of moving the check to another one.
pub const PROMPT_STEPS: u64 = 2_000;

/// Compiles a schema of the draft it names. An unknown `$schema` is read as the newest draft, which MCP
/// defines for schemas without one.
pub async fn compile(schema: Value, limits: Limits) -> Result<Arc<Schema>, SchemaError> {
    off_the_executor(move || compiled(schema, limits)).await
}

fn compiled(mut schema: Value, limits: Limits) -> Result<Arc<Schema>, SchemaError> {
    let error = match Schema::compile_within(&schema, limits) {
        Ok(compiled) => return Ok(Arc::new(compiled)),
        Err(error) => error,
    };
    let named = schema
        .as_object_mut()
        .filter(|_| matches!(error, SchemaError::Invalid(_)))
        .and_then(|object| object.shift_remove("$schema"));
    match named {
        Some(_) => Schema::compile_within(&schema, limits).map(Arc::new),
        None => Err(error),
    }
}

/// Checks a value against a schema and returns it if it fits. A long check moves to a blocking thread, so that a
/// caller with a timeout is not held up.
pub async fn check(schema: Arc<Schema>, value: Value) -> Result<Value, CheckError> {
    let (value, checked) = judge(schema, value).await;
    checked.map(|()| value)
}

/// Checks a value like [`check`], and returns it also if it does not fit.
pub async fn judge(schema: Arc<Schema>, value: Value) -> (Value, Result<(), CheckError>) {
    match schema.check_within(&value, PROMPT_STEPS) {
        Err(CheckError::TooComplex(Complexity::Steps(_))) => {}
        checked => return (value, checked),
    }
    off_the_executor(move || {
        let checked = schema.check(&value);
        (value, checked)
    })
    .await
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
