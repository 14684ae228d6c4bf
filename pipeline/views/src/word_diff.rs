//! Compares two texts word by word.

use similar::{Algorithm, ChangeTag, utils::diff_words};

/// Part of the comparison of two texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WordPart {
    /// Text that both have.
    Both(String),
    /// Text of the first only.
    First(String),
    /// Text of the second only.
    Second(String),
}

/// Compares two texts. Neighboring words of the same kind are one part.
pub fn word_diff(first: &str, second: &str) -> Vec<WordPart> {
    let mut parts: Vec<WordPart> = Vec::new();
    for (tag, text) in diff_words(Algorithm::Myers, first, second) {
        match (tag, parts.last_mut()) {
            (ChangeTag::Equal, Some(WordPart::Both(part)))
            | (ChangeTag::Delete, Some(WordPart::First(part)))
            | (ChangeTag::Insert, Some(WordPart::Second(part))) => part.push_str(text),
            (ChangeTag::Equal, _) => parts.push(WordPart::Both(text.to_string())),
            (ChangeTag::Delete, _) => parts.push(WordPart::First(text.to_string())),
            (ChangeTag::Insert, _) => parts.push(WordPart::Second(text.to_string())),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::WordPart::{Both, First, Second};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn differing_words_are_parts() {
        let parts = word_diff("Ann has 3 red apples", "Ann has 4 apples");
        assert_eq!(parts.first(), Some(&Both("Ann has ".to_string())));
        assert!(parts.contains(&Second("4".to_string())), "{parts:?}");
        assert!(matches!(parts.last(), Some(Both(text)) if text.ends_with("apples")), "{parts:?}");
        assert_eq!(word_diff("", "x"), [Second("x".to_string())]);
        assert_eq!(word_diff("x", ""), [First("x".to_string())]);
    }

    proptest! {
        #[test]
        fn parts_join_to_the_texts(first in "[ab ]{0,40}", second in "[ab ]{0,40}") {
            let parts = word_diff(&first, &second);
            let of = |wanted: fn(&WordPart) -> Option<&str>| parts.iter().filter_map(wanted).collect::<String>();
            let left = of(|part| match part { Both(text) | First(text) => Some(text), Second(_) => None });
            let right = of(|part| match part { Both(text) | Second(text) => Some(text), First(_) => None });
            prop_assert_eq!((left, right), (first, second));
        }
    }
}
