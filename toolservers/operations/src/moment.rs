//! A point in time as stored: in milliseconds, so that times compare as numbers.

use jiff::Timestamp;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use rusqlite::{Result, ToSql};
use serde::{Serialize, Serializer};

const MINUTE_MS: i64 = 60_000;

/// A point in time, serialized as RFC 3339 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Timestamp);

impl Moment {
    /// Truncates to the precision of the database.
    pub(crate) fn new(at: Timestamp) -> Self {
        Self(Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at))
    }

    /// This many seconds earlier.
    pub(crate) fn before(self, seconds: i64) -> Self {
        let ms = self
            .0
            .as_millisecond()
            .saturating_sub(seconds.saturating_mul(1000));
        Self(Timestamp::from_millisecond(ms).unwrap_or(self.0))
    }

    /// Whole minutes until `then`; 0 if the clock was set back.
    pub(crate) fn minutes_until(self, then: Self) -> i64 {
        let ms = then
            .0
            .as_millisecond()
            .saturating_sub(self.0.as_millisecond());
        ms.max(0) / MINUTE_MS
    }
}

impl std::fmt::Display for Moment {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(formatter)
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl ToSql for Moment {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(self.0.as_millisecond().into())
    }
}

impl FromSql for Moment {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Timestamp::from_millisecond(value.as_i64()?)
            .map(Self)
            .map_err(|error| FromSqlError::Other(error.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_whole_and_never_negative() {
        let now = Moment::new("2026-10-19T12:00:00.123456Z".parse().unwrap());
        assert_eq!(now.to_string(), "2026-10-19T12:00:00.123Z");
        let earlier = now.before(119);
        assert_eq!(earlier.to_string(), "2026-10-19T11:58:01.123Z");
        assert_eq!(earlier.minutes_until(now), 1);
        assert_eq!(now.minutes_until(earlier), 0);
    }
}
