//! Paging of task lists, for all backends: cursors, limits, and whether another page follows.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::task::TaskSummary;

/// The largest page. A larger limit counts as this one.
const MAX_PAGE_TASKS: usize = 65_534;

/// A position in a list of tasks, right after a task. It stays valid when tasks are added or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PageCursor(u64);

impl fmt::Display for PageCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for PageCursor {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        text.parse().map(Self)
    }
}

/// A section of a list of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Only tasks after this position. From the newest task if absent.
    pub after: Option<PageCursor>,
    /// Limit of tasks; at most 65,534 are returned.
    pub limit: usize,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            after: None,
            limit: 50,
        }
    }
}

/// A page of tasks, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskPage {
    /// The tasks.
    pub tasks: Vec<TaskSummary>,
    /// The cursor of the next page. `None` on the last page.
    pub next: Option<PageCursor>,
}

impl Page {
    /// Tasks of the page have a smaller ordinal than this, if it is set: lists are newest first.
    pub(crate) fn before_ordinal(&self) -> Option<u64> {
        self.after.map(|PageCursor(ordinal)| ordinal)
    }

    /// The number of tasks to read: one more than the page holds, to see whether another page follows.
    pub(crate) fn tasks_to_read(&self) -> usize {
        self.tasks() + 1
    }

    /// Builds the page from [`tasks_to_read`](Self::tasks_to_read) tasks, as ordinal and summary. A task without a summary
    /// takes a place in the page and is left out of the result.
    pub(crate) fn collect(&self, mut found: Vec<(u64, Option<TaskSummary>)>) -> TaskPage {
        let has_more = found.len() > self.tasks();
        found.truncate(self.tasks());
        let last = found.last().filter(|_| has_more);
        TaskPage {
            next: last.map(|(ordinal, _)| PageCursor(*ordinal)),
            tasks: found.into_iter().filter_map(|(_, task)| task).collect(),
        }
    }

    fn tasks(&self) -> usize {
        self.limit.min(MAX_PAGE_TASKS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(limit: usize) -> Page {
        Page { after: None, limit }
    }

    #[test]
    fn a_cursor_is_parsed_from_its_printed_form() {
        let cursor = PageCursor(17);
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
    }

    #[test]
    fn a_limit_of_any_size_leads_to_a_next_page_while_tasks_remain() {
        for (limit, next) in [(0, None), (1, Some(PageCursor(9))), (3, None)] {
            let read = page(limit).tasks_to_read().min(3);
            let found = (0..read as u64).map(|index| (9 - index, None)).collect();
            assert_eq!(page(limit).collect(found).next, next, "{limit}");
        }
        let limit = page(usize::MAX);
        let found: Vec<_> = (0..limit.tasks_to_read() as u64)
            .rev()
            .map(|ordinal| (ordinal, None))
            .collect();
        assert_eq!(limit.collect(found).next, Some(PageCursor(1)));
    }
}
