//! This machine's slots, shared by all runs of one user through a folder of locked files.
//!
//! Each holding is a file, `<host>.<number>`, with an exclusive `flock` of its holder, and counts as long as that lock
//! is held. The kernel drops the lock when the holder ends, however it ends, and unlike a process id it means the same
//! in every container and after every boot. An attempt inherits the handle of its holding, and so does all that it
//! starts: if the run is killed, its slots are free once nothing of the attempt is left. A file without a lock is a
//! leftover, removed by whoever looks next. Several machines may share a home, so only files with this host's name
//! count. Looking and taking are serialized by the file `lock`. There is no fairness between runs: whoever asks when
//! there is room gets it.

use crate::executors::Control;
use command_fds::CommandFdExt;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use trainyard_core::error::io_error;
use trainyard_core::resources::{Amounts, shortfalls};
use trainyard_core::units::format_duration;
use trainyard_core::{Clock as _, Error, Result, SystemClock};
use trainyard_engine::{Machine, Outside, Share};

/// How often a waiting attempt asks again.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// The file whose lock says whose turn it is.
const LOCK: &str = "lock";

/// The slots of this machine as one run sees them.
#[derive(Clone)]
pub struct Slots(Arc<Inner>);

struct Inner {
    folder: PathBuf,
    host: String,
    machine: Machine,
    /// Numbers of the holdings taken through this object.
    own: Mutex<BTreeSet<u64>>,
}

/// Who holds slots, for the people who wait for them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Id of the run.
    pub run: String,
    /// Name of its workflow.
    pub workflow: String,
    /// Key of the stage.
    pub stage: String,
}

/// The content of a holding's file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Holding {
    cpus: u32,
    memory: u64,
    gpus: Vec<u32>,
    /// Unknown in files of earlier versions.
    #[serde(default)]
    holder: Holder,
    /// Unix milliseconds.
    #[serde(default)]
    since: i64,
}

impl Holding {
    /// `run 20261122-… (quickstart, rl) for 4m`.
    fn describe(&self, now: i64) -> String {
        let Holder { run, workflow, stage } = &self.holder;
        if run.is_empty() {
            return "another run".into();
        }
        let age = Duration::from_millis(u64::try_from(now - self.since).unwrap_or(0));
        format!("run {run} ({workflow}, {stage}) for {}", format_duration(age))
    }
}

/// Slots in use; dropping it gives them back.
pub struct Held {
    slots: Slots,
    number: u64,
    /// Holds the lock while it is open, here or in a process that inherited it.
    file: File,
    /// Whether they stay with the process that inherited them when this is dropped.
    left: AtomicBool,
}

impl Held {
    /// What [`lend`] gives to a process.
    pub(crate) fn handle(&self) -> &File {
        &self.file
    }
    /// From now on the slots belong to the process that they were lent to, and dropping this leaves them to it; or no
    /// longer, once that process has ended.
    pub(crate) fn leave_to_the_process(&self, leave: bool) {
        self.left.store(leave, Ordering::SeqCst);
    }
}

/// The process that `command` starts inherits `file`, and its lock is held until that process and its children have
/// ended. Nothing else that is started meanwhile inherits it, because the file is opened to the child alone.
pub(crate) fn lend(file: &File, command: &mut impl CommandFdExt) -> std::io::Result<()> {
    command.preserved_fds(vec![file.try_clone()?.into()]);
    Ok(())
}

impl Slots {
    /// The slots of `machine`, kept in a folder that is made when something is taken.
    pub fn new(folder: impl Into<PathBuf>, machine: Machine) -> Self {
        Self(Arc::new(Inner { folder: folder.into(), host: host(), machine, own: Mutex::default() }))
    }

    /// Waits until the share is free and takes it; calls `waits` once if it must wait, with who holds the machine.
    ///
    /// Errors: invalid (more than the machine has), cancelled (`control` rose), those of the folder.
    pub async fn acquire(
        &self,
        share: &Share,
        holder: &Holder,
        control: &mut watch::Receiver<Control>,
        waits: impl FnOnce(String),
    ) -> Result<Held> {
        let mut waits = Some(waits);
        loop {
            let (slots, share, holder) = (self.clone(), share.clone(), holder.clone());
            let taken = tokio::task::spawn_blocking(move || slots.try_take(&share, &holder)).await;
            if let Some(held) = taken.map_err(|e| Error::bug(format!("taking slots: {e}")))?? {
                return Ok(held);
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

    /// Takes the share if it is free. Errors: invalid (more than the machine has), those of the folder.
    pub fn try_take(&self, share: &Share, holder: &Holder) -> Result<Option<Held>> {
        let Inner { folder, machine, .. } = self.0.as_ref();
        refuse_too_large(share, machine)?;
        std::fs::create_dir_all(folder).map_err(|e| fault(folder, &e))?;
        let _turn = self.turn()?;
        let living = self.living()?;
        let used = sum(living.values());
        let fits = used.cpus.saturating_add(share.cpus) <= machine.cpus
            && (machine.memory == 0 || used.memory.saturating_add(share.memory) <= machine.memory)
            && !share.gpus.iter().any(|g| used.gpus.contains(g));
        if !fits {
            return Ok(None);
        }
        let Some(number) = (0..u64::MAX).find(|n| !living.contains_key(n)) else { return Ok(None) };
        let path = self.path(number);
        let holding = Holding {
            cpus: share.cpus,
            memory: share.memory,
            gpus: share.gpus.clone(),
            holder: holder.clone(),
            since: SystemClock::new().unix_millis(),
        };
        let file = hold(&path, &holding).map_err(|e| fault(&path, &e))?;
        self.own().insert(number);
        Ok(Some(Held { slots: self.clone(), number, file, left: AtomicBool::new(false) }))
    }

    /// `held by run … (workflow, stage) for 4m`, of the attempts that hold slots now.
    fn holders(&self) -> Result<String> {
        let _turn = self.turn()?;
        let now = SystemClock::new().unix_millis();
        let mut names: Vec<String> = self.living()?.values().map(|holding| holding.describe(now)).collect();
        names.dedup();
        Ok(format!("held by {}", names.join(", and by ")))
    }

    /// What other runs hold. Errors: those of the folder.
    pub fn others(&self) -> Result<Outside> {
        // If nothing was ever taken here, looking must leave no trace.
        if !self.0.folder.join(LOCK).exists() {
            return Ok(Outside::default());
        }
        let _turn = self.turn()?;
        let own = self.own().clone();
        Ok(sum(self.living()?.iter().filter(|(number, _)| !own.contains(*number)).map(|(_, holding)| holding)))
    }

    /// Waits for the folder's lock, which is held until the file is closed.
    fn turn(&self) -> Result<File> {
        let path = self.0.folder.join(LOCK);
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(|e| fault(&path, &e))?;
        flock(&file, FlockOperation::LockExclusive).map_err(|e| fault(&path, &e.into()))?;
        Ok(file)
    }

    /// All holdings of this host whose holders are alive. The folder's lock must be held: otherwise a file without a
    /// lock may be one that is being made.
    fn living(&self) -> Result<BTreeMap<u64, Holding>> {
        let folder = &self.0.folder;
        let mut living = BTreeMap::new();
        for entry in std::fs::read_dir(folder).map_err(|e| fault(folder, &e))? {
            let name = entry.map_err(|e| fault(folder, &e))?.file_name();
            let Some(number) = name.to_str().and_then(|name| self.number(name)) else { continue };
            let path = self.path(number);
            if let Some(holding) = look(&path).map_err(|e| fault(&path, &e))? {
                living.insert(number, holding);
            }
        }
        Ok(living)
    }

    fn path(&self, number: u64) -> PathBuf {
        self.0.folder.join(format!("{}.{number}", self.0.host))
    }
    /// The number in the name of a holding of this host.
    fn number(&self, name: &str) -> Option<u64> {
        name.strip_prefix(self.0.host.as_str())?.strip_prefix('.')?.parse().ok()
    }
    fn own(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.0.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // First, because the number may be taken again as soon as its file is gone.
        self.slots.own().remove(&self.number);
        if self.left.load(Ordering::SeqCst) {
            return;
        }
        // If the file cannot be removed it loses its lock all the same, and whoever looks next removes it.
        let _ = std::fs::remove_file(self.slots.path(self.number));
    }
}

/// Makes a holding's file, locked by the returned handle.
fn hold(path: &Path, holding: &Holding) -> std::io::Result<File> {
    let text = serde_json::to_vec(holding)?;
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    file.write_all(&text)?;
    Ok(file)
}

/// What a holder has; `None` if the holder is gone, and then the file is removed.
fn look(path: &Path) -> std::io::Result<Option<Holding>> {
    // Opened for writing too, since network file systems demand it for an exclusive lock.
    let mut file = match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {
            // If the removal fails, the next look tries again.
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

/// The name of this host, as part of a file's name.
pub fn host() -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    rustix::system::uname().nodename().to_string_lossy().replace(|c: char| !plain(c), "-")
}

fn sum<'a>(list: impl Iterator<Item = &'a Holding>) -> Outside {
    let mut all = Outside::default();
    for holding in list {
        all.cpus = all.cpus.saturating_add(holding.cpus);
        all.memory = all.memory.saturating_add(holding.memory);
        all.gpus.extend(&holding.gpus);
    }
    all.gpus.sort_unstable();
    all
}

fn fault(path: &Path, error: &std::io::Error) -> Error {
    let error = io_error(path, error);
    let help = "the slots of this machine are kept there: the folder must be writable, on a file system that locks \
                files; TRAINYARD_HOME names another place";
    if error.help.is_some() { error } else { error.help(help) }
}

#[cfg(test)]
mod tests;
