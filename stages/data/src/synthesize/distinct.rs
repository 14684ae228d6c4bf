//! Keeps the problems of all splits distinct, and reports levels that have too few.

use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::Error;

/// Problems of all splits by canonical form, with their splits.
#[derive(Default)]
pub struct DistinctProblems {
    splits: BTreeMap<String, String>,
}

impl DistinctProblems {
    /// Returns the number of problems.
    pub fn count(&self) -> usize {
        self.splits.len()
    }
    /// Begins the draws of a level for a split.
    pub fn level<'d>(&'d mut self, split: &'d str, level: u32) -> LevelDraws<'d> {
        LevelDraws { known: self, split, level, elsewhere: BTreeMap::new() }
    }
}

/// Draws of one level for a split.
pub struct LevelDraws<'d> {
    known: &'d mut DistinctProblems,
    split: &'d str,
    level: u32,
    /// Drawn problems that other splits have, by these splits.
    elsewhere: BTreeMap<String, BTreeSet<String>>,
}

impl LevelDraws<'_> {
    /// Adds a drawn problem; returns whether no split has it.
    pub fn add(&mut self, canonical: &str) -> bool {
        match self.known.splits.get(canonical) {
            Some(split) if split == self.split => false,
            Some(split) => {
                self.elsewhere.entry(split.clone()).or_default().insert(canonical.to_string());
                false
            }
            None => {
                self.known.splits.insert(canonical.to_string(), self.split.to_string());
                true
            }
        }
    }
    /// Returns the error of a level with only `found` problems for `count` after `draws`. `also` is a further remedy.
    pub fn too_few(&self, found: u64, (count, draws): (u64, u64), also: &str) -> Error {
        let Self { split, level, .. } = self;
        let message = format!("split `{split}`: level {level} has too few distinct problems for {count}");
        let others: Vec<String> =
            self.elsewhere.iter().map(|(split, forms)| format!("{} in `{split}`", forms.len())).collect();
        let others = if others.is_empty() {
            String::new()
        } else {
            format!(" in addition to those of other splits ({})", others.join(", "))
        };
        let help = format!("only {found} were found in {draws} draws{others}; lower the numbers in `splits`{also}");
        Error::invalid(message).help(help)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_of_other_splits_are_counted_once_by_split() {
        let mut all = DistinctProblems::default();
        let mut test = all.level("test", 1);
        assert_eq!(["1+1", "1+2", "1+1"].map(|form| test.add(form)), [true, true, false]);
        assert!(all.level("rl", 1).add("2+2"));
        let mut demonstrations = all.level("demonstrations", 1);
        let drawn = ["1+1", "3+3", "1+1", "1+2", "2+2", "3+3"].map(|form| demonstrations.add(form));
        assert_eq!(drawn, [false, true, false, false, false, false]);
        let error = demonstrations.too_few(1, (5, 6), "");
        assert_eq!(error.message, "split `demonstrations`: level 1 has too few distinct problems for 5");
        assert_eq!(
            error.help.as_deref(),
            Some(
                "only 1 were found in 6 draws in addition to those of other splits (1 in `rl`, 2 in `test`); lower the \
                 numbers in `splits`"
            )
        );
        let alone = all.level("alone", 2).too_few(0, (1, 3), ", or vary problems more by `seed`");
        let help = "only 0 were found in 3 draws; lower the numbers in `splits`, or vary problems more by `seed`";
        assert_eq!(alone.help.as_deref(), Some(help));
        assert_eq!(all.count(), 4);
    }
}
