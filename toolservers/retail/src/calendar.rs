//! The days of the data. The shop's year ends on a fixed day, which is "today" for every question, so
//! that answers never change.

use jiff::civil::{Date, date};

/// The first day of the data.
pub const FIRST_DAY: Date = date(2025, 10, 1);

/// The last day of the data, and "today".
pub const LAST_DAY: Date = date(2026, 9, 30);

/// Parses a day in the code. An invalid one becomes the last day, which the tests of every table with
/// days would reveal.
pub(crate) fn iso(text: &str) -> Date {
    text.parse().unwrap_or(LAST_DAY)
}

/// Every day from `first` to `last`, inclusive.
pub(crate) fn days(first: Date, last: Date) -> impl Iterator<Item = Date> {
    std::iter::successors(Some(first), |day| day.tomorrow().ok())
        .take_while(move |day| *day <= last)
}
