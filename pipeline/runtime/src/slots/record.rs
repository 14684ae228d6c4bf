//! Reads and writes the locked files that record held or requested resources of this machine.

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::time::Duration;
use trainyard_core::Error;
use trainyard_core::error::io_error;
use trainyard_core::units::format_duration;
use trainyard_engine::{ExternalUsage, MachineShare};

/// Holder of slots, shown to users who wait for them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotHolder {
    /// User id. Unknown, and 0, in files of earlier versions.
    #[serde(default)]
    pub user: u32,
    pub run: String,
    pub workflow: String,
    pub stage: String,
}

/// Content of the file of a holding or of a waiting request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotRecord {
    pub cpus: u32,
    /// Bytes of memory.
    pub memory: u64,
    pub gpus: Vec<u32>,
    /// Unknown in files of earlier versions.
    #[serde(default)]
    pub holder: SlotHolder,
    /// Start of the holding or of the wait, in Unix milliseconds.
    #[serde(default)]
    pub since: i64,
}

impl SlotRecord {
    /// Formats `run 20261122-… (quickstart, rl) for 4m`; `now` is in Unix milliseconds.
    pub fn describe(&self, now: i64) -> String {
        let SlotHolder { run, workflow, stage, .. } = &self.holder;
        if run.is_empty() {
            return "another run".into();
        }
        let age = Duration::from_millis(u64::try_from(now - self.since).unwrap_or(0));
        format!("run {run} ({workflow}, {stage}) for {}", format_duration(age))
    }
}

impl SlotRecord {
    /// Creates a record of the sum of `shares`.
    pub(super) fn of(shares: &[MachineShare], holder: &SlotHolder, since: i64) -> Self {
        let mut all = Self { holder: holder.clone(), since, ..Self::default() };
        for share in shares {
            all.cpus = all.cpus.saturating_add(share.cpus);
            all.memory = all.memory.saturating_add(share.memory);
            all.gpus.extend(&share.gpus);
        }
        all
    }
}

/// Creates the file of a holding or a waiting request, locked by the returned handle.
pub(super) fn create_locked(path: &Path, holding: &SlotRecord) -> std::io::Result<File> {
    let text = serde_json::to_vec(holding)?;
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    file.write_all(&text)?;
    Ok(file)
}

/// Reads a holding or a waiting request. Returns `None` if the file is missing or its lock is free; in the second case
/// removes the file. The folder's lock must be held.
pub(super) fn read(path: &Path) -> std::io::Result<Option<SlotRecord>> {
    let mut file = match open(path, false) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {
            // If the removal fails, the next read tries again.
            let _ = std::fs::remove_file(path);
            Ok(None)
        }
        Err(Errno::WOULDBLOCK) => {
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            // A file of another version: its number is taken, its amounts are unknown.
            Ok(Some(serde_json::from_str(&text).unwrap_or_default()))
        }
        Err(e) => Err(e.into()),
    }
}

/// Opens a file to lock it: for writing too, since network file systems require that for an exclusive lock, unless it
/// belongs to another user.
pub(super) fn open(path: &Path, create: bool) -> std::io::Result<File> {
    match OpenOptions::new().read(true).write(true).create(create).truncate(false).open(path) {
        Err(e) if e.kind() == ErrorKind::PermissionDenied => File::open(path),
        opened => opened,
    }
}

pub(super) fn sum<'a>(list: impl Iterator<Item = &'a SlotRecord>) -> ExternalUsage {
    let mut all = ExternalUsage::default();
    for holding in list {
        all.cpus = all.cpus.saturating_add(holding.cpus);
        all.memory = all.memory.saturating_add(holding.memory);
        all.gpus.extend(&holding.gpus);
    }
    all.gpus.sort_unstable();
    all
}

pub(super) fn fault(path: &Path, error: &std::io::Error) -> Error {
    let error = io_error(path, error);
    let help = "the slots of this machine are recorded there: make the folder writable on a file system with file \
                locks, or set another folder with TRAINYARD_HOME or `slots` in the site file";
    if error.help.is_some() { error } else { error.help(help) }
}
