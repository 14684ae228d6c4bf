//! The real outside: a run is a process of this program, `trainyard run … --run-id …`.
//!
//! It is no part of the daemon. It has a process group of its own and holds no pipe to its parent, so that it goes on
//! when the daemon dies, and a crash of it harms nobody else. What it writes to stderr goes to a file, whose end says
//! why a run could not begin.

use crate::outside::{News, Order, Outside, Process};
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::process::Command;
use tokio::runtime::Handle;
use trainyard_core::error::io_error;
use trainyard_core::{Chance, Clock, Error, Result, RunId};
use trainyard_runtime::cancel::cancel_run;
use trainyard_runtime::resume::ProcessId;
use trainyard_spec::files::absolute;
use trainyard_store::{Store, layout};

/// Bytes of stderr that are kept of a run that could not begin.
const SAID: usize = 4_000;
/// How often it is asked whether processes that were to stop have ended.
const LOOK: Duration = Duration::from_millis(200);

/// How runs are started.
pub struct Processes {
    /// This program.
    pub program: PathBuf,
    /// The site file, if one was named.
    pub site: Option<PathBuf>,
    /// The folder of workflow files.
    pub folder: PathBuf,
    /// Where stderr of runs goes.
    pub scratch: PathBuf,
    /// Added to their environment.
    pub environment: Vec<(OsString, OsString)>,
    /// The store.
    pub store: Store,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// For names of writers.
    pub chance: Chance,
    /// Where processes are waited for.
    pub handle: Handle,
    /// Tells people.
    pub tell: Box<dyn Fn(News) + Send + Sync>,
    /// What was started; empty at first.
    pub started: Arc<Started>,
}

/// Processes by run.
#[derive(Debug, Default)]
pub struct Started(Mutex<BTreeMap<RunId, One>>);

#[derive(Debug)]
struct One {
    pid: Option<u32>,
    /// Its end; none while it lives.
    ended: Option<(Option<i32>, String)>,
}

impl Started {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<RunId, One>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Asks all processes to stop as Ctrl-C does, and waits until they have, at most this long; whether all have.
    pub async fn stop(&self, most: Duration) -> bool {
        for pid in self.alive() {
            if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
                // It may be gone already.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
        }
        for _ in 0..most.as_millis() / LOOK.as_millis() {
            if self.alive().is_empty() {
                return true;
            }
            tokio::time::sleep(LOOK).await;
        }
        self.alive().is_empty()
    }
    fn alive(&self) -> Vec<u32> {
        self.lock().values().filter(|one| one.ended.is_none()).filter_map(|one| one.pid).collect()
    }
}

impl Processes {
    fn command(&self, order: &Order, stderr: File) -> Command {
        let mut command = Command::new(&self.program);
        let file = absolute(&self.folder, &order.file);
        let texts = layout::schedule_texts(&order.schedule, &order.texts);
        command.arg("run").arg(file).args(["--run-id", &order.run.0, "--texts", &texts]);
        command.args(["--tick", &order.tick.time(), "--store", self.store.url()]);
        if let Some(site) = &self.site {
            command.arg("--site").arg(site);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).process_group(0);
        command
    }
    fn begin(&self, order: &Order) -> Result<()> {
        std::fs::create_dir_all(&self.scratch).map_err(|e| io_error(&self.scratch, &e))?;
        let path = self.scratch.join(format!("{}.stderr", order.run));
        let stderr = File::create(&path).map_err(|e| io_error(&path, &e))?;
        let mut child = self
            .command(order, stderr)
            .spawn()
            .map_err(|e| Error::retryable(format!("cannot start {}: {e}", self.program.display())))?;
        let one = One { pid: child.id(), ended: None };
        self.started.lock().insert(order.run.clone(), one);
        let (started, run) = (self.started.clone(), order.run.clone());
        self.handle.spawn(async move {
            let status = child.wait().await.ok();
            let code = status.as_ref().and_then(ExitStatus::code);
            let said = end_of(&path);
            // Only the words of a process that failed are worth a file.
            if code == Some(0) {
                let _ = std::fs::remove_file(&path);
            }
            if let Some(one) = started.lock().get_mut(&run) {
                one.ended = Some((code, said));
            }
        });
        Ok(())
    }
}

impl Outside for Processes {
    fn is_alive(&self, name: &str) -> Option<bool> {
        // Whoever has no process goes on with nothing.
        name.parse::<ProcessId>().map_or(Some(false), |process| process.is_alive())
    }
    fn start<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { self.begin(order) })
    }
    fn process(&self, run: &RunId) -> Process {
        match self.started.lock().get(run) {
            None => Process::None,
            Some(One { ended: None, .. }) => Process::Alive,
            Some(One { ended: Some((code, said)), .. }) => Process::Ended { code: *code, said: said.clone() },
        }
    }
    fn forget(&self, run: &RunId) {
        let mut started = self.started.lock();
        // One that still lives is asked to stop with the daemon.
        if started.get(run).is_some_and(|one| one.ended.is_some()) {
            started.remove(run);
        }
    }
    fn cancel(&self, run: &RunId) {
        let (store, clock, chance, run) = (self.store.clone(), self.clock.clone(), self.chance, run.clone());
        self.handle.spawn(async move {
            let note = |text: &str| tracing::info!("{text}");
            if let Err(error) = cancel_run(&store, &run, clock.as_ref(), &chance, note).await {
                tracing::warn!(%run, %error, "a run could not be cancelled");
            }
        });
    }
    fn tell(&self, news: News) {
        (self.tell)(news);
    }
}

/// The end of a text file, without terminal codes' lead characters.
fn end_of(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let from = text.len().saturating_sub(SAID);
    String::from_utf8_lossy(&text[from..])
        .chars()
        .filter(|c| !c.is_control() || *c == '\n')
        .collect::<String>()
        .trim()
        .to_string()
}
