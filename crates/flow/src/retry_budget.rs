//! How long a tool server that cannot be reached is tried again: a few times, and never beyond the time of the call.

use std::time::Duration;

use tokio::time::Instant;

use crate::performer::PerformerOptions;

/// What is left of the attempts at one call, and of its time.
pub(crate) struct RetryBudget {
    attempts: u32,
    pause: Duration,
    until: Instant,
}

impl RetryBudget {
    /// Patience for so long.
    pub(crate) fn new(options: &PerformerOptions, time: Duration) -> Self {
        Self {
            attempts: options.attempts.saturating_sub(1),
            pause: options.pause,
            until: Instant::now() + time,
        }
    }

    /// When it is over.
    pub(crate) fn until(&self) -> Instant {
        self.until
    }

    /// The time that is left.
    pub(crate) fn time_left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// How long to wait before the next attempt, if there is to be one.
    pub(crate) fn next_pause(&mut self) -> Option<Duration> {
        let pause = self.pause;
        self.attempts = self.attempts.checked_sub(1)?;
        self.pause *= 2;
        (pause < self.time_left()).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry_budget(time: Duration) -> RetryBudget {
        let options = PerformerOptions {
            attempts: 3,
            pause: Duration::from_secs(1),
        };
        RetryBudget::new(&options, time)
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_with_the_attempts() {
        let mut retry_budget = retry_budget(Duration::from_mins(1));
        assert_eq!(retry_budget.next_pause(), Some(Duration::from_secs(1)));
        assert_eq!(retry_budget.next_pause(), Some(Duration::from_secs(2)));
        assert_eq!(retry_budget.next_pause(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_with_the_time() {
        let mut retry_budget = retry_budget(Duration::from_secs(2));
        assert_eq!(retry_budget.next_pause(), Some(Duration::from_secs(1)));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(retry_budget.next_pause(), None, "it would be over by then");
    }
}
