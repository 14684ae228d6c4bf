//! Finds what a text repeats: lines, paragraphs and word n-grams. All buffers are reused from text to text.

use crate::hash::{mix, xxh64};
use crate::text::{word_hash, word_places};

/// Class of a word that occurs once.
const ONCE: u32 = u32::MAX;

/// Repeated parts of a text: lines or paragraphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartRepeats {
    /// Number of parts.
    pub parts: usize,
    /// Parts that equal an earlier one.
    pub repeated: usize,
    /// Characters of these.
    pub characters: usize,
}

/// An n-gram of the text.
#[derive(Debug, Clone, Copy)]
struct Gram {
    /// Number of its first word.
    start: u32,
    /// Start of the first equal n-gram.
    class: u32,
}

/// The words of a text, and its n-grams of one length that occur more than once.
#[derive(Default)]
pub struct Repeats {
    first: FirstPositions,
    /// First character of each word, and the one after its last.
    words: Vec<(usize, usize)>,
    hashes: Vec<u64>,
    /// First position of each word's equal, or [`ONCE`].
    classes: Vec<u32>,
    /// Occurrences of the n-grams, by class.
    counts: Vec<u32>,
    length: usize,
    /// In the order of the text.
    grams: Vec<Gram>,
}

impl Repeats {
    /// Counts the lines or paragraphs that equal an earlier one; `most` bounds their number.
    pub fn of_parts<'a>(&mut self, parts: impl Iterator<Item = &'a str>, most: usize) -> PartRepeats {
        self.first.clear(most);
        let mut repeats = PartRepeats::default();
        for part in parts {
            let position = repeats.parts as u32;
            repeats.parts += 1;
            if self.first.of(xxh64(part.as_bytes(), 0), position) != position {
                repeats.repeated += 1;
                repeats.characters += part.chars().count();
            }
        }
        repeats
    }

    /// Splits a text into words, which are its n-grams of length 1.
    pub fn start(&mut self, text: &str) {
        self.split(text);
        self.first.clear(self.hashes.len());
        self.classes.clear();
        self.counts.clear();
        self.counts.resize(self.hashes.len(), 0);
        for (position, hash) in (0..).zip(&self.hashes) {
            let class = self.first.of(*hash, position);
            self.counts[class as usize] += 1;
            self.classes.push(class);
        }
        self.length = 1;
        self.grams.clear();
        for (start, class) in (0..).zip(&mut self.classes) {
            if self.counts[*class as usize] > 1 {
                self.grams.push(Gram { start, class: *class });
            } else {
                *class = ONCE;
            }
        }
    }

    fn split(&mut self, text: &str) {
        self.words.clear();
        self.hashes.clear();
        let ascii = text.is_ascii();
        let (mut byte, mut character) = (0, 0);
        let mut characters = |to: usize| {
            character += if ascii { to - byte } else { text[byte..to].chars().count() };
            byte = to;
            character
        };
        for (start, word) in word_places(text) {
            self.words.push((characters(start), characters(start + word.len())));
            self.hashes.push(word_hash(word));
        }
    }

    /// Replaces the n-grams by those of one word more. One occurs twice only if the shorter one that it begins with
    /// does, and the word that it ends with; two are equal if these are.
    pub fn lengthen(&mut self) {
        self.first.clear(self.grams.len());
        for gram in &self.grams {
            self.counts[gram.start as usize] = 0;
        }
        let (classes, counts, first, added) = (&self.classes, &mut self.counts, &mut self.first, self.length);
        self.grams.retain_mut(|gram| match classes.get(gram.start as usize + added) {
            None | Some(&ONCE) => false,
            Some(last) => {
                gram.class = first.of(u64::from(gram.class) << 32 | u64::from(*last), gram.start);
                counts[gram.class as usize] += 1;
                true
            }
        });
        self.grams.retain(|gram| counts[gram.class as usize] > 1);
        self.length += 1;
    }

    /// Whether no n-gram of this length, and so no longer one, occurs more than once.
    pub fn is_empty(&self) -> bool {
        self.grams.is_empty()
    }

    /// Returns the characters of all occurrences of the most frequent n-gram; of equally frequent ones, the first in
    /// the text.
    pub fn top(&self) -> usize {
        let count = |gram: &Gram| self.counts[gram.class as usize];
        let Some(most) = self.grams.iter().map(count).max() else { return 0 };
        let top = self.grams.iter().find(|gram| count(gram) == most).map_or(ONCE, |gram| gram.class);
        self.characters(self.grams.iter().filter(|gram| gram.class == top))
    }

    /// Returns the characters of all n-grams that equal an earlier one.
    pub fn duplicates(&self) -> usize {
        self.characters(self.grams.iter().filter(|gram| gram.class != gram.start))
    }

    /// Counts the characters of n-grams from the first to the last word, each character once.
    fn characters<'a>(&self, grams: impl Iterator<Item = &'a Gram>) -> usize {
        let (mut sum, mut counted) = (0, 0);
        for gram in grams {
            let start = gram.start as usize;
            let (from, to) = (self.words[start].0, self.words[start + self.length - 1].1);
            sum += to - from.max(counted);
            counted = to;
        }
        sum
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    key: u64,
    round: u32,
    position: u32,
}

/// The first position of each key, in a table with open addressing. A slot of an earlier round is free.
#[derive(Default)]
struct FirstPositions {
    slots: Vec<Slot>,
    round: u32,
    /// Size of the part in use, a power of two, less one.
    mask: usize,
}

impl FirstPositions {
    /// Forgets all keys, and makes room for `keys` of them.
    fn clear(&mut self, keys: usize) {
        let size = (2 * keys + 1).next_power_of_two();
        if size > self.slots.len() || self.round == u32::MAX {
            self.slots = vec![Slot::default(); size.max(self.slots.len())];
            self.round = 0;
        }
        self.round += 1;
        self.mask = size - 1;
    }

    /// Returns the position that came first with this key: `position` itself if the key is new.
    fn of(&mut self, key: u64, position: u32) -> u32 {
        let mut i = mix(key) as usize & self.mask;
        loop {
            let slot = &mut self.slots[i];
            if slot.round != self.round {
                *slot = Slot { key, round: self.round, position };
                return position;
            }
            if slot.key == key {
                return slot.position;
            }
            i = (i + 1) & self.mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the characters of the most frequent n-gram and those of duplicates, by strings and marked characters.
    fn slow(text: &str, n: usize) -> (usize, usize) {
        let letters: Vec<char> = text.chars().collect();
        let mut words: Vec<(usize, usize)> = Vec::new();
        for (i, c) in letters.iter().enumerate() {
            match words.last_mut() {
                _ if !c.is_alphanumeric() => {}
                Some(word) if word.1 == i => word.1 = i + 1,
                _ => words.push((i, i + 1)),
            }
        }
        let word = |&(from, to): &(usize, usize)| letters[from..to].iter().collect::<String>().to_lowercase();
        let grams: Vec<String> =
            words.windows(n).map(|gram| gram.iter().map(word).collect::<Vec<_>>().join(" ")).collect();
        let count = |gram: &String| grams.iter().filter(|other| *other == gram).count();
        let marked = |chosen: &dyn Fn(usize) -> bool| {
            let mut marks = vec![false; letters.len()];
            for i in (0..grams.len()).filter(|i| chosen(*i)) {
                marks[words[i].0..words[i + n - 1].1].fill(true);
            }
            marks.into_iter().filter(|mark| *mark).count()
        };
        let most = grams.iter().map(count).max().unwrap_or(0);
        let top = grams.iter().find(|gram| count(gram) == most).filter(|_| most > 1).cloned();
        (marked(&|i| Some(&grams[i]) == top.as_ref()), marked(&|i| grams[..i].contains(&grams[i])))
    }

    #[test]
    fn characters_of_n_grams_by_hand() {
        let mut repeats = Repeats::default();
        repeats.start("A b, a b. C a b");
        repeats.lengthen();
        // `A b`, `a b` and `a b` of 15 characters; the first is not a duplicate.
        assert_eq!((repeats.top(), repeats.duplicates()), (9, 6));
        repeats.lengthen();
        assert!(repeats.is_empty());
        assert_eq!((repeats.top(), repeats.duplicates()), (0, 0));
        repeats.start("a a a a");
        repeats.lengthen();
        // Three occurrences overlap, and no character counts twice.
        assert_eq!((repeats.top(), repeats.duplicates()), (7, 5));
    }

    #[test]
    fn parts_after_the_first_equal_one_are_repeated() {
        let mut repeats = Repeats::default();
        let found = repeats.of_parts(["ab", "é", "é", "ab", "é"].into_iter(), 5);
        assert_eq!(found, PartRepeats { parts: 5, repeated: 3, characters: 4 });
        assert_eq!(repeats.of_parts(["ab"].into_iter(), 1).repeated, 0, "an earlier text is forgotten");
    }

    proptest! {
        #[test]
        fn n_grams_equal_those_of_a_slow_implementation(
            texts in proptest::collection::vec(
                proptest::collection::vec(("[abC]|É|long|7", "[ ]|, |\n\n|—"), 0..60), 1..4),
        ) {
            let mut repeats = Repeats::default();
            for words in texts {
                let text: String = words.iter().flat_map(|(word, gap)| [word.as_str(), gap.as_str()]).collect();
                repeats.start(&text);
                for n in 2..=10 {
                    repeats.lengthen();
                    prop_assert_eq!((repeats.top(), repeats.duplicates()), slow(&text, n), "{} of {:?}", n, text);
                }
            }
        }
    }
}
