//! The site file `trainyard.yaml`: where artifacts live, which machines there are, where secrets come from.
//!
//! It holds everything about a place, so workflow files need nothing about it. Without a site file the caller gives the
//! amounts of this machine.

mod notification;

pub use notification::{EVENTS, Notification, Recipient};

use crate::diagnostic::{Diagnostic, Sources, suggest};
use crate::files::Files;
use crate::plan::Request;
use crate::read::{Binder, Bound, Fields, NoNames, Reader};
use crate::yaml;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;
use trainyard_core::Result;
use trainyard_core::attempt::STORE_OUTAGE;
use trainyard_core::resources::{Amounts, missing_tags, shortfalls};

/// What the file says; relative store paths are made absolute against its folder.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Site {
    /// URL or path. None: `.trainyard/` beside the site file, or in the working directory without one.
    pub store: Option<String>,
    /// How long runs and attempts wait for a store that is away.
    pub store_outage: Duration,
    /// Sorted by priority (highest first), then in file order; never empty.
    pub pools: Vec<Pool>,
    /// Name → provider (`env:HF_TOKEN`).
    pub secrets: BTreeMap<String, String>,
    /// Whether published artifacts survive a power loss.
    pub durability: Durability,
    /// Who is told about runs and schedules.
    pub notifications: Vec<Notification>,
}

/// What published artifacts survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Survives the death of any process.
    Process,
    /// Survives a power loss as well.
    Fsync,
}

/// Equal machines that one executor can reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pool {
    /// Unique in the file; messages and journals name it.
    pub name: String,
    /// Name of the executor that starts attempts here.
    pub executor: String,
    /// Of one machine.
    pub cpus: u32,
    /// Bytes of one machine; 0 = unknown, admits any request.
    pub memory: u64,
    /// Of one machine.
    pub gpus: Vec<Gpu>,
    /// Machines.
    pub nodes: u32,
    /// What `tags` of a request may ask for.
    pub tags: Vec<String>,
    /// Higher is tried first.
    pub priority: i32,
}

/// One GPU of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Gpu {
    /// As the machine's driver counts, from 0.
    pub index: u32,
    /// Bytes; 0 = unknown, admits any request.
    pub memory: u64,
}

impl Pool {
    /// One machine without tags.
    pub fn local(cpus: u32, memory: u64, gpus: Vec<Gpu>) -> Self {
        Self {
            name: "local".into(),
            executor: "local".into(),
            cpus,
            memory,
            gpus,
            nodes: 1,
            tags: Vec::new(),
            priority: 0,
        }
    }
    /// Why this pool, even when idle, cannot take the request; empty if it can.
    pub fn misfit(&self, request: &Request) -> Vec<String> {
        let mut reasons: Vec<String> =
            missing_tags(&request.tags, &self.tags).into_iter().map(|missing| format!("it {missing}")).collect();
        let large = self.gpus.iter().filter(|g| g.memory == 0 || g.memory >= request.gpu_memory).count();
        let total = Amounts { cpus: self.cpus, memory: self.memory, gpus: u32::try_from(large).unwrap_or(u32::MAX) };
        let need = Amounts { cpus: request.cpus.unwrap_or(1), memory: request.memory, gpus: request.gpus };
        reasons.extend(shortfalls(need, request.gpu_memory, total, total));
        if request.nodes.max(1) > self.nodes {
            reasons.push(format!("needs {} machines; it has {}", request.nodes, self.nodes));
        }
        reasons
    }
}

impl Site {
    /// Without a site file: one pool of this machine, no secrets.
    pub fn of_this_machine(pool: Pool) -> Self {
        Self {
            store: None,
            store_outage: STORE_OUTAGE,
            pools: vec![pool],
            secrets: BTreeMap::new(),
            durability: Durability::Process,
            notifications: Vec::new(),
        }
    }
}

const KEYS: [&str; 7] = ["version", "store", "store_outage", "pools", "secrets", "durability", "notifications"];
const POOL_KEYS: [&str; 9] = ["name", "executor", "cpus", "memory", "gpus", "gpu_memory", "nodes", "tags", "priority"];

/// What a site file is read against.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// The pool when the file names none; it also gives the amounts that a local pool leaves out.
    pub this_machine: &'a Pool,
    /// Names of the executors that the build has.
    pub executors: &'a [&'a str],
    /// Whether a store URL could ever be opened, judged by its text.
    pub check_store: fn(&str) -> Result<()>,
}

/// Reads a site file.
pub fn read(
    files: &dyn Files,
    path: &Path,
    surroundings: Surroundings<'_>,
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
        let names = NoNames("a site file has no expressions");
        let bound =
            Binder { sources: &sources, names: &names, text: false, diagnostics: &mut diagnostics }.bind(&tree)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        read_site(&bound, folder, surroundings, &mut Reader { diagnostics: &mut diagnostics })
    });
    let good = !diagnostics.iter().any(Diagnostic::is_error);
    (site.filter(|_| good), diagnostics, sources)
}

fn read_site(bound: &Bound, folder: &Path, surroundings: Surroundings<'_>, reader: &mut Reader<'_>) -> Option<Site> {
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
    if let Some(b) = fields.get("durability")
        && reader.word(b, "`durability`", &["process", "fsync"]) == Some("fsync")
    {
        site.durability = Durability::Fsync;
    }
    if let Some(pools) = fields.get("pools").and_then(|b| reader.list(b, "`pools`")) {
        site.pools = pools.iter().filter_map(|b| read_pool(b, surroundings, reader)).collect();
        let mut seen = BTreeSet::new();
        for (pool, b) in site.pools.iter().zip(pools) {
            if !seen.insert(pool.name.clone()) {
                reader.report(Diagnostic::error(
                    "duplicate-name",
                    b.span,
                    format!("two pools are called `{}`", pool.name),
                ));
            }
        }
        if pools.is_empty() {
            reader.report(
                Diagnostic::error("wrong-value", fields.key_span("pools").unwrap_or(bound.span), "`pools` is empty")
                    .help("leave it out to use this machine"),
            );
        }
        site.pools.sort_by_key(|p| std::cmp::Reverse(p.priority));
    }
    if let Some(b) = fields.get("secrets") {
        site.secrets = read_secrets(b, reader);
    }
    if let Some(list) = fields.get("notifications").and_then(|b| reader.list(b, "`notifications`")) {
        site.notifications = list.iter().filter_map(|b| notification::read(b, reader)).collect();
    }
    Some(site)
}

/// A URL as written, or a path made absolute.
fn read_store(bound: &Bound, folder: &Path, surroundings: Surroundings<'_>, reader: &mut Reader<'_>) -> Option<String> {
    let text = reader.string(bound, "`store`")?;
    if let Err(error) = (surroundings.check_store)(&text) {
        reader.report(Diagnostic::error("wrong-value", bound.span, error.message).help_if(error.help));
    }
    Some(if text.contains("://") { text } else { crate::files::absolute(folder, &text).display().to_string() })
}

fn read_pool(bound: &Bound, surroundings: Surroundings<'_>, reader: &mut Reader<'_>) -> Option<Pool> {
    let fields = reader.map(bound, "a pool", &POOL_KEYS)?;
    let Some(name) = fields.get("name").map(|b| reader.string(b, "`name`")) else {
        reader.report(Diagnostic::error("missing-key", bound.span, "a pool has no `name`"));
        return None;
    };
    let executor = fields
        .get("executor")
        .map_or(Some("local".to_string()), |b| read_executor(b, surroundings.executors, reader))?;
    let base = if executor == "local" { surroundings.this_machine.clone() } else { Pool::local(1, 0, Vec::new()) };
    let gpu_memory = fields.get("gpu_memory").and_then(|b| reader.size(b, "`gpu_memory`")).unwrap_or(0);
    Some(Pool {
        name: name?,
        executor,
        cpus: fields.get("cpus").and_then(|b| reader.count(b, "`cpus`", 1)).unwrap_or(base.cpus),
        memory: fields.get("memory").and_then(|b| reader.size(b, "`memory`")).unwrap_or(base.memory),
        gpus: read_gpus(&fields, gpu_memory, reader).unwrap_or(base.gpus),
        nodes: fields.get("nodes").and_then(|b| reader.count(b, "`nodes`", 1)).unwrap_or(1),
        tags: fields.get("tags").and_then(|b| reader.strings(b, "`tags`")).unwrap_or_default(),
        priority: fields.get("priority").and_then(|b| reader.integer(b, "`priority`", -1_000, 1_000)).unwrap_or(0)
            as i32,
    })
}

/// A name that the build does not know is kept, so that the rest of its pool is judged as well.
fn read_executor(bound: &Bound, known: &[&str], reader: &mut Reader<'_>) -> Option<String> {
    let name = reader.string(bound, "`executor`")?;
    if !known.contains(&name.as_str()) {
        let d = Diagnostic::error("unknown-executor", bound.span, format!("this build has no executor `{name}`"));
        reader.report(d.help_if(suggest(&name, known.iter().copied())));
    }
    Some(name)
}

/// `gpus: 2`, `gpus: [0, 3]`, or `gpus: [{index: 0, memory: 80GiB}]`.
fn read_gpus(fields: &Fields<'_>, memory: u64, reader: &mut Reader<'_>) -> Option<Vec<Gpu>> {
    let bound = fields.get("gpus")?;
    if let crate::read::BoundContent::List(items) = &bound.content {
        return Some(items.iter().filter_map(|b| read_gpu(b, memory, reader)).collect());
    }
    let count = reader.integer(bound, "`gpus`", 0, 1_024)?;
    Some((0..count as u32).map(|index| Gpu { index, memory }).collect())
}

fn read_gpu(bound: &Bound, memory: u64, reader: &mut Reader<'_>) -> Option<Gpu> {
    if matches!(bound.content, crate::read::BoundContent::Map(_)) {
        let fields = reader.map(bound, "a gpu", &["index", "memory"])?;
        let memory = fields.get("memory").map_or(Some(memory), |b| reader.size(b, "`memory`"))?;
        let index = fields.get("index").and_then(|b| reader.integer(b, "`index`", 0, 1_023))?;
        return Some(Gpu { index: index as u32, memory });
    }
    reader.integer(bound, "a gpu's index", 0, 1_023).map(|i| Gpu { index: i as u32, memory })
}

fn read_secrets(bound: &Bound, reader: &mut Reader<'_>) -> BTreeMap<String, String> {
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
