//! `convoke tools`: the built-in tool servers, so that the binary alone is enough.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use crate::cli::{ListenArgs, ToolsCommand};
use crate::exit::Exit;
use crate::output;

pub(crate) async fn run(command: &ToolsCommand) -> anyhow::Result<Exit> {
    match command {
        ToolsCommand::Todo { db, listen } => {
            let db = place(db.as_deref(), listen, "todo.db")?;
            make_folder_of(&db)?;
            announce("to-do", listen);
            convoke_todo::serve(&db, listen.http).await?;
        }
        ToolsCommand::Operations { dir, listen } => {
            let dir = place(dir.as_deref(), listen, "operations")?;
            announce("operations", listen);
            convoke_operations::serve(&dir, listen.http).await?;
        }
        ToolsCommand::Home { db, listen } => {
            let db = place(db.as_deref(), listen, "home.db")?;
            make_folder_of(&db)?;
            announce("home", listen);
            convoke_home::serve(&db, listen.http).await?;
        }
        ToolsCommand::Retail {
            db,
            answer_within_ms,
            listen,
        } => {
            let db = place(db.as_deref(), listen, "retail.db")?;
            make_folder_of(&db)?;
            announce("retail", listen);
            let options = convoke_retail::Options {
                answer_within: Duration::from_millis(*answer_within_ms),
            };
            convoke_retail::serve(&db, listen.http, options).await?;
        }
    }
    Ok(Exit::Done)
}

/// The path of a server's data: as given, or under this name in the data folder.
fn place(told: Option<&Path>, listen: &ListenArgs, name: &str) -> anyhow::Result<PathBuf> {
    let place = told.map_or_else(|| listen.data.join(name), Path::to_owned);
    std::path::absolute(&place).with_context(|| format!("{} is no place", place.display()))
}

/// The folder of a database file must exist.
fn make_folder_of(db: &Path) -> anyhow::Result<()> {
    if let Some(folder) = db.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("the folder {} cannot be made", folder.display()))?;
    }
    Ok(())
}

/// Over stdio there is nothing to print.
fn announce(name: &str, listen: &ListenArgs) {
    if let Some(address) = listen.http {
        output::note(format!("serving the {name} tools at http://{address}/mcp"));
    }
}
