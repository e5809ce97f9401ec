//! The tools of one server, read to the last page.

use std::collections::HashMap;
use std::sync::Arc;

use rmcp::model::PaginatedRequestParams;
use rmcp::service::ServiceError;
use rmcp::{Peer, RoleClient};

use crate::arguments::CheckedTool;
use crate::tool::ToolInfo;

/// A server's tools as they were when they were listed.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) tools: Arc<[ToolInfo]>,
    by_name: HashMap<String, CheckedTool>,
}

/// Why a listing came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListingError {
    #[error("its tools could not be listed: {0}")]
    Service(#[from] ServiceError),
    #[error("its list of tools does not end after {0} pages")]
    Endless(usize),
}

impl Listing {
    /// Asks page after page. A server whose pages do not end within `max_pages` is broken.
    pub(crate) async fn read(
        server: &str,
        peer: &Peer<RoleClient>,
        max_pages: usize,
    ) -> Result<Self, ListingError> {
        let mut tools = Vec::new();
        let mut cursor = None;
        for _ in 0..max_pages.max(1) {
            let params =
                cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
            let page = peer.list_tools(params).await?;
            tools.extend(
                page.tools
                    .into_iter()
                    .map(|tool| ToolInfo::of(server, tool)),
            );
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(Self::of(tools));
            }
        }
        Err(ListingError::Endless(max_pages))
    }

    fn of(tools: Vec<ToolInfo>) -> Self {
        let by_name = tools
            .iter()
            .map(|tool| (tool.name.clone(), CheckedTool::new(tool.clone())))
            .collect();
        Self {
            tools: tools.into(),
            by_name,
        }
    }

    pub(crate) fn get(&self, tool: &str) -> Option<&CheckedTool> {
        self.by_name.get(tool)
    }
}
