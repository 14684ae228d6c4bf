//! Shares the slots of this machine among all runs of one or several users, through a folder of locked files.
//!
//! Each holding is a file, `<host>.<number>`, with an exclusive `flock` of its holder, and counts as long as the lock
//! is held. The kernel releases the lock when the holder ends, for any reason, and unlike a process id it has the same
//! meaning in every container and after every boot. An attempt inherits the handle of its holding, and so do all
//! processes that it starts: if the run is killed, its slots are free once all processes of the attempt have ended. A
//! file without a lock is a leftover, removed by the next reader. Several machines may share a home directory, so only
//! files with this host's name count. Reading and taking slots are serialized by the file `lock`.
//!
//! A waiting attempt also holds a file, `<host>.wait.<number>`, with its request. `queue` decides whose turn it is:
//! first the user, and then the run, with the smallest holding. The attempts of a group take their slots all at once.

mod group;
mod queue;
mod record;

pub use record::{SlotHolder, SlotRecord};

use crate::control::Control;
use command_fds::CommandFdExt;
use group::SlotGroup;
use record::{create_first, fault, lock, read, sum};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use trainyard_core::resources::{ResourceAmounts, shortfalls};
use trainyard_core::{Clock as _, Error, Result, SystemClock};
use trainyard_engine::{ExternalUsage, Grant, MachineShare, PoolMachine};

/// Time between two reports of the holders for which an attempt waits.
const REPORT_INTERVAL: Duration = Duration::from_secs(30);
/// Poll interval of a waiting attempt.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Longest wait for the lock of the folder. It is held for milliseconds, unless by a process that was stopped.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
/// Longest wait for the lock between two checks of whether an attempt was stopped.
const LOCK_SLICE: Duration = Duration::from_secs(1);
/// File whose lock serializes access to the folder.
const LOCK: &str = "lock";
/// Prefix of the names of waiting requests, after the host.
const WAIT: &str = "wait.";

/// Slots of this machine as seen by one run.
#[derive(Clone)]
pub struct Slots(Arc<SlotsInner>);

struct SlotsInner {
    folder: PathBuf,
    host: String,
    machine: PoolMachine,
    /// Numbers of the holdings taken through this object.
    own: Mutex<BTreeSet<u64>>,
    /// Slots reserved for attempts of groups that have not taken them yet, by group.
    reserved: Mutex<BTreeMap<usize, Vec<Option<SlotGuard>>>>,
}

/// Slots in use; dropping it releases them.
pub struct SlotGuard {
    slots: Slots,
    number: u64,
    /// Holds the lock while it is open, here or in a process that inherited it.
    file: File,
    /// Whether the slots stay with the process that inherited them when this guard is dropped.
    inherited: AtomicBool,
    /// Key of the group whose slots were taken together with these.
    group: Option<usize>,
}

/// Position in the waiting line; dropping it removes the request from the line.
struct WaitGuard {
    path: PathBuf,
    number: u64,
    since: i64,
    /// Holds the lock while it is open.
    _file: File,
}

impl SlotGuard {
    /// Returns the file for [`lend`].
    pub(crate) fn handle(&self) -> &File {
        &self.file
    }
    /// Sets whether the slots stay with the process that inherited them when this guard is dropped. Must be reset once
    /// that process has ended, or the file stays until the next reader removes it.
    pub(crate) fn set_inherited(&self, leave: bool) {
        self.inherited.store(leave, Ordering::SeqCst);
    }
}

/// Lets the process that `command` starts inherit `file`, whose lock is then held until that process and its children
/// have ended. Other processes started meanwhile do not inherit it, because the file is opened only in the child.
pub(crate) fn lend(file: &File, command: &mut impl CommandFdExt) -> std::io::Result<()> {
    command.preserved_fds(vec![file.try_clone()?.into()]);
    Ok(())
}

impl Slots {
    /// Creates the slots of `machine`; the folder is created when slots are taken.
    pub fn new(folder: impl Into<PathBuf>, machine: PoolMachine) -> Self {
        Self(Arc::new(SlotsInner {
            folder: folder.into(),
            host: host(),
            machine,
            own: Mutex::default(),
            reserved: Mutex::default(),
        }))
    }

    /// Waits until the first share of the grant is free, and takes it together with the shares of its group. Before the
    /// first wait, and every 30 s, calls `waits` with a description of the current holders. Returns `None` for a grant
    /// without shares.
    ///
    /// Errors: invalid (more than the machine has), cancelled (`control` rose), those of the folder.
    pub async fn acquire(
        &self,
        grant: &Grant,
        holder: &SlotHolder,
        control: &mut watch::Receiver<Control>,
        mut waits: impl FnMut(String),
    ) -> Result<Option<SlotGuard>> {
        let (clock, mut reported) = (SystemClock::new(), None);
        let mut wait_guard: Option<WaitGuard> = None;
        let group = SlotGroup::of(grant);
        if group.shares.is_empty() {
            return Ok(None);
        }
        loop {
            let (slots, request, holder, previous) = (self.clone(), group.clone(), holder.clone(), wait_guard.take());
            let taken = tokio::task::spawn_blocking(move || slots.take_or_wait(&request, &holder, previous)).await;
            match taken.map_err(|e| Error::bug(format!("taking slots: {e}")))?? {
                Ok(held) => return Ok(Some(held)),
                Err(waiting) => wait_guard = waiting,
            }
            if is_due(reported, clock.monotonic()) {
                reported = Some(clock.monotonic());
                let (slots, own) = (self.clone(), wait_guard.as_ref().map(|guard| guard.number));
                let holders = tokio::task::spawn_blocking(move || slots.holders(own)).await;
                let holders = holders.map_err(|e| Error::bug(format!("reading slots: {e}")))?;
                waits(holders.unwrap_or_else(|error| error.to_string()));
            }
            tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                _ = control.wait_for(|w| *w > Control::Run) => {
                    return Err(Error::cancelled("stopped while waiting for slots of this machine"));
                }
            }
        }
    }

    /// Takes the share if it is free and no waiting request has precedence; otherwise returns `None` without waiting.
    /// Errors: invalid (more than the machine has), those of the folder.
    pub fn try_take(&self, share: &MachineShare, holder: &SlotHolder) -> Result<Option<SlotGuard>> {
        self.prepare(std::slice::from_ref(share))?;
        let _turn = self.lock_folder()?;
        let (holdings, waiting) = self.live_records()?;
        let now = SystemClock::new().unix_millis();
        let request = SlotRecord::of(std::slice::from_ref(share), holder, now);
        let (held, waiting) = (values(&holdings), values(&waiting));
        if !queue::may_take(&self.0.machine, &held, &waiting, &request, now) {
            return Ok(None);
        }
        Ok(self.hold_all(&holdings, vec![request], None)?.pop())
    }

    /// Takes the slots of one attempt and reserves those of its group, or enters the waiting line. `previous` is the
    /// position of an earlier try, which is returned if the folder stays locked for [`LOCK_SLICE`].
    fn take_or_wait(
        &self,
        group: &SlotGroup,
        holder: &SlotHolder,
        previous: Option<WaitGuard>,
    ) -> Result<Result<SlotGuard, Option<WaitGuard>>> {
        self.prepare(&group.shares)?;
        let Some(_turn) = self.lock_folder_within(LOCK_SLICE)? else { return Ok(Err(previous)) };
        if let Some(held) = self.take_reserved(group) {
            return Ok(Ok(held));
        }
        let (holdings, mut waiting) = self.live_records()?;
        previous.iter().for_each(|guard| drop(waiting.remove(&guard.number)));
        let now = SystemClock::new().unix_millis();
        let since = previous.as_ref().map_or(now, |guard| guard.since);
        let request = SlotRecord::of(&group.shares, holder, since);
        if !queue::may_take(&self.0.machine, &values(&holdings), &values(&waiting), &request, now) {
            let mut free = (0..u64::MAX).filter(|number| !waiting.contains_key(number));
            return Ok(Err(Some(previous.map_or_else(|| self.enqueue(&mut free, &request), Ok)?)));
        }
        let each = group.shares.iter().map(|share| SlotRecord::of(std::slice::from_ref(share), holder, now));
        let mut all: Vec<Option<SlotGuard>> =
            self.hold_all(&holdings, each.collect(), group.key)?.into_iter().map(Some).collect();
        let own = all.get_mut(group.at).and_then(Option::take);
        if let Some(key) = group.key {
            let previous = self.0.reserved.lock().unwrap_or_else(PoisonError::into_inner).insert(key, all);
            // Dropped after the lock is released, since dropping slots locks it too.
            drop(previous);
        }
        own.map(Ok).ok_or_else(|| Error::bug("an attempt is not part of its own group"))
    }

    fn take_reserved(&self, group: &SlotGroup) -> Option<SlotGuard> {
        let mut reserved = self.0.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        reserved.get_mut(&group.key?)?.get_mut(group.at)?.take()
    }

    fn enqueue(&self, free: &mut impl Iterator<Item = u64>, request: &SlotRecord) -> Result<WaitGuard> {
        let path = |number: u64| self.0.folder.join(format!("{}.{WAIT}{number}", self.0.host));
        let (number, file) = create_first(free, path, request)?;
        Ok(WaitGuard { path: path(number), number, since: request.since, _file: file })
    }

    /// Creates the holdings; the caller has checked that they fit.
    fn hold_all(
        &self,
        current: &BTreeMap<u64, SlotRecord>,
        holdings: Vec<SlotRecord>,
        group: Option<usize>,
    ) -> Result<Vec<SlotGuard>> {
        let mut free = (0..u64::MAX).filter(|number| !current.contains_key(number));
        let one = |holding: SlotRecord| {
            let (number, file) = create_first(&mut free, |number| self.path(number), &holding)?;
            self.own().insert(number);
            Ok(SlotGuard { slots: self.clone(), number, file, inherited: AtomicBool::new(false), group })
        };
        holdings.into_iter().map(one).collect()
    }

    /// Refuses shares that can never be free, and creates the folder.
    fn prepare(&self, shares: &[MachineShare]) -> Result<()> {
        shares.iter().try_for_each(|share| refuse_too_large(share, &self.0.machine))?;
        std::fs::create_dir_all(&self.0.folder).map_err(|e| fault(&self.0.folder, &e))
    }

    /// Returns all current holdings of this machine. Errors: those of the folder.
    pub fn holdings(&self) -> Result<Vec<SlotRecord>> {
        // If no slots were ever taken here, reading must leave no trace.
        if !self.0.folder.join(LOCK).exists() {
            return Ok(Vec::new());
        }
        let _turn = self.lock_folder()?;
        Ok(values(&self.live_records()?.0))
    }

    /// Formats the current holders: `held by run … (workflow, stage) for 4m`. If the slots were released meanwhile,
    /// the other requests in line than `own` are named. Errors: those of the folder.
    pub fn holders(&self, own: Option<u64>) -> Result<String> {
        let Some(_turn) = self.lock_folder_within(LOCK_SLICE)? else {
            return Ok("whose record is locked by another process".to_string());
        };
        let (held, mut waiting) = self.live_records()?;
        own.iter().for_each(|number| drop(waiting.remove(number)));
        Ok(describe_holders(&held, &waiting, SystemClock::new().unix_millis()))
    }

    /// Returns the resources held by other runs. Errors: those of the folder.
    pub fn used_by_others(&self) -> Result<ExternalUsage> {
        // If no slots were ever taken here, reading must leave no trace.
        if !self.0.folder.join(LOCK).exists() {
            return Ok(ExternalUsage::default());
        }
        let _turn = self.lock_folder()?;
        let own = self.own().clone();
        Ok(sum(self.live_records()?.0.iter().filter(|(number, _)| !own.contains(*number)).map(|(_, holding)| holding)))
    }

    /// Waits for the folder's lock, which is held until the file is closed. Errors: retryable, after
    /// [`LOCK_PATIENCE`]; those of the folder.
    fn lock_folder(&self) -> Result<File> {
        self.lock_folder_within(LOCK_PATIENCE)?.ok_or_else(|| {
            let (path, limit) = (self.0.folder.join(LOCK), LOCK_PATIENCE.as_secs());
            Error::retryable(format!("{} is locked by another process for more than {limit} s", path.display()))
                .help("find the process with `lslocks` or `fuser`, and end it")
        })
    }
    fn lock_folder_within(&self, patience: Duration) -> Result<Option<File>> {
        let path = self.0.folder.join(LOCK);
        lock(&path, patience).map_err(|e| fault(&path, &e))
    }

    /// Returns all holdings of this host whose holders are alive, and the waiting requests. The folder's lock must be
    /// held: otherwise a file without a lock may be one that is being created.
    fn live_records(&self) -> Result<(BTreeMap<u64, SlotRecord>, BTreeMap<u64, SlotRecord>)> {
        let folder = &self.0.folder;
        let (mut holdings, mut waiting) = (BTreeMap::new(), BTreeMap::new());
        for entry in std::fs::read_dir(folder).map_err(|e| fault(folder, &e))? {
            let name = entry.map_err(|e| fault(folder, &e))?.file_name();
            let Some((number, waits)) = name.to_str().and_then(|name| self.number(name)) else { continue };
            let path = folder.join(&name);
            if let Some(holding) = read(&path).map_err(|e| fault(&path, &e))? {
                if waits {
                    waiting.insert(number, holding)
                } else {
                    holdings.insert(number, holding)
                };
            }
        }
        Ok((holdings, waiting))
    }

    fn path(&self, number: u64) -> PathBuf {
        self.0.folder.join(format!("{}.{number}", self.0.host))
    }
    /// Parses the name of a file of this host; returns its number, and whether the file is a waiting request. Returns
    /// `None` for any other file.
    fn number(&self, name: &str) -> Option<(u64, bool)> {
        let rest = name.strip_prefix(self.0.host.as_str())?.strip_prefix('.')?;
        match rest.strip_prefix(WAIT) {
            Some(number) => Some((number.parse().ok()?, true)),
            None => Some((rest.parse().ok()?, false)),
        }
    }
    fn own(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.0.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        // The number is removed first, because it may be taken again as soon as its file is removed.
        self.slots.own().remove(&self.number);
        if self.inherited.load(Ordering::SeqCst) {
            return;
        }
        // A file that cannot be removed still loses its lock, so the next reader removes it.
        let _ = std::fs::remove_file(self.slots.path(self.number));
        // Slots reserved for the rest of its group are not needed any more; a group starts together or not at all.
        let rest = self
            .group
            .and_then(|key| self.slots.0.reserved.lock().unwrap_or_else(PoisonError::into_inner).remove(&key));
        drop(rest);
    }
}

impl Drop for WaitGuard {
    fn drop(&mut self) {
        // A file that cannot be removed still loses its lock, so the next reader removes it.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Returns whether the holders are reported now, if they were last reported at `reported`.
fn is_due(reported: Option<Duration>, now: Duration) -> bool {
    reported.is_none_or(|at| now.saturating_sub(at) >= REPORT_INTERVAL)
}

/// Formats the holders, or else the requests in line; `now` is in Unix milliseconds.
fn describe_holders(held: &BTreeMap<u64, SlotRecord>, waiting: &BTreeMap<u64, SlotRecord>, now: i64) -> String {
    let names = |records: &BTreeMap<u64, SlotRecord>| {
        let mut names: Vec<String> = records.values().map(|record| record.describe(now)).collect();
        names.dedup();
        names.join(", and by ")
    };
    match (held.is_empty(), waiting.is_empty()) {
        (false, _) => format!("held by {}", names(held)),
        (true, false) => format!("just released and requested by {}", names(waiting)),
        (true, true) => "just released".to_string(),
    }
}

fn values(records: &BTreeMap<u64, SlotRecord>) -> Vec<SlotRecord> {
    records.values().cloned().collect()
}

/// Refuses a share that can never be free, instead of waiting for it forever.
fn refuse_too_large(share: &MachineShare, machine: &PoolMachine) -> Result<()> {
    let need = ResourceAmounts { cpus: share.cpus, memory: share.memory, gpus: 0 };
    let total = ResourceAmounts { cpus: machine.cpus, memory: machine.memory, gpus: 0 };
    let mut missing = shortfalls(need, 0, total, total);
    for gpu in share.gpus.iter().filter(|index| !machine.gpus.iter().any(|g| g.index == **index)) {
        missing.push(format!("needs GPU {gpu}; it has no GPU of this index"));
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "this machine can never provide the resources granted on `{}`: {}",
        share.machine,
        missing.join(", ")
    ))
    .help("request less under `resources`, or correct the resources of the local pools in the site file"))
}

/// Returns the name of this host, as part of a file name.
pub fn host() -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    rustix::system::uname().nodename().to_string_lossy().replace(|c: char| !plain(c), "-")
}

#[cfg(test)]
mod tests;
