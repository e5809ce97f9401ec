//! The operations server over standard input and output: `operations_stdio FOLDER`.

use std::path::Path;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let Some(folder) = std::env::args_os().nth(1) else {
        anyhow::bail!("name the folder");
    };
    convoke_operations::serve(Path::new(&folder), None).await?;
    Ok(())
}
