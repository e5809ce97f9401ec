//! Whether and when a model is asked again.

use std::time::Duration;

use convoke_model::Clock;
use http::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};
use jiff::Timestamp;

use crate::error::LlmProblem;
use crate::options::Options;

/// The finer header that OpenAI and Azure send.
const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// The pause before the same model is asked again after this many failures in a row, or `None` if
/// it is not to be asked again: the failure lasts, the attempts are used up, or the time is.
pub(crate) fn pause(
    options: &Options,
    problem: &LlmProblem,
    failures: u32,
    left: Duration,
) -> Option<Duration> {
    if !problem.is_transient() || failures >= options.max_attempts {
        return None;
    }
    let pause = match problem.retry_after() {
        Some(asked) if asked > options.retry_after_longest => return None,
        // Everybody was told the same moment, so that a spread comes on top.
        Some(asked) => asked + options.backoff_first.mul_f64(options.jitter.next()),
        None => backoff(options, failures),
    };
    (pause < left).then_some(pause)
}

/// Doubled with every failure, never above the longest, and spread between half of it and the whole.
fn backoff(options: &Options, failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(31);
    let whole = options
        .backoff_first
        .saturating_mul(1 << doublings)
        .min(options.backoff_longest);
    whole.mul_f64(0.5 + options.jitter.next() / 2.0)
}

/// When a server asks to be asked again: in milliseconds, in seconds, or as a date. A date is
/// compared with the server's own idea of the present, because clocks differ.
pub(crate) fn retry_after(headers: &HeaderMap, clock: &dyn Clock) -> Option<Duration> {
    let text = |name| headers.get(name)?.to_str().ok().map(str::trim);
    let seconds = |text: &str, unit: f64| {
        let number: f64 = text.parse().ok()?;
        Duration::try_from_secs_f64(number * unit).ok()
    };
    if let Some(asked) = text(RETRY_AFTER_MS).and_then(|text| seconds(text, 0.001)) {
        return Some(asked);
    }
    let asked = text(RETRY_AFTER)?;
    seconds(asked, 1.0).or_else(|| {
        let date = http_date(asked)?;
        let now = text(DATE)
            .and_then(http_date)
            .unwrap_or_else(|| clock.now());
        Some(date.duration_since(now).try_into().unwrap_or_default())
    })
}

fn http_date(text: &str) -> Option<Timestamp> {
    let date = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(date.timestamp())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use convoke_model::Jitter;

    #[derive(Debug)]
    struct Noon;

    impl Clock for Noon {
        fn now(&self) -> Timestamp {
            "2026-03-01T12:00:00Z".parse().unwrap()
        }
    }

    fn options(jitter: f64) -> Options {
        Options {
            backoff_first: Duration::from_millis(100),
            backoff_longest: Duration::from_secs(1),
            retry_after_longest: Duration::from_secs(30),
            max_attempts: 8,
            jitter: Jitter::new(move || jitter),
            ..Options::default()
        }
    }

    fn busy(retry_after: Option<Duration>) -> LlmProblem {
        LlmProblem::Overloaded {
            status: 503,
            message: "busy".to_owned(),
            retry_after,
        }
    }

    fn asked(headers: &[(HeaderName, &'static str)]) -> Option<Duration> {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::from_static(value)))
            .collect();
        retry_after(&headers, &Noon)
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_then_end() {
        let pauses: Vec<Option<u128>> = (1..=8)
            .map(|failures| pause(&options(1.0), &busy(None), failures, Duration::MAX))
            .map(|pause| pause.map(|pause| pause.as_millis()))
            .collect();
        let expected = [100, 200, 400, 800, 1000, 1000, 1000].map(Some);
        assert_eq!(pauses[..7], expected);
        assert_eq!(pauses[7], None);
    }

    #[test]
    fn the_spread_is_half_of_the_pause() {
        let least = pause(&options(0.0), &busy(None), 3, Duration::MAX);
        assert_eq!(least, Some(Duration::from_millis(200)));
        let most = pause(&options(7.0), &busy(None), 3, Duration::MAX);
        assert_eq!(most, Some(Duration::from_millis(400)));
    }

    #[test]
    fn the_pause_that_a_server_asks_for_is_kept() {
        let asked = busy(Some(Duration::from_secs(20)));
        let exact = pause(&options(0.0), &asked, 1, Duration::MAX);
        assert_eq!(exact, Some(Duration::from_secs(20)));
        let spread = pause(&options(1.0), &asked, 1, Duration::MAX);
        assert_eq!(spread, Some(Duration::from_millis(20_100)));
    }

    #[test]
    fn a_pause_longer_than_allowed_or_than_the_time_left_is_none() {
        let asked = busy(Some(Duration::from_secs(31)));
        assert_eq!(pause(&options(0.0), &asked, 1, Duration::MAX), None);
        let left = Duration::from_millis(50);
        assert_eq!(pause(&options(1.0), &busy(None), 1, left), None);
        assert_eq!(pause(&options(0.0), &busy(None), 1, left), None);
        let left = Duration::from_millis(51);
        assert!(pause(&options(0.0), &busy(None), 1, left).is_some());
    }

    #[test]
    fn what_lasts_is_not_tried_again() {
        let refused = LlmProblem::Refused {
            status: 401,
            message: "no".to_owned(),
        };
        assert_eq!(pause(&options(0.0), &refused, 1, Duration::MAX), None);
    }

    #[test]
    fn a_server_may_ask_in_seconds_milliseconds_or_with_a_date() {
        let seconds = Duration::from_secs;
        assert_eq!(asked(&[(RETRY_AFTER, "7")]), Some(seconds(7)));
        assert_eq!(asked(&[(RETRY_AFTER, " 1.5 ")]), Some(seconds(3) / 2));
        let both = asked(&[(RETRY_AFTER, "7"), (RETRY_AFTER_MS, "250")]);
        assert_eq!(both, Some(Duration::from_millis(250)));
        let date = (RETRY_AFTER, "Sun, 01 Mar 2026 12:00:09 GMT");
        assert_eq!(asked(std::slice::from_ref(&date)), Some(seconds(9)));
        let servers_clock = (DATE, "Sun, 01 Mar 2026 12:00:07 GMT");
        assert_eq!(asked(&[date, servers_clock]), Some(seconds(2)));
        let past = [(RETRY_AFTER, "Sun, 01 Mar 2026 11:00:00 GMT")];
        assert_eq!(asked(&past), Some(Duration::ZERO));
    }

    #[test]
    fn what_is_no_time_is_ignored() {
        assert_eq!(asked(&[]), None);
        for text in ["soon", "-3", "NaN", "inf", "", "1e300"] {
            assert_eq!(asked(&[(RETRY_AFTER, text)]), None, "{text}");
        }
    }
}
