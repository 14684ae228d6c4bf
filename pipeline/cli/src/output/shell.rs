//! Writes words of commands that a shell reads.

/// Quotes a word with characters that a shell interprets.
pub fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-_.:@=,".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_string(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_if_a_shell_would_change_them() {
        assert_eq!(word("latest/rl/trajectories"), "latest/rl/trajectories");
        assert_eq!(word("rl[seed=1]"), "'rl[seed=1]'");
        assert_eq!(word("it's"), r"'it'\''s'");
        assert_eq!(word(""), "''");
    }
}
