//! `convoke tools`: the built-in tool servers, so that the binary alone is enough.

use anyhow::Context;

use crate::cli::ToolsCommand;
use crate::exit::Exit;
use crate::output;
use crate::start;

pub(crate) async fn run(command: &ToolsCommand) -> anyhow::Result<Exit> {
    match command {
        ToolsCommand::Todo { db, http, data } => {
            let db = start::absolute(&db.clone().unwrap_or_else(|| data.join("todo.db")));
            if let Some(folder) = db.parent() {
                std::fs::create_dir_all(folder)
                    .with_context(|| format!("the folder {} cannot be made", folder.display()))?;
            }
            match http {
                None => convoke_todo::serve_stdio(&db).await?,
                Some(address) => {
                    output::note(format!("serving the to-do tools at http://{address}/mcp"));
                    convoke_todo::serve_http(&db, *address).await?;
                }
            }
            Ok(Exit::Done)
        }
    }
}
