//! A server over standard input and output.

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;

use crate::failure::Failure;
use crate::handler::{Handler, ToolServer};

/// Serves over standard input and output until the input ends.
pub async fn serve_stdio<S: ToolServer>(server: S) -> Result<(), Failure<S::Refusal>> {
    let running = match Handler(server).serve(rmcp::transport::stdio_pipes()).await {
        Ok(running) => running,
        // A client that disconnects early is not an error.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(Failure::Serve(error.to_string())),
    };
    running
        .waiting()
        .await
        .map_err(|error| Failure::Serve(error.to_string()))?;
    Ok(())
}
