//! Enforces the memory request of an attempt. An attempt that uses more is ended with an error that states the reason.
//!
//! Batch systems enforce memory only where they can measure it, and on a machine without limits the kernel would choose
//! a process to kill. Therefore every attempt measures the memory of its process and all descendants once a second.
//! Resident memory is cheap to read but counts shared pages in each process. So before an attempt is ended, the shared
//! pages are divided among their users.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use trainyard_api::CancelToken;
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::units::format_size;
use trainyard_core::{Clock, Error, ErrorKind, Result, SystemClock};

/// Interval between two measurements.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Memory limit of a process tree, checked periodically.
pub struct Limit {
    bytes: u64,
    process: u32,
    clock: SystemClock,
    next: Duration,
}

impl Limit {
    /// Creates the limit of an attempt for the process tree below `process`. Returns `None` if the attempt requested no
    /// memory.
    pub fn of(spec: &AttemptSpec, process: u32) -> Option<Self> {
        let bytes = spec.resources.memory;
        (bytes > 0).then(|| Self { bytes, process, clock: SystemClock::new(), next: Duration::ZERO })
    }
    /// Returns the bytes in use if they exceed the limit. Measures at most once a second and returns `None` in between.
    pub fn exceeded(&mut self) -> Option<u64> {
        let now = self.clock.monotonic();
        if now < self.next {
            return None;
        }
        self.next = now + POLL_INTERVAL;
        let processes = tree(self.process);
        let at_most: u64 = processes.iter().filter_map(|process| resident(*process)).sum();
        if at_most <= self.bytes {
            return None;
        }
        let used = processes.iter().filter_map(|process| proportional(*process).or_else(|| resident(*process))).sum();
        (used > self.bytes).then_some(used)
    }
}

/// Returns the error of a stage that used `used` bytes.
pub fn exceeded(spec: &AttemptSpec, used: u64) -> Error {
    let (used, limit) = (format_size(used), format_size(spec.resources.memory));
    Error::invalid(format!("stage `{}` ran out of memory: it used {used} of the requested {limit}", spec.stage))
        .help("request more under `resources: {memory: …}`, or reduce the memory that the stage uses")
}

/// Runs `stage` in this process, and cancels it if this process tree exceeds the memory limit. Then returns the error
/// [`exceeded`].
pub fn limited(spec: &AttemptSpec, cancel: &CancelToken, stage: impl FnOnce() -> Result<()>) -> Result<()> {
    let Some(mut limit) = Limit::of(spec, std::process::id()) else { return stage() };
    let found = AtomicU64::new(0);
    let (done, ended) = channel::<()>();
    let outcome = std::thread::scope(|threads| {
        threads.spawn(|| {
            let ended = ended;
            while ended.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if let Some(used) = limit.exceeded() {
                    found.store(used, Ordering::SeqCst);
                    cancel.cancel();
                    return;
                }
            }
        });
        let outcome = stage();
        drop(done);
        outcome
    });
    match (outcome, found.load(Ordering::SeqCst)) {
        (Err(error), used) if used > 0 && error.kind == ErrorKind::Cancelled => Err(exceeded(spec, used)),
        (outcome, _) => outcome,
    }
}

/// Returns a process and its descendants. Orphans are not included, since they have another parent.
fn tree(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut at = 0;
    while let Some(process) = found.get(at) {
        let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        let children = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
        let children: Vec<u32> = children.flat_map(|list| numbers(&list)).collect();
        found.extend(children);
        at += 1;
    }
    found
}

fn numbers(list: &str) -> Vec<u32> {
    list.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Returns the resident bytes of a process, including all shared pages, or `None` if it has ended.
fn resident(process: u32) -> Option<u64> {
    let pages = std::fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
    let pages: u64 = pages.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Returns the resident bytes of a process, with shared pages divided by their number of users, or `None` if the kernel
/// does not report them.
fn proportional(process: u32) -> Option<u64> {
    let text = std::fs::read_to_string(Path::new("/proc").join(process.to_string()).join("smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::super::tests::spec;
    use super::*;
    use std::io::Read as _;
    use std::process::{Child, Command, Stdio};
    use trainyard_core::attempt::AttemptResources;

    /// Starts a shell below a shell that allocates a text of 60 MB and prints a line when it has.
    fn hog() -> Child {
        let script = "sh -c 'x=$(head -c 60000000 /dev/zero | tr \"\\0\" x); echo ready; sleep 100'; true";
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut ready = [0; 5];
        child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        child
    }

    fn end(mut hog: Child) {
        for process in tree(hog.id()) {
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_raw(process as i32).unwrap(),
                rustix::process::Signal::KILL,
            );
        }
        hog.wait().unwrap();
    }

    #[test]
    fn descendants_are_counted() {
        let hog = hog();
        let limit = |bytes| Limit { bytes, process: hog.id(), clock: SystemClock::new(), next: Duration::ZERO };
        let used = limit(50 << 20).exceeded();
        let mut wide = limit(500 << 20);
        let (within, alone) = (wide.exceeded(), proportional(hog.id()).unwrap());
        end(hog);
        assert!(used.is_some_and(|used| (50 << 20..300 << 20).contains(&used)), "{used:?}");
        assert_eq!(within, None);
        assert!(alone < 20 << 20, "the process itself is small: {alone}");
    }

    #[test]
    fn measurements_are_rate_limited() {
        let mut limit =
            Limit { bytes: 1, process: std::process::id(), clock: SystemClock::new(), next: Duration::ZERO };
        assert!(limit.exceeded().is_some(), "this process uses more than a byte");
        assert_eq!(limit.exceeded(), None, "it was measured just now");
    }

    #[test]
    fn ended_process_uses_nothing() {
        let mut child = Command::new("true").spawn().unwrap();
        let id = child.id();
        child.wait().unwrap();
        assert_eq!((resident(id), proportional(id), tree(id)), (None, None, vec![id]));
    }

    fn requesting(memory: u64) -> AttemptSpec {
        AttemptSpec { resources: AttemptResources { memory, ..Default::default() }, ..spec() }
    }

    #[test]
    fn stage_over_its_limit_is_stopped() {
        let cancel = CancelToken::default();
        let outcome = limited(&requesting(1), &cancel, || {
            for _ in 0..1_000 {
                if cancel.is_cancelled() {
                    return Err(Error::cancelled("stopped"));
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            Ok(())
        });
        let error = outcome.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.to_string().contains("stage `a` ran out of memory: it used "), "{error}");
    }

    #[test]
    fn stage_within_its_limit_is_not_stopped() {
        for memory in [0, 1 << 50] {
            let cancel = CancelToken::default();
            let sleep = |time| {
                std::thread::sleep(time);
                Ok(())
            };
            limited(&requesting(memory), &cancel, || sleep(POLL_INTERVAL + POLL_INTERVAL / 2)).unwrap();
            assert!(!cancel.is_cancelled());
        }
    }
}
