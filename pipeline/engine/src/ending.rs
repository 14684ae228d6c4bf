//! Handles the end of an attempt: publication, a retry, a failure, or a stop.

use crate::engine::{RunEngine, RunStop};
use crate::io::{AttemptCompletion, Command, NodeId, Publication};
use crate::node::{NodeOutcome, NodePhase};
use std::cmp::Reverse;
use std::sync::Arc;
use trainyard_core::artifact::require_finite;
use trainyard_core::event::{AttemptOutcome, Event, summarize_outputs};
use trainyard_core::{AttemptNumber, Error, ErrorKind, Manifest, Placement, Result};

impl RunEngine {
    /// Records the handle of an attempt that outlives this engine.
    pub(crate) fn attempt_submitted(&mut self, node: NodeId, attempt: AttemptNumber, handle: String) {
        if self.is_under_way(node, attempt) {
            self.emit(Event::AttemptSubmitted { stage: self.key(node).clone(), attempt, handle });
        }
    }

    /// Records that an attempt waits for its machine, or no longer does.
    pub(crate) fn attempt_waits(&mut self, node: NodeId, attempt: AttemptNumber, why: Option<String>) {
        if self.is_under_way(node, attempt) {
            let stage = self.key(node).clone();
            self.emit(match why {
                Some(why) => Event::AttemptWaiting { stage, attempt, why },
                None => Event::AttemptWorking { stage, attempt },
            });
        }
    }

    /// Resets the counts of tries and preemptions when an attempt progresses further than all before it: a long stage
    /// may meet many transient faults, and only one without progress should give up.
    pub(crate) fn resume_point_saved(&mut self, node: NodeId, attempt: AttemptNumber, step: u64) {
        let under_way = self.is_under_way(node, attempt);
        let state = self.state_mut(node);
        if under_way && state.saved_step.is_none_or(|before| step > before) {
            state.saved_step = Some(step);
            state.tries = 1;
            state.preemptions = 0;
        }
    }

    /// Returns whether this attempt was launched, or is one of an earlier engine that is followed.
    fn is_under_way(&self, node: NodeId, attempt: AttemptNumber) -> bool {
        let phase = self.state(node).phase;
        phase == (NodePhase::Running { attempt }) || phase == (NodePhase::Recovering { attempt })
    }

    pub(crate) fn attempt_ended(&mut self, node: NodeId, attempt: AttemptNumber, finished: AttemptCompletion) {
        if self.state(node).phase != (NodePhase::Running { attempt }) {
            return;
        }
        self.defer_placement(node, finished.outcome);
        self.release(node);
        if let Some(lead) = self.state(node).lead {
            return self.companion_ended(node, lead, attempt, Some(finished));
        }
        let finished = self.group_outcome(node, finished);
        self.stop_companions(node);
        self.conclude(node, attempt, finished);
    }

    pub(crate) fn recovered(&mut self, node: NodeId, attempt: AttemptNumber, finished: Option<AttemptCompletion>) {
        if self.state(node).phase != (NodePhase::Recovering { attempt }) {
            return;
        }
        if let Some(lead) = self.state(node).lead {
            return self.companion_ended(node, lead, attempt, finished);
        }
        let finished = finished.map(|finished| self.group_outcome(node, finished));
        self.stop_companions(node);
        match finished {
            Some(finished) => {
                if finished.outcome != AttemptOutcome::Succeeded {
                    // Counts as a try, though an earlier engine began it.
                    let state = self.state_mut(node);
                    state.tries = state.tries.max(1);
                }
                self.conclude(node, attempt, finished);
            }
            None => {
                let error = Some(Error::lost("the engine that ran the attempt has ended"));
                self.emit(Event::AttemptEnded {
                    stage: self.key(node).clone(),
                    attempt,
                    outcome: AttemptOutcome::Lost,
                    error,
                });
                self.enqueue(node);
            }
        }
    }

    fn conclude(&mut self, node: NodeId, attempt: AttemptNumber, finished: AttemptCompletion) {
        let (finished, manifest) = match self.manifest_from_result(node, attempt, finished) {
            Ok(accepted) => accepted,
            Err(error) => (AttemptCompletion::failed(AttemptOutcome::Failed, error), None),
        };
        let AttemptCompletion { outcome, error, .. } = finished;
        self.emit(Event::AttemptEnded { stage: self.key(node).clone(), attempt, outcome, error: error.clone() });
        match manifest {
            Some(manifest) => self.publish(node, attempt, manifest),
            None => {
                self.attempt_failed(node, error.unwrap_or_else(|| Error::lost("the attempt ended without a result")))
            }
        }
    }

    /// Turns a successful attempt into its manifest. Errors: bug (it is the result of another attempt, or an output has
    /// another kind), data (an output is missing, a metric is not finite), lost (the result is missing).
    fn manifest_from_result(
        &self,
        node: NodeId,
        attempt: AttemptNumber,
        mut finished: AttemptCompletion,
    ) -> Result<(AttemptCompletion, Option<Manifest>)> {
        let state = self.state(node);
        let (AttemptOutcome::Succeeded, Some(result), Some(spec)) =
            (finished.outcome, finished.result.take(), &state.spec)
        else {
            return match finished.outcome {
                AttemptOutcome::Succeeded => Err(Error::lost("the attempt ended without a result")),
                _ => Ok((finished, None)),
            };
        };
        if result.stage_digest != spec.stage_digest
            || result.attempt != attempt
            || result.stage != state.key
            || result.run != self.setup.run
        {
            return Err(Error::bug(format!(
                "the result belongs to attempt {} of `{}` in run {}",
                result.attempt, result.stage, result.run
            )));
        }
        for (name, output) in &spec.outputs {
            match result.outputs.get(name) {
                None if !output.optional => {
                    return Err(Error::data(format!("the attempt wrote no output `{name}`")).help(
                        "`trainyard logs` shows its log; \
                         mark an output that a `run` stage may leave out with `optional: true`",
                    ));
                }
                Some(found) if found.kind != output.kind => {
                    return Err(Error::bug(format!(
                        "output `{name}` has kind {}, but {} was declared",
                        found.kind, output.kind
                    )));
                }
                _ => {}
            }
        }
        require_finite(&result.metrics, &result.comparisons)?;
        let mut manifest = spec.manifest(Arc::unwrap_or_clone(result), state.generation, state.reason);
        manifest.provenance.attempt = attempt;
        Ok((finished, Some(manifest)))
    }

    fn publish(&mut self, node: NodeId, attempt: AttemptNumber, manifest: Manifest) {
        let state = self.state_mut(node);
        state.phase = NodePhase::Publishing { attempt };
        let manifest = Arc::new(manifest);
        state.manifest = Some(manifest.clone());
        self.command(Command::Publish { node, attempt, manifest });
    }

    pub(crate) fn publication(&mut self, node: NodeId, attempt: AttemptNumber, result: Result<Publication>) {
        if self.state(node).phase != (NodePhase::Publishing { attempt }) {
            return;
        }
        let Some(ours) = self.state_mut(node).manifest.take() else { return };
        let (manifest, adopted) = match result {
            Ok(Publication::Ours) => (ours, false),
            Ok(Publication::Theirs(theirs)) => (theirs, true),
            Err(error) => return self.not_published(node, attempt, ours, error),
        };
        self.emit(Event::Published {
            stage: self.key(node).clone(),
            attempt,
            digest: manifest.stage_digest.clone(),
            generation: manifest.generation,
            reason: manifest.reason,
            adopted,
            metrics: manifest.metrics.clone(),
            comparisons: manifest.comparisons.clone(),
            outputs: summarize_outputs(&manifest),
        });
        self.published(node, manifest, NodeOutcome::Done);
    }

    /// Handles a manifest that the store did not accept. If the store is at fault, the attempt stays a success: the
    /// next try puts the same manifest again, and a later writer of this run finds the result. Otherwise the result
    /// itself is at fault.
    fn not_published(&mut self, node: NodeId, attempt: AttemptNumber, manifest: Arc<Manifest>, error: Error) {
        let error = error.at("publishing the attempt's result");
        let (outcome, error) = match error.kind {
            ErrorKind::Retryable | ErrorKind::Invalid => {
                self.state_mut(node).unpublished = Some((attempt, manifest));
                (AttemptOutcome::Succeeded, self.result_is_kept(node, error))
            }
            _ => (AttemptOutcome::Failed, error),
        };
        self.emit(Event::AttemptEnded { stage: self.key(node).clone(), attempt, outcome, error: Some(error.clone()) });
        self.attempt_failed(node, error);
    }

    /// Adds how the result can still be published. Kinds that run inside this process leave no result.
    fn result_is_kept(&self, node: NodeId, error: Error) -> Error {
        if self.state(node).plan.placement == Placement::InProcess {
            return error;
        }
        let kept = format!("the result is kept, `trainyard runs resume {}` publishes it", self.setup.run);
        match error.help.clone() {
            Some(help) => error.help(format!("{help}; {kept}")),
            None => error.help(kept),
        }
    }

    /// Publishes, after a wait, a result that the store did not accept, or queues another attempt.
    pub(crate) fn try_again(&mut self, node: NodeId) {
        let state = self.state_mut(node);
        match state.unpublished.take() {
            Some((attempt, manifest)) => {
                state.tries += 1;
                self.publish(node, attempt, manifest.as_ref().clone());
            }
            None => self.enqueue(node),
        }
    }

    /// Handles an attempt that ended without success, possibly because of its inputs.
    pub(crate) fn attempt_failed(&mut self, node: NodeId, error: Error) {
        if self.stopping.is_some() {
            return self.cancel_node(node);
        }
        if !self.suspects_inputs(node, &error) {
            self.retry(node, error);
        }
    }

    /// Retries or fails the stage, by the kind of the error and the number of tries, or of preemptions, since its last
    /// progress.
    pub(crate) fn retry(&mut self, node: NodeId, error: Error) {
        let now = self.now;
        let state = self.state_mut(node);
        let plan = state.plan.clone();
        let (retry, preempted) = (&plan.retry, error.preempted);
        if preempted {
            // The launch counted the attempt as a try.
            state.tries = state.tries.saturating_sub(1);
            state.preemptions += 1;
        }
        let (failures, is_over) = if preempted {
            (state.preemptions, state.preemptions > retry.preemptions)
        } else {
            (state.tries, state.tries >= retry.attempts)
        };
        if is_over && preempted {
            let help = "raise `preemptions` under `retry`, or request machines that are not taken away";
            return self.fail(node, error.at(format!("preempted {failures} times")).help(help));
        }
        if is_over || !retry.on.contains(&error.kind) {
            return self.fail(node, error);
        }
        let wait = retry.backoff.wait(failures.saturating_add(1));
        let not_before = now.saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
        state.phase = NodePhase::Backoff;
        state.due = Some(not_before);
        let retry = Event::RetryScheduled { stage: state.key.clone(), attempt: state.attempt + 1, not_before };
        let computes = state.unpublished.is_none();
        self.wakes.push(Reverse((not_before, node)));
        if computes {
            self.emit(retry);
        }
    }

    pub(crate) fn cancel(&mut self, why: String) {
        match self.stopping {
            None | Some(RunStop::Failure) => {
                self.emit(Event::CancelRequested { why });
                self.stop(RunStop::Cancel { kill: false });
            }
            Some(RunStop::Cancel { kill: false }) => self.stop(RunStop::Cancel { kill: true }),
            Some(RunStop::Cancel { kill: true }) => {}
        }
    }

    /// Starts nothing new and requests running attempts to stop. A publication in progress completes.
    pub(crate) fn stop(&mut self, how: RunStop) {
        self.stopping = Some(how);
        let kill = how == RunStop::Cancel { kill: true };
        for at in 0..self.states.len() {
            let node = NodeId(at as u32);
            match self.states[at].phase {
                NodePhase::Running { attempt } | NodePhase::Recovering { attempt } => {
                    self.command(Command::Stop { node, attempt, kill })
                }
                // A fan-out ends with its instances, a companion with its lead, and dependents are cancelled in their
                // turn.
                NodePhase::Waiting
                | NodePhase::Expanded
                | NodePhase::AwaitingLead
                | NodePhase::Publishing { .. }
                | NodePhase::Ended(_) => {}
                NodePhase::Queued => {
                    self.dequeue(node);
                    self.cancel_node(node);
                }
                NodePhase::Reading
                | NodePhase::AwaitingTurn
                | NodePhase::LookingUp
                | NodePhase::AwaitingLeader
                | NodePhase::AwaitingCompanions
                | NodePhase::AwaitingOtherRun
                | NodePhase::Inspecting
                | NodePhase::Backoff => self.cancel_node(node),
            }
        }
    }

    pub(crate) fn cancel_node(&mut self, node: NodeId) {
        self.emit(Event::StageCancelled { stage: self.key(node).clone() });
        self.end(node, NodeOutcome::Cancelled);
    }
}
