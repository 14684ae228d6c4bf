//! Simulates a store, an executor and a journal around the engine, and checks the invariants of a run.

use crate::fold::{RunView, StageStatus};
use crate::node::{NodeOutcome, NodePhase};
use crate::{
    AttemptCompletion, Command, EngineSetup, EngineStep, Input, LookupResult, NodeId, Publication, ResumeState,
    RunEngine,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use trainyard_core::artifact::TableSummary;
use trainyard_core::attempt::{AttemptResult, AttemptSpec};
use trainyard_core::event::{AttemptOutcome, Event, EventRecord, RunOutcome};
use trainyard_core::{Digest, Error, FileEntry, Manifest, Output};
use trainyard_spec::plan::Plan;

/// Outcome of a stage's attempts; called with the spec.
pub type Script = Box<dyn Fn(&AttemptSpec) -> Result<BTreeMap<String, f64>, (AttemptOutcome, Error)>>;

pub struct Simulation {
    pub engine: RunEngine,
    pub store: BTreeMap<(Digest, u32), Manifest>,
    /// Manifests that cannot be read, or whose objects are missing.
    pub damaged: BTreeSet<(Digest, u32)>,
    /// Manifests whose objects have the correct size and corrupt bytes: a reader detects and removes such an object.
    pub unread: BTreeSet<(Digest, u32)>,
    /// Results of attempts, which a recovery may find.
    pub results: BTreeMap<(String, u32), AttemptResult>,
    pub journal: Vec<EventRecord>,
    pub pending: Vec<Command>,
    pub script: Script,
    /// Rows of every table output.
    pub rows: Vec<Value>,
    /// Whether the preview contains them.
    pub preview: bool,
    pub now: i64,
    /// Launched stages in order.
    pub launched: Vec<String>,
    pub seen: Vec<Input>,
}

pub fn succeed() -> Script {
    Box::new(|_| Ok(BTreeMap::from([("accuracy".to_string(), 0.5)])))
}

impl Simulation {
    pub fn new(plan: &Plan, setup: EngineSetup) -> Self {
        let engine = RunEngine::new(plan, setup).unwrap();
        Self {
            engine,
            store: BTreeMap::new(),
            damaged: BTreeSet::new(),
            unread: BTreeSet::new(),
            results: BTreeMap::new(),
            journal: Vec::new(),
            pending: Vec::new(),
            script: succeed(),
            rows: Vec::new(),
            preview: true,
            now: 1_000,
            launched: Vec::new(),
            seen: Vec::new(),
        }
    }
    pub fn with(
        mut self,
        script: impl Fn(&AttemptSpec) -> Result<BTreeMap<String, f64>, (AttemptOutcome, Error)> + 'static,
    ) -> Self {
        self.script = Box::new(script);
        self
    }

    /// Returns the next engine of the run, begun with this journal and an empty store.
    pub fn next_engine(mut self, plan: &Plan) -> Self {
        self.journal.push(EventRecord { at: 1, event: Event::WriterOpened { epoch: 2, writer: "next".into() } });
        let resumed = ResumeState::from_view(&self.view());
        let mut next = Self::new(plan, EngineSetup { resumed, ..super::setup() });
        next.journal = self.journal;
        next.feed(Input::Begin);
        next
    }

    /// Gives the engine one input, records the step, and checks the invariants.
    pub fn feed(&mut self, input: Input) {
        self.seen.push(input.clone());
        let EngineStep { records, commands } = self.engine.step(self.now, input);
        for command in &commands {
            if let Command::Launch { spec, .. } = command {
                self.launched.push(spec.stage.0.clone());
            }
            if let Command::Stop { node, attempt, .. } = command {
                // A stopped attempt ends cancelled, regardless of the result of its script.
                let stopped = |c: &Command| match c {
                    Command::Launch { node: n, spec, .. } => n == node && spec.attempt == *attempt,
                    _ => false,
                };
                if let Some(at) = self.pending.iter().position(stopped) {
                    self.pending.remove(at);
                    self.pending.push(command.clone());
                }
            }
        }
        self.journal.extend(records);
        self.pending.extend(commands.into_iter().filter(|c| !matches!(c, Command::Stop { .. })));
        self.audit();
    }

    /// Carries out pending command number `at`.
    pub fn carry_out(&mut self, at: usize) {
        let command = self.pending.remove(at);
        if let Some(input) = self.effect(command) {
            self.feed(input);
        }
    }

    /// Carries out a command and returns the engine's next input.
    pub fn effect(&mut self, command: Command) -> Option<Input> {
        match command {
            Command::Lookup { node, digest } => Some(Input::LookedUp { node, answer: Ok(self.look_up(&digest)) }),
            Command::ReadRows { node, limit, .. } => {
                Some(Input::Rows { node, rows: Ok(self.rows.iter().take(limit as usize).cloned().collect()) })
            }
            Command::Watch { node, digest, .. } => Some(Input::LookedUp { node, answer: Ok(self.look_up(&digest)) }),
            Command::Inspect { node, inputs } => {
                let names = inputs.iter().map(|input| (input.stage_digest.clone(), input.generation));
                Some(Input::Inspected { node, lost: Ok(names.filter(|name| self.damaged.contains(name)).collect()) })
            }
            Command::Launch { node, spec, .. } => {
                let finished = self.attempt(&spec);
                Some(Input::Ended { node, attempt: spec.attempt, finished })
            }
            Command::Recover { node, spec, .. } => {
                let found = self.results.get(&(spec.stage.0.clone(), spec.attempt)).cloned();
                Some(Input::Recovered {
                    node,
                    attempt: spec.attempt,
                    finished: found.map(AttemptCompletion::succeeded),
                })
            }
            Command::Stop { node, attempt, .. } => Some(Input::Ended {
                node,
                attempt,
                finished: AttemptCompletion::failed(AttemptOutcome::Cancelled, Error::cancelled("stopped")),
            }),
            Command::Publish { node, attempt, manifest, .. } => {
                Some(Input::Published { node, attempt, answer: Ok(self.put(Arc::unwrap_or_clone(manifest))) })
            }
            Command::Finish { .. } => None,
        }
    }

    fn look_up(&self, digest: &Digest) -> LookupResult {
        match self.store.iter().rfind(|((d, _), _)| d == digest) {
            None => LookupResult::Miss,
            Some((name, _)) if self.damaged.contains(name) => {
                LookupResult::Lost { generation: name.1, missing: "it is unreadable".into() }
            }
            Some((_, manifest)) => LookupResult::Hit(Arc::new(manifest.clone())),
        }
    }

    /// Puts a manifest create-only.
    pub fn put(&mut self, manifest: Manifest) -> Publication {
        let name = (manifest.stage_digest.clone(), manifest.generation);
        assert!(
            manifest.generation == 0 || self.store.contains_key(&(name.0.clone(), name.1 - 1)),
            "a hole before generation {}",
            name.1
        );
        match self.store.get(&name) {
            Some(theirs) if *theirs != manifest => Publication::Theirs(Arc::new(theirs.clone())),
            _ => {
                self.store.insert(name, manifest);
                Publication::Ours
            }
        }
    }

    fn attempt(&mut self, spec: &AttemptSpec) -> AttemptCompletion {
        let reads = spec.inputs.values().flatten().map(|input| (input.stage_digest.clone(), input.generation));
        let found: Vec<_> = reads.filter(|name| self.unread.remove(name) || self.damaged.contains(name)).collect();
        if !found.is_empty() {
            self.damaged.extend(found);
            return AttemptCompletion::failed(AttemptOutcome::Failed, Error::data("an object is damaged"));
        }
        match (self.script)(spec) {
            Ok(metrics) => {
                let result = self.result(spec, metrics);
                self.results.insert((spec.stage.0.clone(), spec.attempt), result.clone());
                AttemptCompletion::succeeded(result)
            }
            Err((outcome, error)) => AttemptCompletion::failed(outcome, error),
        }
    }

    /// Outputs are a function of the stage digest.
    pub fn result(&self, spec: &AttemptSpec, metrics: BTreeMap<String, f64>) -> AttemptResult {
        let make = |(name, declared): (&String, &trainyard_core::attempt::AttemptOutput)| {
            let file = FileEntry {
                path: "f".into(),
                digest: Digest::of(format!("{}{name}", spec.stage_digest).as_bytes()),
                size: 1,
            };
            let preview = if self.preview { self.rows.clone() } else { Vec::new() };
            let table = (!self.rows.is_empty()).then(|| TableSummary {
                rows: self.rows.len() as u64,
                columns: Vec::new(),
                preview,
            });
            (name.clone(), Output::new(declared.kind, vec![file], table, BTreeMap::new()).unwrap())
        };
        AttemptResult {
            format: 1,
            run: spec.run.clone(),
            stage: spec.stage.clone(),
            attempt: spec.attempt,
            stage_digest: spec.stage_digest.clone(),
            outputs: spec.outputs.iter().map(make).collect(),
            metrics,
            comparisons: Vec::new(),
            measured: BTreeMap::new(),
        }
    }

    /// Carries out all commands in order, and wakes the engine when none remains.
    pub fn finish(&mut self) -> RunOutcome {
        if self.journal.is_empty() {
            self.feed(Input::Begin);
        }
        for _ in 0..100_000 {
            if self.engine.is_finished() {
                break;
            }
            if !self.pending.is_empty() {
                self.carry_out(0);
            } else if let Some(at) = self.engine.next_wake() {
                self.now = self.now.max(at);
                self.feed(Input::Tick);
            } else {
                panic!("stuck: {:?}", self.view().counts());
            }
        }
        self.outcome()
    }

    pub fn outcome(&self) -> RunOutcome {
        match self.journal.last().map(|r| &r.event) {
            Some(Event::RunFinished { outcome }) => *outcome,
            other => panic!("not finished: {other:?}"),
        }
    }
    pub fn view(&self) -> RunView {
        let mut view = RunView::default();
        self.journal.iter().for_each(|r| view.apply(r));
        view
    }
    pub fn status(&self, stage: &str) -> StageStatus {
        self.view().stage(&super::key(stage)).map_or(StageStatus::Pending, |s| s.status)
    }
    pub fn error(&self, stage: &str) -> String {
        self.view().stage(&super::key(stage)).and_then(|s| s.error.clone()).map_or_else(String::new, |e| e.to_string())
    }

    /// Checks the invariants that hold after every step.
    fn audit(&self) {
        let engine = &self.engine;
        let running = engine.states.iter().filter_map(|s| s.grant.as_ref()).filter(|g| !g.is_in_process());
        engine.allocator.audit(running);
        assert_eq!(engine.open, engine.states.iter().filter(|s| s.ending().is_none()).count());
        for (at, state) in engine.states.iter().enumerate() {
            let unfinished = || state.after.iter().filter(|d| engine.state(**d).ending().is_none());
            let open = unfinished().count();
            // Other stages may have begun with a result that is made again.
            let first = unfinished().filter(|d| engine.state(**d).recomputed == 0).count();
            if state.item.is_none() {
                assert_eq!(state.waits_for, open, "counter of {}", state.key);
            }
            assert_eq!(
                state.grant.is_some(),
                matches!(state.phase, NodePhase::Running { .. }),
                "{} holds what it should not",
                state.key
            );
            let started = !matches!(
                state.phase,
                NodePhase::Waiting | NodePhase::Ended(NodeOutcome::Skipped | NodeOutcome::Excluded)
            );
            assert!(!started || first == 0 || engine.stopping.is_some(), "{} started before its time", state.key);
            if let Some(leader) = state.digest.as_ref().and_then(|d| engine.leaders.get(d)) {
                assert!(engine.state(*leader).ending().is_none(), "a leader that ended still leads");
            }
            // Companions are not looked up.
            if state.lead.is_some() {
                continue;
            }
            if state.phase == NodePhase::LookingUp
                || matches!(state.phase, NodePhase::Running { .. } | NodePhase::Queued | NodePhase::Publishing { .. })
            {
                assert_eq!(
                    state.digest.as_ref().and_then(|d| engine.leaders.get(d)),
                    Some(&NodeId(at as u32)),
                    "two of one digest: {}",
                    state.key
                );
            }
        }
        self.audit_journal();
    }

    fn audit_journal(&self) {
        let mut last: BTreeMap<&str, u32> = BTreeMap::new();
        let mut live: BTreeSet<&str> = BTreeSet::new();
        let mut published: BTreeSet<(&Digest, u32)> = BTreeSet::new();
        for record in &self.journal {
            match &record.event {
                Event::WriterOpened { .. } => live.clear(),
                Event::AttemptStarted { stage, attempt, .. } => {
                    assert!(
                        last.insert(&stage.0, *attempt).unwrap_or(0) < *attempt,
                        "attempt numbers of {stage} run backwards"
                    );
                    assert!(live.insert(&stage.0), "two attempts of {stage} at once");
                }
                Event::AttemptEnded { stage, .. } => {
                    live.remove(stage.0.as_str());
                }
                Event::Published { digest, generation, adopted, .. } => {
                    assert!(
                        *adopted || published.insert((digest, *generation)),
                        "published twice: {digest} {generation}"
                    );
                }
                _ => {}
            }
        }
    }
}
