//! Counts words, characters and symbols of a text.

use memchr::{memchr_iter, memmem};

/// Stop words of Gopher's filter, by which English text is recognized.
const STOP_WORDS: [&str; 8] = ["the", "be", "to", "of", "and", "that", "have", "with"];

/// Words, characters and symbols of a text. Words are what white space separates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SymbolCounts {
    /// All characters.
    pub characters: usize,
    pub words: usize,
    /// Characters of words.
    pub word_characters: usize,
    /// Words with a letter.
    pub alphabetic_words: usize,
    /// Different stop words.
    pub stop_words: u32,
    /// Symbols `#`.
    pub hashes: usize,
    /// Runs of three dots, and characters `…`.
    pub ellipses: usize,
}

impl SymbolCounts {
    /// Counts in one text.
    pub fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let ellipses = |symbol: &str| memmem::find_iter(bytes, symbol).count();
        let mut counts = Self {
            characters: text.chars().count(),
            hashes: memchr_iter(b'#', bytes).count(),
            ellipses: ellipses("...") + ellipses("…"),
            ..Self::default()
        };
        let mut found = 0u32;
        for word in text.split_whitespace() {
            counts.words += 1;
            counts.word_characters += if word.is_ascii() { word.len() } else { word.chars().count() };
            counts.alphabetic_words += usize::from(word.chars().any(char::is_alphabetic));
            found |= stop_word(word);
        }
        counts.stop_words = found.count_ones();
        counts
    }
}

/// Returns the bit of a stop word, 0 for other words.
fn stop_word(word: &str) -> u32 {
    let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
    if !(2..=4).contains(&bare.len()) {
        return 0;
    }
    STOP_WORDS.iter().position(|stop| stop.eq_ignore_ascii_case(bare)).map_or(0, |bit| 1 << bit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_hand() {
        assert_eq!(SymbolCounts::of(""), SymbolCounts::default());
        let counts = SymbolCounts::of("# The café, \"THE\" bar…\n\tto 3 + 4.... #1");
        let expected = SymbolCounts {
            characters: 39,
            words: 10,
            word_characters: 29,
            alphabetic_words: 5,
            stop_words: 2,
            hashes: 2,
            ellipses: 2,
        };
        assert_eq!(counts, expected);
    }
}
