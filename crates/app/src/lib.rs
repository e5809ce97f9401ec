//! Loads an app folder into a validated [`App`], or reports every error in it with file, line, column, a
//! stable code and help.

mod app;
mod bounds;
mod builtin;
mod causes;
mod characters;
mod config;
mod contents;
mod diagnostic;
mod document;
mod domains;
mod env_file;
mod environment;
mod evals;
mod files;
mod folder;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod hash;
mod origin;
mod references;
mod scaffold;
mod schema;
mod secrecy;
mod sentences;
mod settings;
mod shape;
mod shared_sentences;
mod skills;
mod source;
mod spelling;
mod started_workflows;
mod starters;
mod stored;
mod template;
mod templates;
mod tool_references;
mod without_effect;
mod yaml;

pub use app::{App, EvalSet, LoadedApp};
pub use bounds::Bounds;
pub use builtin::{BUILTIN_SERVER, BUILTIN_TOOLS};
pub use config::{
    AppConfig, DecideConfig, EvalBar, Limits, Messages, PolitenessConfig, Several, StoreConfig,
};
pub use contents::STATE_FIELDS;
pub use diagnostic::{Diagnostic, Diagnostics, Severity};
pub use env_file::{ENV_FILE, EnvFile, MAX_ENV_FILE_BYTES};
pub use environment::{MIN_SECRET_LENGTH, Secrets};
pub use evals::{
    EvalCase, EvalFile, Expectation, ExpectedCall, ExpectedNumber, ExpectedReply, INTENT_CLARIFY,
    INTENT_DISMISSED, INTENT_FALLBACK, INTENT_SEVERAL, INTENT_UNKNOWN,
};
pub use files::{ChannelsFile, DomainsFile, McpServersFile};
pub use folder::MAX_FILES;
pub use origin::AppFiles;
pub use scaffold::{AppSource, ScaffoldError, new_app};
pub use schema::{
    EDITOR_SCHEMAS, FILE_SCHEMAS, editor_schemas, nearest_schema, schema, schema_line, schemas,
};
pub use settings::read_settings;
pub use source::Position;
pub use starters::{STARTERS, Starter};
pub use stored::{Reach, ReachedAddress, ReachedCommand, ReachedModel, StoredApp};
pub use template::{
    MAX_RENDERED_BYTES, MAX_TEMPLATE_BYTES, MAX_TEMPLATE_DEPTH, MAX_TEMPLATE_MEMORY,
    MAX_TEMPLATE_OPERATIONS, MAX_TEMPLATE_STEPS, TemplateContext, TemplateFault, TemplateLanguage,
};
pub use tool_references::{ActionSlot, ItemFields, SlotHolds, ToolReference, ToolReferences};
pub use yaml::{MAX_DEPTH, MAX_FILE_BYTES, MAX_NODES, MAX_PROBLEMS_PER_FILE};
