//! Decides whether a stage is a cache hit, runs (with the reason), or takes the result of another stage of this run
//! with the same digest.

use crate::engine::RunEngine;
use crate::io::{Command, LookupResult, NodeId};
use crate::node::{NodeOutcome, NodePhase};
use crate::selection::NodeMode;
use crate::setup::OpenAttempt;
use serde_json::Value;
use std::sync::Arc;
use trainyard_core::artifact::GenerationReason;
use trainyard_core::event::{Event, summarize_outputs};
use trainyard_core::{Error, ErrorKind, Manifest, Placement, Result};

impl RunEngine {
    /// Looks up the digest that was just prepared, unless another stage with this digest is already in progress.
    pub(crate) fn look_up(&mut self, node: NodeId) {
        let Some(digest) = self.state(node).digest.clone() else { return };
        if let Some(leader) = self.leaders.get(&digest).copied().filter(|l| *l != node) {
            let state = self.state_mut(node);
            (state.phase, state.leader) = (NodePhase::AwaitingLeader, Some(leader));
            self.state_mut(leader).followers.push(node);
            return;
        }
        self.leaders.insert(digest.clone(), node);
        self.state_mut(node).phase = NodePhase::LookingUp;
        self.command(if self.state(node).seen_in_other_run {
            Command::Watch { node, digest, generation: self.state(node).generation }
        } else {
            Command::Lookup { node, digest }
        });
    }

    pub(crate) fn looked(&mut self, node: NodeId, result: Result<LookupResult>) {
        if self.state(node).phase != NodePhase::LookingUp {
            return;
        }
        let forced = self.state(node).forced;
        match (result, forced) {
            (Err(error), _) => self.fail(node, error.at("looking up this stage in the store")),
            (Ok(LookupResult::Hit(manifest)), None) => self.hit(node, manifest),
            // The forced generation exists already: this run published it, perhaps before a crash.
            (Ok(LookupResult::Hit(manifest)), Some(_)) if manifest.provenance.run == self.setup.run => {
                self.hit(node, manifest)
            }
            (Ok(LookupResult::Hit(manifest)), Some(reason)) => {
                let why = match reason {
                    GenerationReason::Rerun => "`--rerun` names it",
                    GenerationReason::Uncached => "the stage has `cache: false`",
                    GenerationReason::Lost => "its objects are gone",
                };
                self.miss(node, manifest.generation + 1, Some(reason), why.into());
            }
            (Ok(LookupResult::InOtherRun { why }), _) => self.wait_for_other_run(node, why),
            (Ok(LookupResult::Miss), _) => self.miss(node, 0, None, "nothing is published under its digest".into()),
            (Ok(LookupResult::Lost { generation, missing }), forced) => {
                let why = format!("generation {generation} cannot be used: {missing}");
                self.miss(node, generation + 1, forced.or(Some(GenerationReason::Lost)), why);
            }
        }
    }

    /// Handles a stage that was published before; its checks are evaluated as on a fresh result.
    pub(crate) fn hit(&mut self, node: NodeId, manifest: Arc<Manifest>) {
        self.emit(Event::CacheHit {
            stage: self.key(node).clone(),
            digest: manifest.stage_digest.clone(),
            generation: manifest.generation,
            metrics: manifest.metrics.clone(),
            comparisons: manifest.comparisons.clone(),
            outputs: summarize_outputs(&manifest),
        });
        self.published(node, manifest, NodeOutcome::Hit);
    }

    /// Handles a stage with a manifest; its checks decide whether it succeeds.
    pub(crate) fn published(&mut self, node: NodeId, mut manifest: Arc<Manifest>, ending: NodeOutcome) {
        let results = crate::checks::evaluate(&self.state(node).plan.checks, &manifest.metrics, &manifest.comparisons);
        // The manifest of a leader, which its followers share, is lean already.
        if !manifest.config.is_null() || !manifest.inputs.is_empty() {
            let lean = Arc::make_mut(&mut manifest);
            lean.config = Value::Null;
            lean.inputs.clear();
            lean.measured.clear();
        }
        self.state_mut(node).manifest = Some(manifest);
        let gate = crate::checks::gate(&results);
        if !results.is_empty() {
            self.emit(Event::ChecksEvaluated { stage: self.key(node).clone(), results });
        }
        match gate {
            Some(error) => self.fail(node, error),
            None => self.end(node, ending),
        }
    }

    fn miss(&mut self, node: NodeId, generation: u32, reason: Option<GenerationReason>, why: String) {
        let state = self.state_mut(node);
        state.generation = generation;
        state.reason = reason;
        state.why = Some(why.clone());
        let Some(digest) = state.digest.clone() else { return };
        let stage = state.key.clone();
        if state.mode == NodeMode::LookupOnly {
            let error = Error::invalid(format!("`{stage}` is not published: {why}"))
                .help("leave out `--only`, or use `--until`, to run it");
            return self.fail(node, error);
        }
        if self.forecasting {
            return self.end(node, NodeOutcome::WouldRun);
        }
        self.emit(Event::StageDigested { stage, digest: digest.clone(), why });
        let state = self.state_mut(node);
        let leftover =
            state.open.take().filter(|open| open.digest == digest && state.plan.placement == Placement::Process);
        match (leftover, &state.spec) {
            (Some(OpenAttempt { pool, handle, .. }), Some(spec)) => {
                let attempt = state.attempt;
                let spec = Arc::new(trainyard_core::attempt::AttemptSpec { attempt, ..spec.as_ref().clone() });
                state.phase = NodePhase::Recovering { attempt };
                self.command(Command::Recover { node, spec, pool, handle });
                self.recover_companions(node);
            }
            _ => {
                // Companions that an earlier engine left running have no further use.
                self.recover_companions(node);
                self.stop_companions(node);
                self.enqueue(node);
            }
        }
    }

    /// Continues a node whose digest's leader ended.
    pub(crate) fn follow(&mut self, node: NodeId, leader: NodeId) {
        if self.state(node).phase != NodePhase::AwaitingLeader {
            return;
        }
        let lead = self.state(leader);
        let manifest = lead.manifest.clone();
        let forced = self.state(node).forced.is_some();
        match (manifest, lead.ending(), &lead.error) {
            (Some(manifest), _, _) if !forced || manifest.provenance.run == self.setup.run => self.hit(node, manifest),
            // Equal stages fail alike, except if the leader was stopped or could only be looked up.
            (None, Some(NodeOutcome::Failed), Some(error))
                if lead.mode == NodeMode::Run && error.kind != ErrorKind::Cancelled =>
            {
                let error = error.clone().at(format!("as in `{}`, which has the same digest", lead.key));
                self.fail(node, error);
            }
            (None, Some(NodeOutcome::WouldRun), _) => {
                self.state_mut(node).why = Some(format!("has the digest of `{}`, which runs once", self.key(leader)));
                self.end(node, NodeOutcome::WouldRun);
            }
            _ if self.stopping.is_some() => self.cancel_node(node),
            _ => self.look_up(node),
        }
    }
}
