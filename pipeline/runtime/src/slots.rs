//! This machine's slots, shared by every run of one user through a lock file.
//!
//! The file is a list of who holds what (JSON), changed only under an exclusive `flock`. A holder is named by process id and
//! start time, so what a dead process held is free at once; nobody has to clean up. Refuses: fairness between runs; whoever asks
//! when there is room gets it. The engine of each run sees what others hold and plans around it.

use crate::executors::Wish;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};
use trainyard_engine::{Machine, Outside, Share};

/// How often a waiting attempt asks again.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// The slots of this machine as one process sees them.
#[derive(Clone)]
pub struct Slots(Arc<Inner>);

struct Inner {
    path: PathBuf,
    machine: Machine,
    process: crate::resume::ProcessId,
}

/// Numbers of holdings, unique within this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// One line of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Holding {
    process: crate::resume::ProcessId,
    /// Unique within the process.
    number: u64,
    cpus: u32,
    memory: u64,
    gpus: Vec<u32>,
}

/// Slots in use; dropping it gives them back.
pub struct Held {
    slots: Slots,
    number: u64,
}

impl Slots {
    /// The slots of `machine`, kept in the file at `path`, which is made if it does not exist.
    pub fn new(path: impl Into<PathBuf>, machine: Machine) -> Result<Self> {
        let path = path.into();
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|e| io_error(folder, &e))?;
        }
        let slots = Self(Arc::new(Inner { path, machine, process: crate::resume::ProcessId::own() }));
        slots.change(|_| ())?;
        Ok(slots)
    }

    /// `$XDG_RUNTIME_DIR/trainyard/slots`, or a folder of this user under the system's temporary folder.
    pub fn default_path() -> PathBuf {
        match std::env::var_os("XDG_RUNTIME_DIR").filter(|d| Path::new(d).is_dir()) {
            Some(folder) => PathBuf::from(folder).join("trainyard/slots"),
            None => std::env::temp_dir().join(format!("trainyard-{}/slots", rustix::process::getuid().as_raw())),
        }
    }

    /// Waits until the share is free and takes it. Errors: cancelled (the wish rose), or those of the file.
    pub async fn acquire(&self, share: &Share, wish: &mut watch::Receiver<Wish>) -> Result<Held> {
        loop {
            let (slots, share) = (self.clone(), share.clone());
            let taken = tokio::task::spawn_blocking(move || slots.try_take(&share)).await;
            if let Some(held) = taken.map_err(|e| Error::bug(format!("taking slots: {e}")))?? {
                return Ok(held);
            }
            tokio::select! {
                () = tokio::time::sleep(ASK_AGAIN) => {}
                _ = wish.wait_for(|w| *w > Wish::Run) => return Err(Error::cancelled("stopped while it waited for slots of this machine")),
            }
        }
    }

    /// Takes the share if it is free.
    pub fn try_take(&self, share: &Share) -> Result<Option<Held>> {
        let number = NEXT.fetch_add(1, Ordering::SeqCst);
        let machine = &self.0.machine;
        let taken = self.change(|list| {
            let used = sum(list.iter());
            let fits = used.cpus.saturating_add(share.cpus) <= machine.cpus
                && (machine.memory == 0 || used.memory.saturating_add(share.memory) <= machine.memory)
                && !share.gpus.iter().any(|g| used.gpus.contains(g));
            if fits {
                let Share { cpus, memory, gpus, .. } = share.clone();
                list.push(Holding { process: self.0.process.clone(), number, cpus, memory, gpus });
            }
            fits
        })?;
        Ok(taken.then(|| Held { slots: self.clone(), number }))
    }

    /// What other processes hold.
    pub fn others(&self) -> Result<Outside> {
        self.change(|list| sum(list.iter().filter(|h| h.process != self.0.process)))
    }

    /// Reads, drops the dead, changes and writes the list under the lock.
    fn change<T>(&self, change: impl FnOnce(&mut Vec<Holding>) -> T) -> Result<T> {
        let fail = |e: &std::io::Error| io_error(&self.0.path, e);
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&self.0.path).map_err(|e| fail(&e))?;
        flock(&file, FlockOperation::LockExclusive).map_err(|e| fail(&e.into()))?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|e| fail(&e))?;
        // A list that cannot be read is that of a crash in mid-write; holders are few, and starting over only overbooks for a while.
        let before: Vec<Holding> = serde_json::from_str(&text).unwrap_or_default();
        let mut list: Vec<Holding> = before.iter().filter(|h| h.process.is_alive() != Some(false)).cloned().collect();
        let answer = change(&mut list);
        if list != before || text.is_empty() {
            write(&mut file, &list).map_err(|e| fail(&e))?;
        }
        Ok(answer)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let inner = &self.slots.0;
        // If the file cannot be changed now, what this process holds is free when it ends.
        let _ = self.slots.change(|list| list.retain(|h| h.process != inner.process || h.number != self.number));
    }
}

fn write(file: &mut File, list: &[Holding]) -> std::io::Result<()> {
    let text = serde_json::to_vec(list)?;
    file.seek(SeekFrom::Start(0))?;
    file.set_len(0)?;
    file.write_all(&text)
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

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_engine::Gpu;

    fn machine() -> Machine {
        Machine { name: "this".into(), cpus: 2, memory: 100, gpus: vec![Gpu { index: 0, memory: 1 }, Gpu { index: 1, memory: 1 }] }
    }
    fn share(cpus: u32, gpus: &[u32]) -> Share {
        Share { machine: "this".into(), cpus, memory: 10, gpus: gpus.to_vec() }
    }

    #[test]
    fn slots_are_taken_and_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let slots = Slots::new(folder.path().join("slots"), machine()).unwrap();
        let first = slots.try_take(&share(2, &[0])).unwrap().unwrap();
        assert!(slots.try_take(&share(1, &[])).unwrap().is_none());
        assert!(slots.try_take(&share(0, &[0])).unwrap().is_none(), "that GPU is taken");
        assert!(slots.try_take(&share(0, &[1])).unwrap().is_some());
        assert_eq!(slots.others().unwrap(), Outside::default(), "its own are not others'");
        drop(first);
        assert!(slots.try_take(&share(2, &[0])).unwrap().is_some());
    }

    #[test]
    fn what_the_dead_held_is_free_and_what_others_hold_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("slots");
        let slots = Slots::new(&path, machine()).unwrap();
        let mut dead = crate::resume::ProcessId::own();
        dead.pid = 0x3fff_fff0;
        let holding = |process| Holding { process, number: 7, cpus: 2, memory: 0, gpus: vec![1] };
        std::fs::write(&path, serde_json::to_string(&[holding(dead)]).unwrap()).unwrap();
        assert!(slots.try_take(&share(2, &[1])).unwrap().is_some());

        let mut sleeper = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let other = crate::resume::ProcessId::of(sleeper.id());
        std::fs::write(&path, serde_json::to_string(&[holding(other)]).unwrap()).unwrap();
        assert_eq!(slots.others().unwrap(), Outside { cpus: 2, memory: 0, gpus: vec![1] });
        assert!(slots.try_take(&share(1, &[])).unwrap().is_none());
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert!(slots.try_take(&share(1, &[])).unwrap().is_some());
    }

    #[tokio::test]
    async fn waiting_ends_with_a_wish_to_stop() {
        let folder = tempfile::tempdir().unwrap();
        let slots = Slots::new(folder.path().join("slots"), machine()).unwrap();
        let _held = slots.try_take(&share(2, &[])).unwrap().unwrap();
        let (sender, mut wish) = watch::channel(Wish::Run);
        let (slots, share) = (slots.clone(), share(1, &[]));
        let waiting = tokio::spawn(async move { slots.acquire(&share, &mut wish).await.map(|_| ()) });
        sender.send(Wish::Cancel).unwrap();
        assert_eq!(waiting.await.unwrap().unwrap_err().kind, trainyard_core::ErrorKind::Cancelled);
    }
}
