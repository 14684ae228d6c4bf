//! Parses lists of seeds on the command line: `41..45` (inclusive), `41,43`, or both.

use std::collections::BTreeSet;
use trainyard_core::{Error, Result};

/// Maximum number of seeds of one command.
const MAX_SEEDS: usize = 1_000;

/// Parses a list of seeds. Errors: invalid, with the entry that is not a number, is an empty range, or repeats a seed.
pub fn parse(text: &str) -> Result<Vec<u64>> {
    let mut seeds = Vec::new();
    for entry in text.split(',').map(str::trim) {
        let wrong = || Error::invalid(format!("`{entry}` names no seeds")).help("write `41..45`, or `41,43`");
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
        let (first, last) = match entry.split_once("..") {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(entry)?, number(entry)?),
        };
        if first > last {
            return Err(wrong());
        }
        if last - first >= MAX_SEEDS as u64 {
            return Err(Error::invalid(format!("`{entry}` names more than {MAX_SEEDS} seeds"))
                .help("split the range over several commands"));
        }
        seeds.extend(first..=last);
    }
    let mut seen = BTreeSet::new();
    match seeds.iter().find(|seed| !seen.insert(**seed)) {
        Some(duplicate) => Err(Error::invalid(format!("seed {duplicate} repeats in `{text}`"))
            .help("a seed that counts twice makes intervals too narrow: name each once")),
        None => Ok(seeds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_include_both_ends_and_lists_add_up() {
        assert_eq!(parse("41..45").unwrap(), [41, 42, 43, 44, 45]);
        assert_eq!(parse("7").unwrap(), [7]);
        assert_eq!(parse("1..2, 9").unwrap(), [1, 2, 9]);
    }

    #[test]
    fn invalid_lists_are_rejected() {
        for text in ["", "x", "5..", "5..3", "1..x", "-1"] {
            assert!(parse(text).unwrap_err().message.contains("names no seeds"), "{text}");
        }
        assert!(parse("41..43,42").unwrap_err().message.contains("seed 42 repeats"));
        assert!(parse("0..99999999").unwrap_err().message.contains("more than 1000 seeds"));
    }
}
