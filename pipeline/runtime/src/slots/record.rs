//! Reads and writes the locked files that record held or requested resources of this machine.

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;
use trainyard_core::error::io_error;
use trainyard_core::units::format_duration;
use trainyard_core::{Error, Result};
use trainyard_engine::{ExternalUsage, MachineShare};

/// Maximum bytes of a record.
const MAX_BYTES: u64 = 64 * 1024;
/// Time between two tries to lock a file.
const LOCK_INTERVAL: Duration = Duration::from_millis(10);

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

/// Creates the file of a holding or a waiting request, locked by the returned handle. Errors: already exists (anything
/// has this name, also a link to nowhere), those of the file system.
pub(super) fn create_locked(path: &Path, holding: &SlotRecord) -> std::io::Result<File> {
    let text = serde_json::to_vec(holding)?;
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    file.write_all(&text)?;
    Ok(file)
}

/// Creates the file of the first number whose name is free; a name may be occupied by something that is no holding.
pub(super) fn create_first(
    numbers: &mut impl Iterator<Item = u64>,
    path: impl Fn(u64) -> PathBuf,
    record: &SlotRecord,
) -> Result<(u64, File)> {
    for number in numbers {
        let path = path(number);
        match create_locked(&path, record) {
            Ok(file) => return Ok((number, file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(fault(&path, &error)),
        }
    }
    Err(Error::bug("no number is left for a holding"))
}

/// Reads a holding or a waiting request. Returns `None` if the file is missing, is no regular file, or its lock is
/// free; in the last case removes the file, if this user may. The folder's lock must be held.
pub(super) fn read(path: &Path) -> std::io::Result<Option<SlotRecord>> {
    let file = match open(path, false) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) if is_irregular(&e) => {
            tracing::debug!(path = %path.display(), "ignored in the folder of slots: {e}");
            return Ok(None);
        }
        Err(e) => return Err(e),
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {
            // If the removal fails, the next read tries again.
            let _ = std::fs::remove_file(path);
            Ok(None)
        }
        Err(Errno::WOULDBLOCK) => {
            let owner = file.metadata()?.uid();
            let mut bytes = Vec::new();
            file.take(MAX_BYTES).read_to_end(&mut bytes)?;
            // A file of another version: its number is taken, its amounts are unknown.
            let mut record: SlotRecord = serde_json::from_slice(&bytes).unwrap_or_default();
            // A user cannot hold slots in the name of another one.
            if owner != rustix::process::getuid().as_raw() {
                record.holder.user = owner;
            }
            Ok(Some(record))
        }
        Err(e) => Err(e.into()),
    }
}

/// Locks a file, which is created if it is missing. Returns `None` if others hold the lock for all of `patience`.
pub(super) fn lock(path: &Path, patience: Duration) -> std::io::Result<Option<File>> {
    let file = open(path, true)?;
    let mut waited = Duration::ZERO;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(file)),
            Err(Errno::WOULDBLOCK) if waited < patience => {
                sleep(LOCK_INTERVAL);
                waited += LOCK_INTERVAL;
            }
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Opens a file to lock it: for writing too, since network file systems require that for an exclusive lock, unless it
/// belongs to another user. Never follows a link and never waits for the other end of a pipe. Errors: [`is_irregular`],
/// if it is no regular file.
fn open(path: &Path, create: bool) -> std::io::Result<File> {
    // The bits fit: they are those of open(2), which takes an int.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let writable =
        OpenOptions::new().read(true).write(true).create(create).truncate(false).custom_flags(flags).open(path);
    let file = match writable {
        Err(e) if e.kind() == ErrorKind::PermissionDenied => {
            OpenOptions::new().read(true).custom_flags(flags).open(path)?
        }
        opened => opened?,
    };
    if file.metadata()?.is_file() { Ok(file) } else { Err(irregular()) }
}

fn irregular() -> std::io::Error {
    std::io::Error::new(ErrorKind::InvalidInput, "it is not a regular file")
}

/// Returns whether a file was refused because it is a link, a pipe, a folder or a device.
fn is_irregular(error: &std::io::Error) -> bool {
    let codes = [Errno::LOOP, Errno::ISDIR, Errno::NXIO].map(|code| Some(code.raw_os_error()));
    error.kind() == ErrorKind::InvalidInput || codes.contains(&error.raw_os_error())
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
    if is_irregular(error) {
        return io_error(path, error).help("remove it: the slots of this machine are recorded in regular files there");
    }
    let error = io_error(path, error);
    let help = "the slots of this machine are recorded there: make the folder writable on a file system with file \
                locks, or set another folder with TRAINYARD_HOME or `slots` in the site file";
    if error.help.is_some() { error } else { error.help(help) }
}
