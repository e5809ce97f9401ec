//! How the app speaks: its brand, its tone, and when it smiles.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::valid::{Report, Rules, Valid};

/// A style guide whose rules hold.
pub type StyleGuide = Valid<StyleGuideFields>;

/// The voice of an app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "StyleGuide")]
pub struct StyleGuideFields {
    /// Which edition of the guide this is.
    #[schemars(length(min = 1))]
    pub version: String,
    /// Who speaks.
    #[schemars(length(min = 1))]
    pub brand_name: String,
    /// What the speaker is like.
    #[schemars(length(min = 1))]
    pub personality: String,
    /// How things are said.
    #[serde(default)]
    pub tone: ToneSettings,
    /// Which emojis stand for what.
    #[serde(default)]
    pub emojis: EmojiSettings,
    /// Whether and how jokes are made.
    #[serde(default)]
    pub humor: HumorSettings,
    /// What surrounds an answer.
    #[serde(default)]
    pub formatting: FormattingPreferences,
}

/// How things are said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToneSettings {
    /// Usually.
    pub default: String,
    /// When something went wrong.
    pub error: String,
    /// When something went well.
    pub success: String,
}

impl Default for ToneSettings {
    fn default() -> Self {
        Self {
            default: "conversational".into(),
            error: "empathetic".into(),
            success: "encouraging".into(),
        }
    }
}

/// Which emojis stand for what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EmojiSettings {
    /// Whether emojis are used at all.
    pub enabled: bool,
    /// Something went well.
    pub success: String,
    /// Something needs care.
    pub warning: String,
    /// Something went wrong.
    pub error: String,
    /// Something is worth knowing.
    pub info: String,
}

impl Default for EmojiSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            success: "✅".into(),
            warning: "⚠️".into(),
            error: "❌".into(),
            info: "ℹ️".into(),
        }
    }
}

/// Whether and how jokes are made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HumorSettings {
    /// Whether jokes are made at all.
    pub enabled: bool,
    /// Of which kind.
    pub style: String,
    /// How often.
    pub frequency: String,
}

impl Default for HumorSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            style: "light, work-related".into(),
            frequency: "occasional".into(),
        }
    }
}

/// What surrounds an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FormattingPreferences {
    /// Whether it begins with a greeting.
    pub greeting: bool,
    /// Whether it ends with a farewell.
    pub sign_off: bool,
    /// Whether the user is called by name.
    pub use_user_name: bool,
}

impl Default for FormattingPreferences {
    fn default() -> Self {
        Self {
            greeting: true,
            sign_off: false,
            use_user_name: true,
        }
    }
}

impl Rules for StyleGuideFields {
    fn rules(&self, report: &mut Report) {
        for (field, text, code) in [
            ("version", &self.version, "style_guide.version_empty"),
            (
                "brand_name",
                &self.brand_name,
                "style_guide.brand_name_empty",
            ),
            (
                "personality",
                &self.personality,
                "style_guide.personality_empty",
            ),
        ] {
            report.require(
                !text.trim().is_empty(),
                field,
                code,
                format_args!("{field} is empty; a voice needs one"),
            );
        }
    }
}
