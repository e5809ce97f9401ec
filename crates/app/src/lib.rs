//! Loads an app folder into a validated [`App`], or reports every error in it with file, line, column, a
//! stable code and help.

mod app;
mod bounds;
mod builtin;
mod characters;
mod config;
mod contents;
mod diagnostic;
mod document;
mod domains;
mod environment;
mod evals;
mod files;
mod folder;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod hash;
mod kept;
mod mentions;
mod origin;
mod references;
mod scaffold;
mod schema;
mod secrecy;
mod sentences;
mod shape;
mod skills;
mod source;
mod spelling;
mod template;
mod templates;
mod yaml;

pub use app::{App, EvalSet, LoadedApp};
pub use bounds::Bounds;
pub use builtin::{BUILTIN_SERVER, BUILTIN_TOOLS};
pub use config::{
    AppConfig, DecideConfig, EvalBar, Limits, Messages, PolitenessConfig, Several, StoreConfig,
};
pub use diagnostic::{Diagnostic, Diagnostics, Severity};
pub use environment::{MIN_SECRET_LENGTH, Secrets};
pub use evals::{
    EvalCase, EvalFile, Expectation, ExpectedCall, ExpectedNumber, ExpectedReply, INTENT_CLARIFY,
    INTENT_DISMISSED, INTENT_FALLBACK, INTENT_SEVERAL, INTENT_UNKNOWN,
};
pub use files::{ChannelsFile, DomainsFile, McpServersFile};
pub use folder::MAX_FILES;
pub use kept::{KeptApp, Reach, ReachedAddress, ReachedCommand, ReachedModel};
pub use mentions::{ToolMention, ToolMentions};
pub use origin::AppFiles;
pub use scaffold::{ScaffoldError, new_app};
pub use schema::{nearest_schema, schema, schemas};
pub use source::Position;
pub use template::{
    MAX_RENDERED_BYTES, MAX_TEMPLATE_BYTES, MAX_TEMPLATE_DEPTH, MAX_TEMPLATE_MEMORY,
    MAX_TEMPLATE_OPERATIONS, MAX_TEMPLATE_STEPS, TemplateContext, TemplateFault, TemplateLanguage,
};
pub use yaml::{MAX_DEPTH, MAX_FILE_BYTES, MAX_NODES, MAX_PROBLEMS_PER_FILE};
