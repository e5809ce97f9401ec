//! The to-do server over standard input and output: `todo_stdio FILE`.

use std::path::Path;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let Some(db) = std::env::args_os().nth(1) else {
        anyhow::bail!("name the database file");
    };
    convoke_todo::serve_stdio(Path::new(&db)).await?;
    Ok(())
}
