//! The home server over standard input and output: `home_stdio FILE`.

use std::path::Path;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let Some(db) = std::env::args_os().nth(1) else {
        anyhow::bail!("name the database file");
    };
    convoke_home::serve(Path::new(&db), None).await?;
    Ok(())
}
