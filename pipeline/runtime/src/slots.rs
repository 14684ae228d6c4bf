//! Slots of this machine, shared by all runs of one or several users, through a folder of locked files.
//!
//! Each holding is a file, `<host>.<number>`, with an exclusive `flock` of its holder, and counts as long as that lock
//! is held. The kernel releases the lock when the holder ends, for any reason, and unlike a process id it has the same
//! meaning in every container and after every boot. An attempt inherits the handle of its holding, and so do all
//! processes that it starts: if the run is killed, its slots are free once all processes of the attempt have ended. A
//! file without a lock is a leftover, removed by the next reader. Several machines may share a home directory, so only
//! files with this host's name count. Reading and taking slots are serialized by the file `lock`.
//!
//! A waiting attempt also holds a file, `<host>.wait.<number>`, with its request. [`line`] decides whose turn it is:
//! first the user, and then the run, with the smallest holding. The attempts of a group take their slots all at once.

mod group;
mod holding;
mod line;

pub use holding::{Holder, Holding};

use crate::control::Control;
use command_fds::CommandFdExt;
use group::Group;
use holding::{fault, hold, look, open, sum};
use rustix::fs::{FlockOperation, flock};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use trainyard_core::resources::{Amounts, shortfalls};
use trainyard_core::{Clock as _, Error, Result, SystemClock};
use trainyard_engine::{Grant, Machine, Outside, Share};

/// Poll interval of a waiting attempt.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// File whose lock serializes access to the folder.
const LOCK: &str = "lock";
/// Prefix of the names of waiting requests, after the host.
const WAIT: &str = "wait.";

/// Slots of this machine as seen by one run.
#[derive(Clone)]
pub struct Slots(Arc<Inner>);

struct Inner {
    folder: PathBuf,
    host: String,
    machine: Machine,
    /// Numbers of the holdings taken through this object.
    own: Mutex<BTreeSet<u64>>,
    /// Slots reserved for attempts of groups that have not taken them yet, by group.
    set_aside: Mutex<BTreeMap<usize, Vec<Option<Held>>>>,
}

/// Slots in use; dropping it releases them.
pub struct Held {
    slots: Slots,
    number: u64,
    /// Holds the lock while it is open, here or in a process that inherited it.
    file: File,
    /// Whether the slots stay with the process that inherited them when this is dropped.
    left: AtomicBool,
    /// Group whose slots were taken with these.
    group: Option<usize>,
}

/// Place in the waiting line; dropping it leaves the line.
struct Place {
    path: PathBuf,
    number: u64,
    since: i64,
    /// Holds the lock while it is open.
    _file: File,
}

impl Held {
    /// Returns the file for [`lend`].
    pub(crate) fn handle(&self) -> &File {
        &self.file
    }
    /// Sets whether the slots stay with the process that they were lent to when this is dropped. Reset once that
    /// process has ended.
    pub(crate) fn leave_to_the_process(&self, leave: bool) {
        self.left.store(leave, Ordering::SeqCst);
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
    pub fn new(folder: impl Into<PathBuf>, machine: Machine) -> Self {
        Self(Arc::new(Inner {
            folder: folder.into(),
            host: host(),
            machine,
            own: Mutex::default(),
            set_aside: Mutex::default(),
        }))
    }

    /// Waits until the first share of the grant is free and takes it, together with those of its whole group; if it
    /// must wait, calls `waits` once with the current holders. A grant without shares takes no slots.
    ///
    /// Errors: invalid (more than the machine has), cancelled (`control` rose), those of the folder.
    pub async fn acquire(
        &self,
        grant: &Grant,
        holder: &Holder,
        control: &mut watch::Receiver<Control>,
        waits: impl FnOnce(String),
    ) -> Result<Option<Held>> {
        let mut waits = Some(waits);
        let mut place: Option<Place> = None;
        let group = Group::of(grant);
        if group.shares.is_empty() {
            return Ok(None);
        }
        loop {
            let (slots, asked, holder, before) = (self.clone(), group.clone(), holder.clone(), place.take());
            let taken = tokio::task::spawn_blocking(move || slots.take_or_wait(&asked, &holder, before)).await;
            match taken.map_err(|e| Error::bug(format!("taking slots: {e}")))?? {
                Ok(held) => return Ok(Some(held)),
                Err(waiting) => place = Some(waiting),
            }
            if let Some(waits) = waits.take() {
                waits(self.holders().unwrap_or_default());
            }
            tokio::select! {
                () = tokio::time::sleep(ASK_AGAIN) => {}
                _ = control.wait_for(|w| *w > Control::Run) => {
                    return Err(Error::cancelled("stopped while it waited for slots of this machine"));
                }
            }
        }
    }

    /// Takes the share if it is free and no waiting request has precedence. Errors: invalid (more than the machine
    /// has), those of the folder.
    pub fn try_take(&self, share: &Share, holder: &Holder) -> Result<Option<Held>> {
        let _turn = self.turn_for(std::slice::from_ref(share))?;
        let (living, line) = self.living()?;
        let now = SystemClock::new().unix_millis();
        let ask = Holding::of(std::slice::from_ref(share), holder, now);
        let (held, line) = (values(&living), values(&line));
        if !line::may_take(&self.0.machine, &held, &line, &ask, now) {
            return Ok(None);
        }
        Ok(self.hold_all(&living, vec![ask], None)?.pop())
    }

    /// Takes the slots of one attempt and reserves those of its group, or takes a place in line.
    fn take_or_wait(&self, group: &Group, holder: &Holder, before: Option<Place>) -> Result<Result<Held, Place>> {
        let _turn = self.turn_for(&group.shares)?;
        if let Some(held) = self.set_aside_for(group) {
            return Ok(Ok(held));
        }
        let (living, mut line) = self.living()?;
        before.iter().for_each(|place| drop(line.remove(&place.number)));
        let now = SystemClock::new().unix_millis();
        let since = before.as_ref().map_or(now, |place| place.since);
        let ask = Holding::of(&group.shares, holder, since);
        if !line::may_take(&self.0.machine, &values(&living), &values(&line), &ask, now) {
            let number = (0..u64::MAX).find(|n| !line.contains_key(n)).unwrap_or(u64::MAX);
            return Ok(Err(before.map_or_else(|| self.stand_in_line(number, &ask), Ok)?));
        }
        let each = group.shares.iter().map(|share| Holding::of(std::slice::from_ref(share), holder, now));
        let mut all: Vec<Option<Held>> =
            self.hold_all(&living, each.collect(), group.key)?.into_iter().map(Some).collect();
        let own = all.get_mut(group.at).and_then(Option::take);
        if let Some(key) = group.key {
            let before = self.0.set_aside.lock().unwrap_or_else(PoisonError::into_inner).insert(key, all);
            // Dropped after the lock is released, since dropping slots locks it too.
            drop(before);
        }
        own.map(Ok).ok_or_else(|| Error::bug("an attempt is not part of its own group"))
    }

    fn set_aside_for(&self, group: &Group) -> Option<Held> {
        let mut aside = self.0.set_aside.lock().unwrap_or_else(PoisonError::into_inner);
        aside.get_mut(&group.key?)?.get_mut(group.at)?.take()
    }

    fn stand_in_line(&self, number: u64, ask: &Holding) -> Result<Place> {
        let path = self.0.folder.join(format!("{}.{WAIT}{number}", self.0.host));
        let file = hold(&path, ask).map_err(|e| fault(&path, &e))?;
        Ok(Place { path, number, since: ask.since, _file: file })
    }

    /// Creates the holdings; the caller has checked that they fit.
    fn hold_all(
        &self,
        living: &BTreeMap<u64, Holding>,
        holdings: Vec<Holding>,
        group: Option<usize>,
    ) -> Result<Vec<Held>> {
        let free = (0..u64::MAX).filter(|number| !living.contains_key(number));
        let one = |(number, holding): (u64, Holding)| {
            let path = self.path(number);
            let file = hold(&path, &holding).map_err(|e| fault(&path, &e))?;
            self.own().insert(number);
            Ok(Held { slots: self.clone(), number, file, left: AtomicBool::new(false), group })
        };
        free.zip(holdings).map(one).collect()
    }

    /// Refuses shares that can never be free, creates the folder, and waits for its lock.
    fn turn_for(&self, shares: &[Share]) -> Result<File> {
        shares.iter().try_for_each(|share| refuse_too_large(share, &self.0.machine))?;
        std::fs::create_dir_all(&self.0.folder).map_err(|e| fault(&self.0.folder, &e))?;
        self.turn()
    }

    /// Returns all current holdings of this machine. Errors: those of the folder.
    pub fn holdings(&self) -> Result<Vec<Holding>> {
        // If no slots were ever taken here, reading must leave no trace.
        if !self.0.folder.join(LOCK).exists() {
            return Ok(Vec::new());
        }
        let _turn = self.turn()?;
        Ok(values(&self.living()?.0))
    }

    /// Formats the current holders: `held by run … (workflow, stage) for 4m`.
    fn holders(&self) -> Result<String> {
        let _turn = self.turn()?;
        let now = SystemClock::new().unix_millis();
        let mut names: Vec<String> = self.living()?.0.values().map(|holding| holding.describe(now)).collect();
        names.dedup();
        Ok(format!("held by {}", names.join(", and by ")))
    }

    /// Returns the resources held by other runs. Errors: those of the folder.
    pub fn others(&self) -> Result<Outside> {
        // If no slots were ever taken here, reading must leave no trace.
        if !self.0.folder.join(LOCK).exists() {
            return Ok(Outside::default());
        }
        let _turn = self.turn()?;
        let own = self.own().clone();
        Ok(sum(self.living()?.0.iter().filter(|(number, _)| !own.contains(*number)).map(|(_, holding)| holding)))
    }

    /// Waits for the folder's lock, which is held until the file is closed.
    fn turn(&self) -> Result<File> {
        let path = self.0.folder.join(LOCK);
        let file = open(&path, true).map_err(|e| fault(&path, &e))?;
        flock(&file, FlockOperation::LockExclusive).map_err(|e| fault(&path, &e.into()))?;
        Ok(file)
    }

    /// Returns all holdings of this host whose holders are alive, and the waiting requests. The folder's lock must be
    /// held: otherwise a file without a lock may be one that is being created.
    fn living(&self) -> Result<(BTreeMap<u64, Holding>, BTreeMap<u64, Holding>)> {
        let folder = &self.0.folder;
        let (mut living, mut line) = (BTreeMap::new(), BTreeMap::new());
        for entry in std::fs::read_dir(folder).map_err(|e| fault(folder, &e))? {
            let name = entry.map_err(|e| fault(folder, &e))?.file_name();
            let Some((number, waits)) = name.to_str().and_then(|name| self.number(name)) else { continue };
            let path = folder.join(&name);
            if let Some(holding) = look(&path).map_err(|e| fault(&path, &e))? {
                if waits {
                    line.insert(number, holding)
                } else {
                    living.insert(number, holding)
                };
            }
        }
        Ok((living, line))
    }

    fn path(&self, number: u64) -> PathBuf {
        self.0.folder.join(format!("{}.{number}", self.0.host))
    }
    /// Parses the number in the name of a file of this host, and whether it is that of a waiting request.
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

impl Drop for Held {
    fn drop(&mut self) {
        // Removed first, because the number may be taken again as soon as its file is gone.
        self.slots.own().remove(&self.number);
        if self.left.load(Ordering::SeqCst) {
            return;
        }
        // If the file cannot be removed it loses its lock all the same, and the next reader removes it.
        let _ = std::fs::remove_file(self.slots.path(self.number));
        // Slots reserved for the rest of its group are not needed any more; a group starts together or not at all.
        let rest = self
            .group
            .and_then(|key| self.slots.0.set_aside.lock().unwrap_or_else(PoisonError::into_inner).remove(&key));
        drop(rest);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // As for holdings: without its lock the file is a leftover.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn values(of: &BTreeMap<u64, Holding>) -> Vec<Holding> {
    of.values().cloned().collect()
}

/// Refuses a share that can never be free, instead of waiting for it forever.
fn refuse_too_large(share: &Share, machine: &Machine) -> Result<()> {
    let need = Amounts { cpus: share.cpus, memory: share.memory, gpus: 0 };
    let total = Amounts { cpus: machine.cpus, memory: machine.memory, gpus: 0 };
    let mut lacks = shortfalls(need, 0, total, total);
    for gpu in share.gpus.iter().filter(|index| !machine.gpus.iter().any(|g| g.index == **index)) {
        lacks.push(format!("needs GPU {gpu}; it has no GPU of this index"));
    }
    if lacks.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "this machine can never give what was granted on `{}`: {}",
        share.machine,
        lacks.join(", ")
    ))
    .help("ask for less under `resources`, or correct the amounts of the local pools in the site file"))
}

/// Returns the name of this host, as part of a file name.
pub fn host() -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    rustix::system::uname().nodename().to_string_lossy().replace(|c: char| !plain(c), "-")
}

#[cfg(test)]
mod tests;
