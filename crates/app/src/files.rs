//! The files in `config/` that contain a list under one key.

use convoke_model::{ChannelSpecFields, DomainFields, McpServerFields};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `config/mcp_servers.yaml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpServersFile {
    /// The tool servers.
    pub servers: Vec<McpServerFields>,
}

/// `config/domains.yaml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DomainsFile {
    /// The domains.
    pub domains: Vec<DomainFields>,
}

/// `config/channels.yaml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChannelsFile {
    /// Specifications of channels that differ from the default.
    pub channels: Vec<ChannelSpecFields>,
}
