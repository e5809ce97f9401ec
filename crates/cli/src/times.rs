//! Durations and times on the command line.

use std::time::Duration;

use convoke_model::{Clock as _, SystemClock};
use jiff::{Span, SpanRelativeTo, Timestamp};

/// The duration that a text names, such as `90m`, `2h` or `1d 12h`. A day has 24 hours.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no duration; write one such as 90m or 2h");
    let span: Span = text.parse().map_err(|_| wrong())?;
    let duration = span
        .to_duration(SpanRelativeTo::days_are_24_hours())
        .map_err(|_| wrong())?;
    Duration::try_from(duration).map_err(|_| wrong())
}

/// How long it is until a time that a text names: a time such as `2026-03-01T09:00:00Z`, or a duration.
pub(crate) fn parse_delay(text: &str) -> Result<Duration, String> {
    if let Ok(duration) = parse_duration(text) {
        return Ok(duration);
    }
    let time: Timestamp = text.parse().map_err(|_| {
        format!("`{text}` is no time; write one such as 2026-03-01T09:00:00Z, 90m or 2h")
    })?;
    // A time in the past is now.
    Ok(Duration::try_from(time.duration_since(SystemClock.now())).unwrap_or_default())
}

/// A time to the second, as people read it.
pub(crate) fn second(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_in_the_usual_spellings() {
        for (text, seconds) in [
            ("90m", 5400),
            ("2h", 7200),
            ("1d 12h", 129_600),
            ("PT5S", 5),
        ] {
            assert_eq!(parse_duration(text).unwrap().as_secs(), seconds, "{text}");
        }
        for text in ["", "soon", "-2h", "7", "1y"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_delay_is_a_duration_or_a_time() {
        assert_eq!(parse_delay("2h").unwrap().as_secs(), 7200);
        assert!(parse_delay("2999-01-01T00:00:00Z").unwrap().as_secs() > 7200);
        assert!(parse_delay("2020-01-01T00:00:00Z").unwrap().is_zero());
        assert!(parse_delay("tomorrow").is_err());
    }
}
