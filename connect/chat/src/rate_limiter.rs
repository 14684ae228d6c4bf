//! Enforces the limits of requests and tokens per minute by spacing requests.

use crate::options::ChatOptions;
use std::time::Duration;

const MINUTE: f64 = 60.0;

/// Time at which the next request may be sent, on a monotonic clock.
pub(crate) struct RateLimiter {
    /// Seconds between two requests.
    request: f64,
    /// Seconds for each token.
    token: f64,
    /// Seconds at which the next request is free.
    requests_free: f64,
    /// Seconds at which the rate limit has room for further tokens.
    tokens_free: f64,
}

impl RateLimiter {
    pub fn new(options: &ChatOptions) -> Self {
        let gap = |limit: Option<u32>| limit.map_or(0.0, |limit| MINUTE / f64::from(limit.max(1)));
        let (request, token) = (gap(options.requests_per_minute), gap(options.tokens_per_minute));
        Self { request, token, requests_free: 0.0, tokens_free: 0.0 }
    }
    /// Returns the time until a request may be sent; zero = now.
    pub fn wait(&self, now: Duration) -> Duration {
        let free = self.requests_free.max(self.tokens_free);
        Duration::try_from_secs_f64(free - now.as_secs_f64()).unwrap_or_default()
    }
    /// Records that a request was sent at `now` with its expected tokens.
    pub fn record_sent(&mut self, now: Duration, tokens: u64) {
        let now = now.as_secs_f64();
        self.requests_free = self.requests_free.max(now) + self.request;
        self.tokens_free = self.tokens_free.max(now) + self.token * tokens as f64;
    }
    /// Replaces the expected tokens of a request by the actual ones.
    pub fn correct_tokens(&mut self, expected: u64, tokens: u64) {
        self.tokens_free += self.token * (tokens as f64 - expected as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(requests: Option<u32>, tokens: Option<u32>) -> RateLimiter {
        let options = ChatOptions::new("http://h", "m");
        RateLimiter::new(&ChatOptions { requests_per_minute: requests, tokens_per_minute: tokens, ..options })
    }
    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn requests_are_spaced() {
        let mut pace = pace(Some(30), None);
        assert_eq!(pace.wait(at(5)), at(0));
        pace.record_sent(at(5), 1000);
        assert_eq!((pace.wait(at(5)), pace.wait(at(6)), pace.wait(at(7))), (at(2), at(1), at(0)));
        pace.record_sent(at(100), 1000);
        assert_eq!(pace.wait(at(100)), at(2), "unused time is not saved up");
    }

    #[test]
    fn token_rate_is_limited_and_estimates_are_corrected() {
        let mut pace = pace(None, Some(600));
        pace.record_sent(at(0), 100);
        assert_eq!(pace.wait(at(0)), at(10));
        pace.correct_tokens(100, 40);
        assert_eq!(pace.wait(at(0)), at(4));
    }

    #[test]
    fn no_request_waits_without_limits() {
        let mut pace = pace(None, None);
        pace.record_sent(at(0), 1 << 40);
        assert_eq!(pace.wait(at(0)), at(0));
    }
}
