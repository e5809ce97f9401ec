//! How many requests a user may make.

use std::num::NonZeroU32;

use convoke_model::UserId;
use governor::clock::{Clock, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use http::StatusCode;

use crate::config::ServerLimits;
use crate::problem::Problem;

/// Users that are remembered before those who asked for nothing of late are forgotten.
const REMEMBERED_USERS: usize = 10_000;

/// Counts requests by user.
pub(crate) struct RequestRate {
    limiter: RateLimiter<UserId, HashMapStateStore<UserId>, DefaultClock>,
    clock: DefaultClock,
}

impl RequestRate {
    pub(crate) fn new(limits: &ServerLimits) -> Self {
        let at_least_one = |number| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::per_minute(at_least_one(limits.requests_per_minute))
            .allow_burst(at_least_one(limits.request_burst));
        let clock = DefaultClock::default();
        Self {
            limiter: RateLimiter::hashmap_with_clock(quota, clock.clone()),
            clock,
        }
    }

    /// Counts a request, or refuses it and says when to come back.
    pub(crate) fn check(&self, user: UserId) -> Result<(), Problem> {
        if self.limiter.len() > REMEMBERED_USERS {
            self.limiter.retain_recent();
        }
        self.limiter.check_key(&user).map_err(|until| {
            let pause = until.wait_time_from(self.clock.now());
            let detail = "this user makes too many requests; ask again later";
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "request.rate", detail).retry_after(pause)
        })
    }
}

impl std::fmt::Debug for RequestRate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RequestRate")
    }
}
