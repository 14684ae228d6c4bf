//! Lower-cases texts and collects their trigrams.

use std::borrow::Cow;
use std::ops::Range;

/// Returns a text in lower case: each character by its Unicode mapping, regardless of its neighbors, so that the lower
/// case of a part of a text is a part of the lower case of the text.
pub(super) fn fold(text: &str) -> Cow<'_, str> {
    let is_lower = |c: char| {
        let mut lower = c.to_lowercase();
        lower.next() == Some(c) && lower.next().is_none()
    };
    if text.chars().all(is_lower) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(if text.is_ascii() {
        text.to_ascii_lowercase()
    } else {
        text.chars().flat_map(char::to_lowercase).collect()
    })
}

/// Returns the range of a text whose lower case includes a range of the lower case of the text.
pub(super) fn unfold(text: &str, folded: Range<usize>) -> Range<usize> {
    let (mut at, mut start) = (0, None);
    for (place, c) in text.char_indices() {
        let end = at + c.to_lowercase().map(char::len_utf8).sum::<usize>();
        if start.is_none() && end > folded.start {
            start = Some(place);
        }
        if end >= folded.end {
            return start.unwrap_or(place)..place + c.len_utf8();
        }
        at = end;
    }
    start.unwrap_or(text.len())..text.len()
}

/// Returns the trigrams of a text in lower case.
pub(super) fn trigrams(folded: &str) -> impl Iterator<Item = u32> {
    folded.as_bytes().windows(3).map(|bytes| u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]))
}

/// Set of trigrams.
pub(super) struct TrigramSet {
    bits: Vec<u64>,
    members: Vec<u32>,
}

impl TrigramSet {
    pub fn new() -> Self {
        Self { bits: vec![0; (1 << 24) / 64], members: Vec::new() }
    }
    /// Adds the trigrams of a text in lower case.
    pub fn add(&mut self, folded: &str) {
        for trigram in trigrams(folded) {
            let (word, bit) = (&mut self.bits[trigram as usize / 64], 1u64 << (trigram % 64));
            if *word & bit == 0 {
                *word |= bit;
                self.members.push(trigram);
            }
        }
    }
    /// Removes and returns all members.
    pub fn drain(&mut self) -> impl Iterator<Item = u32> + '_ {
        self.members.iter().for_each(|trigram| self.bits[*trigram as usize / 64] = 0);
        self.members.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_case_is_by_character() {
        assert_eq!(fold("Answer ÄÖ ΑΣ ΟΔΟΣ"), "answer äö ας οδοσ".replace('ς', "σ"));
        assert!(matches!(fold("already lower 42"), Cow::Borrowed(_)));
        assert_eq!(fold("İ"), "i\u{307}");
    }

    #[test]
    fn ranges_are_those_of_the_text() {
        let text = "xİÄb";
        let folded = fold(text);
        assert_eq!(&text[unfold(text, folded.find('ä').unwrap()..folded.find('b').unwrap())], "Ä");
        assert_eq!(&text[unfold(text, 1..2)], "İ");
        assert_eq!(&text[unfold(text, 0..folded.len())], text);
        assert_eq!(unfold("", 0..0), 0..0);
    }

    #[test]
    fn sets_hold_each_trigram_once() {
        let mut set = TrigramSet::new();
        set.add("abcabc");
        set.add("ab");
        let number = |text: &str| trigrams(text).next().unwrap();
        assert_eq!(set.drain().collect::<Vec<_>>(), ["abc", "bca", "cab"].map(number));
        set.add("abc");
        assert_eq!(set.drain().collect::<Vec<_>>(), [0x61_6263]);
    }
}
