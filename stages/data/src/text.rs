//! Splits texts into words and n-grams, and normalizes them. Duplicates and decontamination use these definitions of
//! "the same text".
//!
//! Words are maximal runs of letters and digits in lower case. Numbers are kept, because problems that differ in a
//! number differ. Words are not stemmed, and no stop words are removed.

use crate::hash::xxh64;

/// Returns the lower-case words of a text.
pub fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).map(str::to_lowercase).collect()
}

/// Returns the words joined by single spaces. Texts that differ only in case, punctuation and white space have equal
/// forms.
pub fn normal(text: &str) -> String {
    words(text).join(" ")
}

/// Returns the hashes of all word n-grams of a text, in order, with repeats; empty if the text has fewer than `n`
/// words.
pub fn ngrams(text: &str, n: usize) -> Vec<u64> {
    let words = words(text);
    if n == 0 { Vec::new() } else { words.windows(n).map(hash_words).collect() }
}

/// Returns the sorted, distinct hashes of a text's n-grams. Unlike in [`ngrams`], a text with fewer than n words is one
/// gram, unless it is empty.
pub fn shingles(text: &str, n: usize) -> Vec<u64> {
    let words = words(text);
    let mut grams: Vec<u64> = match words.len() {
        0 => Vec::new(),
        len if len <= n => vec![hash_words(&words)],
        _ => words.windows(n.max(1)).map(hash_words).collect(),
    };
    grams.sort_unstable();
    grams.dedup();
    grams
}

fn hash_words(words: &[String]) -> u64 {
    // The hash of one word seeds the next, so no joined string is needed.
    words.iter().fold(0, |seed, word| xxh64(word.as_bytes(), seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_numbers_and_lose_case() {
        assert_eq!(words("Tom's 3 apples—cost $4.50!"), ["tom", "s", "3", "apples", "cost", "4", "50"]);
        assert_eq!(normal("  A  b,C "), normal("a B c"));
    }

    #[test]
    fn ngrams_and_shingles() {
        assert_eq!(ngrams("a b c", 2).len(), 2);
        assert_eq!(ngrams("a b", 3), [] as [u64; 0]);
        assert_eq!(shingles("a b", 3).len(), 1);
        assert_eq!(shingles("", 3), [] as [u64; 0]);
        assert_eq!(shingles("a b a b a b", 2).len(), 2);
        assert_ne!(ngrams("ab c", 2), ngrams("a bc", 2));
    }
}
