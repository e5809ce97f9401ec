//! Retries of an unreachable tool server: limited in number, and by the time of the call.

use std::time::Duration;

use tokio::time::Instant;

use crate::performer::PerformerOptions;

/// Remaining attempts and time of one call.
pub(crate) struct RetryBudget {
    attempts: u32,
    pause: Duration,
    until: Instant,
    /// How long the server is tried after the first failure.
    reach: Duration,
    /// When it is tried no more. Set by the first failure.
    reach_until: Option<Instant>,
}

impl RetryBudget {
    /// A budget that ends after `time`, and `reach` after the first failure.
    pub(crate) fn new(options: &PerformerOptions, time: Duration, reach: Duration) -> Self {
        Self {
            attempts: options.attempts.saturating_sub(1),
            pause: options.pause,
            until: Instant::now() + time,
            reach,
            reach_until: None,
        }
    }

    /// Its deadline for reaching the server.
    pub(crate) fn until(&self) -> Instant {
        self.reach_until
            .map_or(self.until, |reach| reach.min(self.until))
    }

    /// The time that is left for the call itself.
    pub(crate) fn time_left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// The pause before the next attempt. `None` if no attempt or time is left.
    pub(crate) fn next_pause(&mut self) -> Option<Duration> {
        let now = Instant::now();
        self.reach_until.get_or_insert(now + self.reach);
        let pause = self.pause;
        self.attempts = self.attempts.checked_sub(1)?;
        self.pause *= 2;
        (now + pause < self.until()).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    fn retry_budget(time: Duration, reach: Duration) -> RetryBudget {
        let options = PerformerOptions {
            attempts: 3,
            pause: Duration::from_secs(1),
        };
        RetryBudget::new(&options, time, reach)
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_with_the_attempts() {
        let mut retry_budget = retry_budget(LONG, LONG);
        assert_eq!(retry_budget.next_pause(), Some(Duration::from_secs(1)));
        assert_eq!(retry_budget.next_pause(), Some(Duration::from_secs(2)));
        assert_eq!(retry_budget.next_pause(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_with_the_time() {
        let mut retry_budget = retry_budget(Duration::from_secs(2), LONG);
        assert_eq!(retry_budget.next_pause(), Some(Duration::from_secs(1)));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(retry_budget.next_pause(), None, "it would be over by then");
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_some_time_after_the_first_failure_however_long_that_took() {
        let mut retry_budget = retry_budget(LONG, Duration::from_secs(2));
        tokio::time::advance(Duration::from_secs(20)).await;
        assert_eq!(retry_budget.next_pause(), Some(Duration::from_secs(1)));
        assert_eq!(retry_budget.time_left(), Duration::from_secs(40));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(retry_budget.next_pause(), None, "it would be over by then");
    }
}
