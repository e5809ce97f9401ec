//! Lists the tools of one server, over all pages.

use std::collections::HashMap;
use std::sync::Arc;

use convoke_schema::Limits;
use rmcp::model::{PaginatedRequestParams, Tool};
use rmcp::service::ServiceError;
use rmcp::{Peer, RoleClient};

use crate::arguments::CheckedTool;
use crate::options::Options;
use crate::tool::ToolInfo;

/// A server's tools, as of the time of listing.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) tools: Arc<[ToolInfo]>,
    by_name: HashMap<String, Arc<CheckedTool>>,
}

/// Why the tools could not be listed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListingError {
    #[error("its tools could not be listed: {0}")]
    Service(#[from] ServiceError),
    #[error("its list of tools has more than {0} pages")]
    Endless(usize),
    #[error("its list of tools has more than {0} bytes")]
    TooLarge(usize),
}

impl Listing {
    /// Reads all pages. A server with too many pages, or with more bytes in total than one message may
    /// have, is broken.
    pub(crate) async fn read(
        server: &str,
        peer: &Peer<RoleClient>,
        options: &Options,
    ) -> Result<Self, ListingError> {
        let max_pages = options.max_tool_pages;
        let mut room = options.max_message_bytes;
        let mut tools = Vec::new();
        let mut cursor = None;
        for _ in 0..max_pages.max(1) {
            let params =
                cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
            let page = peer.list_tools(params).await?;
            room = room
                .checked_sub(written_size(&page.tools))
                .ok_or(ListingError::TooLarge(options.max_message_bytes))?;
            tools.extend(
                page.tools
                    .into_iter()
                    .map(|tool| ToolInfo::of(server, tool)),
            );
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(Self::of(tools, options.schema));
            }
        }
        Err(ListingError::Endless(max_pages))
    }

    fn of(tools: Vec<ToolInfo>, limits: Limits) -> Self {
        let checked = |tool: &ToolInfo| Arc::new(CheckedTool::new(tool.clone(), limits));
        let by_name = tools
            .iter()
            .map(|tool| (tool.name.clone(), checked(tool)))
            .collect();
        Self {
            tools: tools.into(),
            by_name,
        }
    }

    pub(crate) fn get(&self, tool: &str) -> Option<&Arc<CheckedTool>> {
        self.by_name.get(tool)
    }
}

/// The size of tools as JSON, in bytes. They were parsed from JSON, so serializing cannot fail.
fn written_size(tools: &[Tool]) -> usize {
    let mut size = ByteCounter(0);
    match serde_json::to_writer(&mut size, tools) {
        Ok(()) => size.0,
        Err(_) => usize::MAX,
    }
}

/// A writer that only counts bytes.
struct ByteCounter(usize);

impl std::io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
