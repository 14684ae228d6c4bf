//! Splits texts into words and n-grams, and normalizes them. Duplicates and decontamination use these definitions of
//! "the same text".
//!
//! Words are maximal runs of letters and digits in lower case. Numbers are kept, because problems that differ in a
//! number differ. Words are not stemmed, and no stop words are removed.

use crate::hash::xxh64;

/// Returns the words joined by single spaces. Texts that differ only in case, punctuation and white space have equal
/// forms.
pub fn normal(text: &str) -> String {
    let words = Words::of(text);
    let mut form = String::with_capacity(text.len());
    for word in words.iter() {
        if !form.is_empty() {
            form.push(' ');
        }
        form.push_str(word);
    }
    form
}

/// Returns the hashes of all word n-grams of a text, in order, with repeats; empty if the text has fewer than `n`
/// words.
pub fn ngrams(text: &str, n: usize) -> Vec<u64> {
    if n == 0 { Vec::new() } else { Words::of(text).grams(n) }
}

/// Returns the sorted, distinct hashes of a text's n-grams. Unlike in [`ngrams`], a text with fewer than n words is one
/// gram, unless it is empty.
pub fn shingles(text: &str, n: usize) -> Vec<u64> {
    let words = Words::of(text);
    let mut grams = match words.ends.len() {
        0 => Vec::new(),
        count => words.grams(n.clamp(1, count)),
    };
    grams.sort_unstable();
    grams.dedup();
    grams
}

/// Returns each word as it is written, with the byte at which it starts.
pub fn word_places(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let separates = |c: char| !c.is_alphanumeric();
    let mut next = 0;
    text.split_inclusive(separates).filter_map(move |piece| {
        let start = next;
        next += piece.len();
        let word = piece.strip_suffix(separates).unwrap_or(piece);
        (!word.is_empty()).then_some((start, word))
    })
}

/// Returns the hash of a word in lower case.
pub fn word_hash(word: &str) -> u64 {
    const STACK: usize = 64;
    if word.len() > STACK || !word.is_ascii() {
        return xxh64(word.to_lowercase().as_bytes(), 0);
    }
    let mut lower = [0; STACK];
    let lower = &mut lower[..word.len()];
    lower.copy_from_slice(word.as_bytes());
    lower.make_ascii_lowercase();
    xxh64(lower, 0)
}

/// Returns at most this many characters of a text, with `…` if some are left out.
pub fn shortened(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

/// The lower-case words of a text, in one string.
struct Words {
    text: String,
    /// End of each word.
    ends: Vec<usize>,
}

impl Words {
    fn of(text: &str) -> Self {
        let mut words = Self { text: String::with_capacity(text.len()), ends: Vec::with_capacity(text.len() / 5) };
        for (_, word) in word_places(text) {
            if word.is_ascii() {
                words.text.extend(word.bytes().map(|byte| char::from(byte.to_ascii_lowercase())));
            } else {
                words.text.push_str(&word.to_lowercase());
            }
            words.ends.push(words.text.len());
        }
        words
    }
    fn get(&self, i: usize) -> &str {
        let start = i.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[i]]
    }
    fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.len()).map(|i| self.get(i))
    }
    /// Returns the hashes of the n-grams, in order; `n` is at least 1. The hash of one word seeds the next.
    fn grams(&self, n: usize) -> Vec<u64> {
        let gram = |start: usize| (start..start + n).fold(0, |seed, i| xxh64(self.get(i).as_bytes(), seed));
        (0..(self.ends.len() + 1).saturating_sub(n)).map(gram).collect()
    }
}

/// Returns the first characters of a text, with an ellipsis if the text is longer.
pub fn short(text: &str, characters: usize) -> String {
    let mut out: String = text.chars().take(characters).collect();
    if out.len() < text.len() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_numbers_and_lose_case() {
        let words = Words::of("Tom's 3 apples—cost $4.50 in ÀÉ!");
        assert_eq!(words.iter().collect::<Vec<_>>(), ["tom", "s", "3", "apples", "cost", "4", "50", "in", "àé"]);
        assert_eq!(normal("  A  b,C "), normal("a B c"));
    }

    #[test]
    fn words_have_places_and_hashes_without_case() {
        let places: Vec<_> = word_places("é, Tom's").collect();
        assert_eq!(places, [(0, "é"), (4, "Tom"), (8, "s")]);
        assert_eq!(word_places(" -- ").count(), 0);
        assert_eq!(word_hash("Tom"), xxh64(b"tom", 0));
        assert_eq!(word_hash("É"), word_hash("é"));
        let long = "W".repeat(65);
        assert_eq!(word_hash(&long), xxh64(long.to_lowercase().as_bytes(), 0));
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(["", "éà", "éàü", "éàüx"].map(|text| shortened(text, 2)), ["", "éà", "éà…", "éà…"]);
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
