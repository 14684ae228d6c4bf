//! Extracts the final answer from an agent's last message.
//!
//! The answer is the text between the last `####` and the end of its line (GSM8K, arXiv 2110.14168), else the last
//! `\boxed{…}`, else the whole message if it is one line of at most 64 bytes, else the last number in the message.

/// Returns the answer as trimmed text; `None` if the message contains no answer.
pub fn final_answer(message: &str) -> Option<String> {
    let message = message.trim();
    if message.is_empty() {
        return None;
    }
    if let Some(at) = message.rfind("####") {
        let line = message[at + 4..].lines().next().unwrap_or("").trim();
        return (!line.is_empty()).then(|| line.to_string());
    }
    if let Some(inside) = boxed(message) {
        return Some(inside.trim().to_string());
    }
    if !message.contains('\n') && message.len() <= 64 {
        return Some(message.to_string());
    }
    Some(last_number(message).unwrap_or(message).to_string())
}

/// Beginning of a marked answer in LaTeX.
pub(super) const BOXED: &str = "\\boxed{";

/// Returns the contents of the last `\boxed{…}` with balanced braces.
fn boxed(message: &str) -> Option<&str> {
    braced(&message[message.rfind(BOXED)? + BOXED.len()..])
}

/// Returns the beginning of a text, which follows an opening brace, up to the brace that closes it.
pub(super) fn braced(inside: &str) -> Option<&str> {
    let mut depth = 1;
    for (at, c) in inside.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&inside[..at]);
        }
    }
    None
}

/// Returns the last run of digits, with its sign, separators and point.
fn last_number(message: &str) -> Option<&str> {
    let end = message.rfind(|c: char| c.is_ascii_digit())? + 1;
    let head = &message[..end];
    let inner = |c: char| c.is_ascii_digit() || matches!(c, ',' | '.' | '/');
    let start =
        head.rfind(|c: char| !inner(c)).map_or(0, |at| at + head[at..].chars().next().map_or(1, char::len_utf8));
    let number = head[start..].trim_start_matches([',', '.', '/']);
    let start = end - number.len();
    let signed = start > 0
        && message.as_bytes()[start - 1] == b'-'
        && !message[..start - 1].ends_with(|c: char| c.is_alphanumeric());
    Some(&message[start - usize::from(signed)..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_found_in_messages() {
        for (message, answer) in [
            ("7", "7"),
            (" 7 \n", "7"),
            ("He sold 3.\n#### 1,234", "1,234"),
            ("#### 3\n#### 4\n", "4"),
            ("so \\boxed{\\frac{1}{2}} it is", "\\frac{1}{2}"),
            ("It costs 3 in all,\nthat is 12.50.", "12.50"),
            ("first\nthen -5 remain", "-5"),
            ("first\n10-5", "5"),
            ("the total\nis 1,250 dollars", "1,250"),
            ("no number\nat all", "no number\nat all"),
            ("x\né7", "7"),
        ] {
            assert_eq!(final_answer(message).as_deref(), Some(answer), "{message}");
        }
        assert_eq!(final_answer("  \n"), None);
        assert_eq!(final_answer("####"), None);
    }
}
