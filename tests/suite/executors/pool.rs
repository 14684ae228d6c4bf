//! Pools that the suite runs on, and actions of tests on their attempts from outside.

use crate::kit::Sandbox;
use std::ops::Deref;
use std::process::Command;

/// One executor as named in a test's site file.
pub struct Pool {
    /// The pool's keys in the site file, as a YAML flow map without braces.
    keys: String,
    /// Whether attempts continue without their engine.
    pub outlives_engine: bool,
    /// Number of attempts that the suite starts at once.
    pub at_once: usize,
    /// Factor of all timeouts relative to the local executor.
    pub patience: u64,
}

impl Pool {
    /// Returns a pool of processes on the pipes of their engine.
    pub fn local() -> Option<Self> {
        let keys = "executor: local, cpus: 16".to_string();
        Some(Self { keys, outlives_engine: false, at_once: 200, patience: 1 })
    }
    /// Returns a pool of processes of this machine that outlive their engine.
    pub fn kept() -> Option<Self> {
        let keys = "executor: local, cpus: 16, with: {orphans: keep}".to_string();
        Some(Self { keys, outlives_engine: true, at_once: 200, patience: 2 })
    }
    /// Returns the Slurm pool of this machine, whose nodes share its files.
    pub fn slurm() -> Option<Self> {
        std::env::var_os("TRAINYARD_TEST_SLURM")?;
        let keys = "executor: slurm, cpus: 512, with: {poll: 1s}".to_string();
        Some(Self { keys, outlives_engine: true, at_once: 200, patience: 12 })
    }
    /// Returns the Ray pool of this machine, which is not configured to share files.
    pub fn ray() -> Option<Self> {
        let address = std::env::var("TRAINYARD_TEST_RAY").ok()?;
        let keys = format!("executor: ray, cpus: 512, with: {{address: \"{address}\", poll: 1s}}");
        // Ray takes seconds per job, and starts a process of half a gigabyte for each.
        Some(Self { keys, outlives_engine: true, at_once: 12, patience: 12 })
    }
    /// Returns a cluster whose Pods are processes of this machine: the API server of the executor's own tests.
    pub fn kubernetes() -> Option<Self> {
        let kubeconfig = std::env::var("TRAINYARD_TEST_KUBERNETES").ok().filter(|_| cfg!(feature = "kubernetes"))?;
        let (program, shared) = (env!("CARGO_BIN_EXE_trainyard"), std::env::temp_dir());
        let keys = format!(
            "executor: kubernetes, cpus: 512, with: {{image: none, program: \"{program}\", \
             kubeconfig: \"{kubeconfig}\", shared_filesystem: true, \
             volumes: [{{name: sandboxes, mount: \"{}\", claim: sandboxes}}]}}",
            shared.display()
        );
        Some(Self { keys, outlives_engine: true, at_once: 200, patience: 4 })
    }
    /// Creates a sandbox whose site file has only this pool.
    pub fn sandbox(&self) -> Yard {
        let s = Sandbox::new();
        s.write("trainyard.yaml", self.site());
        Yard(s)
    }
    pub fn site(&self) -> String {
        format!("version: 1\npools:\n  - {{name: there, {}}}\n", self.keys)
    }
    /// Returns the timeout in seconds of a step that takes at most `local` seconds on this machine.
    pub fn seconds(&self, local: u64) -> u64 {
        local * self.patience
    }
}

/// A sandbox that kills the processes of its attempts when dropped: those of a failed test would run for an hour.
pub struct Yard(Sandbox);

impl Deref for Yard {
    type Target = Sandbox;
    fn deref(&self) -> &Sandbox {
        &self.0
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        signal(&marked(self), "KILL");
    }
}

/// Finds processes whose environment or command line contains a text, such as the folder of a sandbox.
pub fn processes(text: &str) -> Vec<u32> {
    let holds = |pid: &u32| {
        let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        [read("environ"), read("cmdline")].iter().any(|bytes| find(bytes, text.as_bytes()))
    };
    let numbers = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| *pid != std::process::id() && holds(pid)).collect()
}

/// Finds the processes of attempts: `trainyard attempt <url>`, with the sandbox's store in the URL.
pub fn attempts(s: &Sandbox) -> Vec<u32> {
    let store = format!("attempt\0{}", url(s));
    processes(&store).into_iter().filter(|pid| command_of(*pid).contains(&store)).collect()
}

/// Finds all processes of the attempts of this sandbox, including the attempts.
pub fn marked(s: &Sandbox) -> Vec<u32> {
    processes(&format!("TRAINYARD_ATTEMPT={}", url(s)))
}

/// Returns the URL of a sandbox's store as attempts receive it.
fn url(s: &Sandbox) -> String {
    format!("file://{}", s.store().display())
}

/// Sends a signal; a process may have ended already.
pub fn signal(pids: &[u32], name: &str) {
    for pid in pids {
        let _ = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    }
}

fn command_of(pid: u32) -> String {
    String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).into_owned()
}

fn find(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}
