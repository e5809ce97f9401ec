//! The voice of an app: brand, tone, emojis and humor.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::valid::{Report, Rules, Valid};

/// A validated style guide.
pub type StyleGuide = Valid<StyleGuideFields>;

/// The voice of an app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "StyleGuide")]
pub struct StyleGuideFields {
    /// Version of the guide.
    #[schemars(length(min = 1))]
    pub version: String,
    /// Name of the brand.
    #[schemars(length(min = 1))]
    pub brand_name: String,
    /// Personality of the assistant.
    #[schemars(length(min = 1))]
    pub personality: String,
    /// Tone of voice.
    #[serde(default)]
    pub tone: ToneSettings,
    /// Which emojis to use.
    #[serde(default)]
    pub emojis: EmojiSettings,
    /// Whether and how to joke.
    #[serde(default)]
    pub humor: HumorSettings,
    /// What surrounds an answer.
    #[serde(default)]
    pub formatting: FormattingPreferences,
}

/// Tone of voice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToneSettings {
    /// The usual tone.
    pub default: String,
    /// The tone of errors.
    pub error: String,
    /// The tone of successes.
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

/// Which emojis to use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EmojiSettings {
    /// Whether emojis are used at all.
    pub enabled: bool,
    /// For a success.
    pub success: String,
    /// For a warning.
    pub warning: String,
    /// For an error.
    pub error: String,
    /// For information.
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

/// Whether and how to joke.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HumorSettings {
    /// Whether jokes are used at all.
    pub enabled: bool,
    /// The kind of humor.
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
    /// Whether it addresses the user by name.
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
                format_args!("{field} is empty; write one"),
            );
        }
    }
}
