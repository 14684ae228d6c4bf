//! Parses and formats durations, sizes and times: `90s`, `1h30m`, `5s..2m`; `40GiB`, `512MB`, `1024`.
//!
//! A bare number is not a duration, since it could mean seconds or milliseconds.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Reads a duration: numbers with `ms`, `s`, `m`, `h` or `d`, added up.
///
/// Errors: a message that lists the units.
///
/// ```
/// use std::time::Duration;
/// use trainyard_core::units::parse_duration;
///
/// assert_eq!(parse_duration("1h30m"), Ok(Duration::from_secs(5_400)));
/// assert!(parse_duration("90").is_err(), "a bare number has no unit");
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let fail = || format!("`{text}` is not a duration: write a number with ms, s, m, h or d, as in `90s` or `1h30m`");
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(fail());
    }
    let mut total = 0.0f64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(fail)?;
        let number: f64 = rest[..digits].parse().map_err(|_| fail())?;
        let letters = rest[digits..].find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len() - digits);
        let seconds = match &rest[digits..digits + letters] {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            _ => return Err(fail()),
        };
        total += number * seconds;
        rest = &rest[digits + letters..];
    }
    Duration::try_from_secs_f64(total).map_err(|_| fail())
}

/// Reads a size in bytes: `40GiB` counts in powers of 1024, `40GB` in powers of 1000, a bare number in bytes.
///
/// Errors: a message that lists the units.
///
/// ```
/// use trainyard_core::units::{format_size, parse_size};
///
/// assert_eq!(parse_size("1.5 kB"), Ok(1_500));
/// assert_eq!(parse_size("40GiB").map(format_size), Ok("40.0 GiB".to_string()));
/// ```
pub fn parse_size(text: &str) -> Result<u64, String> {
    let fail = || {
        format!("`{text}` is not a size: write a number with B, kB, MB, GB, TB, KiB, MiB, GiB or TiB, as in `40GiB`")
    };
    let text_ = text.trim();
    let digits = text_.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text_.len());
    let number: f64 = text_[..digits].parse().map_err(|_| fail())?;
    let unit: f64 = match text_[digits..].trim() {
        "" | "B" => 1.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        "KiB" => 1024.0,
        "MiB" => 1024.0f64.powi(2),
        "GiB" => 1024.0f64.powi(3),
        "TiB" => 1024.0f64.powi(4),
        _ => return Err(fail()),
    };
    let bytes = number * unit;
    if bytes < u64::MAX as f64 { Ok(bytes.round() as u64) } else { Err(fail()) }
}

/// Formats bytes with a binary unit and one digit: `1.5 GiB`, `12 B`.
pub fn format_size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{value} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// Formats a duration with at most two units: `1h02m`, `3m05s`, `12.3s`, `450ms`.
pub fn format_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 if duration.as_millis() < 1_000 => format!("{}ms", duration.as_millis()),
        0..60 => format!("{:.1}s", duration.as_secs_f64()),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
    }
}

/// Prints a time as RFC 3339 in UTC with milliseconds: `2026-11-21T04:15:30.042Z`.
///
/// `unix_millis` counts milliseconds since 1970-01-01 UTC.
///
/// ```
/// assert_eq!(trainyard_core::units::format_time(1_795_234_530_042), "2026-11-21T04:15:30.042Z");
/// ```
pub fn format_time(unix_millis: i64) -> String {
    format!("{:.3}", timestamp(unix_millis))
}

/// Converts milliseconds since 1970-01-01 UTC. Times outside the years -9999 to 9999 become the nearest bound.
pub fn timestamp(unix_millis: i64) -> Timestamp {
    let bound = if unix_millis < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_millisecond(unix_millis).unwrap_or(bound)
}

/// Exponential backoff between attempts: `5s..2m` starts at 5 s and doubles up to 2 min; `10s` is constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    /// Wait before the first retry.
    pub first: Duration,
    /// Maximum wait.
    pub most: Duration,
}

impl Backoff {
    /// Parses `FIRST_DELAY..MOST` or one duration. Errors: a message that describes the form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (first, most) = text.split_once("..").unwrap_or((text, text));
        let backoff = Self { first: parse_duration(first)?, most: parse_duration(most)? };
        if backoff.first > backoff.most {
            return Err(format!("`{text}` ends before it starts: write the shorter wait first, as in `5s..2m`"));
        }
        Ok(backoff)
    }
    /// Returns the wait before attempt `next` (2 = the first retry).
    pub fn wait(&self, next: u32) -> Duration {
        let doublings = next.saturating_sub(2).min(30);
        self.first.saturating_mul(1 << doublings).min(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(parse_duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("1h30m"), Ok(Duration::from_secs(5_400)));
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        for bad in ["", "5", "s", "5 s", "-5s", "5x", "1h30"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("40GiB"), Ok(40 << 30));
        assert_eq!(parse_size("1.5 kB"), Ok(1_500));
        assert_eq!(parse_size("77"), Ok(77));
        for bad in ["", "GiB", "-1", "5 GIB", "1e999"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_before_1970_are_whole_milliseconds_too() {
        assert_eq!(format_time(-1), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn backoff_doubles_up_to_its_limit() {
        let b = Backoff::parse("5s..2m").unwrap();
        let waits: Vec<u64> = (2..9).map(|n| b.wait(n).as_secs()).collect();
        assert_eq!(waits, [5, 10, 20, 40, 80, 120, 120]);
        assert!(Backoff::parse("2m..5s").is_err());
    }
}
