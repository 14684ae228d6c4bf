//! Formats numbers readably: up to four significant digits, groups of three.

/// Formats a number as `12,345`, `0.4321` or `3.2e-5`.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        "0".into()
    } else if size >= 1e9 {
        format!("{value:.3e}")
    } else if value.fract() == 0.0 || size >= 1_000.0 {
        grouped(value)
    } else if size < 1e-4 {
        format!("{value:.1e}")
    } else {
        // 0.0123 keeps four significant digits: 0.0123; 123.456 becomes 123.5.
        let decimals = (3 - size.log10().floor() as i32).clamp(0, 8) as usize;
        trimmed(&format!("{value:.decimals$}"))
    }
}

/// Formats a share or a mean and its interval: `0.503`, `[0.447, 0.560]`.
pub fn interval(value: f64, low: f64, high: f64) -> (String, String) {
    if [value, low, high].iter().all(|x| x.abs() < 10.0) {
        (format!("{value:.3}"), format!("[{low:.3}, {high:.3}]"))
    } else {
        (number(value), format!("[{}, {}]", number(low), number(high)))
    }
}

/// Formats a tick label with just enough decimals for its step.
pub fn tick(value: f64, step: f64) -> String {
    let value = if value.abs() < step * 1e-9 { 0.0 } else { value };
    let size = value.abs();
    if value != 0.0 && (size >= 1e6 || step < 1e-5) {
        return trimmed_exponent(&format!("{value:.2e}"));
    }
    let decimals = (-step.log10().floor()).clamp(0.0, 8.0) as usize;
    if decimals == 0 { grouped(value) } else { format!("{value:.decimals$}") }
}

fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(c);
    }
    if value < 0.0 && digits != "0" { format!("-{out}") } else { out }
}

fn trimmed(text: &str) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text.to_string() }
}

fn trimmed_exponent(text: &str) -> String {
    text.split_once('e')
        .map_or_else(|| text.to_string(), |(mantissa, exponent)| format!("{}e{exponent}", trimmed(mantissa)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_by_hand() {
        let cases = [
            (0.0, "0"),
            (7.0, "7"),
            (-12_345.0, "-12,345"),
            (1_234.56, "1,235"),
            (0.432_19, "0.4322"),
            (123.456, "123.5"),
            (0.5, "0.5"),
            (0.012_345, "0.01235"),
            (3.21e-5, "3.2e-5"),
            (2.5e10, "2.500e10"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
        assert_eq!(interval(0.5, 0.444_4, 0.6), ("0.500".into(), "[0.444, 0.600]".into()));
    }

    #[test]
    fn ticks_show_their_step() {
        assert_eq!(
            (tick(0.25, 0.05), tick(1.0, 0.5), tick(1_500.0, 500.0), tick(-1e-17, 0.1), tick(2e6, 1e6)),
            ("0.25".into(), "1.0".into(), "1,500".into(), "0.0".into(), "2e6".into())
        );
    }
}
