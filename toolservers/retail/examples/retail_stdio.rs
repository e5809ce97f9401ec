//! The retail server over standard input and output: `retail_stdio FILE`.

use std::path::Path;

use convoke_retail::Options;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let Some(db) = std::env::args_os().nth(1) else {
        anyhow::bail!("name the database file");
    };
    convoke_retail::serve(Path::new(&db), None, Options::default()).await?;
    Ok(())
}
