//! How long to wait before a server is tried again.

use std::time::Duration;

use crate::options::Options;

/// The pause after this many failures in a row: doubled each time, never above the longest, and
/// spread between half of it and the whole.
pub(crate) fn pause(options: &Options, failures: u32) -> Duration {
    if failures == 0 {
        return Duration::ZERO;
    }
    let doublings = (failures - 1).min(31);
    let whole = options
        .backoff_first
        .saturating_mul(1 << doublings)
        .min(options.backoff_longest);
    whole.mul_f64(0.5 + options.jitter.next() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoke_model::Jitter;

    fn options(jitter: f64) -> Options {
        Options {
            backoff_first: Duration::from_millis(100),
            backoff_longest: Duration::from_secs(1),
            jitter: Jitter::new(move || jitter),
            ..Options::default()
        }
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let pauses: Vec<u128> = (0..7)
            .map(|failures| pause(&options(1.0), failures).as_millis())
            .collect();
        assert_eq!(pauses, [0, 100, 200, 400, 800, 1000, 1000]);
    }

    #[test]
    fn the_spread_is_half_of_the_pause() {
        assert_eq!(pause(&options(0.0), 3), Duration::from_millis(200));
        assert_eq!(pause(&options(7.0), 3), Duration::from_millis(400));
        assert!(pause(&options(0.5), u32::MAX) <= Duration::from_secs(1));
    }
}
