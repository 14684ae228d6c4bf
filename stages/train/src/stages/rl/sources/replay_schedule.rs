//! Holds the versions of the weights that sampled each token of a recorded run.
//!
//! The timing of an asynchronous run's threads has one effect: the length of each sequence at a change of the weights.
//! The rows contain a version per token, so a repeated run can decode every sequence to the same length under each
//! version.

use crate::rollouts::draw::of_context;
use std::collections::BTreeMap;
use trainyard_lm::generate::DrawKey;
use trainyard_tables::Trajectory;

/// For each token, whether it was sampled, and the version of the weights.
type TokenVersions = Vec<(bool, u32)>;

/// Rows of a record, by the key of their draws.
#[derive(Default)]
pub struct ReplaySchedule(BTreeMap<(u64, u64), Vec<(DrawKey, TokenVersions)>>);

impl ReplaySchedule {
    pub fn add(&mut self, key: DrawKey, record: &Trajectory) {
        let versions = record.weights_version.iter().flatten().copied();
        let row: TokenVersions = record.loss_mask.iter().copied().zip(versions).collect();
        let rows = self.0.entry((key.problem, key.sample)).or_default();
        for (earlier, context) in record.contexts().into_iter().enumerate() {
            let context = row.get(context).unwrap_or_default();
            rows.push((of_context(key, earlier), context.to_vec()));
        }
    }
    /// Returns the version of the first sampled token of a record; 0 without one.
    pub fn first_version(record: &Trajectory) -> u32 {
        let versions = record.weights_version.as_deref().unwrap_or_default();
        versions.iter().zip(&record.loss_mask).find(|(_, sampled)| **sampled).map_or(0, |(version, _)| *version)
    }
    /// Returns the number of tokens that a sequence of `length` tokens may sample under weights of `version`, or the
    /// maximum if its turn ends before the weights change.
    pub fn allowed(&self, key: &DrawKey, version: u32, length: usize) -> usize {
        let rows = self.0.get(&(key.problem, key.sample)).map_or(&[][..], Vec::as_slice);
        let row = rows.iter().find(|(k, _)| k == key).map_or(&[][..], |(_, row)| row.as_slice());
        let turn = row.iter().skip(length).take_while(|(sampled, _)| *sampled);
        turn.enumerate().find(|(_, (_, by))| *by > version).map_or(usize::MAX, |(i, _)| i)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::Chance;

    #[test]
    fn a_sequence_stops_where_its_record_changes_weights() {
        let t = Trajectory {
            token_ids: vec![7; 6],
            loss_mask: vec![false, true, true, true, false, true],
            weights_version: Some(vec![0, 0, 0, 1, 2, 2]),
            ..Trajectory::default()
        };
        let key = |seed, sample| DrawKey { chance: Chance::new(seed), problem: 7, sample };
        let mut schedule = ReplaySchedule::default();
        schedule.add(key(1, 1), &t);
        schedule.add(key(2, 1), &Trajectory::default());
        let allowed = |version, length| schedule.allowed(&key(1, 1), version, length);
        assert_eq!((allowed(0, 1), allowed(0, 3), allowed(0, 5)), (2, 0, 0));
        assert_eq!((allowed(1, 1), allowed(1, 5)), (usize::MAX, 0));
        assert_eq!(schedule.allowed(&key(2, 1), 0, 1), usize::MAX);
        assert_eq!(schedule.allowed(&key(1, 9), 0, 1), usize::MAX);
        let late = Trajectory { weights_version: Some(vec![0, 3, 3, 3, 3, 3]), ..t };
        assert_eq!(
            (ReplaySchedule::first_version(&late), ReplaySchedule::first_version(&Trajectory::default())),
            (3, 0)
        );
    }
}
