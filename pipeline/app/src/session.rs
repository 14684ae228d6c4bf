//! Opens the site, the store and a runtime, which most commands need.

use crate::catalogue::Catalogue;
use crate::machine;
use std::ffi::OsString;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::runtime::Runtime;
use trainyard_core::{Error, ErrorKind, Result};
use trainyard_runtime::executors::ExecutorKind;
use trainyard_spec::site::{self, Durability, ExecutorOptions, Site, SiteContext};
use trainyard_spec::{Diagnostic, LocalFileSystem, Sources};
use trainyard_store::{MissingFolder, Store, StoreOptions};

/// Name of the site file, which is searched for from the working directory upward.
pub const SITE_FILE: &str = "trainyard.yaml";
/// Default store, a folder.
const LOCAL_STORE: &str = ".trainyard";

/// Selection of site and store.
#[derive(Debug, Clone, Default)]
pub struct SessionOptions {
    /// URL of the store; overrides the URL in the site file.
    pub store: Option<String>,
    /// Path of the site file. If `None`, `trainyard.yaml` is searched for from the working directory upward.
    pub site: Option<PathBuf>,
}

/// Reason why a session cannot be opened.
pub enum SessionError {
    /// Any error other than mistakes in the site file.
    Error(Error),
    /// Mistakes in the site file.
    Site {
        /// Path of the site file.
        path: PathBuf,
        /// Mistakes in the file.
        found: Vec<Diagnostic>,
        /// Text that the diagnostics point into.
        sources: Sources,
    },
}

impl From<Error> for SessionError {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Converts the mistakes of a site file to one error, for programs that render no diagnostics.
impl From<SessionError> for Error {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Error(error) => error,
            SessionError::Site { path, found, sources } => {
                let lines: Vec<String> = found.iter().map(|diagnostic| sources.line(diagnostic)).collect();
                Self::invalid(format!("the site file {} has mistakes: {}", path.display(), lines.join("; ")))
            }
        }
    }
}

/// Access of a command to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads only; a missing store is an error.
    Read,
    /// Reads only; a missing store counts as empty.
    ReadOrEmpty,
    /// Writes to an existing store.
    Write,
    /// Creates the store if it is missing, and verifies that puts are create-only.
    Run,
}

/// An open store, its site, and a runtime.
pub struct AppSession {
    /// Checked site file; defaults if absent.
    pub site: Site,
    pub store: Store,
    /// Additional environment of attempts, initially empty.
    pub environment: Vec<(OsString, OsString)>,
    runtime: Runtime,
}

impl AppSession {
    /// Reads the site file and opens the store of the site. `access` decides whether a missing store is created.
    ///
    /// Errors: invalid (the site file, or the URL of the store); lost (the store is unreachable, exit code 3).
    pub fn open(place: &SessionOptions, access: Access, catalogue: &Catalogue) -> Result<Self, SessionError> {
        let site = site(place, catalogue)?;
        let url = store_url(place, &site);
        Store::check_url(&url)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|e| Error::retryable(format!("cannot start the asynchronous runtime: {e}")))?;
        let store = runtime.block_on(Store::open(&url, options(&site, access)));
        // The URL is valid, so the store itself is at fault.
        let store = store.map_err(|error| Error { kind: ErrorKind::Lost, ..error })?;
        Ok(Self { site, store, environment: Vec::new(), runtime })
    }
    /// Runs a future on the session's runtime and waits for its result.
    pub fn block_on<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        self.runtime.block_on(future)
    }
    /// Returns a handle that spawns tasks on the session's runtime.
    pub fn handle(&self) -> tokio::runtime::Handle {
        self.runtime.handle().clone()
    }
}

fn options(site: &Site, access: Access) -> StoreOptions {
    let (read_only, missing) = match access {
        Access::Read => (true, MissingFolder::Refuse),
        Access::ReadOrEmpty => (true, MissingFolder::Empty),
        Access::Write => (false, MissingFolder::Refuse),
        Access::Run => (false, MissingFolder::Make),
    };
    let durability_fsync = site.durability == Durability::Fsync;
    // Other commands are interactive and must not wait.
    let outage = if access == Access::Run { site.store_outage } else { Duration::ZERO };
    let probe = access == Access::Run;
    StoreOptions { durability_fsync, read_only, missing, probe, outage, ..StoreOptions::default() }
}

/// Returns the store's URL from the command line or the site file. If neither sets it, the store is a folder in the
/// working directory.
fn store_url(place: &SessionOptions, site: &Site) -> String {
    place.store.clone().or_else(|| site.store.clone()).unwrap_or_else(|| LOCAL_STORE.to_string())
}

/// Reads the site file that `place` names or that is found upward. Without a site file, the site consists of this
/// machine. If the site file sets no store, the store is a folder next to it, so that commands in all folders below use
/// the same store.
pub fn site(place: &SessionOptions, catalogue: &Catalogue) -> Result<Site, SessionError> {
    let Some(path) = place.site.clone().or_else(find_site) else {
        return Ok(Site::of_this_machine(machine::pool()));
    };
    let (site, found, sources) = read_site(&path, catalogue);
    let Some(mut site) = site else { return Err(SessionError::Site { path, found, sources }) };
    site.store.get_or_insert_with(|| path.with_file_name(LOCAL_STORE).display().to_string());
    Ok(site)
}

/// Reads a site file. Returns the site, unless mistakes prevent it, with all mistakes and the text that they point
/// into.
pub fn read_site(path: &Path, catalogue: &Catalogue) -> (Option<Site>, Vec<Diagnostic>, Sources) {
    let executors: Vec<ExecutorOptions<'_>> = catalogue.executors().iter().map(options_of).collect();
    let context = SiteContext {
        this_machine: &machine::pool(),
        executors: &executors,
        tracker: &catalogue.trackers().schema(),
        check_store: Store::check_url,
    };
    site::read(&LocalFileSystem, path, context)
}

/// Converts an executor to the form against which site files are checked.
fn options_of(kind: &ExecutorKind) -> ExecutorOptions<'_> {
    ExecutorOptions { name: kind.name, schema: &kind.schema, several_nodes: kind.several_nodes }
}

fn find_site() -> Option<PathBuf> {
    let start = std::env::current_dir().ok()?;
    start.ancestors().map(|folder| folder.join(SITE_FILE)).find(|p| p.is_file())
}

/// Returns the folder of this user's machine-wide files (slots, scratch): `$TRAINYARD_HOME`, else `~/.cache/trainyard`,
/// else a folder below the system's temporary folder.
pub fn home() -> PathBuf {
    let cache = || std::env::var_os("HOME").map(|h| Path::new(&h).join(".cache/trainyard"));
    std::env::var_os("TRAINYARD_HOME")
        .map(PathBuf::from)
        .or_else(cache)
        .unwrap_or_else(|| std::env::temp_dir().join("trainyard"))
}
