//! What most commands start with: the site, the store, and a runtime for both.

use crate::args::SiteArgs;
use crate::machine;
use crate::output::diagnostics;
use crate::wiring;
use std::future::Future;
use std::path::{Path, PathBuf};
use tokio::runtime::Runtime;
use trainyard_core::{Error, ErrorKind, Result};
use trainyard_spec::site::{self, Durability, Site, Surroundings};
use trainyard_spec::{Diagnostic, DiskFiles, Sources};
use trainyard_store::{Missing, Store, StoreOptions};

/// The file that is searched for upward from the working directory.
pub const SITE_FILE: &str = "trainyard.yaml";
/// The store if none is named.
const LOCAL_STORE: &str = ".trainyard";

/// What a command does with the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads only; a missing store is an error.
    Look,
    /// Reads only; a missing store counts as empty.
    LookOrEmpty,
    /// Writes to an existing store.
    Change,
    /// Creates the store if it is missing, and proves that it is create-only.
    Run,
}

/// An open store, its site, and a runtime.
pub struct Session {
    pub site: Site,
    pub store: Store,
    runtime: Runtime,
}

impl Session {
    /// Opens the store of the site. Errors: invalid (the site file, the store's URL), lost (a store out of reach: exit
    /// 3).
    pub fn open(args: &SiteArgs, access: Access) -> Result<Self> {
        let site = site(args)?;
        let url = store_url(args, &site);
        Store::check_url(&url)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|e| Error::retryable(format!("no asynchronous runtime: {e}")))?;
        let store = runtime.block_on(Store::open(&url, options(&site, access)));
        // The URL is valid, so the place itself is at fault.
        let store = store.map_err(|error| Error { kind: ErrorKind::Lost, ..error })?;
        Ok(Self { site, store, runtime })
    }
    pub fn block_on<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        self.runtime.block_on(future)
    }
    pub fn handle(&self) -> tokio::runtime::Handle {
        self.runtime.handle().clone()
    }
}

fn options(site: &Site, access: Access) -> StoreOptions {
    let (read_only, missing) = match access {
        Access::Look => (true, Missing::Refuse),
        Access::LookOrEmpty => (true, Missing::Empty),
        Access::Change => (false, Missing::Refuse),
        Access::Run => (false, Missing::Make),
    };
    let durability_fsync = site.durability == Durability::Fsync;
    StoreOptions { durability_fsync, read_only, missing, probe: access == Access::Run, ..StoreOptions::default() }
}

/// The URL from the command line or the site file; without either, a folder in the working directory.
fn store_url(args: &SiteArgs, site: &Site) -> String {
    args.store.clone().or_else(|| site.store.clone()).unwrap_or_else(|| LOCAL_STORE.to_string())
}

/// The site file named or found, else this machine alone. A site file without a store has one beside it, so that a
/// command means the same store in every folder below.
pub fn site(args: &SiteArgs) -> Result<Site> {
    let Some(path) = args.site.clone().or_else(find_site) else {
        return Ok(Site::of_this_machine(machine::pool()));
    };
    let (site, found, sources) = read_site(&path);
    let mut site = site.ok_or_else(|| {
        diagnostics::print(&found, &sources);
        Error::invalid(format!("the site file {} has {}", path.display(), diagnostics::count(&found)))
    })?;
    site.store.get_or_insert_with(|| path.with_file_name(LOCAL_STORE).display().to_string());
    Ok(site)
}

/// A site file, and everything that is wrong with it.
pub fn read_site(path: &Path) -> (Option<Site>, Vec<Diagnostic>, Sources) {
    let surroundings =
        Surroundings { this_machine: &machine::pool(), executors: &wiring::executors(), check_store: Store::check_url };
    site::read(&DiskFiles, path, surroundings)
}

fn find_site() -> Option<PathBuf> {
    let start = std::env::current_dir().ok()?;
    start.ancestors().map(|folder| folder.join(SITE_FILE)).find(|p| p.is_file())
}

/// The folder of this user's machine-wide files: `$TRAINYARD_HOME`, else `~/.cache/trainyard`, else a temporary one.
pub fn home() -> PathBuf {
    let cache = || std::env::var_os("HOME").map(|h| Path::new(&h).join(".cache/trainyard"));
    std::env::var_os("TRAINYARD_HOME")
        .map(PathBuf::from)
        .or_else(cache)
        .unwrap_or_else(|| std::env::temp_dir().join("trainyard"))
}
