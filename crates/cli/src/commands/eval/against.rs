//! What an app is compared with: itself without a model or with another one, or another app.

use std::path::{Path, PathBuf};

use crate::cli::ModelArgs;
use crate::exit::UsageError;
use crate::start;

/// The second configuration, as the command line names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Opponent {
    /// The same app with no model but those that its files name.
    NoModel,
    /// The same app with this model, as `URL#MODEL`.
    Model(String),
    /// The app of another folder with the same model.
    App(PathBuf),
}

impl Opponent {
    /// Reads `none`, `URL#MODEL` or a folder.
    pub(super) fn read(text: &str) -> Result<Self, UsageError> {
        if text == "none" {
            return Ok(Self::NoModel);
        }
        let folder = Path::new(text);
        if folder.is_dir() {
            return Ok(Self::App(folder.to_owned()));
        }
        if start::read_model(text, &|_| None).is_ok() {
            return Ok(Self::Model(text.to_owned()));
        }
        let message = format!(
            "`{text}` is nothing to compare with; write `none`, a model as http://host/v1#model, or the \
             folder of another app"
        );
        Err(UsageError::new("eval.against_malformed", message))
    }

    /// The folder of the app, and the model that goes with it.
    pub(super) fn of(&self, app: &Path, model: &ModelArgs) -> (PathBuf, ModelArgs) {
        match self {
            Self::NoModel => {
                let none = ModelArgs {
                    model: None,
                    tool_mode: None,
                    ..model.clone()
                };
                (app.to_owned(), none)
            }
            Self::Model(text) => {
                let other = ModelArgs {
                    model: Some(text.clone()),
                    ..model.clone()
                };
                (app.to_owned(), other)
            }
            Self::App(folder) => (folder.clone(), model.clone()),
        }
    }
}

/// A configuration in words. Of a model's address only the host is told, because the rest may hold a key.
pub(super) fn in_words(app: &Path, model: &ModelArgs) -> String {
    let app = app.display();
    let Some((address, name)) = model
        .model
        .as_deref()
        .and_then(|text| text.rsplit_once('#'))
    else {
        return format!("{app}, no model but those that it names itself");
    };
    let (_, rest) = address.split_once("://").unwrap_or(("", address));
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    format!("{app}, with {name} at {host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compared_with_is_none_a_model_or_a_folder() {
        assert_eq!(Opponent::read("none").unwrap(), Opponent::NoModel);
        let model = "http://127.0.0.1:11434/v1#qwen3";
        assert_eq!(
            Opponent::read(model).unwrap(),
            Opponent::Model(model.to_owned())
        );
        let folder = tempfile::tempdir().unwrap();
        let app = folder.path().to_str().unwrap();
        assert_eq!(Opponent::read(app).unwrap(), Opponent::App(app.into()));
        for wrong in [
            "",
            "nowhere",
            "http://127.0.0.1/v1",
            "http://127.0.0.1/v1#",
            "qwen3",
        ] {
            let error = Opponent::read(wrong).unwrap_err();
            assert_eq!(error.code, "eval.against_malformed", "{wrong}");
            assert!(error.message.contains(&format!("`{wrong}`")), "{error}");
        }
    }

    #[test]
    fn a_printed_configuration_contains_no_key() {
        let model = |text: &str| ModelArgs {
            model: Some(text.to_owned()),
            ..ModelArgs::default()
        };
        let app = Path::new("apps/home");
        assert_eq!(
            in_words(
                app,
                &model("https://ann:hush@models.example/v1?key=hush#big")
            ),
            "apps/home, with big at models.example"
        );
        assert_eq!(
            in_words(app, &ModelArgs::default()),
            "apps/home, no model but those that it names itself"
        );
    }
}
