//! Extracts an answer in words from an agent's last message.

use crate::verifiers::final_answer;

/// Returns the answer marked by `####` or `\boxed{}`, otherwise the last non-blank line.
pub fn marked_or_last_line(text: &str) -> Option<String> {
    if text.contains("####") || text.contains("\\boxed{") {
        return final_answer(text);
    }
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(line.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_marked_or_the_last_line() {
        for (text, answer) in [
            ("Tarvo", "Tarvo"),
            ("The founder is from the south.\n Tarvo \n", "Tarvo"),
            ("so\n#### Tarvo\nthat is it", "Tarvo"),
            ("it is \\boxed{Tarvo}.", "Tarvo"),
        ] {
            assert_eq!(marked_or_last_line(text).as_deref(), Some(answer), "{text}");
        }
        assert_eq!(marked_or_last_line(" \n"), None);
        assert_eq!(marked_or_last_line("####"), None);
    }
}
