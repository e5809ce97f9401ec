//! Durable execution. It knows no model, no HTTP and no tool protocol: a [`Program`] says what comes
//! next, an [`Executor`] carries it out, and between the two the journal.
//!
//! - [`machine`] is pure: state and event in, state and calls out. The same journal always leads to
//!   the same state.
//! - [`Engine`] accepts tasks, cancels, answers and forks them, and waits for ends.
//! - [`Worker`] claims tasks, performs their calls, and writes down what came of them before anything
//!   outside can see it.

mod answering;
mod attempts;
mod call;
mod children;
mod closing;
mod desk;
mod drive;
mod edition;
mod engine;
mod error;
mod event;
mod follow;
mod fork;
mod listeners;
mod live;
pub mod machine;
mod permits;
mod program;
mod snapshot;
mod worker;

pub use answering::cancel;
pub use call::{
    Call, Effect, Executor, Failure, FailureKind, Outcome, Performing, Scratch, Verdict,
};
pub use children::{Children, NewChild};
pub use edition::{Edition, EditionError, Editions};
pub use engine::{Ended, Engine, Keeping, NewRequest};
pub use error::EngineError;
pub use event::{Answered, Event};
pub use follow::{EventCursor, TaskChange, TaskEvent};
pub use live::{Heard, Live};
pub use program::{Ending, Facts, NewCall, Program, Said, Step, View};
pub use snapshot::{About, Question, Snapshot};
pub use worker::{Options, Worker};
