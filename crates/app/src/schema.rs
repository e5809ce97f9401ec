//! The JSON Schemas of an app's files.

use std::path::{Path, PathBuf};

use schemars::{JsonSchema, Schema, schema_for};

use crate::config::AppConfig;
use crate::evals::EvalFile;
use crate::files::{ChannelsFile, DomainsFile, McpServersFile};
use crate::spelling::{as_name, nearest};

/// The hidden folder of an app with the schemas that its files name to editors.
pub const EDITOR_SCHEMAS: &str = ".schemas";

/// The schema of each file of an app: the beginning of the file's path, and the schema's name.
pub const FILE_SCHEMAS: [(&str, &str); 9] = [
    ("convoke.", "AppConfig"),
    ("agents/", "Agent"),
    ("workflows/", "Workflow"),
    ("config/mcp_servers.", "McpServersFile"),
    ("config/domains.", "DomainsFile"),
    ("config/channels.", "ChannelsFile"),
    ("config/style_guide.", "StyleGuide"),
    ("config/retention_policy.", "RetentionPolicy"),
    ("evals/", "EvalFile"),
];

/// The line by which editors find the schema of a file, by its path in the app folder.
pub fn schema_line(path: &str) -> Option<String> {
    let ending = Path::new(path).extension()?;
    let is_yaml = ["yaml", "yml"].iter().any(|yaml| ending == *yaml);
    let mut files = FILE_SCHEMAS.iter();
    let (_, schema) = files.find(|(begin, _)| is_yaml && path.starts_with(begin))?;
    let up = "../".repeat(path.matches('/').count());
    Some(format!(
        "# yaml-language-server: $schema={up}{EDITOR_SCHEMAS}/{schema}.json"
    ))
}

/// The files with the schemas of an app's files, by their path in the app folder.
pub fn editor_schemas() -> Vec<(PathBuf, Vec<u8>)> {
    let found = FILE_SCHEMAS.iter().filter_map(|(_, name)| {
        let text = serde_json::to_string_pretty(schema(name)?.as_value()).ok()?;
        let path = Path::new(EDITOR_SCHEMAS).join(format!("{name}.json"));
        Some((path, format!("{text}\n").into_bytes()))
    });
    found.collect()
}

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
