//! Counts the objects of a store by the workflow and the stage that made them.

use super::reachability::Reachability;
use super::records::ManifestRecord;
use super::snapshot::StoreSnapshot;
use serde::Serialize;
use std::collections::BTreeMap;

/// Number and size of some objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// Number of objects.
    pub objects: u64,
    /// Size of the objects in bytes.
    pub bytes: u64,
}

/// The objects of one stage. Each counts once: for the manifest that keeps it longest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StageSize {
    /// Name of the workflow; `None` for objects that no manifest names (those of attempts and checkpoints).
    pub workflow: Option<String>,
    /// Stage without the axes of its instances.
    pub stage: Option<String>,
    /// Objects that stay.
    pub kept: Amount,
    /// Objects that a later collection removes: their manifests have been replaced by tombstones now or recently.
    pub given_up: Amount,
    /// Unreferenced objects that are old enough to be removed.
    pub garbage: Amount,
}

impl Amount {
    fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes += bytes;
    }
}

/// Returns rows sorted by workflow and stage; objects that no manifest names come first. `garbage` decides by name
/// whether an object is removed now.
pub(super) fn by_stage(
    snapshot: &StoreSnapshot,
    reachability: &Reachability,
    garbage: &dyn Fn(&str) -> bool,
) -> Vec<StageSize> {
    // The best claim last, so that it wins.
    let mut records: Vec<&ManifestRecord> = snapshot.manifests.iter().collect();
    let rank = |record: &ManifestRecord| (reachability.kept.contains(&record.key), !record.collected);
    records.sort_by_key(|record| (rank(record), &record.run));
    let mut owners: BTreeMap<&str, &ManifestRecord> = BTreeMap::new();
    for record in records {
        owners.extend(record.files.iter().map(|digest| (digest.as_str(), record)));
    }
    let mut rows: BTreeMap<_, StageSize> = BTreeMap::new();
    for entry in &snapshot.objects {
        let name = entry.path.rsplit('/').next().unwrap_or_default();
        let owner = owners.get(name);
        let place = owner.map(|record| (record.workflow.as_str(), record.stage.stage_id()));
        let row = rows.entry(place).or_insert_with(|| StageSize {
            workflow: place.map(|(workflow, _)| workflow.to_string()),
            stage: place.map(|(_, stage)| stage.to_string()),
            ..StageSize::default()
        });
        let stays = owner.is_none_or(|record| reachability.kept.contains(&record.key));
        let amount = match (garbage(name), stays) {
            (true, _) => &mut row.garbage,
            (false, true) => &mut row.kept,
            (false, false) => &mut row.given_up,
        };
        amount.add(entry.size);
    }
    rows.into_values().collect()
}
