//! Implements the daemon, which checks the folder of workflow files, makes a pass over each schedule, and sleeps until
//! a tick is due or a user wakes it.

use crate::effects::{DaemonEffects, DaemonNotification};
use crate::folder::{CompileFn, FolderChange, FolderFile, WorkflowFolder};
use crate::log::ScheduleLog;
use crate::operations;
use crate::reconciler::{ReconcileContext, ScheduleReconciler};
use crate::schedule::event::{Definition, ScheduleEvent};
use crate::schedule::state::{PendingTick, ScheduleState};
use futures::StreamExt;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use trainyard_core::{Chance, Clock, Error, Result};
use trainyard_runtime::Interrupt;
use trainyard_store::Store;

/// Schedules that make a pass concurrently.
const AT_ONCE: usize = 16;
/// Longest sleep: a request to a disk is cheap, one to a bucket is not.
const POLL_LOCAL: Duration = Duration::from_secs(1);
const POLL_REMOTE: Duration = Duration::from_secs(10);
/// Shortest sleep.
const MIN_SLEEP: Duration = Duration::from_millis(20);

/// Dependencies of a daemon.
pub struct Daemon {
    pub store: Store,
    pub clock: Arc<dyn Clock>,
    /// Source of run ids, different in each daemon.
    pub chance: Chance,
    /// Unique name of this daemon.
    pub name: String,
    /// Host and folder: see [`Definition::home`].
    pub home: String,
    /// All other effects.
    pub effects: Arc<dyn DaemonEffects>,
    /// Compiler of workflow files.
    pub compile: Box<CompileFn>,
    pub folder: WorkflowFolder,
    /// Observable state.
    pub shared: Arc<DaemonShared>,
    /// Changes of the folder that are not recorded yet; empty at first.
    pub changes: VecDeque<FolderChange>,
}

/// Observable state of a daemon, and the means to wake it.
#[derive(Debug, Default)]
pub struct DaemonShared {
    wake: Notify,
    status: Mutex<DaemonStatus>,
    /// Logs with new requests, which may belong to workflows without a schedule.
    requested: Mutex<BTreeSet<String>>,
}

/// Observable state of a daemon.
#[derive(Debug, Clone, Default)]
pub struct DaemonStatus {
    /// Time of the last check, in Unix milliseconds.
    pub looked: i64,
    /// Workflow files of the folder.
    pub files: Vec<FolderFile>,
    /// Mistakes by file.
    pub broken: BTreeMap<String, String>,
    /// Errors of the last check, by schedule.
    pub errors: BTreeMap<String, String>,
}

impl DaemonShared {
    /// Wakes the daemon to check again now.
    pub fn wake(&self) {
        self.wake.notify_one();
    }
    /// Makes the daemon continue the runs that were requested in the log of a workflow, now.
    pub fn continue_requests(&self, workflow: &str) {
        self.requested.lock().unwrap_or_else(PoisonError::into_inner).insert(workflow.to_string());
        self.wake();
    }
    /// Returns the findings of the last check.
    pub fn status(&self) -> DaemonStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Makes a pass over every schedule; returns the time at which the next tick comes due.
pub(crate) async fn pass_all(
    reconcilers: &mut BTreeMap<String, ScheduleReconciler>,
    context: ReconcileContext<'_>,
    errors: &mut BTreeMap<String, String>,
) -> Option<i64> {
    let passes = reconcilers.iter_mut().map(|(name, reconciler)| async move { (name, reconciler.pass(context).await) });
    let results: Vec<_> = futures::stream::iter(passes).buffer_unordered(AT_ONCE).collect().await;
    let mut due = None;
    for (name, result) in results {
        match result {
            Ok(Some(at)) => due = Some(due.map_or(at, |least: i64| least.min(at))),
            Ok(None) => {}
            Err(error) => {
                errors.insert(name.clone(), error.to_string());
            }
        }
    }
    due
}

impl Daemon {
    /// Makes passes until interrupted. The runs that the daemon has started continue.
    pub async fn run(mut self, interrupt: &Interrupt) {
        let mut reconcilers = BTreeMap::new();
        let mut known_errors = BTreeMap::new();
        let mut swept = false;
        while interrupt.level() == 0 {
            let mut errors = BTreeMap::new();
            let prepared = async {
                self.record_changes(&mut reconcilers).await?;
                if !swept {
                    self.sweep(&mut reconcilers).await?;
                    swept = true;
                }
                self.open_requests(&mut reconcilers).await?;
                Ok::<_, Error>(())
            };
            if let Err(error) = prepared.await {
                errors.insert(String::new(), error.to_string());
            }
            let context =
                ReconcileContext { store: &self.store, clock: self.clock.as_ref(), effects: self.effects.as_ref() };
            let due = pass_all(&mut reconcilers, context, &mut errors).await;
            for (name, why) in errors.iter().filter(|(name, why)| known_errors.get(*name) != Some(*why)) {
                tracing::warn!(schedule = name, "{why}");
            }
            known_errors = errors;
            self.publish_status(&known_errors);
            tokio::select! {
                () = tokio::time::sleep(self.sleep_time(due)) => {}
                () = self.shared.wake.notified() => {}
                () = interrupt.beyond(0) => {}
            }
        }
    }

    fn sleep_time(&self, due: Option<i64>) -> Duration {
        let max = if self.store.local_root().is_some() { POLL_LOCAL } else { POLL_REMOTE };
        let until = due.map(|at| Duration::from_millis(u64::try_from(at - self.clock.unix_millis()).unwrap_or(0)));
        until.map_or(max, |until| until.min(max)).max(MIN_SLEEP)
    }
    fn publish_status(&self, errors: &BTreeMap<String, String>) {
        let mut status = self.shared.status.lock().unwrap_or_else(PoisonError::into_inner);
        *status = DaemonStatus {
            looked: self.clock.unix_millis(),
            files: self.folder.workflows(),
            broken: self.folder.broken(),
            errors: errors.clone(),
        };
    }
    /// Begins to reconcile the logs with new requests. A log that cannot be opened now is kept for the next pass.
    async fn open_requests(&self, reconcilers: &mut BTreeMap<String, ScheduleReconciler>) -> Result<()> {
        let mut names = {
            let mut requested = self.shared.requested.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *requested)
        };
        while let Some(name) = names.first().cloned() {
            if let Err(error) = self.reconciler(&name, reconcilers).await {
                self.shared.requested.lock().unwrap_or_else(PoisonError::into_inner).append(&mut names);
                return Err(error);
            }
            names.remove(&name);
        }
        Ok(())
    }
    /// Records changes of the folder. A change that the store does not accept now is kept for the next pass.
    async fn record_changes(&mut self, reconcilers: &mut BTreeMap<String, ScheduleReconciler>) -> Result<()> {
        let found = self.folder.poll(&*self.compile)?;
        for change in &found {
            if let FolderChange::Broken { file, why } = change {
                tracing::warn!(file, "a workflow file has errors, its previous content stays in force: {why}");
                self.effects.notify(DaemonNotification::Broken { file: file.clone(), why: why.clone() });
            }
        }
        self.changes.extend(found);
        while let Some(change) = self.changes.front() {
            match change {
                FolderChange::Broken { .. } => {}
                FolderChange::Removed { name } => self.remove(name, reconcilers).await?,
                FolderChange::Defined { name, file, schedule, texts } => {
                    let texts = texts.store(&self.store, name).await?;
                    let (schedule, file, home) = (schedule.clone(), file.clone(), self.home.clone());
                    self.define(name, Definition { schedule, file, home, texts }, reconcilers).await?;
                }
            }
            self.changes.pop_front();
        }
        Ok(())
    }
    /// Ends the schedules whose files were removed while no daemon was running, and continues requested runs of this
    /// folder.
    async fn sweep(&self, reconcilers: &mut BTreeMap<String, ScheduleReconciler>) -> Result<()> {
        let present: BTreeSet<&str> = self.folder.schedules().collect();
        for name in operations::names(&self.store).await? {
            let log = ScheduleLog::open(&self.store, &name).await?;
            let ours = log.state().definition.as_ref().is_some_and(|d| d.home == self.home);
            let is_requested = |open: &PendingTick| open.requested.is_some() && open.definition.home == self.home;
            if ours && !present.contains(name.as_str()) {
                self.remove(&name, reconcilers).await?;
            } else if log.state().open.iter().any(is_requested) {
                self.reconciler(&name, reconcilers).await?;
            }
        }
        Ok(())
    }
    async fn define(
        &self,
        name: &str,
        definition: Definition,
        reconcilers: &mut BTreeMap<String, ScheduleReconciler>,
    ) -> Result<()> {
        let same = |state: &ScheduleState| {
            let in_force = state.active_definition();
            in_force.is_some_and(|d| (&d.schedule, &d.texts) == (&definition.schedule, &definition.texts))
        };
        let event =
            |state: &ScheduleState| (!same(state)).then(|| ScheduleEvent::Defined { definition: definition.clone() });
        let reconciler = self.reconciler(name, reconcilers).await?;
        if reconciler.log().append(self.clock.unix_millis(), &self.name, event).await?.is_some() {
            tracing::info!(schedule = name, file = definition.file, "schedule defined");
        }
        Ok(())
    }
    async fn remove(&self, name: &str, reconcilers: &mut BTreeMap<String, ScheduleReconciler>) -> Result<()> {
        let event = |state: &ScheduleState| state.active_definition().map(|_| ScheduleEvent::Removed {});
        let reconciler = self.reconciler(name, reconcilers).await?;
        if reconciler.log().append(self.clock.unix_millis(), &self.name, event).await?.is_some() {
            tracing::info!(schedule = name, "schedule removed: its file was deleted");
        }
        Ok(())
    }
    async fn reconciler<'k>(
        &self,
        name: &str,
        reconcilers: &'k mut BTreeMap<String, ScheduleReconciler>,
    ) -> Result<&'k mut ScheduleReconciler> {
        if !reconcilers.contains_key(name) {
            let log = ScheduleLog::open(&self.store, name).await?;
            reconcilers.insert(name.to_string(), ScheduleReconciler::new(log, &self.name, self.chance));
        }
        reconcilers.get_mut(name).ok_or_else(|| Error::bug(format!("schedule `{name}` has no reconciler")))
    }
}
