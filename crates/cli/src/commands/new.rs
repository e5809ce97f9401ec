//! `convoke new`: a folder that runs as it is and is there to be changed.

use std::path::Path;

use serde_json::json;

use crate::exit::{Exit, UsageError};
use crate::output;

pub(crate) fn run(dir: &Path, from: Option<&Path>, json: bool) -> anyhow::Result<Exit> {
    let made = convoke_app::new_app(dir, from)
        .map_err(|error| UsageError::new(error.code(), error.to_string()))?;
    if json {
        output::json_line(&json!({ "app": dir, "files": made }));
    } else {
        for file in &made {
            output::line(format!("made {}", file.display()));
        }
        output::note(format!(
            "Try: convoke run {} \"remind me to buy milk\"",
            dir.display()
        ));
    }
    Ok(Exit::Done)
}
