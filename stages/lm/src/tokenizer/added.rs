//! Defines [`AddedTokens`], the added tokens of a tokenizer with an index for finding them in texts.

use aho_corasick::{AhoCorasick, MatchKind};
use std::collections::HashSet;
use trainyard_core::{Error, Result};

/// The added tokens of a tokenizer. Files of the field have some hundreds (Llama 3) to thousands (Gemma 3) of them.
#[derive(Clone)]
pub(super) struct AddedTokens {
    /// Contents, the longest first.
    contents: Vec<String>,
    set: HashSet<String>,
    index: AhoCorasick,
}

impl AddedTokens {
    /// Builds the index. Empty contents are left out: they are found nowhere. Errors: data, if the contents are too
    /// large for one index.
    pub fn new(contents: impl IntoIterator<Item = String>) -> Result<Self> {
        let mut contents: Vec<String> = contents.into_iter().filter(|content| !content.is_empty()).collect();
        contents.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        let index = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&contents)
            .map_err(|e| Error::data(format!("the tokenizer's added tokens cannot be indexed: {e}")))?;
        Ok(Self { set: contents.iter().cloned().collect(), contents, index })
    }
    /// Returns the contents, the longest first.
    pub fn contents(&self) -> &[String] {
        &self.contents
    }
    /// Returns whether a text is the content of an added token.
    pub fn contains(&self, text: &str) -> bool {
        self.set.contains(text)
    }
    /// Returns the byte position and the content of the first added token in a text, the longest where several begin
    /// at one position; `None` if the text contains none.
    pub fn first_in(&self, text: &str) -> Option<(usize, &str)> {
        let found = self.index.find(text)?;
        Some((found.start(), self.contents.get(found.pattern().as_usize())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_longest_of_those_at_one_position_is_found() {
        let added = AddedTokens::new(["<a>", "<a><b>", "", "é"].map(String::from)).unwrap();
        assert_eq!(added.first_in("x<a><b>"), Some((1, "<a><b>")));
        assert_eq!(added.first_in("xé<a>"), Some((1, "é")));
        assert_eq!(added.first_in("<a"), None);
        assert_eq!(added.contents(), ["<a><b>", "<a>", "é"]);
        assert!(added.contains("<a>") && !added.contains("") && !added.contains("<"));
    }

    proptest! {
        #[test]
        fn the_index_finds_what_a_search_for_each_finds(
            contents in prop::collection::vec("[ab<é]{1,3}", 0..6),
            text in "[ab<é]{0,12}",
        ) {
            let added = AddedTokens::new(contents).unwrap();
            let each = added.contents().iter().filter_map(|t| text.find(t.as_str()).map(|at| (at, t.as_str())));
            prop_assert_eq!(added.first_in(&text), each.min_by_key(|(at, _)| *at));
        }
    }
}
