//! The objects of a store by the workflow and the stage that made them.

use super::reach::Reach;
use super::records::Record;
use super::survey::Survey;
use serde::Serialize;
use std::collections::BTreeMap;

/// Some objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// Number of objects.
    pub objects: u64,
    /// Their size in bytes.
    pub bytes: u64,
}

/// The objects of one stage. Each counts once: for the manifest that keeps it longest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StageSize {
    /// Name of the workflow; none for objects that no manifest names (of attempts and resume points).
    pub workflow: Option<String>,
    /// The stage without the axes of its instances.
    pub stage: Option<String>,
    /// What stays.
    pub kept: Amount,
    /// What a later collection removes: its manifests are given up now, or were a short time ago.
    pub given_up: Amount,
    /// What nothing names and is old enough to go.
    pub garbage: Amount,
}

impl Amount {
    fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes += bytes;
    }
}

/// Rows sorted by workflow and stage; objects that no manifest names come first. `garbage` says which objects are
/// removed now, by their names.
pub(super) fn by_stage(survey: &Survey, reach: &Reach, garbage: &dyn Fn(&str) -> bool) -> Vec<StageSize> {
    // The best claim last, so that it wins.
    let mut records: Vec<&Record> = survey.manifests.iter().collect();
    let rank = |record: &Record| (reach.kept.contains(&record.key), !record.collected);
    records.sort_by_key(|record| (rank(record), &record.run));
    let mut owners: BTreeMap<&str, &Record> = BTreeMap::new();
    for record in records {
        owners.extend(record.files.iter().map(|digest| (digest.as_str(), record)));
    }
    let mut rows: BTreeMap<_, StageSize> = BTreeMap::new();
    for entry in &survey.objects {
        let name = entry.path.rsplit('/').next().unwrap_or_default();
        let owner = owners.get(name);
        let place = owner.map(|record| (record.workflow.as_str(), record.stage.stage_id()));
        let row = rows.entry(place).or_insert_with(|| StageSize {
            workflow: place.map(|(workflow, _)| workflow.to_string()),
            stage: place.map(|(_, stage)| stage.to_string()),
            ..StageSize::default()
        });
        let stays = owner.is_none_or(|record| reach.kept.contains(&record.key));
        let amount = match (garbage(name), stays) {
            (true, _) => &mut row.garbage,
            (false, true) => &mut row.kept,
            (false, false) => &mut row.given_up,
        };
        amount.add(entry.size);
    }
    rows.into_values().collect()
}
