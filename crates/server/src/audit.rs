//! The audit log: a line for everything that somebody decided. Lines have the target `audit` and are written at every
//! verbosity. They name users, tasks and keys by their ids, and no secret.

use crate::access::Principal;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::Route;

/// The target of audit lines.
pub const AUDIT_TARGET: &str = "audit";

/// Writes what became of a call of an audited endpoint.
pub(crate) fn call(
    route: &Route,
    principal: &Principal,
    app: Option<&str>,
    task: Option<&str>,
    outcome: &Result<Reply, Problem>,
) {
    let outcome = match outcome {
        Ok(_) => "done",
        Err(problem) => problem.code(),
    };
    tracing::info!(
        target: AUDIT_TARGET,
        action = route.name,
        user = %principal.user,
        role = %principal.role,
        key = principal.key.as_deref(),
        app,
        // What is no id is not repeated.
        task = task.and_then(|task| uuid::Uuid::parse_str(task).ok()).map(tracing::field::display),
        outcome,
    );
}

/// Writes that a credential was made or ended.
pub fn credential(
    action: &'static str,
    user: &str,
    role: convoke_model::UserRole,
    key: Option<&str>,
) {
    tracing::info!(target: AUDIT_TARGET, action, user, %role, key);
}
