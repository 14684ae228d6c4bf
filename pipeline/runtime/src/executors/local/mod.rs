//! Runs attempts as processes of this machine: `<program> attempt <store-url>#<attempt-folder>`.
//!
//! The process of an attempt leads a process group and inherits the attempt's slots, so that the slots stay taken if
//! the engine is killed. When an attempt ends for any reason, its process tree is killed before its slots are released.
//! The pool's options determine whether an attempt outlives its engine: an attempt on pipes ends with the engine
//! ([`piped`]), an attempt without pipes continues ([`detached`]). If attempts end with the engine, the commands of
//! `run:` stages share one host process, which holds their slots ([`hosted`]).

mod detached;
mod ending;
mod host;
mod hosted;
mod launcher;
mod limits;
mod piped;
mod processes;
mod table;

pub use host::{HostReport, HostRequest, is_host};
pub use launcher::Launcher;

use super::{AttemptExit, AttemptState, AttemptTask, Capabilities, Control, Executor, Handle};
use crate::process;
use crate::slots::{SlotGuard, SlotHolder, Slots};
use futures::future::{BoxFuture, FutureExt, ready};
use host::HostPool;
use processes::{kill_tree, root_of};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use table::{AttemptTable, StateReporter};
use tokio::sync::watch;
use trainyard_core::event::AttemptOutcome;
use trainyard_core::{Error, ErrorKind, Result};
use trainyard_engine::ExternalUsage;
use trainyard_spec::run_stage::KIND as RUN_KIND;

/// Options of pools with the executor `local`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LocalOptions {
    /// Fate of attempts when `trainyard` dies: `stop` ends them within two seconds; `keep` lets them continue until the
    /// next `trainyard` takes over the run, or for the site's `orphan_timeout`.
    pub orphans: Orphans,
}

/// Fate of attempts when their engine dies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Orphans {
    /// Attempts end with the engine.
    #[default]
    Stop,
    /// Attempts continue, and the next engine finds them.
    Keep,
}

impl LocalOptions {
    /// Checks the options. Errors: invalid (this system does not support `keep`).
    pub fn check(&self) -> Result<()> {
        if self.orphans == Orphans::Keep && !cfg!(target_os = "linux") {
            return Err(Error::invalid(
                "`orphans: keep` is supported on Linux only, where attempts can be found again",
            )
            .help("use `orphans: stop`"));
        }
        Ok(())
    }
}

/// The executor `local`: processes of this machine.
pub struct LocalExecutor {
    name: &'static str,
    launcher: Launcher,
    slots: Option<Slots>,
    options: LocalOptions,
    hosts: Arc<HostPool>,
    table: AttemptTable,
}

impl LocalExecutor {
    /// Name in pool definitions.
    pub const NAME: &str = "local";

    /// Creates an executor whose attempts wait for `slots`, if there are any, before they start.
    pub fn new(launcher: Launcher, slots: Option<Slots>, options: LocalOptions) -> Self {
        Self::named(Self::NAME, launcher, slots, options)
    }
    /// Creates the executor under another name, for executors that differ in how the process is started.
    pub fn named(name: &'static str, launcher: Launcher, slots: Option<Slots>, options: LocalOptions) -> Self {
        Self { name, launcher, slots, options, hosts: Arc::default(), table: AttemptTable::default() }
    }

    fn keeps_orphans(&self) -> bool {
        self.options.orphans == Orphans::Keep
    }
    /// Returns the handle `<host>:<key>`, or only the key if attempts end with their engine, because they are never
    /// looked up on another host.
    fn handle(&self, task: &AttemptTask) -> Handle {
        Handle(if self.keeps_orphans() { format!("{}:{}", process::host(), task.key()) } else { task.key() })
    }

    fn start(&self, task: &AttemptTask) -> Handle {
        let handle = self.handle(task);
        if self.table.has(&handle) {
            return handle;
        }
        if self.keeps_orphans()
            && let Some(root) = root_of(&task.url())
        {
            // The attempt was started by an engine that died.
            self.adopt(handle.clone(), root, task.url());
            return handle;
        }
        let (launcher, slots, task, keep_orphans) =
            (self.launcher.clone(), self.slots.clone(), task.clone(), self.keeps_orphans());
        let hosts = self.hosts.clone();
        self.table.spawn(handle.clone(), move |reporter, mut control| async move {
            let slot_guard = match wait_for_slots(slots.as_ref(), &task, &reporter, &mut control).await {
                Ok(slot_guard) => slot_guard,
                Err(ended) => return ended,
            };
            if keep_orphans {
                detached::attempt(&launcher, &task, slot_guard.as_ref(), control).await
            } else if task.spec.kind == RUN_KIND {
                hosted::attempt(&hosts, &launcher, &task, slot_guard, control).await
            } else {
                piped::attempt(&launcher, &task, slot_guard.as_ref(), control).await
            }
        });
        handle
    }

    fn adopt(&self, handle: Handle, root: process::ProcessId, url: String) {
        self.table.spawn(handle, move |_, control| detached::watch(root, url, control));
    }

    async fn find(&self, task: &AttemptTask, handle: Option<&Handle>) -> Result<Option<Handle>> {
        let current = self.handle(task);
        if self.table.has(&current) {
            return Ok(Some(current));
        }
        if !self.keeps_orphans() {
            // The attempt stops itself when the engine's death closes its stdin; this kill covers an attempt that
            // hangs.
            kill_tree(None, &task.url()).await;
            return Ok(None);
        }
        if let Some((host, _)) = handle.and_then(|handle| handle.0.rsplit_once(':'))
            && host != process::host()
        {
            let name = self.name;
            let why = format!(
                "the attempt is a process of {host}, which is not visible from this machine (executor `{name}`)"
            );
            return Err(Error::retryable(why).help("resume the run on that host, or stop the process there"));
        }
        match root_of(&task.url()) {
            Some(root) => {
                self.adopt(current.clone(), root, task.url());
                Ok(Some(current))
            }
            None => {
                kill_tree(None, &task.url()).await;
                Ok(None)
            }
        }
    }
}

impl Executor for LocalExecutor {
    fn capabilities(&self) -> Capabilities {
        Capabilities { relays: !self.keeps_orphans(), outlives_engine: self.keeps_orphans(), shares_files: true }
    }
    fn submit<'a>(&'a self, tasks: &'a [AttemptTask]) -> BoxFuture<'a, Vec<Result<Handle>>> {
        async move { tasks.iter().map(|task| Ok(self.start(task))).collect() }.boxed()
    }
    fn poll<'a>(&'a self, handles: &'a [Handle]) -> BoxFuture<'a, Result<Vec<AttemptState>>> {
        ready(Ok(self.table.states(handles))).boxed()
    }
    fn cancel<'a>(&'a self, handle: &'a Handle, control: Control) -> BoxFuture<'a, Result<()>> {
        self.table.control(handle, control);
        ready(Ok(())).boxed()
    }
    fn reattach<'a>(
        &'a self,
        task: &'a AttemptTask,
        handle: Option<&'a Handle>,
    ) -> BoxFuture<'a, Result<Option<Handle>>> {
        self.find(task, handle).boxed()
    }
    fn changed(&self) -> BoxFuture<'_, ()> {
        self.table.changed().boxed()
    }
    fn external_usage(&self) -> BoxFuture<'_, Option<Result<ExternalUsage>>> {
        let Some(slots) = self.slots.clone() else { return ready(None).boxed() };
        // Reading lock files blocks.
        let usage = tokio::task::spawn_blocking(move || slots.used_by_others());
        async move { usage.await.ok() }.boxed()
    }
    fn external_holders(&self) -> BoxFuture<'_, Option<String>> {
        let Some(slots) = self.slots.clone() else { return ready(None).boxed() };
        // Reading lock files blocks.
        let holders = tokio::task::spawn_blocking(move || slots.holders(None));
        async move { Some(format!("slots of this machine, {}", holders.await.ok()?.ok()?)) }.boxed()
    }
}

/// Acquires the task's share of this machine, reports why the attempt waits meanwhile, and reports its start. Returns
/// `None` if this executor has no slots or the grant has no shares.
async fn wait_for_slots(
    slots: Option<&Slots>,
    task: &AttemptTask,
    reporter: &StateReporter,
    control: &mut watch::Receiver<Control>,
) -> Result<Option<SlotGuard>, AttemptExit> {
    let Some(slots) = slots else { return Ok(None) };
    let spec = &task.spec;
    let user = rustix::process::getuid().as_raw();
    let holder =
        SlotHolder { user, run: spec.run.0.clone(), workflow: spec.workflow.clone(), stage: spec.stage.0.clone() };
    let waits = |holders: String| {
        reporter.set_state(AttemptState::Pending { why: Some(format!("slots of this machine, {holders}")) });
    };
    match slots.acquire(&task.grant, &holder, control, waits).await {
        Ok(slot_guard) => {
            reporter.set_state(AttemptState::Started);
            Ok(slot_guard)
        }
        Err(error) if error.kind == ErrorKind::Cancelled => {
            Err(AttemptExit::with_error(AttemptOutcome::Cancelled, error))
        }
        Err(error) => Err(AttemptExit::with_error(AttemptOutcome::Failed, error)),
    }
}
