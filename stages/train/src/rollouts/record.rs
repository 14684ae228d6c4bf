//! From a finished episode to its rollout record, with the proof that no token was changed on the way.

use super::driver::{Driver, Job, Start};
use super::live::Live;
use std::collections::BTreeMap;
use trainyard_core::{Error, Result};
use trainyard_learn::TurnSummary;
use trainyard_lm::generate::SequenceState;
use trainyard_lm::template::Encoded;
use trainyard_tables::{Problem, Status, StopReason, Trajectory};

/// A finished episode. Rewards, advantages and step labels are not set yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    pub trajectory: Trajectory,
    pub turns: Vec<TurnSummary>,
    /// The environment's verifier accepts the answer.
    pub correct: bool,
}

impl Finished {
    pub fn failed(&self) -> bool {
        self.trajectory.status == Status::Infrastructure
    }
    pub fn truncated(&self) -> bool {
        self.trajectory.stop_reason == StopReason::Length || self.turns.iter().any(|t| t.truncated)
    }
    /// Tokens that the policy sampled.
    pub fn sampled(&self) -> usize {
        self.trajectory.loss_mask.iter().filter(|m| **m).count()
    }
}

pub(super) fn record(live: Live<'_>, state: Option<SequenceState>, problem: &Problem, job: &Job, driver: &Driver<'_>) -> Result<Finished> {
    let Live { conversation, turns, outcome, tool_calls, tool_errors, seed, .. } = live;
    let outcome = outcome.ok_or_else(|| Error::bug("an episode is recorded before its end"))?;
    let (messages, encoded) = conversation.into_parts();
    let tokens = Tokens::new(encoded, state, &job.start)?;
    let correct = outcome.answer.as_ref().is_some_and(|a| driver.environment.verify(problem, a));
    let mut trajectory = Trajectory {
        id: format!("{}/{}/{}", driver.name, problem.id, job.sample),
        problem_id: problem.id.clone(),
        group: job.group,
        sample: job.sample,
        messages,
        rewards: BTreeMap::new(),
        stop_reason: outcome.stop,
        status: outcome.status,
        turns: turns.len() as u32,
        tool_calls,
        tool_errors,
        answer: outcome.answer,
        level: problem.level,
        sampling: driver.sampling,
        environment: problem.environment.clone(),
        seed,
        tokenizer_digest: driver.model.chat.tokenizer().digest().to_string(),
        template_digest: driver.model.chat.template().digest().to_string(),
        parents: vec![problem.id.clone()],
        ..Trajectory::default()
    };
    // An outcome that ends with a tool call (a limit, a failure) counts it; observations counted the others.
    trajectory.tool_calls = trajectory.tool_calls.max(outcome.tool_calls);
    trajectory.tool_errors = trajectory.tool_errors.max(outcome.tool_errors);
    tokens.fill(&mut trajectory);
    Ok(Finished { trajectory, turns, correct })
}

/// Per-token columns of one length.
struct Tokens {
    encoded: Encoded,
    logprobs: Vec<f32>,
    entropies: Vec<f32>,
    versions: Vec<u32>,
}

impl Tokens {
    /// Joins what the conversation encoded with what the generator sampled. The generator's sequence must be a prefix of the
    /// conversation (a last observation may stand behind it) or equal.
    fn new(encoded: Encoded, state: Option<SequenceState>, start: &Start) -> Result<Self> {
        let length = encoded.token_ids.len();
        let Some(state) = state else {
            return Ok(Self { logprobs: vec![0.0; length], entropies: vec![0.0; length], versions: vec![0; length], encoded });
        };
        let sampled = state.token_ids.len();
        if sampled > length || state.token_ids != encoded.token_ids[..sampled] {
            return Err(Error::bug("the sampled tokens are no prefix of the conversation's: a turn was encoded again"));
        }
        // Given tokens of a prefix are masked here as the conversation has them: they are the policy's, though of another call.
        if *start == Start::Root && state.loss_mask != encoded.loss_mask[..sampled] {
            return Err(Error::bug("the generator's loss mask is not the conversation's"));
        }
        let pad = |mut list: Vec<f32>| {
            list.resize(length, 0.0);
            list
        };
        let mut versions = state.weights_version;
        versions.resize(length, versions.last().copied().unwrap_or(0));
        Ok(Self { logprobs: pad(state.logprobs), entropies: pad(state.entropies), versions, encoded })
    }
    fn fill(self, t: &mut Trajectory) {
        t.prompt_tokens = self.encoded.prompt_tokens as u32;
        t.token_ids = self.encoded.token_ids;
        t.loss_mask = self.encoded.loss_mask;
        t.turn = self.encoded.turn;
        t.logprobs = Some(self.logprobs);
        t.entropies = Some(self.entropies);
        t.weights_version = Some(self.versions);
    }
}
