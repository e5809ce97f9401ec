//! The names that exist in an app, for rules that need more than the value itself.

use std::collections::BTreeSet;

use crate::name::Name;
use crate::valid::{Invalid, Report};

/// The names that an app defines. Decisions, plans and tool calls are checked against it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalogue {
    /// The agents.
    pub agents: BTreeSet<Name>,
    /// The data domains.
    pub domains: BTreeSet<Name>,
    /// The skills, called intents in some clients.
    pub skills: BTreeSet<Name>,
    /// The tools, as `server.tool`.
    pub tools: BTreeSet<String>,
}

impl Catalogue {
    /// Whether a decision may choose this name.
    pub fn has_target(&self, name: &Name) -> bool {
        self.agents.contains(name) || self.domains.contains(name) || self.skills.contains(name)
    }

    /// Whether a tool written as `tool` or `server.tool` exists.
    pub fn has_tool(&self, tool: &str) -> bool {
        self.tools.contains(tool)
            || self.tools.iter().any(|known| {
                known
                    .split_once('.')
                    .is_some_and(|(_, short)| short == tool)
            })
    }
}

/// Whether no name is used twice among things of one kind (`agent`, `domain`, `mcp_server`).
pub fn check_unique_names<'a>(
    kind: &str,
    names: impl IntoIterator<Item = &'a Name>,
) -> Result<(), Invalid> {
    let mut report = Report::default();
    let mut seen = BTreeSet::new();
    for (index, name) in names.into_iter().enumerate() {
        report.require(
            seen.insert(name),
            index,
            "name.twice",
            format_args!("there is already a {kind} named `{name}`; names are unique"),
        );
    }
    report.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_used_twice_is_refused_in_either_spelling() {
        let names =
            ["light-agent", "music_agent", "light_agent"].map(|name| Name::new(name).unwrap());
        let twice = check_unique_names("agent", &names).unwrap_err();
        assert!(twice.has("name.twice"));
        assert_eq!(twice.problems[0].path, "/2");
        assert_eq!(check_unique_names("agent", &names[..2]), Ok(()));
    }

    #[test]
    fn a_tool_is_found_with_or_without_its_server() {
        let tools = BTreeSet::from(["todo.add_task".to_owned()]);
        let catalogue = Catalogue {
            tools,
            ..Catalogue::default()
        };
        assert!(catalogue.has_tool("add_task") && catalogue.has_tool("todo.add_task"));
        assert!(!catalogue.has_tool("other.add_task") && !catalogue.has_tool("add"));
    }
}
