//! Numbers the groups of rows, and ranks the rows of each group by scores, in a few bytes per row.

use crate::hash::xxh3_128;
use hashbrown::HashTable;
use std::cmp::Ordering;
use trainyard_core::{Error, Result};

/// Numbers of groups, from 0 in the order of their first rows. Names are kept as hashes of 128 bits: of a million
/// groups, two have equal hashes with a chance of 10⁻²⁷.
#[derive(Default)]
pub struct GroupNumbers {
    hashes: Vec<u128>,
    numbers: HashTable<u32>,
}

impl GroupNumbers {
    /// Returns the number of a group, which is new if the group is.
    pub fn number(&mut self, group: &str) -> u32 {
        let hash = xxh3_128(group.as_bytes(), 0);
        if let Some(number) = self.of_hash(hash) {
            return number;
        }
        let number = self.hashes.len() as u32;
        self.hashes.push(hash);
        let hashes = &self.hashes;
        self.numbers.insert_unique(hash as u64, number, |other| hashes[*other as usize] as u64);
        number
    }
    /// Returns the number of a known group.
    pub fn find(&self, group: &str) -> Option<u32> {
        self.of_hash(xxh3_128(group.as_bytes(), 0))
    }

    fn of_hash(&self, hash: u128) -> Option<u32> {
        self.numbers.find(hash as u64, |number| self.hashes[*number as usize] == hash).copied()
    }
}

/// Rows with their groups and scores.
pub struct GroupRanking {
    groups: GroupNumbers,
    /// Group of each row.
    group_of: Vec<u32>,
    /// Scores of each row, one after the other.
    scores: Vec<f64>,
    /// Number of scores of a row.
    width: usize,
}

/// Places of rows in their groups.
pub struct RankedRows {
    /// Place of each row in its group, from 0.
    places: Vec<u32>,
    group_of: Vec<u32>,
    /// Number of rows of each group.
    sizes: Vec<u32>,
}

/// Place of a row in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowPlace {
    /// Place, from 0.
    pub place: u32,
    /// Number of rows of the group.
    pub of: u32,
}

impl GroupRanking {
    /// Starts with no rows; each will have `width` scores.
    pub fn new(width: usize) -> Self {
        Self { groups: GroupNumbers::default(), group_of: Vec::new(), scores: Vec::new(), width }
    }
    /// Adds the next row. Higher scores are better, and the first score counts most; NaN is the worst.
    pub fn push(&mut self, group: &str, scores: impl IntoIterator<Item = f64>) {
        self.group_of.push(self.groups.number(group));
        let scores = scores.into_iter().take(self.width);
        self.scores.extend(scores.map(|score| if score.is_nan() { f64::NEG_INFINITY } else { score + 0.0 }));
        self.scores.resize(self.group_of.len() * self.width, 0.0);
    }
    /// Ranks the rows: better ones first, and of equal ones the earlier.
    pub fn rank(self) -> RankedRows {
        let mut order: Vec<u32> = (0..self.group_of.len() as u32).collect();
        order.sort_unstable_by(|a, b| self.compare(*a, *b));
        let mut sizes = vec![0; self.groups.hashes.len()];
        let mut places = vec![0; order.len()];
        for row in order {
            let size = &mut sizes[self.group_of[row as usize] as usize];
            places[row as usize] = *size;
            *size += 1;
        }
        RankedRows { places, group_of: self.group_of, sizes }
    }

    fn compare(&self, a: u32, b: u32) -> Ordering {
        let group = |row: u32| self.group_of[row as usize];
        let scores = |row: u32| &self.scores[row as usize * self.width..][..self.width];
        let better = scores(b).iter().zip(scores(a)).map(|(b, a)| b.total_cmp(a)).find(|order| order.is_ne());
        group(a).cmp(&group(b)).then(better.unwrap_or(Ordering::Equal)).then(a.cmp(&b))
    }
}

impl RankedRows {
    /// Returns the place of a row; `None` for an unknown row.
    pub fn place(&self, row: usize) -> Option<RowPlace> {
        let group = *self.group_of.get(row)?;
        Some(RowPlace { place: self.places[row], of: self.sizes[group as usize] })
    }
}

/// Ranking that grows while rows are observed, and is read in the same order while they are judged.
pub struct ObservedRanking {
    observed: Option<GroupRanking>,
    ranked: Option<RankedRows>,
    /// Number of places that were read.
    read: usize,
}

impl ObservedRanking {
    /// Starts with no rows; each will have `width` scores.
    pub fn new(width: usize) -> Self {
        Self { observed: Some(GroupRanking::new(width)), ranked: None, read: 0 }
    }
    /// Adds the next row, as [`GroupRanking::push`] does. Errors: bug (a place was read already).
    pub fn push(&mut self, group: &str, scores: impl IntoIterator<Item = f64>) -> Result<()> {
        let ranking = self.observed.as_mut().ok_or_else(|| Error::bug("a row is observed after another was judged"))?;
        ranking.push(group, scores);
        Ok(())
    }
    /// Returns the place of the next row. Errors: bug (a row that was not observed).
    pub fn next_place(&mut self) -> Result<RowPlace> {
        if let Some(observed) = self.observed.take() {
            self.ranked = Some(observed.rank());
        }
        let place = self.ranked.as_ref().and_then(|ranked| ranked.place(self.read));
        self.read += 1;
        place.ok_or_else(|| Error::bug("a row is judged that was not observed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_ranked_within_groups_by_each_score_in_turn() {
        let mut ranking = GroupRanking::new(2);
        let rows = [
            ("a", [1.0, 0.0]),
            ("b", [9.0, 9.0]),
            ("a", [1.0, 2.0]),
            ("a", [f64::NAN, 9.0]),
            ("a", [1.0, 2.0]),
            ("b", [9.0, -0.0]),
            ("b", [9.0, 0.0]),
        ];
        for (group, scores) in rows {
            ranking.push(group, scores);
        }
        let ranked = ranking.rank();
        let places: Vec<_> = (0..7).filter_map(|row| ranked.place(row)).map(|place| (place.place, place.of)).collect();
        assert_eq!(places, [(2, 4), (0, 3), (0, 4), (3, 4), (1, 4), (1, 3), (2, 3)]);
        assert_eq!(ranked.place(7), None);
    }

    #[test]
    fn places_are_read_in_the_order_of_the_rows() {
        let mut ranking = ObservedRanking::new(1);
        for (group, score) in [("a", 1.0), ("b", 1.0), ("a", 2.0)] {
            ranking.push(group, [score]).unwrap();
        }
        let places: Vec<_> =
            (0..3).map(|_| ranking.next_place().unwrap()).map(|place| (place.place, place.of)).collect();
        assert_eq!(places, [(1, 2), (0, 1), (0, 2)]);
        assert!(ranking.next_place().is_err());
        assert!(ranking.push("a", [0.0]).is_err());
    }

    #[test]
    fn groups_are_numbered_by_their_first_rows() {
        let mut groups = GroupNumbers::default();
        let numbers: Vec<u32> = (0..3_000).map(|i| groups.number(&format!("group {}", i % 1_500))).collect();
        assert_eq!(numbers, (0..3_000).map(|i| i % 1_500).collect::<Vec<u32>>());
        assert_eq!((groups.find("group 1499"), groups.find("group 1500")), (Some(1499), None));
    }
}
