//! Runs that the pages of this process show.

use super::watcher::Watchers;
use std::sync::Arc;
use trainyard_core::{Result, RunId};
use trainyard_store::Store;
use trainyard_views::find;
use trainyard_views::followed::FollowedRuns;

/// Runs that pages of this process show.
pub struct LiveRuns {
    /// Folded journals and curves of the runs that were shown last.
    pub followed: Arc<FollowedRuns>,
    /// Watchers of the runs whose pages are open.
    pub watchers: Watchers,
}

impl Default for LiveRuns {
    fn default() -> Self {
        let followed = Arc::new(FollowedRuns::default());
        Self { watchers: Watchers::new(followed.clone()), followed }
    }
}

impl LiveRuns {
    /// Finds a run by its name. The full id of a run that was shown lately needs no list of all runs. Errors: invalid
    /// (no run, or several runs, match), those of the store.
    pub async fn find(&self, store: &Store, name: &str) -> Result<RunId> {
        let exact = RunId(name.to_string());
        if self.followed.knows(&exact) { Ok(exact) } else { find::run(store, name).await }
    }
}
