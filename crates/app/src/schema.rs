//! The JSON Schemas of an app's files.

use schemars::{JsonSchema, Schema, schema_for};

use crate::config::AppConfig;
use crate::evals::EvalFile;
use crate::files::{ChannelsFile, DomainsFile, McpServersFile};
use crate::spelling::{as_name, nearest};

/// Every schema by name: files of an app folder first, then the types of the model.
pub fn schemas() -> Vec<(&'static str, Schema)> {
    let mut all = vec![
        ("AppConfig", of::<AppConfig>()),
        ("EvalFile", of::<EvalFile>()),
        ("McpServersFile", of::<McpServersFile>()),
        ("DomainsFile", of::<DomainsFile>()),
        ("ChannelsFile", of::<ChannelsFile>()),
    ];
    all.extend(convoke_model::schemas());
    all
}

/// A schema by its name, as `AppConfig` or `app_config`.
pub fn schema(name: &str) -> Option<Schema> {
    let requested = as_name(name)?;
    let found = schemas()
        .into_iter()
        .find(|(name, _)| as_name(name).as_ref() == Some(&requested));
    found.map(|(_, schema)| schema)
}

/// The schema whose name is spelt most similarly.
pub fn nearest_schema(name: &str) -> Option<&'static str> {
    let requested = as_name(name)?;
    let all = schemas();
    let names: Vec<String> = all.iter().filter_map(|(name, _)| as_name(name)).collect();
    let near = nearest(&requested, names.iter().map(String::as_str))?;
    all.iter()
        .map(|(name, _)| *name)
        .find(|name| as_name(name).as_deref() == Some(near))
}

fn of<T: JsonSchema>() -> Schema {
    schema_for!(T)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_found_in_either_spelling_and_a_near_one_is_offered() {
        for name in [
            "AppConfig",
            "app_config",
            "Agent",
            "McpServer",
            "mcp-server",
            "EvalFile",
        ] {
            assert!(schema(name).is_some(), "{name}");
        }
        assert!(schema("Nothing").is_none());
        assert_eq!(nearest_schema("AppConfg"), Some("AppConfig"));
    }

    #[test]
    fn no_two_schemas_share_a_name() {
        let mut names: Vec<_> = schemas().into_iter().map(|(name, _)| name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
