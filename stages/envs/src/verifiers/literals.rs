//! Finds the numbers in a sentence.

/// Returns the numbers of a text as written: with sign, currency, separators and decimal point.
///
/// Digits within a word (`CO2`) and ordinals (`3rd`) are no numbers. A number with an exponent or with more digits
/// attached (`10^3`, `3x4`) is returned with them, so that no part of it passes for a number.
pub fn literals(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let end = end_of_digits(bytes, at);
        let word_end = end + text[end..].find(|c: char| !is_attached(c)).unwrap_or(text.len() - end);
        let tail = &text[end..word_end];
        let start = start_with_point(text, at);
        if !text[..start].ends_with(is_attached) && !is_ordinal(tail) {
            let is_compound = tail.contains(|c: char| c.is_ascii_digit() || c == '^');
            found.push(&text[start_with_sign(text, start)..if is_compound { word_end } else { end }]);
        }
        at = word_end;
    }
    found
}

/// Whether a character next to digits makes them a part of a longer word.
fn is_attached(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '^')
}

fn is_ordinal(tail: &str) -> bool {
    ["st", "nd", "rd", "th"].iter().any(|ending| tail.eq_ignore_ascii_case(ending))
}

/// Returns the end of the digits and of the separators between them.
fn end_of_digits(bytes: &[u8], start: usize) -> usize {
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut end = start;
    while is_digit(end) || bytes.get(end).is_some_and(|c| b",./".contains(c)) && is_digit(end + 1) {
        end += 1;
    }
    end
}

/// Returns the position of a decimal point before the digits at `at` that no digit precedes (`.5`), else `at`.
fn start_with_point(text: &str, at: usize) -> usize {
    match text[..at].strip_suffix('.') {
        Some(before) if before.is_empty() || before.ends_with([' ', '-', '−', '$', '(']) => before.len(),
        _ => at,
    }
}

/// Returns the start of a number with its currency and its minus sign. A dash after a word or a number is no sign.
fn start_with_sign(text: &str, start: usize) -> usize {
    let before = text[..start].strip_suffix(['$', '€', '£']).unwrap_or(&text[..start]);
    match before.strip_suffix(['-', '−']) {
        Some(head) if !head.ends_with(|c: char| is_attached(c) || matches!(c, ')' | '.')) => head.len(),
        _ => before.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::literals;

    #[test]
    fn numbers_of_sentences_are_found_as_written() {
        for (text, numbers) in [
            ("It is 0 degrees in Bergen.", &["0"][..]),
            ("It is -5 or −7 degrees.", &["-5", "−7"]),
            ("It costs $1,234.50, not -$3.", &["$1,234.50", "-$3"]),
            ("3/4 of 25% is .5kg.", &["3/4", "25", ".5"]),
            ("CO2 and x_2 and the 3rd are none", &[]),
            ("10^3, 3x4 and 1.5e3", &["10^3", "3x4", "1.5e3"]),
            ("10-5 at 12:30", &["10", "5", "12", "30"]),
            ("é7 and 12,34", &["12,34"]),
            ("2,5.", &["2,5"]),
            ("", &[]),
        ] {
            assert_eq!(literals(text), numbers, "{text}");
        }
    }
}
