//! Runs programs that attack the interpreter and its host.
//!
//! Each row contains the result that its agent must see in CPython's sandbox and in the embedded interpreter. After
//! each program, no state outside of its session may have changed, and a neighbor's session must still respond.
//!
//! The tests of CPython are skipped without `python3`.

#[path = "../kit/mod.rs"]
mod kit;
mod programs;

use kit::{ask, cpython, host, session};
use programs::{Expected, Program, programs};
use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;
use trainyard_envs::tools::ToolResult;
use trainyard_envs::{ToolHost, ToolLimits, ToolSession};

/// Time limit of a call: enough for every harmless program on a busy machine, and short enough to wait for the endless
/// ones.
const TIME_MILLIS: u64 = 3_000;

/// Files that a program must neither read nor change: a folder with one file.
struct Treasure {
    folder: tempfile::TempDir,
}

const SECRET: &str = "the secret is 8125";

impl Treasure {
    fn bury() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("secret"), SECRET).unwrap();
        Self { folder }
    }
    /// Returns the code of a program, with the paths that it attacks filled in.
    fn code(&self, program: &Program) -> String {
        let folder = self.folder.path().display().to_string();
        program.code.replace("TREASURE", &folder).replace("HOST", &std::process::id().to_string())
    }
    fn assert_untouched(&self, name: &str) {
        let file = self.folder.path().join("secret");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), SECRET, "{name}");
        let metadata = file.metadata().unwrap();
        assert_eq!((metadata.nlink(), metadata.permissions().mode() & 0o111), (1, 0), "{name}");
        assert_eq!(std::fs::read_dir(self.folder.path()).unwrap().count(), 1, "{name}");
    }
}

/// Returns every process that descends from this one.
fn descendants() -> BTreeSet<u32> {
    let mut parents = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent =
            stat.rsplit(')').next().and_then(|rest| rest.split(' ').nth(2)).and_then(|p| p.parse::<u32>().ok());
        parents.extend(parent.map(|parent| (pid, parent)));
    }
    let mut found = BTreeSet::from([std::process::id()]);
    loop {
        let known = found.len();
        found.extend(
            parents.iter().filter(|(_, parent)| found.contains(parent)).map(|(pid, _)| *pid).collect::<Vec<_>>(),
        );
        if found.len() == known {
            found.remove(&std::process::id());
            return found;
        }
    }
}

/// Returns whether an agent got the expected result.
fn is_as_expected(expected: &Expected, result: &ToolResult) -> bool {
    let honest = !result.infrastructure && !result.text.contains(SECRET);
    honest
        && match expected {
            Expected::Error(part) => result.error && !result.timed_out && result.text.contains(part),
            Expected::Same(text) => result.text == *text && !result.error,
            Expected::TimedOut => result.timed_out,
        }
}

/// Runs every program in a separate session, next to a neighbor that must not be affected.
fn run_all(
    host: &Arc<ToolHost>,
    open: impl Fn() -> Box<dyn ToolSession>,
    expected: impl Fn(&Program) -> &Expected,
    processes: usize,
) {
    let treasure = Treasure::bury();
    let mut neighbor = open();
    assert_eq!(ask(&mut *neighbor, "x=41"), ToolResult::ok(""));
    let mut wrong = Vec::new();
    for program in &programs() {
        let mut attacker = open();
        assert_eq!(ask(&mut *attacker, "kept='as before'"), ToolResult::ok(""), "{}", program.name);
        let result = ask(&mut *attacker, &treasure.code(program));
        if !is_as_expected(expected(program), &result) {
            wrong.push(format!("{}: not {:?}, but {result:?}", program.name, expected(program)));
        }
        treasure.assert_untouched(program.name);
        assert_eq!(ask(&mut *neighbor, "x+1"), ToolResult::ok("42"), "{}", program.name);
        drop(attacker);
        assert_eq!(ask(&mut *open(), "6*7"), ToolResult::ok("42"), "{}", program.name);
        assert_eq!(ask(&mut *neighbor, "x+1"), ToolResult::ok("42"), "{}", program.name);
        let left = descendants();
        assert!(left.len() <= processes, "{} left processes: {left:?}", program.name);
        assert!(host.worker_ids().iter().all(|worker| left.contains(worker)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn hostile_programs_are_contained() {
    let programs = programs();
    let names: BTreeSet<&str> = programs.iter().map(|program| program.name).collect();
    assert!(
        names.len() == programs.len() && names.len() >= 90,
        "{} names for {} programs",
        names.len(),
        programs.len()
    );
    let limits = ToolLimits { time_millis: TIME_MILLIS, memory_bytes: 128 << 20, ..ToolLimits::default() };
    // Sequential, because the count of processes covers this whole test.
    embedded(&limits);
    assert_eq!(descendants(), BTreeSet::new(), "the embedded interpreter left processes");
    confined(&limits);
    assert_eq!(descendants(), BTreeSet::new(), "CPython left processes");
}

fn embedded(limits: &ToolLimits) {
    let host = host(1);
    // The only process is the worker.
    run_all(&host, || session(&host, limits), |program| &program.monty, 1);
}

fn confined(limits: &ToolLimits) {
    let host = host(1);
    let Some(mut first) = cpython(&host, limits) else { return };
    let folder = ask(&mut *first, "import os\nos.path.dirname(os.getcwd())").text;
    let root = Path::new(folder.trim_matches('\'')).to_path_buf();
    assert!(root.is_dir(), "{}", root.display());
    drop(first);
    let supervisor = host.worker_ids();
    // The three processes are the supervisor, the neighbor, and the session that was dropped last, which the worker
    // closes with the next call.
    run_all(&host, || cpython(&host, limits).unwrap(), |program| &program.cpython, 3);
    assert_eq!(host.worker_ids(), supervisor, "no program ends its supervisor");
    drop(host);
    assert!(!root.exists(), "files are left in {}", root.display());
}
