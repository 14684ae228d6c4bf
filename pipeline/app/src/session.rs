//! What most commands start with: the site, the store, and a runtime for both.

use crate::catalogue::Catalogue;
use crate::machine;
use std::ffi::OsString;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::runtime::Runtime;
use trainyard_core::{Error, ErrorKind, Result};
use trainyard_runtime::executors::ExecutorKind;
use trainyard_spec::site::{self, Durability, ExecutorOptions, Site, Surroundings};
use trainyard_spec::{Diagnostic, DiskFiles, Sources};
use trainyard_store::{Missing, Store, StoreOptions};

/// The file that is searched for upward from the working directory.
pub const SITE_FILE: &str = "trainyard.yaml";
/// The store if none is named.
const LOCAL_STORE: &str = ".trainyard";

/// Which site and store are meant; what is left out is looked for.
#[derive(Debug, Clone, Default)]
pub struct Place {
    /// Store URL; overrides that of the site file.
    pub store: Option<String>,
    /// Site file; otherwise `trainyard.yaml` is looked for upward from the working directory.
    pub site: Option<PathBuf>,
}

/// Why there is no session.
pub enum Refusal {
    /// Anything but mistakes in the site file.
    Error(Error),
    /// The site file has mistakes.
    Site {
        /// The site file.
        path: PathBuf,
        /// Its mistakes.
        found: Vec<Diagnostic>,
        /// The text that the diagnostics point into.
        sources: Sources,
    },
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// For programs that draw no diagnostics: the mistakes of a site file in one error.
impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Error(error) => error,
            Refusal::Site { path, found, sources } => {
                let lines: Vec<String> = found.iter().map(|diagnostic| sources.line(diagnostic)).collect();
                Self::invalid(format!("the site file {} has mistakes: {}", path.display(), lines.join("; ")))
            }
        }
    }
}

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
    /// The site file, checked; defaults if there is none.
    pub site: Site,
    /// The open store.
    pub store: Store,
    /// Added to the environment of attempts; empty at first.
    pub environment: Vec<(OsString, OsString)>,
    runtime: Runtime,
}

impl Session {
    /// Opens the store of the site. Errors: invalid (the site file, the store's URL), lost (a store out of reach: exit
    /// 3).
    pub fn open(place: &Place, access: Access, catalogue: &Catalogue) -> Result<Self, Refusal> {
        let site = site(place, catalogue)?;
        let url = store_url(place, &site);
        Store::check_url(&url)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|e| Error::retryable(format!("no asynchronous runtime: {e}")))?;
        let store = runtime.block_on(Store::open(&url, options(&site, access)));
        // The URL is valid, so the place itself is at fault.
        let store = store.map_err(|error| Error { kind: ErrorKind::Lost, ..error })?;
        Ok(Self { site, store, environment: Vec::new(), runtime })
    }
    /// Runs a future on the session's runtime and waits for its result.
    pub fn block_on<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        self.runtime.block_on(future)
    }
    /// A handle for spawning tasks on the session's runtime.
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
    // Somebody waits for any other command.
    let outage = if access == Access::Run { site.store_outage } else { Duration::ZERO };
    let probe = access == Access::Run;
    StoreOptions { durability_fsync, read_only, missing, probe, outage, ..StoreOptions::default() }
}

/// The URL from the command line or the site file; without either, a folder in the working directory.
fn store_url(place: &Place, site: &Site) -> String {
    place.store.clone().or_else(|| site.store.clone()).unwrap_or_else(|| LOCAL_STORE.to_string())
}

/// The site file named or found, else this machine alone. A site file without a store has one beside it, so that a
/// command means the same store in every folder below.
pub fn site(place: &Place, catalogue: &Catalogue) -> Result<Site, Refusal> {
    let Some(path) = place.site.clone().or_else(find_site) else {
        return Ok(Site::of_this_machine(machine::pool()));
    };
    let (site, found, sources) = read_site(&path, catalogue);
    let Some(mut site) = site else { return Err(Refusal::Site { path, found, sources }) };
    site.store.get_or_insert_with(|| path.with_file_name(LOCAL_STORE).display().to_string());
    Ok(site)
}

/// A site file, and everything that is wrong with it.
pub fn read_site(path: &Path, catalogue: &Catalogue) -> (Option<Site>, Vec<Diagnostic>, Sources) {
    let executors: Vec<ExecutorOptions<'_>> = catalogue.executors().iter().map(options_of).collect();
    let surroundings = Surroundings {
        this_machine: &machine::pool(),
        executors: &executors,
        tracker: &catalogue.trackers().schema(),
        check_store: Store::check_url,
    };
    site::read(&DiskFiles, path, surroundings)
}

/// An executor as site files may name it.
fn options_of(kind: &ExecutorKind) -> ExecutorOptions<'_> {
    ExecutorOptions { name: kind.name, schema: &kind.schema, several_nodes: kind.several_nodes }
}

fn find_site() -> Option<PathBuf> {
    let start = std::env::current_dir().ok()?;
    start.ancestors().map(|folder| folder.join(SITE_FILE)).find(|p| p.is_file())
}

/// The folder of this user's machine-wide files (slots, scratch): `$TRAINYARD_HOME`, else `~/.cache/trainyard`, else a
/// temporary one.
pub fn home() -> PathBuf {
    let cache = || std::env::var_os("HOME").map(|h| Path::new(&h).join(".cache/trainyard"));
    std::env::var_os("TRAINYARD_HOME")
        .map(PathBuf::from)
        .or_else(cache)
        .unwrap_or_else(|| std::env::temp_dir().join("trainyard"))
}
