//! A data domain: what its data covers and the tools that query it.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain_tool::{DomainTool, tool_rules};
use crate::name::Name;
use crate::valid::{Report, Rules, Valid};

/// A validated domain.
pub type Domain = Valid<DomainFields>;

/// One domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Domain")]
pub struct DomainFields {
    /// Its name in decisions.
    pub name: Name,
    /// Display name.
    #[schemars(length(min = 1))]
    pub display_name: String,
    /// What its data covers.
    #[schemars(length(min = 1))]
    pub description: String,
    /// The kinds of questions it answers.
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// Example questions. The classifier learns from these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// Words that mean a question needs this domain, whatever else it is about: `stock`, `warehouse`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    /// The tools that query it, as `tool` or `server.tool`, or with their settings.
    #[serde(default)]
    pub mcp_tools: Vec<DomainTool>,
    /// Questions to suggest after an answer of a domain that this one is related to: templates over `question`,
    /// `shown` (the items in the answer) and `result` (of the first tool that answered). One that uses what the
    /// answer does not have is left out; then its `examples` are suggested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suggestions: Vec<String>,
    /// Domains that its suggestions may lead to.
    #[serde(default)]
    pub related_domains: Vec<Name>,
    /// Whether it is in use.
    #[serde(default = "enabled")]
    pub enabled: bool,
}

fn enabled() -> bool {
    true
}

impl Rules for DomainFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            !self.display_name.trim().is_empty(),
            "display_name",
            "domain.display_name_empty",
            "display_name is empty; write what people call the domain",
        );
        report.require(
            !self.description.trim().is_empty(),
            "description",
            "domain.description_empty",
            "description is empty; say what the domain's data covers",
        );
        let mut tools = BTreeSet::new();
        report.within("mcp_tools", |report| {
            for (index, asked) in self.mcp_tools.iter().enumerate() {
                for tool in asked.tools() {
                    report.require(
                        tools.insert(tool),
                        index,
                        "domain.tool_twice",
                        format_args!("`{tool}` is listed twice; list each tool once"),
                    );
                }
            }
            tool_rules(&self.mcp_tools, &self.name, report);
        });
        report.within("keywords", |report| {
            for (index, keyword) in self.keywords.iter().enumerate() {
                report.require(
                    keyword.chars().any(char::is_alphanumeric),
                    index,
                    "domain.keyword_empty",
                    "an empty keyword matches no question; write one or more words",
                );
            }
        });
        let mut related = BTreeSet::from([&self.name]);
        report.within("related_domains", |report| {
            for (index, domain) in self.related_domains.iter().enumerate() {
                report.require(
                    related.insert(domain),
                    index,
                    "domain.related_twice",
                    format_args!("`{domain}` is the domain itself or listed twice"),
                );
            }
        });
    }
}
