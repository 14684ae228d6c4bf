//! Which weights sampled which token of a recorded run, so that the run can be repeated to the same bits.
//!
//! Why so: an asynchronous run depends on when its threads meet, and only there: which tokens a sequence had sampled when the weights
//! changed. The records hold a version per token; a repeated run decodes every sequence exactly so far under each version. Refuses:
//! nothing; a record that does not fit shows in other tokens.

use std::collections::BTreeMap;
use trainyard_tables::Trajectory;

/// (group, sample) → per token whether it was sampled, and under which version.
pub struct Schedule {
    rows: BTreeMap<(u32, u32), Vec<(bool, u32)>>,
    /// The weights in use.
    pub version: u32,
}

impl Schedule {
    pub fn new<'t>(records: impl IntoIterator<Item = &'t Trajectory>) -> Self {
        let row = |t: &Trajectory| {
            let versions = t.weights_version.clone().unwrap_or_default();
            ((t.group, t.sample), t.loss_mask.iter().copied().zip(versions).collect())
        };
        Self { rows: records.into_iter().map(row).collect(), version: 0 }
    }
    /// Version of the first token that a record sampled; 0 if it sampled none.
    pub fn first_version(record: &Trajectory) -> u32 {
        let versions = record.weights_version.as_deref().unwrap_or_default();
        versions.iter().zip(&record.loss_mask).find(|(_, sampled)| **sampled).map_or(0, |(version, _)| *version)
    }
    /// Tokens that the sequence may sample from `length` on before the weights change; the maximum where its turn ends before that.
    pub fn allowed(&self, group: u32, sample: u32, length: usize) -> usize {
        let row = self.rows.get(&(group, sample)).map_or(&[][..], Vec::as_slice);
        let turn = row.iter().skip(length).take_while(|(sampled, _)| *sampled);
        turn.enumerate().find(|(_, (_, version))| *version > self.version).map_or(usize::MAX, |(i, _)| i)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_stops_where_its_record_changes_weights() {
        let t = Trajectory {
            group: 3,
            sample: 1,
            loss_mask: vec![false, true, true, true, false, true],
            weights_version: Some(vec![0, 0, 0, 1, 2, 2]),
            ..Trajectory::default()
        };
        let mut schedule = Schedule::new([&t]);
        assert_eq!((schedule.allowed(3, 1, 1), schedule.allowed(3, 1, 3), schedule.allowed(3, 1, 5)), (2, 0, 0));
        schedule.version = 1;
        assert_eq!((schedule.allowed(3, 1, 1), schedule.allowed(3, 1, 5)), (usize::MAX, 0));
        assert_eq!(schedule.allowed(9, 9, 1), usize::MAX);
        let late = Trajectory { weights_version: Some(vec![0, 3, 3, 3, 3, 3]), ..t };
        assert_eq!((Schedule::first_version(&late), Schedule::first_version(&Trajectory::default())), (3, 0));
    }
}
