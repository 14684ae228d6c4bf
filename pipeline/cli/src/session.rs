//! What most commands begin with: the site, the store, a runtime for both.

use crate::args::SiteArgs;
use crate::machine;
use crate::output::diagnostics;
use crate::wiring;
use std::future::Future;
use std::path::{Path, PathBuf};
use tokio::runtime::Runtime;
use trainyard_core::{Error, Result};
use trainyard_spec::DiskFiles;
use trainyard_spec::site::{self, Durability, Site, Surroundings};
use trainyard_store::{Store, StoreOptions};

/// The name that is looked for upward from the working directory.
const SITE_FILE: &str = "trainyard.yaml";
/// The store without a site file.
const LOCAL_STORE: &str = ".trainyard";

/// An open store and everything that belongs to the place.
pub struct Session {
    pub site: Site,
    pub store: Store,
    runtime: Runtime,
}

impl Session {
    /// Opens the store of the site. `write`: prove that it is create-only; else only look.
    pub fn open(args: &SiteArgs, write: bool) -> Result<Self> {
        let site = site(args)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|e| Error::retryable(format!("no asynchronous runtime: {e}")))?;
        let url = store_url(args, &site);
        let options = StoreOptions { durability_fsync: site.durability == Durability::Fsync, probe: write, ..StoreOptions::default() };
        let store = runtime.block_on(Store::open(&url, options)).map_err(|e| unreachable(&url, e))?;
        Ok(Self { site, store, runtime })
    }
    pub fn block_on<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        self.runtime.block_on(future)
    }
    pub fn handle(&self) -> tokio::runtime::Handle {
        self.runtime.handle().clone()
    }
}

/// A store that cannot be opened is out of reach (exit 3) unless the URL itself is wrong.
fn unreachable(url: &str, error: Error) -> Error {
    if error.message.contains("scheme") {
        error
    } else {
        Error { kind: trainyard_core::ErrorKind::Lost, ..error.at(format!("store {url}")) }
    }
}

/// The URL from the command line, the site file, or the folder beside the site file or working directory.
pub fn store_url(args: &SiteArgs, site: &Site) -> String {
    args.store.clone().or_else(|| site.store.clone()).unwrap_or_else(|| LOCAL_STORE.to_string())
}

/// The site file named or found, else this machine alone.
pub fn site(args: &SiteArgs) -> Result<Site> {
    let this_machine = machine::pool();
    let Some(path) = args.site.clone().or_else(find_site) else { return Ok(Site::of_this_machine(this_machine)) };
    let surroundings = Surroundings { this_machine: &this_machine, executors: &wiring::executors() };
    let (site, found, sources) = site::read(&DiskFiles, &path, surroundings);
    site.ok_or_else(|| {
        diagnostics::print(&found, &sources);
        Error::invalid(format!("the site file {} has {}", path.display(), diagnostics::count(&found)))
    })
}

fn find_site() -> Option<PathBuf> {
    let start = std::env::current_dir().ok()?;
    start.ancestors().map(|folder| folder.join(SITE_FILE)).find(|p| p.is_file())
}

/// Where this user's machine-wide files stand: `$TRAINYARD_HOME`, else `~/.cache/trainyard`, else the temporary folder.
pub fn home() -> PathBuf {
    let cache = || std::env::var_os("HOME").map(|h| Path::new(&h).join(".cache/trainyard"));
    std::env::var_os("TRAINYARD_HOME").map(PathBuf::from).or_else(cache).unwrap_or_else(|| std::env::temp_dir().join("trainyard"))
}
