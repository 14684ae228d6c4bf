//! Delays before a request is sent again.

use jiff::fmt::rfc2822;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use std::time::Duration;
use trainyard_core::Chance;

/// Delay before the second attempt; it doubles from there.
const FIRST_DELAY: Duration = Duration::from_millis(500);
/// Maximum delay between later attempts.
const MAX_DELAY: Duration = Duration::from_secs(30);
/// Maximum delay that a service may request.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);

/// Returns the delay after `tried` attempts: half of it fixed, half random, so that requests that failed together are
/// not repeated together. At least the delay that the service requested.
pub fn retry_delay(tried: u32, asked: Option<Duration>, chance: &Chance) -> Duration {
    let full = FIRST_DELAY.saturating_mul(1 << (tried.saturating_sub(1)).min(16)).min(MAX_DELAY);
    let drawn = chance.at("retry", &[u64::from(tried)]).uniform();
    let wait = full.mul_f64(0.5 + 0.5 * drawn);
    match asked {
        Some(asked) => asked + wait.mul_f64(0.1),
        None => wait,
    }
}

/// Returns the delay of the header `Retry-After`: seconds, or a date, relative to the response's own `Date`.
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
    fn waits_double_up_to_a_bound_and_honor_the_service() {
        let chance = Chance::new(1);
        for tried in 1..40 {
            let full = [500, 1_000, 2_000, 4_000, 8_000, 16_000].get(tried as usize - 1).copied().unwrap_or(30_000);
            let waited = retry_delay(tried, None, &chance).as_millis();
            assert!(waited >= full / 2 && waited <= full, "{tried}: {waited}");
        }
        assert_ne!(retry_delay(1, None, &chance), retry_delay(1, None, &Chance::new(2)));
        let waited = retry_delay(1, Some(Duration::from_secs(7)), &chance).as_millis();
        assert!((7_000..=7_050).contains(&waited), "{waited}");
    }

    #[test]
    fn the_header_is_seconds_or_a_date_after_the_answers_own() {
        let of = |pairs: &[(&'static str, &'static str)]| {
            let map = pairs.iter().map(|(k, v)| (k.parse().unwrap(), HeaderValue::from_static(v)));
            retry_after(&map.collect::<HeaderMap>()).map(|d| d.as_secs())
        };
        assert_eq!(of(&[("retry-after", "12")]), Some(12));
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(of(&[date, ("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")]), Some(30));
        assert_eq!(of(&[date, ("retry-after", "Sun, 06 Nov 1994 08:49:07 GMT")]), Some(0), "it has passed");
        assert_eq!(of(&[("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")]), None, "after what?");
        assert_eq!(of(&[("retry-after", "soon")]), None);
        assert_eq!(of(&[]), None);
    }
}
