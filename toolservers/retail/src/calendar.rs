//! The days of the data. The shop's year ends on a fixed day, which is "today" for every question,
//! so that an answer never changes.

use jiff::civil::{Date, date};

/// The first day of the data.
pub const FIRST_DAY: Date = date(2025, 10, 1);

/// The last day of the data, and "today".
pub const LAST_DAY: Date = date(2026, 9, 30);

/// A day that is written in the code. One that cannot be read would be the last day; a test of each
/// table that holds days would show it.
pub(crate) fn iso(text: &str) -> Date {
    text.parse().unwrap_or(LAST_DAY)
}

/// Every day from the first to the last of them.
pub(crate) fn days(first: Date, last: Date) -> impl Iterator<Item = Date> {
    std::iter::successors(Some(first), |day| day.tomorrow().ok())
        .take_while(move |day| *day <= last)
}
