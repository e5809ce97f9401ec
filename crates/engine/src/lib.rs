//! Durable execution, independent of models, HTTP and tool protocols: a [`Program`] decides the next step, an
//! [`Executor`] performs its calls, and the journal records both.
//!
//! - [`machine`] is pure: state and event in, state and calls out. The same journal always leads to
//!   the same state.
//! - [`Engine`] accepts tasks, cancels, answers and forks them, and waits for ends.
//! - [`Worker`] claims tasks, performs their calls, and journals every outcome before anything
//!   outside can see it.

mod answering;
mod attempts;
mod backlog;
mod backoff;
mod call;
mod children;
mod closing;
mod edition;
mod edition_cache;
mod engine;
mod error;
mod event;
mod follow;
mod fork;
mod journal_writer;
mod listeners;
mod live;
mod live_hub;
mod local_queue;
pub mod machine;
mod measured;
mod messages;
mod permits;
mod program;
mod snapshot;
mod spans;
mod store_clock;
mod submitting;
mod task_driver;
mod worker;
mod worker_context;

pub use answering::cancel;
pub use call::{
    Call, CallContext, Effect, Executor, Failure, FailureKind, Outcome, Scratch, Verdict,
};
pub use children::{Children, NewChild};
pub use closing::Closer;
pub use edition::{Edition, EditionError, Editions};
pub use engine::{Engine, NewRequest, Retention, TaskOutcome};
pub use error::{EngineError, UnusableAnswer};
pub use event::{Event, QuestionAnswer};
pub use follow::{EventCursor, InvalidCursor, entries};
pub use live::{Live, LiveUpdate};
pub use live_hub::{LiveReader, LiveText};
pub use messages::Messages;
pub use permits::Permits;
pub use program::{AddedMessage, ChangeCheck, Ending, Facts, NewCall, Program, Step, View};
pub use snapshot::{Question, QuestionKind, Rest, Snapshot};
pub use worker::{Options, Reloader, Worker};
