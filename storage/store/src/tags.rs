//! Tags runs: short names that users give them. Tags keep nothing from garbage collection, which removes the tags of
//! removed runs.
//!
//! Each tagging or untagging is a record `tags/<yyyy-mm>/<run-id>/<n>`. The last record about a tag counts.

use crate::layout;
use crate::statements::{FORMAT, append, read};
use crate::store::Store;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::{Result, RunId};

/// Tag of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    /// Version of this format: 1.
    pub format: u32,
    /// Name of the tag.
    pub tag: String,
    /// Whether the run has the tag from this record on.
    pub tagged: bool,
    /// Time of the record, in Unix milliseconds.
    pub at: i64,
    /// Author of the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl Store {
    /// Tags or untags a run. Returns whether that changed anything.
    ///
    /// Errors: invalid (the store was opened read-only), data (an earlier record cannot be read).
    pub async fn set_tag(&self, run: &RunId, tag: &str, tagged: bool, by: Option<&str>) -> Result<bool> {
        let at = self.options().clock.unix_millis();
        let record = |before: &[(u64, Tag)]| {
            let last = before.iter().rev().find(|(_, record)| record.tag == tag);
            let is_tagged = last.is_some_and(|(_, record)| record.tagged);
            let by = by.map(str::to_string);
            (is_tagged != tagged).then(|| Tag { format: FORMAT, tag: tag.to_string(), tagged, at, by })
        };
        Ok(append(self, &layout::tags(run), record).await?.is_some())
    }
    /// Returns the tags of a run, sorted by name. Errors: data (a record cannot be read), invalid (a newer program
    /// wrote it).
    pub async fn tags_of(&self, run: &RunId) -> Result<Vec<Tag>> {
        let records = read::<Tag>(self, &layout::tags(run)).await?;
        let last: BTreeMap<String, Tag> = records.into_iter().map(|(_, record)| (record.tag.clone(), record)).collect();
        Ok(last.into_values().filter(|record| record.tagged).collect())
    }
    /// Returns the tags of all runs that have any. Errors: those of [`Store::tags_of`].
    pub async fn tags(&self) -> Result<BTreeMap<RunId, Vec<Tag>>> {
        let paths = self.list(layout::TAGS).await?;
        let runs: BTreeSet<RunId> = paths.iter().filter_map(|path| tagged_run(path)).collect();
        let mut tags = BTreeMap::new();
        for run in runs {
            let of_run = self.tags_of(&run).await?;
            if !of_run.is_empty() {
                tags.insert(run, of_run);
            }
        }
        Ok(tags)
    }
}

/// Returns the run in the path of a record.
pub(crate) fn tagged_run(path: &str) -> Option<RunId> {
    path.split('/').nth(2).map(|run| RunId(run.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreOptions;
    use std::sync::Arc;
    use trainyard_core::clock::ManualClock;

    fn names(tags: &[Tag]) -> Vec<&str> {
        tags.iter().map(|tag| tag.tag.as_str()).collect()
    }

    #[tokio::test]
    async fn last_record_about_a_tag_counts() {
        let options = StoreOptions { clock: Arc::new(ManualClock::at_millis(7_000)), ..StoreOptions::default() };
        let store = Store::open("memory://", options).await.unwrap();
        let run = RunId("20261121-041530-7f3a9c".into());
        assert!(!store.set_tag(&run, "best", false, None).await.unwrap(), "there was none to take away");
        assert!(store.set_tag(&run, "paper", true, Some("ada")).await.unwrap());
        assert!(store.set_tag(&run, "best", true, None).await.unwrap());
        assert!(!store.set_tag(&run, "best", true, Some("ada")).await.unwrap());
        let tags = store.tags_of(&run).await.unwrap();
        assert_eq!(names(&tags), ["best", "paper"]);
        assert_eq!((tags[1].by.as_deref(), tags[1].at), (Some("ada"), 7_000));
        assert!(store.set_tag(&run, "paper", false, None).await.unwrap());
        let all = store.tags().await.unwrap();
        assert_eq!(all.len(), 1);
        assert_eq!(names(&all[&run]), ["best"]);
        assert!(store.set_tag(&run, "best", false, None).await.unwrap());
        assert!(store.tags().await.unwrap().is_empty());
        assert_eq!(store.list(layout::TAGS).await.unwrap().len(), 4, "no record is removed");
    }

    #[tokio::test]
    async fn a_record_that_cannot_be_read_is_an_error() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let run = RunId("20261121-041530-7f3a9c".into());
        let path = format!("{}/000001", layout::tags(&run));
        store.create(&path, "{half".into()).await.unwrap();
        assert!(store.tags().await.unwrap_err().message.contains(&path));
        assert!(store.set_tag(&run, "best", true, None).await.is_err());
        let newer = RunId("20261121-041530-7f3a9d".into());
        store.create(&format!("{}/000001", layout::tags(&newer)), r#"{"format": 2}"#.into()).await.unwrap();
        assert!(store.tags_of(&newer).await.unwrap_err().message.contains("format 2 is newer"));
    }
}
