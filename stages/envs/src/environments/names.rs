//! Invents names from consonant-vowel syllables, which pretrained models do not know.
//!
//! Names are unique and never equal a word of the sentences about their bearers, because a search for a name must find
//! its bearer.

use std::collections::BTreeSet;
use trainyard_core::chance::PhiloxRng;

const ONSETS: [&str; 14] = ["b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z"];
const VOWELS: [&str; 5] = ["a", "e", "i", "o", "u"];
const CODAS: [&str; 5] = ["", "", "n", "r", "l"];

/// Maximum count of names with two syllables, of which 19,600 exist.
const SHORT: usize = 2_000;

/// Returns `count` different capitalized names (at most 100,000), none of which equals one of the lower-case `words`.
pub(crate) fn names(count: usize, words: &[&str], draws: &mut PhiloxRng) -> Vec<String> {
    let syllables = if count <= SHORT { 2 } else { 3 };
    let (mut names, mut taken) = (Vec::with_capacity(count), BTreeSet::new());
    while names.len() < count {
        let mut name: String =
            (0..syllables).map(|_| [*draws.choose(&ONSETS), *draws.choose(&VOWELS)].concat()).collect();
        name.push_str(draws.choose::<&str>(&CODAS));
        if !words.contains(&name.as_str()) && taken.insert(name.clone()) {
            names.push(capitalized(&name));
        }
    }
    names
}

/// Returns the name with its first letter in upper case.
pub(crate) fn capitalized(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::Chance;

    #[test]
    fn names_are_unique_repeatable_and_avoid_words() {
        let draw = |count: usize, words: &[&str]| names(count, words, &mut Chance::new(3).at("names", &[]));
        let some = draw(2_000, &[]);
        assert_eq!(some.iter().collect::<BTreeSet<_>>().len(), 2_000);
        assert!(some.iter().all(|n| (4..=5).contains(&n.len()) && n.starts_with(|c: char| c.is_ascii_uppercase())));
        assert_eq!(draw(2_000, &[]), some);
        assert_eq!(draw(2_001, &[])[0].len() / 2, 3);
        let word = some[0].to_lowercase();
        let others = draw(2_000, &[word.as_str()]);
        assert!(!others.contains(&some[0]) && others[0] == some[1]);
    }
}
