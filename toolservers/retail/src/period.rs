//! Periods as people name them: "last month", "in July", "since April", "Q1".

use std::ops::Range;

use jiff::ToSpan;
use jiff::civil::{Date, date};
use serde::{Deserialize, Serialize};

use crate::calendar::{FIRST_DAY, LAST_DAY};
use crate::error::Refusal;
use crate::words::{number, words};

const MONTHS: [(&str, &str); 12] = [
    ("january", "jan"),
    ("february", "feb"),
    ("march", "mar"),
    ("april", "apr"),
    ("may", "may"),
    ("june", "jun"),
    ("july", "jul"),
    ("august", "aug"),
    ("september", "sep"),
    ("october", "oct"),
    ("november", "nov"),
    ("december", "dec"),
];

/// Words after which `may` and `march` are months.
const BEFORE_A_MONTH: [&str; 12] = [
    "in", "of", "during", "for", "since", "from", "until", "till", "and", "to", "last", "this",
];

/// A range of days and the words for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Period {
    /// The words in an answer: "in the last 30 days".
    #[serde(rename = "period")]
    pub(crate) words: String,
    pub(crate) from: Date,
    pub(crate) to: Date,
}

impl Period {
    /// The period for constant words; a test checks that all of them parse.
    pub(crate) fn named(text: &str) -> Self {
        let found = find(&words(text), |_| false);
        found.map_or_else(
            || span("in all the data", FIRST_DAY, LAST_DAY),
            |(_, period)| period,
        )
    }

    /// The part that the data covers, or a refusal if there is none.
    pub(crate) fn covered(self) -> Result<Self, Refusal> {
        if self.to < FIRST_DAY || self.from > LAST_DAY {
            return Err(Refusal::Period {
                asked: format!("{} to {}", self.from, self.to),
                first: FIRST_DAY.to_string(),
                last: LAST_DAY.to_string(),
            });
        }
        Ok(Self {
            from: self.from.max(FIRST_DAY),
            to: self.to.min(LAST_DAY),
            ..self
        })
    }

    pub(crate) fn holds_today(&self) -> bool {
        (self.from..=self.to).contains(&LAST_DAY)
    }
}

/// The first period in these words, and its position. Skips words that are already used.
pub(crate) fn find(
    words: &[String],
    word_uses: impl Fn(usize) -> bool,
) -> Option<(Range<usize>, Period)> {
    (0..words.len()).find_map(|start| {
        let free = (start..words.len())
            .take_while(|place| !word_uses(*place))
            .count();
        let words = &words[start..start + free];
        let (length, period) = read(words)?;
        Some((start..start + length, period))
    })
}

/// The period at the start of these words, and its number of words.
fn read(words: &[String]) -> Option<(usize, Period)> {
    let word = |place: usize| words.get(place).map_or("", String::as_str);
    match word(0) {
        "today" => Some((1, span("today", LAST_DAY, LAST_DAY))),
        "yesterday" => {
            let day = LAST_DAY.saturating_sub(1.day());
            Some((1, span("yesterday", day, day)))
        }
        "between" | "from" => {
            let (first, from) = month(words, 1)?;
            let joined = matches!(word(1 + first), "and" | "to" | "until" | "till" | "through");
            let (second, to) = month(words, 2 + first).filter(|_| joined)?;
            let named = format!("from {} to {}", from.words, to.words);
            Some((2 + first + second, span(&named, from.from, to.to)))
        }
        "since" => {
            let (length, from) = month(words, 1).or_else(|| year(words, 1))?;
            let named = format!("since {}", from.words.trim_start_matches("in "));
            Some((1 + length, span(&named, from.from, LAST_DAY)))
        }
        "last" | "past" | "previous" | "recent" => back(words),
        "this" | "current" => {
            let (name, from) = match word(1) {
                "week" => ("this week", monday(LAST_DAY)),
                "month" => ("this month", LAST_DAY.first_of_month()),
                "quarter" => ("this quarter", quarter_of(LAST_DAY)),
                "year" => ("this year", LAST_DAY.first_of_year()),
                _ => return None,
            };
            Some((2, span(name, from, LAST_DAY)))
        }
        "next" | "coming" | "upcoming" => {
            let known = [
                "day", "week", "month", "quarter", "year", "days", "weeks", "months",
            ];
            let length = (1..=2).find(|place| known.contains(&word(*place)))?;
            let tomorrow = LAST_DAY.saturating_add(1.day());
            Some((1 + length, span("after the data", tomorrow, tomorrow)))
        }
        "ytd" => Some((1, span("this year", LAST_DAY.first_of_year(), LAST_DAY))),
        // Without a preposition, these two are usually other words.
        "may" | "march" => month(words, 0).filter(|(length, _)| *length > 1),
        before if BEFORE_A_MONTH.contains(&before) && matches!(word(1), "may" | "march") => {
            let (length, found) = month(words, 1)?;
            Some((1 + length, in_month(found)))
        }
        _ => month(words, 0)
            .map(|(length, found)| (length, in_month(found)))
            .or_else(|| quarter(words))
            .or_else(|| year(words, 0)),
    }
}

/// "last week", "last 30 days", "past three months", "last July".
fn back(words: &[String]) -> Option<(usize, Period)> {
    let word = |place: usize| words.get(place).map_or("", String::as_str);
    let yesterday = |day: Date| day.saturating_sub(1.day());
    let calendar = match word(1) {
        "day" => Some(("yesterday", yesterday(LAST_DAY), yesterday(LAST_DAY))),
        "week" => {
            let this = monday(LAST_DAY);
            Some(("last week", this.saturating_sub(7.days()), yesterday(this)))
        }
        "month" => {
            let this = LAST_DAY.first_of_month();
            Some((
                "last month",
                this.saturating_sub(1.month()),
                yesterday(this),
            ))
        }
        "quarter" => {
            let this = quarter_of(LAST_DAY);
            Some((
                "last quarter",
                this.saturating_sub(3.months()),
                yesterday(this),
            ))
        }
        // For a shop, "past year" is the last twelve months, and "last year" the calendar year.
        "year" if matches!(word(0), "past" | "recent") => {
            Some(("in the last 12 months", months_back(12), LAST_DAY))
        }
        "year" => {
            let this = LAST_DAY.first_of_year();
            Some(("last year", this.saturating_sub(1.year()), yesterday(this)))
        }
        _ => None,
    };
    if let Some((name, from, to)) = calendar {
        return Some((2, span(name, from, to)));
    }
    if let Some((length, found)) = month(words, 1) {
        return Some((1 + length, in_month(found)));
    }
    let (place, count) = match (word(1), number(word(1))) {
        ("few" | "couple", _) => (2, if word(1) == "few" { 3 } else { 2 }),
        (_, Some(count)) => (2, count),
        _ => return None,
    };
    let place = place + usize::from(word(place) == "of");
    let count = count.clamp(1, 10_000);
    let (unit, from) = match word(place) {
        "day" | "days" => ("days", LAST_DAY.saturating_sub((count - 1).days())),
        "week" | "weeks" => ("weeks", LAST_DAY.saturating_sub((count * 7 - 1).days())),
        "month" | "months" => ("months", months_back(count)),
        "quarter" | "quarters" => ("quarters", months_back(count * 3)),
        "year" | "years" => ("years", months_back(count * 12)),
        _ => return None,
    };
    let named = format!("in the last {count} {unit}");
    Some((place + 1, span(&named, from, LAST_DAY)))
}

/// A month's name, with a following year.
fn month(words: &[String], place: usize) -> Option<(usize, Period)> {
    let name = words.get(place)?;
    let index = MONTHS.iter().position(|(whole, short)| {
        name == whole || name == short || (*short == "sep" && name == "sept")
    })?;
    let month = i8::try_from(index + 1).ok()?;
    let given_parameters = words.get(place + 1).and_then(|word| as_year(word));
    // The data contains each month once; this is its year.
    let year = given_parameters.unwrap_or(if month >= FIRST_DAY.month() {
        FIRST_DAY.year()
    } else {
        LAST_DAY.year()
    });
    let first = Date::new(year, month, 1).ok()?;
    let (whole, _) = MONTHS[index];
    let named = format!("{}{} {year}", whole[..1].to_uppercase(), &whole[1..]);
    let length = 1 + usize::from(given_parameters.is_some());
    Some((length, span(&named, first, first.last_of_month())))
}

fn in_month(mut found: Period) -> Period {
    found.words.insert_str(0, "in ");
    found
}

/// "Q3", "Q1 2026", "the first quarter".
fn quarter(words: &[String]) -> Option<(usize, Period)> {
    let word = |place: usize| words.get(place).map_or("", String::as_str);
    let (length, index) = match (word(0), word(1)) {
        ("q1", _) => (1, 0),
        ("q2", _) => (1, 1),
        ("q3", _) => (1, 2),
        ("q4", _) => (1, 3),
        ("first" | "1st", "quarter") => (2, 0),
        ("second" | "2nd", "quarter") => (2, 1),
        ("third" | "3rd", "quarter") => (2, 2),
        ("fourth" | "4th", "quarter") => (2, 3),
        _ => return None,
    };
    let of = usize::from(word(length) == "of");
    let given_parameters = words.get(length + of).and_then(|word| as_year(word));
    let year = given_parameters.unwrap_or(if index == 3 {
        FIRST_DAY.year()
    } else {
        LAST_DAY.year()
    });
    let from = Date::new(year, index * 3 + 1, 1).ok()?;
    let to = from.saturating_add(2.months()).last_of_month();
    let length = if given_parameters.is_some() {
        length + of + 1
    } else {
        length
    };
    let named = format!("in quarter {} of {year}", index + 1);
    Some((length, span(&named, from, to)))
}

/// A year as a number.
fn year(words: &[String], place: usize) -> Option<(usize, Period)> {
    let year = as_year(words.get(place)?)?;
    let from = Date::new(year, 1, 1).ok()?;
    Some((1, span(&format!("in {year}"), from, from.last_of_year())))
}

fn as_year(word: &str) -> Option<i16> {
    let year = word.parse().ok()?;
    (1990..=2099).contains(&year).then_some(year)
}

fn months_back(count: i64) -> Date {
    LAST_DAY
        .saturating_add(1.day())
        .saturating_sub(count.months())
}

fn monday(day: Date) -> Date {
    day.saturating_sub(i64::from(day.weekday().to_monday_zero_offset()).days())
}

fn quarter_of(day: Date) -> Date {
    date(day.year(), (day.month() - 1) / 3 * 3 + 1, 1)
}

fn span(name: &str, from: Date, to: Date) -> Period {
    Period {
        words: name.to_owned(),
        from,
        to,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (String, String, String) {
        let words = words(text);
        let (_, period) = find(&words, |_| false).unwrap_or_else(|| panic!("no period in {text}"));
        (period.words, period.from.to_string(), period.to.to_string())
    }

    #[test]
    fn periods_are_relative_to_the_last_day() {
        for (text, name, from, to) in [
            ("sales yesterday", "yesterday", "2026-09-29", "2026-09-29"),
            ("last week", "last week", "2026-09-21", "2026-09-27"),
            ("this week", "this week", "2026-09-28", "2026-09-30"),
            ("last month", "last month", "2026-08-01", "2026-08-31"),
            ("this month", "this month", "2026-09-01", "2026-09-30"),
            (
                "the last 30 days",
                "in the last 30 days",
                "2026-09-01",
                "2026-09-30",
            ),
            (
                "past three months",
                "in the last 3 months",
                "2026-07-01",
                "2026-09-30",
            ),
            (
                "last two weeks",
                "in the last 2 weeks",
                "2026-09-17",
                "2026-09-30",
            ),
            (
                "last couple of weeks",
                "in the last 2 weeks",
                "2026-09-17",
                "2026-09-30",
            ),
            ("last quarter", "last quarter", "2026-04-01", "2026-06-30"),
            ("this quarter", "this quarter", "2026-07-01", "2026-09-30"),
            ("this year", "this year", "2026-01-01", "2026-09-30"),
            (
                "past year",
                "in the last 12 months",
                "2025-10-01",
                "2026-09-30",
            ),
            ("in July", "in July 2026", "2026-07-01", "2026-07-31"),
            (
                "in December",
                "in December 2025",
                "2025-12-01",
                "2025-12-31",
            ),
            ("in may", "in May 2026", "2026-05-01", "2026-05-31"),
            ("since July", "since July 2026", "2026-07-01", "2026-09-30"),
            (
                "between June and August",
                "from June 2026 to August 2026",
                "2026-06-01",
                "2026-08-31",
            ),
            ("in Q1", "in quarter 1 of 2026", "2026-01-01", "2026-03-31"),
            (
                "the fourth quarter",
                "in quarter 4 of 2025",
                "2025-10-01",
                "2025-12-31",
            ),
            ("in 2026", "in 2026", "2026-01-01", "2026-12-31"),
        ] {
            let found = read(text);
            assert_eq!(
                (found.0.as_str(), found.1.as_str(), found.2.as_str()),
                (name, from, to),
                "{text}"
            );
        }
    }

    #[test]
    fn ambiguous_words_are_not_months() {
        for text in [
            "may I see the stock",
            "march on",
            "the second one",
            "1.2 million",
        ] {
            assert_eq!(find(&words(text), |_| false), None, "{text}");
        }
    }

    #[test]
    fn uncovered_periods_are_refused_and_partial_ones_cut() {
        for text in ["in July 2024", "next month", "in 2023", "the next 2 weeks"] {
            let (_, period) = find(&words(text), |_| false).unwrap();
            assert!(period.covered().is_err(), "{text}");
        }
        let year = Period::named("last year").covered().unwrap();
        assert_eq!((year.from, year.to), (FIRST_DAY, date(2025, 12, 31)));
    }
}
