//! Computes the delay before a request is sent again.

use jiff::fmt::rfc2822;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use std::time::Duration;
use trainyard_core::Chance;

/// Delay before the second attempt; each later delay doubles it.
const FIRST_DELAY: Duration = Duration::from_millis(500);
/// Maximum delay between later attempts.
const MAX_DELAY: Duration = Duration::from_secs(30);
/// Maximum delay that a service may request.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);

/// Returns the delay after `attempts` attempts. Half of it is random, so that requests that failed together are not
/// repeated together. If the service `requested` a delay, the result is at least that long.
pub fn retry_delay(attempts: u32, requested: Option<Duration>, chance: &Chance) -> Duration {
    let full = FIRST_DELAY.saturating_mul(1 << (attempts.saturating_sub(1)).min(16)).min(MAX_DELAY);
    let random = chance.at("retry", &[u64::from(attempts)]).uniform();
    let wait = full.mul_f64(0.5 + 0.5 * random);
    match requested {
        Some(requested) => requested + wait.mul_f64(0.1),
        None => wait,
    }
}

/// Returns the delay of the header `Retry-After`, in seconds or as a date relative to the response's `Date`. Returns
/// `None` if the header is absent or invalid.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let value = text(RETRY_AFTER)?;
    if let Ok(seconds) = value.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let at = |text: &str| rfc2822::parse(text).ok().map(|time| time.timestamp().as_second());
    let seconds = at(value)?.saturating_sub(at(text(DATE)?)?);
    Some(Duration::from_secs(seconds.try_into().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;

    #[test]
    fn delays_double_up_to_limit_and_respect_retry_after() {
        let chance = Chance::new(1);
        for attempts in 1..40 {
            let full = [500, 1_000, 2_000, 4_000, 8_000, 16_000].get(attempts as usize - 1).copied().unwrap_or(30_000);
            let delay = retry_delay(attempts, None, &chance).as_millis();
            assert!(delay >= full / 2 && delay <= full, "{attempts}: {delay}");
        }
        assert_ne!(retry_delay(1, None, &chance), retry_delay(1, None, &Chance::new(2)));
        let delay = retry_delay(1, Some(Duration::from_secs(7)), &chance).as_millis();
        assert!((7_000..=7_050).contains(&delay), "{delay}");
    }

    #[test]
    fn retry_after_is_seconds_or_date() {
        let delay = |pairs: &[(&'static str, &'static str)]| {
            let map = pairs.iter().map(|(k, v)| (k.parse().unwrap(), HeaderValue::from_static(v)));
            retry_after(&map.collect::<HeaderMap>()).map(|d| d.as_secs())
        };
        assert_eq!(delay(&[("retry-after", "12")]), Some(12));
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(delay(&[date, ("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")]), Some(30));
        assert_eq!(delay(&[date, ("retry-after", "Sun, 06 Nov 1994 08:49:07 GMT")]), Some(0), "it has passed");
        assert_eq!(
            delay(&[("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")]),
            None,
            "there is no `Date` to compare with"
        );
        assert_eq!(delay(&[("retry-after", "soon")]), None);
        assert_eq!(delay(&[]), None);
    }
}
