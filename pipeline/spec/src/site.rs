//! Reads the site file `trainyard.yaml`: the artifact store, the machines, and the sources of secrets.
//!
//! All settings that depend on the site are in this file, so workflow files are portable. Without a site file the
//! caller provides the amounts of this machine.

mod notification;
mod pools;
mod tracking;

pub use notification::{EVENTS, Notification, Recipient};
pub use pools::{ExecutorOptions, SiteGpu, SitePool};

use crate::diagnostic::{Diagnostic, Sources};
use crate::files::FileSystem;
use crate::read::{Binder, BoundNode, NoReferences, ValueReader};
use crate::yaml;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trainyard_core::Result;
use trainyard_core::attempt::{ORPHAN_TIMEOUT, STORE_OUTAGE};

/// Content of the file; relative store paths are made absolute against its folder.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Site {
    /// URL or path; `None` is `.trainyard/` next to the site file, or in the working directory if there is no site
    /// file.
    pub store: Option<String>,
    /// Time for which runs and attempts wait for an unreachable store.
    pub store_outage: Duration,
    /// Time for which an attempt continues without a heartbeat of a writer of its run, where supported.
    pub orphan_timeout: Duration,
    /// Sorted by priority (highest first), then in file order; never empty.
    pub pools: Vec<SitePool>,
    /// Name → provider (`env:HF_TOKEN`).
    pub secrets: BTreeMap<String, String>,
    /// Whether published artifacts survive a power loss.
    pub durability: Durability,
    /// Notifications about runs and schedules.
    pub notifications: Vec<Notification>,
    /// Trackers that follow runs: options as in the file, validated by schema.
    pub tracking: Vec<Value>,
    /// Folder of the site file; `None` without one.
    pub folder: Option<PathBuf>,
    /// Folder in which the users of a machine share its slots; `None`: one folder per user.
    pub slots: Option<PathBuf>,
}

/// Failures that published artifacts survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Survives the crash of any process.
    Process,
    /// Survives a power loss as well.
    Fsync,
}

impl Site {
    /// Returns the site without a file: one pool of this machine, no secrets.
    pub fn of_this_machine(pool: SitePool) -> Self {
        Self {
            store: None,
            store_outage: STORE_OUTAGE,
            orphan_timeout: ORPHAN_TIMEOUT,
            pools: vec![pool],
            secrets: BTreeMap::new(),
            durability: Durability::Process,
            notifications: Vec::new(),
            tracking: Vec::new(),
            folder: None,
            slots: None,
        }
    }
}

const KEYS: [&str; 10] = [
    "version",
    "store",
    "store_outage",
    "orphan_timeout",
    "pools",
    "secrets",
    "durability",
    "notifications",
    "tracking",
    "slots",
];

/// Context in which a site file is read.
#[derive(Debug, Clone, Copy)]
pub struct SiteContext<'a> {
    /// Pool of a file without pools; also provides the amounts that a local pool omits.
    pub this_machine: &'a SitePool,
    /// Executors in this build.
    pub executors: &'a [ExecutorOptions<'a>],
    /// JSON Schema of one entry of `tracking`.
    pub tracker: &'a Value,
    /// Checks whether a store URL could be opened, by its text.
    pub check_store: fn(&str) -> Result<()>,
}

/// Reads a site file.
pub fn read(
    files: &dyn FileSystem,
    path: &Path,
    surroundings: SiteContext<'_>,
) -> (Option<Site>, Vec<Diagnostic>, Sources) {
    let mut sources = Sources::default();
    let text = match files.read(path) {
        Ok(text) => text,
        Err(e) => {
            let file = sources.add(path.display().to_string(), Some(path), "");
            let d = Diagnostic::error("missing-file", sources.span(file, 0, 0), e.message).help_if(e.help);
            return (None, vec![d], sources);
        }
    };
    let file = sources.add(path.display().to_string(), Some(path), text);
    let (tree, mut diagnostics) = yaml::read(&sources, file);
    let site = tree.and_then(|tree| {
        let names = NoReferences("a site file has no expressions");
        let bound =
            Binder { sources: &sources, names: &names, text: false, diagnostics: &mut diagnostics }.bind(&tree)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        read_site(&bound, folder, surroundings, &mut ValueReader { diagnostics: &mut diagnostics })
    });
    let good = !diagnostics.iter().any(Diagnostic::is_error);
    (site.filter(|_| good), diagnostics, sources)
}

fn read_site(
    bound: &BoundNode,
    folder: &Path,
    surroundings: SiteContext<'_>,
    reader: &mut ValueReader<'_>,
) -> Option<Site> {
    let fields = reader.map(bound, "the site file", &KEYS)?;
    let mut site = Site::of_this_machine(surroundings.this_machine.clone());
    if let Some(b) = fields.get("version") {
        reader.integer(b, "`version`", 1, 1);
    }
    if let Some(b) = fields.get("store") {
        site.store = read_store(b, folder, surroundings, reader);
    }
    if let Some(outage) = fields.get("store_outage").and_then(|b| reader.duration(b, "`store_outage`")) {
        site.store_outage = outage;
    }
    if let Some(timeout) = fields.get("orphan_timeout").and_then(|b| reader.duration(b, "`orphan_timeout`")) {
        site.orphan_timeout = timeout;
    }
    if let Some(b) = fields.get("durability")
        && reader.word(b, "`durability`", &["process", "fsync"]) == Some("fsync")
    {
        site.durability = Durability::Fsync;
    }
    if let Some(pools) = fields.get("pools").and_then(|b| reader.list(b, "`pools`")) {
        site.pools = pools::read(pools, surroundings.this_machine, surroundings.executors, reader);
        if pools.is_empty() {
            reader.report(
                Diagnostic::error("wrong-value", fields.key_span("pools").unwrap_or(bound.span), "`pools` is empty")
                    .help("leave it out to use this machine"),
            );
        }
    }
    if let Some(b) = fields.get("secrets") {
        site.secrets = read_secrets(b, reader);
    }
    if let Some(list) = fields.get("notifications").and_then(|b| reader.list(b, "`notifications`")) {
        site.notifications = list.iter().filter_map(|b| notification::read(b, reader)).collect();
    }
    site.tracking = tracking::read(bound, surroundings.tracker, reader);
    site.folder = Some(folder.to_path_buf());
    if let Some(slots) = fields.get("slots").and_then(|b| reader.string(b, "`slots`")) {
        site.slots = Some(crate::files::absolute(folder, &slots));
    }
    Some(site)
}

/// Returns a URL as written, or a path made absolute.
fn read_store(
    bound: &BoundNode,
    folder: &Path,
    surroundings: SiteContext<'_>,
    reader: &mut ValueReader<'_>,
) -> Option<String> {
    let text = reader.string(bound, "`store`")?;
    if let Err(error) = (surroundings.check_store)(&text) {
        reader.report(Diagnostic::error("wrong-value", bound.span, error.message).help_if(error.help));
    }
    Some(if text.contains("://") { text } else { crate::files::absolute(folder, &text).display().to_string() })
}

fn read_secrets(bound: &BoundNode, reader: &mut ValueReader<'_>) -> BTreeMap<String, String> {
    let crate::read::BoundContent::Map(entries) = &bound.content else {
        reader.wrong(bound, "`secrets`", "a map from names to providers, as in `{HF_TOKEN: env:HF_TOKEN}`");
        return BTreeMap::new();
    };
    let mut secrets = BTreeMap::new();
    for entry in entries {
        let Some(provider) = reader.string(&entry.value, &format!("the secret `{}`", entry.key)) else { continue };
        if !provider.starts_with("env:") || provider.len() == 4 {
            let d =
                Diagnostic::error("wrong-value", entry.value.span, format!("`{provider}` is not a secret provider"));
            reader.report(d.help(format!("name an environment variable: `env:{}`", entry.key)));
        }
        secrets.insert(entry.key.clone(), provider);
    }
    secrets
}
