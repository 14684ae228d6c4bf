//! Words, normal forms and n-grams of text: what "the same text" means for duplicates and decontamination.
//!
//! Words are maximal runs of letters and digits, lower-case; numbers stay as they are, because two problems that differ in a
//! number differ. Refuses: language-specific stemming or stop words.

use crate::hash::xxh64;

/// The lower-case words of a text.
pub fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).map(str::to_lowercase).collect()
}

/// A text's words joined by one space: equal exactly if the texts differ in case, punctuation and white space only.
pub fn normal(text: &str) -> String {
    words(text).join(" ")
}

/// Hashes of all n-grams of a text's words, in order, repeats included; a shorter text has none.
pub fn ngrams(text: &str, n: usize) -> Vec<u64> {
    let words = words(text);
    if n == 0 { Vec::new() } else { words.windows(n).map(hash_words).collect() }
}

/// Like [`ngrams`], but a text shorter than n words is one gram (unless empty): no text is without a trace.
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
    // The hash of one word seeds the next: no joined string is made.
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
