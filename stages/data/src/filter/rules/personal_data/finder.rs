//! Finds personal data in texts. A text without candidates costs one search by all expressions at once.

use super::checks::Candidate;
use super::kinds::PersonalDataKind;
use regex::{Regex, RegexSet};
use std::ops::Range;
use trainyard_core::{Error, Result};

/// Expressions of some kinds.
pub struct PersonalDataFinder {
    all: RegexSet,
    kinds: Vec<(PersonalDataKind, Regex)>,
    private_ips: bool,
}

impl PersonalDataFinder {
    /// Compiles the expressions. Errors: bug.
    pub fn new(kinds: &[PersonalDataKind], private_ips: bool) -> Result<Self> {
        let wrong = |e: regex::Error| Error::bug(format!("an expression of personal data is wrong: {e}"));
        let all = RegexSet::new(kinds.iter().map(|kind| kind.pattern())).map_err(wrong)?;
        let compiled = |kind: &PersonalDataKind| Ok((*kind, Regex::new(kind.pattern()).map_err(wrong)?));
        Ok(Self { all, kinds: kinds.iter().map(compiled).collect::<Result<_>>()?, private_ips })
    }
    /// Whether a text has candidates, which may prove to be none.
    pub fn has_candidates(&self, text: &str) -> bool {
        self.all.is_match(text)
    }
    /// Returns the places of personal data, in order and apart from each other. Of overlapping ones the first remains.
    pub fn find(&self, text: &str) -> Vec<(Range<usize>, PersonalDataKind)> {
        let mut found = Vec::new();
        for i in &self.all.matches(text) {
            let (kind, regex) = &self.kinds[i];
            self.find_kind(*kind, regex, text, &mut found);
        }
        found.sort_by_key(|(place, kind)| (place.start, std::cmp::Reverse(place.end), *kind));
        let mut end = 0;
        found.retain(|(place, _)| {
            let is_apart = place.start >= end;
            end = if is_apart { place.end } else { end };
            is_apart
        });
        found
    }
    /// Returns the text with masks in these places.
    pub fn masked(text: &str, found: &[(Range<usize>, PersonalDataKind)]) -> String {
        let mut masked = String::with_capacity(text.len());
        let mut end = 0;
        for (place, kind) in found {
            masked.push_str(&text[end..place.start]);
            masked.push_str(kind.mask());
            end = place.end;
        }
        masked.push_str(&text[end..]);
        masked
    }

    fn find_kind(
        &self,
        kind: PersonalDataKind,
        regex: &Regex,
        text: &str,
        found: &mut Vec<(Range<usize>, PersonalDataKind)>,
    ) {
        let mut at = 0;
        while let Some(place) = regex.find_at(text, at).map(|candidate| candidate.range()) {
            let data = kind.check(&Candidate { text, place: place.clone() }, self.private_ips);
            at = match &data {
                Some(data) => data.end.max(place.start + 1),
                // Candidates are ASCII, so the next byte begins a character.
                None if kind.may_begin_inside() => place.start + 1,
                None => place.end,
            };
            found.extend(data.map(|data| (data, kind)));
        }
    }
}
