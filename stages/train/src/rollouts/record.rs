//! From a finished episode to its rollout record, with the proof that no token was changed on the way.
//!
//! Why so: the environment reads text and the loss reads tokens; that both are one episode is proved where they meet, once. Refuses: sampled
//! tokens that are no beginning of the conversation's, another mask than the conversation's, and a scaffold that cannot be taken out
//! without changing what stands behind it.

use super::driver::Driver;
use super::job::Start;
use super::live::Live;
use std::collections::BTreeMap;
use trainyard_core::{Error, Result};
use trainyard_learn::TurnSummary;
use trainyard_lm::generate::SequenceState;
use trainyard_lm::template::{Conversation, Encoded, RenderOptions};
use trainyard_tables::{Message, Problem, Status, StopReason, Trajectory};

/// A finished episode. Rewards, advantages and step labels are not set yet.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Finished {
    pub trajectory: Trajectory,
    pub turns: Vec<TurnSummary>,
    /// The environment's verifier accepts the answer.
    pub correct: bool,
    /// Its own tokens before this one come from a demonstration; 0 = none do.
    pub given: usize,
    /// It was sampled with a text in its prompt that the record does not show.
    pub scaffolded: bool,
    /// The sample that it was forked from.
    pub fork_of: Option<u32>,
}

impl Finished {
    pub fn failed(&self) -> bool {
        self.trajectory.status == Status::Infrastructure
    }
    pub fn truncated(&self) -> bool {
        self.trajectory.stop_reason == StopReason::Length || self.turns.iter().any(|t| t.truncated)
    }
    /// Tokens that the policy sampled, those shared with the rollout it was forked from included.
    pub fn sampled(&self) -> usize {
        self.trajectory.loss_mask.iter().skip(self.given).filter(|m| **m).count()
    }
    /// Tokens that were sampled for this episode alone.
    pub fn own(&self) -> usize {
        let from = self.trajectory.fork_at.map_or(self.given, |at| at as usize);
        self.trajectory.loss_mask.iter().skip(from).filter(|m| **m).count()
    }
    /// Its logprobs are not those of the tokens under the recorded prompt.
    pub(super) fn needs_scores(&self) -> bool {
        self.given > 0 || self.scaffolded
    }
}

pub(super) fn record(live: Live<'_>, state: Option<SequenceState>, driver: &Driver<'_>) -> Result<Finished> {
    let Live { job, problem, conversation, mut turns, outcome, tool_calls, tool_errors, seed, given, origin, .. } =
        live;
    let outcome = outcome.ok_or_else(|| Error::bug("an episode is recorded before its end"))?;
    let (mut messages, encoded) = conversation.into_parts();
    let mut tokens = Tokens::new(encoded, state, &job.start)?;
    let mut fork_at = origin.map(|o| o.at);
    if !job.scaffold.is_empty() {
        let plain = without_scaffold(&messages, &turns, &tokens.encoded, problem, driver)?;
        fork_at = fork_at.map(|at| at - tokens.encoded.prompt_tokens + plain.encoded().prompt_tokens);
        tokens = tokens.under(&plain, &mut turns)?;
        messages = plain.into_parts().0;
    }
    let correct = outcome.answer.as_ref().is_some_and(|a| driver.environment.verify(problem, a));
    let id = |sample: u32| format!("{}/{}/{sample}", driver.name, problem.id);
    let mut trajectory = Trajectory {
        id: id(job.sample),
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
        fork_of: origin.map(|o| id(o.sample)),
        fork_at: fork_at.map(|at| at as u32),
        parents: vec![problem.id.clone()],
        ..Trajectory::default()
    };
    // An outcome that ends with a tool call (a limit, a failure) counts it; observations counted the others.
    trajectory.tool_calls = trajectory.tool_calls.max(outcome.tool_calls);
    trajectory.tool_errors = trajectory.tool_errors.max(outcome.tool_errors);
    tokens.fill(&mut trajectory);
    let (scaffolded, fork_of) = (!job.scaffold.is_empty(), origin.map(|o| o.sample));
    Ok(Finished { trajectory, turns, correct, given, scaffolded, fork_of })
}

/// The same conversation behind the plain prompt; sampled turns keep their tokens.
fn without_scaffold<'a>(
    messages: &[Message],
    turns: &[TurnSummary],
    encoded: &Encoded,
    problem: &Problem,
    driver: &Driver<'a>,
) -> Result<Conversation<'a>> {
    let mut plain = Conversation::new(&driver.model.chat, RenderOptions::default());
    plain.extend(&driver.environment.prompt(problem))?;
    plain.open_first_turn()?;
    let own: Vec<usize> = (0..messages.len()).filter(|&i| messages[i].role == "assistant").collect();
    for (k, (turn, &at)) in turns.iter().zip(own.iter().rev().take(turns.len()).rev()).enumerate() {
        plain.sampled(&encoded.token_ids[turn.first..turn.end])?;
        plain.set_tool_calls(messages[at].tool_calls.clone());
        let next = own.get(own.len() - turns.len() + k + 1).copied().unwrap_or(messages.len());
        if next > at + 1 {
            plain.observe(&messages[at + 1..next])?;
        }
    }
    Ok(plain)
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
            return Ok(Self {
                logprobs: vec![0.0; length],
                entropies: vec![0.0; length],
                versions: vec![0; length],
                encoded,
            });
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
    /// The same columns behind another prompt; the turns move along.
    fn under(self, plain: &Conversation<'_>, turns: &mut [TurnSummary]) -> Result<Self> {
        let (old, new) = (self.encoded.prompt_tokens, plain.encoded().prompt_tokens);
        if self.encoded.token_ids[old..] != plain.encoded().token_ids[new..] {
            return Err(Error::bug("the tokens behind the prompt changed when its scaffold was taken away"));
        }
        for turn in turns {
            turn.first = turn.first - old + new;
            turn.end = turn.end - old + new;
        }
        let behind =
            |list: Vec<f32>| -> Vec<f32> { vec![0.0; new].into_iter().chain(list.into_iter().skip(old)).collect() };
        let first = self.versions.first().copied().unwrap_or(0);
        let versions = vec![first; new].into_iter().chain(self.versions.into_iter().skip(old)).collect();
        Ok(Self {
            encoded: plain.encoded().clone(),
            logprobs: behind(self.logprobs),
            entropies: behind(self.entropies),
            versions,
        })
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
