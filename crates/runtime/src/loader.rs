//! How an app is read: from its folder, and from what the store keeps of it with a task.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use convoke_app::{App, Diagnostics, EnvFile, LoadedApp, Severity};
use convoke_engine::EditionError;
use convoke_model::{Invalid, Rules};
use convoke_store::{Definition, Store};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::error::RuntimeError;
use crate::wire;

/// The variable by which an app's files know the data folder.
const DATA_VARIABLE: &str = "CONVOKE_DATA";

/// Codes of problems that another worker may not have, or this one later.
const UNAVAILABLE: [&str; 3] = [
    "app.environment_missing",
    "app.env_file",
    "app.definition_changed",
];

type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;
type Adjustment = Arc<dyn Fn(&mut App) -> Result<(), Invalid> + Send + Sync>;

/// Reads apps. The same loader reads an app's folder and its stored definitions, so that both get the same variables
/// and the same adjustment.
#[derive(Clone, Default)]
#[must_use = "a loader reads nothing by itself"]
pub struct AppLoader {
    data: Option<PathBuf>,
    environment: Option<Environment>,
    adjustment: Option<Adjustment>,
    program_servers: BTreeSet<String>,
    reads_env_files: bool,
}

impl AppLoader {
    /// A loader with the variables of the process.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the folder that the app's files know as `${CONVOKE_DATA}`.
    pub fn data(mut self, folder: impl Into<PathBuf>) -> Self {
        self.data = Some(folder.into());
        self
    }

    /// Sets the variables for `${NAME}` in the app's files. The default is the environment of the process.
    pub fn environment(
        mut self,
        environment: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.environment = Some(Arc::new(environment));
        self
    }

    /// Takes variables that are not set from the file `.env` in the app's folder, if there is one. It is not read unless
    /// this says so.
    pub fn env_files(mut self, read: bool) -> Self {
        self.reads_env_files = read;
        self
    }

    /// Changes every app once it is read. The change is not part of the app's hash, and not of the stored definition.
    pub fn adjust(
        mut self,
        adjustment: impl Fn(&mut App) -> Result<(), Invalid> + Send + Sync + 'static,
    ) -> Self {
        self.adjustment = Some(Arc::new(adjustment));
        self
    }

    /// Lets agents list tools of these servers, which the program brings.
    pub(crate) fn program_servers(mut self, servers: BTreeSet<String>) -> Self {
        self.program_servers = servers;
        self
    }

    pub(crate) fn data_folder(&self) -> Option<&Path> {
        self.data.as_deref()
    }

    /// Makes the data folder if the app's files name it, because its tool servers expect it to be there. Where it cannot be
    /// made, they say so.
    pub fn make_data_folder(&self, app: &App) {
        if let Some(data) = &self.data
            && app.secrets.names().any(|name| name == DATA_VARIABLE)
        {
            let _ = std::fs::create_dir_all(data);
        }
    }

    /// The variables for `${NAME}`.
    pub fn variable(&self, name: &str) -> Option<String> {
        match (&self.data, &self.environment) {
            (Some(data), _) if name == DATA_VARIABLE => {
                Some(wire::absolute(data).to_string_lossy().into_owned())
            }
            (_, Some(environment)) => environment(name),
            (_, None) => wire::process_environment(name),
        }
    }

    /// Reads a settings file that belongs to no app, with the same variables.
    pub fn settings<T>(&self, path: &Path) -> Result<T, RuntimeError>
    where
        T: Rules + DeserializeOwned + JsonSchema,
    {
        convoke_app::read_settings(path, &|name| self.variable(name)).map_err(RuntimeError::App)
    }

    /// The variables of an app's own file.
    fn env_file(&self, folder: &Path) -> Result<EnvFile, Diagnostics> {
        if self.reads_env_files && !folder.as_os_str().is_empty() {
            EnvFile::read(folder)
        } else {
            Ok(EnvFile::default())
        }
    }

    /// A variable of the environment, or else of the app's own file.
    fn variable_of(&self, own: &EnvFile, name: &str) -> Option<String> {
        let own = || own.get(name).map(str::to_owned);
        self.variable(name).or_else(own)
    }

    /// Reads an app's folder to run it. Its evals are left out.
    pub fn load(&self, folder: &Path) -> Result<App, RuntimeError> {
        let own = self.env_file(folder).map_err(RuntimeError::App)?;
        let variables = |name: &str| self.variable_of(&own, name);
        let loaded = App::load_for_program(folder, &variables, &self.program_servers);
        Ok(self.adjusted(loaded)?.app)
    }

    /// Reads everything in an app's folder to check the files alone: variables that are not set are told in warnings.
    pub fn load_to_check(&self, folder: &Path) -> Result<LoadedApp, RuntimeError> {
        let own = self.env_file(folder).map_err(RuntimeError::App)?;
        let variables = |name: &str| self.variable_of(&own, name);
        self.adjusted(App::load_to_check(folder, &variables))
    }

    /// Reads everything in an app's folder: its evals, and the warnings about it. Tools of the program are unknown
    /// here.
    pub fn load_with_evals(&self, folder: &Path) -> Result<LoadedApp, RuntimeError> {
        let own = self.env_file(folder).map_err(RuntimeError::App)?;
        self.adjusted(App::load(folder, &|name| self.variable_of(&own, name)))
    }

    fn adjusted(&self, loaded: Result<LoadedApp, Diagnostics>) -> Result<LoadedApp, RuntimeError> {
        let mut loaded = loaded.map_err(RuntimeError::App)?;
        if let Some(adjust) = &self.adjustment {
            adjust(&mut loaded.app)?;
        }
        Ok(loaded)
    }

    /// Reads an app as it was when a task started. Its paths are relative to `folder`.
    pub fn load_stored(&self, definition: &Definition, folder: &Path) -> Result<App, EditionError> {
        let own = self
            .env_file(folder)
            .map_err(|problems| edition_error(&problems))?;
        let variables = |name: &str| self.variable_of(&own, name);
        let (files, hash) = (&definition.files, &definition.hash);
        let mut app = App::load_stored(files, hash, folder, &variables, &self.program_servers)
            .map_err(|problems| edition_error(&problems))?;
        if let Some(adjust) = &self.adjustment {
            adjust(&mut app).map_err(|invalid| EditionError::Unavailable(invalid.to_string()))?;
        }
        Ok(app)
    }
}

impl fmt::Debug for AppLoader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppLoader")
            .field("data", &self.data)
            .field("program_servers", &self.program_servers)
            .finish_non_exhaustive()
    }
}

/// What a store keeps of the app of a task, whether it is trusted or not.
pub async fn stored_definition(store: &dyn Store, hash: &str) -> Result<Definition, RuntimeError> {
    let missing = || EditionError::Unavailable("it is not in the store".into());
    Ok(store.definition(hash).await?.ok_or_else(missing)?)
}

/// Why a stored app cannot be opened. A variable that is missing here may be set where another worker runs, and a
/// changed definition may be restored.
fn edition_error(problems: &Diagnostics) -> EditionError {
    let mut errors = problems
        .iter()
        .filter(|problem| problem.severity == Severity::Error);
    if errors.all(|problem| UNAVAILABLE.contains(&problem.code)) {
        EditionError::Unavailable(problems.to_string())
    } else {
        EditionError::Invalid(problems.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_app_and_what_was_kept_of_it_get_the_same_variables_and_the_same_adjustment() {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("convoke.yaml", "name: shop\ndescription: \"${PLACE}\"\n");
        write(
            "agents/clerk.yaml",
            "name: clerk\nrole: Sells.\nsystem_prompt: Sell.\n",
        );
        let place = |name: &str| (name == "PLACE").then(|| "Rome".into());
        let loader = AppLoader::new().environment(place).adjust(|app| {
            app.config.limits.task_seconds = 7;
            Ok(())
        });
        let app = loader.load(folder.path()).unwrap();
        let stored = Definition {
            hash: app.hash.clone(),
            files: (*app.files).clone(),
            trusted: true,
        };
        for app in [&app, &loader.load_stored(&stored, folder.path()).unwrap()] {
            assert_eq!(app.config.description, "Rome");
            assert_eq!(app.config.limits.task_seconds, 7);
        }
        let unset = AppLoader::new().environment(|_| None);
        let error = unset.load_stored(&stored, folder.path()).unwrap_err();
        assert!(matches!(error, EditionError::Unavailable(_)), "{error}");
    }

    #[test]
    fn the_data_folder_is_an_absolute_path_to_the_files_of_an_app() {
        let loader = AppLoader::new().data("data").environment(|_| None);
        let data = loader.variable(DATA_VARIABLE).unwrap();
        assert!(Path::new(&data).is_absolute() && data.ends_with("/data"));
        assert_eq!(loader.variable("HOME"), None);
    }
}
