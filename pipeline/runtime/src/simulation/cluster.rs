//! Simulates a cluster of machines that no engine owns. Its jobs wait, run, are lost, preempted, cut off or cancelled.

use super::attempt::{self, Exit};
use super::process::Process;
use super::setting::Mutant;
use super::world::World;
use crate::executors::{AttemptExit, AttemptState, AttemptTask, Control, Handle};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::watch;
use trainyard_core::chance::PhiloxRng;
use trainyard_core::event::AttemptOutcome;
use trainyard_core::{Error, ErrorKind};

const MACHINES: u64 = 6;
/// First host of the cluster; the operators' hosts come before it.
const FIRST_HOST: u32 = 10;
/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(15);

/// All jobs by key.
#[derive(Default)]
pub struct Cluster(Mutex<BTreeMap<String, Vec<Job>>>);

/// One submission.
struct Job {
    handle: Handle,
    state: AttemptState,
    control: watch::Sender<Control>,
    /// Whether the cluster has forgotten the job.
    forgotten: bool,
    process: Option<Arc<Process>>,
}

/// Fault of a job's machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MachineFault {
    /// The machine is lost, and the cluster reports it.
    Lost,
    /// The machine is lost, and the cluster does not notice.
    Silent,
    /// The cluster reports the machine as lost, and the attempt continues.
    CutOff,
    /// The job is preempted: the attempt gets a signal.
    Preempted,
    /// The job is restarted on another machine.
    Requeued,
    /// The cluster forgets the job, which continues.
    Forgotten,
    /// The attempt's process is killed.
    Killed,
}

impl MachineFault {
    fn drawn(draw: &mut PhiloxRng) -> Self {
        use MachineFault::{CutOff, Forgotten, Killed, Lost, Preempted, Requeued, Silent};
        *draw.choose(&[Lost, Silent, CutOff, Preempted, Requeued, Requeued, Forgotten, Killed])
    }
    fn name(self) -> &'static str {
        match self {
            Self::Lost => "machines lost",
            Self::Silent => "machines lost in silence",
            Self::CutOff => "machines cut off",
            Self::Preempted => "attempts preempted",
            Self::Requeued => "attempts started again",
            Self::Forgotten => "attempts forgotten by the cluster",
            Self::Killed => "attempts killed",
        }
    }
}

impl Cluster {
    fn jobs(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Job>>> {
        self.0.lock().unwrap()
    }
    /// Accepts a submission, unless one with its key exists.
    pub fn submit(&self, world: &Arc<World>, task: &AttemptTask) -> Handle {
        let key = task.key();
        if let Some(job) = self.jobs().get(&key).and_then(|jobs| jobs.first())
            && !world.is(Mutant::ExecutorDoubles)
        {
            return job.handle.clone();
        }
        let number = self.jobs().values().map(Vec::len).sum::<usize>() + 1;
        let handle = Handle(format!("job-{number}"));
        let (control, controls) = watch::channel(Control::Run);
        let state = AttemptState::Pending { why: None };
        let job = Job { handle: handle.clone(), state, control, forgotten: false, process: None };
        self.jobs().entry(key.clone()).or_default().push(job);
        world
            .trace
            .record("cluster", format_args!("takes {} of {} as {}", task.spec.attempt, task.spec.stage, handle.0));
        tokio::spawn(carry(world.clone(), key, handle.clone(), task.folder.clone(), controls));
        handle
    }
    pub fn state(&self, handle: &Handle) -> AttemptState {
        let jobs = self.jobs();
        let found = jobs.values().flatten().find(|job| job.handle == *handle && !job.forgotten);
        let lost = || {
            AttemptState::Ended(AttemptExit::with_error(
                AttemptOutcome::Lost,
                Error::lost("the cluster does not know it"),
            ))
        };
        found.map_or_else(lost, |job| job.state.clone())
    }
    pub fn find(&self, key: &str, handle: Option<&Handle>) -> Option<Handle> {
        let jobs = self.jobs();
        let mut known = jobs.iter().flat_map(|(of, jobs)| jobs.iter().map(move |job| (of, job)));
        let is_it = |(of, job): &(&String, &Job)| !job.forgotten && (Some(&job.handle) == handle || *of == key);
        known.find(is_it).map(|(_, job)| job.handle.clone())
    }
    pub fn control(&self, handle: &Handle, control: Control) {
        let jobs = self.jobs();
        if let Some(job) = jobs.values().flatten().find(|job| job.handle == *handle && !job.forgotten) {
            job.control.send_if_modified(|wanted| {
                let rises = control > *wanted;
                *wanted = control.max(*wanted);
                rises
            });
        }
    }
    fn change(&self, handle: &Handle, change: impl FnOnce(&mut Job)) {
        let mut jobs = self.jobs();
        if let Some(job) = jobs.values_mut().flatten().find(|job| job.handle == *handle) {
            change(job);
        }
    }
    fn is(&self, world: &World, handle: &Handle, state: AttemptState) {
        world.trace.record("cluster", format_args!("{} is {state:?}", handle.0));
        self.change(handle, |job| job.state = state);
    }
    /// Returns whether a process of this submission is alive on another machine.
    fn runs_already(&self, key: &str) -> bool {
        let jobs = self.jobs();
        let mut processes = jobs.get(key).into_iter().flatten().filter_map(|job| job.process.as_ref());
        processes.any(|process| process.is_alive())
    }
}

/// Runs a job to its end, with the faults that its draws determine.
async fn carry(world: Arc<World>, key: String, handle: Handle, folder: String, mut control: watch::Receiver<Control>) {
    let cluster = &world.cluster;
    let mut draw = world.draw("job");
    let queue = if world.goes_wrong(&mut draw, 50) { draw.below(90_000) } else { draw.below(3_000) };
    tokio::select! {
        biased;
        () = reaches(&mut control, Control::Cancel) => return cluster.is(&world, &handle, cancelled()),
        () = tokio::time::sleep(Duration::from_millis(queue)) => {}
    }
    let mut mishap = world
        .goes_wrong(&mut draw, world.setting.lost_machines)
        .then(|| (MachineFault::drawn(&mut draw), Duration::from_millis(draw.below(12_000))));
    loop {
        let process = world.population.born(FIRST_HOST + draw.below(MACHINES) as u32);
        if cluster.runs_already(&key) {
            world.complain(format_args!("{folder} runs twice at one time"));
        }
        cluster.change(&handle, |job| job.process = Some(process.clone()));
        cluster.is(&world, &handle, AttemptState::Started);
        let at = folder.clone();
        let ledger = world.server.ledger.lock().unwrap().starts(&process, &at);
        ledger.into_iter().for_each(|what| world.complain(what));
        world.trace.count("attempts started");
        let (signal, signals) = watch::channel(false);
        let running = attempt::run(world.clone(), process.clone(), at, signals);
        let happened = mishap.take();
        let machine = Machine { world: world.clone(), process, signal, handle: handle.clone() };
        match machine.run(running, happened, &mut control).await {
            Some(state) => return cluster.is(&world, &handle, state),
            None => cluster.is(&world, &handle, AttemptState::Pending { why: Some("it is started again".into()) }),
        }
        tokio::time::sleep(Duration::from_millis(draw.below(5_000))).await;
    }
}

/// Machine with one process of a job.
struct Machine {
    world: Arc<World>,
    process: Arc<Process>,
    signal: watch::Sender<bool>,
    handle: Handle,
}

impl Machine {
    /// Returns how the job ended; `None` if it is to be restarted.
    async fn run(
        self,
        running: impl Future<Output = Exit> + Send + 'static,
        mishap: Option<(MachineFault, Duration)>,
        control: &mut watch::Receiver<Control>,
    ) -> Option<AttemptState> {
        let process = self.process.clone();
        let mut running = tokio::spawn(async move {
            let exit = running.await;
            process.end();
            exit
        });
        let (what, after) = mishap.map_or((None, Duration::MAX), |(what, after)| (Some(what), after));
        tokio::select! {
            biased;
            exit = &mut running => return Some(ended(exit)),
            () = reaches(control, Control::Cancel) => {
                self.signal.send_replace(true);
                tokio::select! {
                    biased;
                    _ = &mut running => {}
                    () = reaches(control, Control::Kill) => {}
                    () = tokio::time::sleep(GRACE) => {}
                }
                self.kill(&running);
                return Some(cancelled());
            }
            () = tokio::time::sleep(after) => {}
        }
        self.apply_fault(what?, running, control).await
    }

    async fn apply_fault(
        self,
        mishap: MachineFault,
        mut running: tokio::task::JoinHandle<Exit>,
        control: &mut watch::Receiver<Control>,
    ) -> Option<AttemptState> {
        self.world.trace.count(mishap.name());
        self.world.trace.record("cluster", format_args!("{}: {mishap:?}", self.handle.0));
        match mishap {
            MachineFault::Lost => {
                self.kill(&running);
                tokio::time::sleep(Duration::from_secs(20)).await;
                Some(lost("its machine is lost"))
            }
            MachineFault::Silent => {
                self.kill(&running);
                reaches(control, Control::Kill).await;
                Some(cancelled())
            }
            MachineFault::CutOff => Some(lost("its machine does not answer")),
            MachineFault::Forgotten => {
                self.world.cluster.change(&self.handle, |job| job.forgotten = true);
                Some(lost("forgotten"))
            }
            MachineFault::Preempted => {
                self.signal.send_replace(true);
                let _ = tokio::time::timeout(GRACE, &mut running).await;
                self.kill(&running);
                Some(lost("preempted"))
            }
            MachineFault::Requeued => {
                self.kill(&running);
                None
            }
            MachineFault::Killed => {
                self.kill(&running);
                Some(AttemptState::Ended(AttemptExit::with_error(
                    AttemptOutcome::Failed,
                    Error::bug("ended with signal 9"),
                )))
            }
        }
    }

    fn kill(&self, running: &tokio::task::JoinHandle<Exit>) {
        self.process.end();
        running.abort();
    }
}

fn ended(exit: Result<Exit, tokio::task::JoinError>) -> AttemptState {
    AttemptState::Ended(match exit {
        Ok(Ok(())) => AttemptExit::succeeded_unread(),
        Ok(Err(error)) if error.kind == ErrorKind::Lost => AttemptExit::with_error(AttemptOutcome::Lost, error),
        Ok(Err(_)) | Err(_) => AttemptExit::with_error(AttemptOutcome::Failed, Error::bug("ended with exit code 1")),
    })
}

fn lost(why: &str) -> AttemptState {
    AttemptState::Ended(AttemptExit::with_error(AttemptOutcome::Lost, Error::lost(why)))
}

fn cancelled() -> AttemptState {
    AttemptState::Ended(AttemptExit::with_error(AttemptOutcome::Cancelled, Error::cancelled("cancelled by its user")))
}

async fn reaches(control: &mut watch::Receiver<Control>, least: Control) {
    if control.wait_for(|wanted| *wanted >= least).await.is_err() {
        std::future::pending().await
    }
}
