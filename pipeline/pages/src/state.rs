//! State that all pages share.

use crate::access::PageAccess;
use crate::address::PageAddress;
use crate::catalogue::LazyCatalogue;
use crate::error::PageError;
use crate::queries::PageQueries;
use std::sync::{Arc, LazyLock};
use trainyard_core::{Clock, Error, Result};
use trainyard_daemon::control::DaemonControl;
use trainyard_store::Store;

/// State of a page server.
pub struct PageState {
    /// Store that the pages show, without retries during outages.
    pub store: Store,
    /// Clock that decides whether a run is alive.
    pub clock: Arc<dyn Clock>,
    /// Rules about who may open the pages.
    pub access: PageAccess,
    /// Names of the server.
    pub address: PageAddress,
    /// Version of the program.
    pub version: &'static str,
    /// Daemon of this process; `None` for the pages of `run` and `pages`.
    pub daemon: Option<Arc<DaemonControl>>,
    /// Recipes, stage kinds and parts of the program.
    pub catalogue: LazyCatalogue,
    /// Queries of tables, which run in separate processes.
    pub queries: PageQueries,
}

impl PageState {
    /// Returns the daemon. Errors: not found, if this process has no daemon.
    pub fn daemon(&self) -> Result<&Arc<DaemonControl>, PageError> {
        let help = "run `trainyard serve --workflows FOLDER` with this store, and open the address that it prints";
        let missing = || PageError::not_found("these pages have no daemon, which schedules and starts runs");
        self.daemon.as_ref().ok_or_else(|| missing().help(help))
    }
    /// Makes the stage kinds and parts of the catalogue, unless they are made already.
    pub async fn make_catalogue(self: &Arc<Self>) -> Result<()> {
        self.make(|app| {
            LazyLock::force(&app.catalogue);
        })
        .await
    }
    /// Makes the catalogue and its recipes, unless they are made already.
    pub async fn make_recipes(self: &Arc<Self>) -> Result<()> {
        self.make(|app| {
            let _: &[_] = &app.catalogue.recipes;
        })
        .await
    }
    /// Runs `make` in a thread for blocking work.
    async fn make(self: &Arc<Self>, make: impl FnOnce(&Self) + Send + 'static) -> Result<()> {
        let app = self.clone();
        let made = tokio::task::spawn_blocking(move || make(&app));
        made.await.map_err(|e| Error::bug(format!("the catalogue could not be made: {e}")))
    }
}
