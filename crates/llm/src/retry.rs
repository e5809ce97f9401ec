//! Whether and when a model is asked again.

use std::time::Duration;

use convoke_model::Clock;
use http::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};
use jiff::Timestamp;

use crate::error::LlmProblem;
use crate::options::Options;

/// The more precise header of OpenAI and Azure.
const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// The pause before the next attempt after this many consecutive failures, or `None` if there is none:
/// the failure is permanent, or attempts or time are used up.
pub(crate) fn next_pause(
    options: &Options,
    problem: &LlmProblem,
    failures: u32,
    left: Duration,
) -> Option<Duration> {
    if !problem.is_transient() || failures >= options.max_attempts {
        return None;
    }
    let pause = match problem.retry_after() {
        Some(requested) if requested > options.retry_after_longest => return None,
        // All clients get the same time, so jitter is added.
        Some(requested) => requested + options.backoff_first.mul_f64(options.jitter.next()),
        None => options
            .jitter
            .backoff(options.backoff_first, options.backoff_longest, failures),
    };
    (pause < left).then_some(pause)
}

/// When a server asks to retry: in milliseconds, in seconds, or at a date. A date is compared with the
/// server's `Date` header, because clocks differ.
pub(crate) fn retry_after(headers: &HeaderMap, clock: &dyn Clock) -> Option<Duration> {
    let text = |name| headers.get(name)?.to_str().ok().map(str::trim);
    let seconds = |text: &str, unit: f64| {
        let number: f64 = text.parse().ok()?;
        Duration::try_from_secs_f64(number * unit).ok()
    };
    if let Some(requested) = text(RETRY_AFTER_MS).and_then(|text| seconds(text, 0.001)) {
        return Some(requested);
    }
    let requested = text(RETRY_AFTER)?;
    seconds(requested, 1.0).or_else(|| {
        let date = http_date(requested)?;
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

    fn requested(headers: &[(HeaderName, &'static str)]) -> Option<Duration> {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::from_static(value)))
            .collect();
        retry_after(&headers, &Noon)
    }

    #[test]
    fn pauses_double_up_to_the_limit_and_then_end() {
        let pauses: Vec<Option<u128>> = (1..=8)
            .map(|failures| next_pause(&options(1.0), &busy(None), failures, Duration::MAX))
            .map(|next_pause| next_pause.map(|next_pause| next_pause.as_millis()))
            .collect();
        let expected = [100, 200, 400, 800, 1000, 1000, 1000].map(Some);
        assert_eq!(pauses[..7], expected);
        assert_eq!(pauses[7], None);
    }

    #[test]
    fn jitter_is_half_of_the_pause() {
        let least = next_pause(&options(0.0), &busy(None), 3, Duration::MAX);
        assert_eq!(least, Some(Duration::from_millis(200)));
        let most = next_pause(&options(7.0), &busy(None), 3, Duration::MAX);
        assert_eq!(most, Some(Duration::from_millis(400)));
    }

    #[test]
    fn the_pause_requested_by_a_server_is_used() {
        let requested = busy(Some(Duration::from_secs(20)));
        let exact = next_pause(&options(0.0), &requested, 1, Duration::MAX);
        assert_eq!(exact, Some(Duration::from_secs(20)));
        let spread = next_pause(&options(1.0), &requested, 1, Duration::MAX);
        assert_eq!(spread, Some(Duration::from_millis(20_100)));
    }

    #[test]
    fn a_pause_beyond_the_limit_or_the_deadline_is_none() {
        let requested = busy(Some(Duration::from_secs(31)));
        assert_eq!(
            next_pause(&options(0.0), &requested, 1, Duration::MAX),
            None
        );
        let left = Duration::from_millis(50);
        assert_eq!(next_pause(&options(1.0), &busy(None), 1, left), None);
        assert_eq!(next_pause(&options(0.0), &busy(None), 1, left), None);
        let left = Duration::from_millis(51);
        assert!(next_pause(&options(0.0), &busy(None), 1, left).is_some());
    }

    #[test]
    fn permanent_failures_are_not_retried() {
        let refused = LlmProblem::Refused {
            status: 401,
            message: "no".to_owned(),
        };
        assert_eq!(next_pause(&options(0.0), &refused, 1, Duration::MAX), None);
    }

    #[test]
    fn a_server_may_name_seconds_milliseconds_or_a_date() {
        let seconds = Duration::from_secs;
        assert_eq!(requested(&[(RETRY_AFTER, "7")]), Some(seconds(7)));
        assert_eq!(requested(&[(RETRY_AFTER, " 1.5 ")]), Some(seconds(3) / 2));
        let both = requested(&[(RETRY_AFTER, "7"), (RETRY_AFTER_MS, "250")]);
        assert_eq!(both, Some(Duration::from_millis(250)));
        let date = (RETRY_AFTER, "Sun, 01 Mar 2026 12:00:09 GMT");
        assert_eq!(requested(std::slice::from_ref(&date)), Some(seconds(9)));
        let servers_clock = (DATE, "Sun, 01 Mar 2026 12:00:07 GMT");
        assert_eq!(requested(&[date, servers_clock]), Some(seconds(2)));
        let past = [(RETRY_AFTER, "Sun, 01 Mar 2026 11:00:00 GMT")];
        assert_eq!(requested(&past), Some(Duration::ZERO));
    }

    #[test]
    fn invalid_times_are_ignored() {
        assert_eq!(requested(&[]), None);
        for text in ["soon", "-3", "NaN", "inf", "", "1e300"] {
            assert_eq!(requested(&[(RETRY_AFTER, text)]), None, "{text}");
        }
    }
}
