//! What a task produces besides its answer: texts, data and files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::valid::{Report, Rules, Valid};

/// A validated artifact.
pub type Artifact = Valid<ArtifactFields>;

/// One artifact made by an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Artifact")]
pub struct ArtifactFields {
    /// Unique within its task.
    pub artifact_id: String,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it contains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its content.
    #[schemars(length(min = 1))]
    pub parts: Vec<ArtifactPart>,
    /// Other data.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// One part of an artifact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ArtifactPart {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// Structured data.
    Data {
        /// The data.
        data: Value,
    },
    /// A file, by its address or its content.
    File {
        /// URL of the file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// Its content, in base64.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<String>,
        /// Its media type, such as `image/png`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        media_type: Option<String>,
        /// File name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        filename: Option<String>,
    },
}

impl Rules for ArtifactFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            !self.artifact_id.trim().is_empty(),
            "artifact_id",
            "artifact.id_empty",
            "artifact_id is empty; give the artifact an id",
        );
        report.require(
            !self.parts.is_empty(),
            "parts",
            "artifact.parts_empty",
            "an artifact has at least one part",
        );
        report.within("parts", |report| {
            for (index, part) in self.parts.iter().enumerate() {
                if let ArtifactPart::File { url, bytes, .. } = part {
                    report.require(
                        url.is_some() != bytes.is_some(),
                        index,
                        "artifact.file",
                        "a file has either a url or bytes",
                    );
                }
            }
        });
    }
}
