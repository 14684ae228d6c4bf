//! Converts a finished episode to its rollout, and checks that no token was changed.
//!
//! The environment reads text and the loss reads tokens. The checks ensure that both are one episode: the sampled
//! tokens must be the beginning of the encoded conversation, under the same mask, and removing a scaffold must not
//! change the tokens after it.

use super::job::EpisodeStart;
use super::live_episode::LiveEpisode;
use trainyard_core::{Error, Result};
use trainyard_envs::rewards::VERDICT;
use trainyard_envs::{CallCounts, Environment};
use trainyard_learn::{ProgramCalls, Rollout, TurnSummary};
use trainyard_lm::folder::ModelFolder;
use trainyard_lm::generate::{ConstrainedToken, SequenceState};
use trainyard_lm::template::{ConversationTokens, TokenizedConversation};
use trainyard_tables::{EpisodeStatus, Message, Problem, SamplingParams, Trajectory};

/// Values shared by the rows of one call.
pub(super) struct RecordContext<'s, 'a> {
    pub model: &'a ModelFolder,
    pub environment: &'s dyn Environment,
    pub sampling: SamplingParams,
    /// Prefix of ids, before `/<problem id>/<sample>`.
    pub name: &'s str,
}

/// Converts an ended episode, whose segments hold all samples, to a rollout without rewards and advantages.
pub(super) fn record(live: LiveEpisode<'_>, setting: &RecordContext<'_, '_>) -> Result<Rollout> {
    let LiveEpisode {
        job,
        problem,
        segment: current,
        program,
        outcome,
        tool_calls,
        tool_errors,
        seed,
        given,
        origin,
        ..
    } = live;
    let outcome = outcome.ok_or_else(|| Error::bug("an episode is recorded before its end"))?;
    let (mut segments, calls) = LiveEpisode::segments(program, current);
    let (mut turns, mut messages) = (Vec::new(), Vec::new());
    let mut tokens: Option<TokenColumns> = None;
    for segment in &mut segments {
        let first = tokens.as_ref().map_or(0, |tokens| tokens.encoded.token_ids.len());
        turns.extend(segment.turns.iter().map(|turn| turn.shifted(first)));
        let (segment_messages, encoded) = segment.conversation.clone().into_parts();
        // Messages at the beginning of a segment that another segment contains are repeated only for the model.
        let repeats = |(at, message): &(usize, Message)| *at < segment.prompt && messages.contains(message);
        let new: Vec<Message> =
            segment_messages.into_iter().enumerate().filter(|m| !repeats(m)).map(|(_, m)| m).collect();
        messages.extend(new);
        let columns = TokenColumns::new(encoded, std::mem::take(&mut segment.past), &job.start)?;
        tokens = Some(match tokens {
            None => columns,
            Some(before) => before.append(columns),
        });
    }
    let mut tokens = tokens.ok_or_else(|| Error::bug("an episode has no conversation"))?;
    let mut fork_at = origin.map(|o| o.at);
    if !job.scaffold.is_empty() {
        expect_one_context(&tokens.encoded)?;
        let plain = without_scaffold(&messages, &turns, &tokens.encoded, problem, setting)?;
        fork_at = fork_at.map(|at| at - tokens.encoded.prompt_tokens + plain.encoded().prompt_tokens);
        tokens = tokens.replace_prompt(&plain, &mut turns)?;
        messages = plain.into_parts().0;
    }
    let check = setting.environment.check_outcome(problem, &outcome)?;
    let correct = check.correct;
    let id = |sample: u32| format!("{}/{}/{sample}", setting.name, problem.id);
    let mut trajectory = Trajectory {
        id: id(job.sample),
        problem_id: problem.id.clone(),
        group: job.group,
        sample: job.sample,
        messages,
        stop_reason: outcome.stop,
        status: outcome.status,
        turns: turns.len() as u32,
        tool_calls,
        tool_errors,
        answer: check.extracted.clone().or(outcome.answer),
        answer_check: (outcome.status == EpisodeStatus::Ok).then_some(check),
        level: problem.level,
        meta: problem.meta.clone(),
        sampling: setting.sampling,
        environment: problem.environment.clone(),
        seed,
        tokenizer_digest: setting.model.chat.tokenizer().digest().to_string(),
        template_digest: setting.model.chat.template().digest().to_string(),
        fork_of: origin.map(|o| id(o.sample)),
        fork_at: fork_at.map(|at| at as u32),
        parents: parents(problem, &job.start),
        rewards: outcome.reward.map(|reward| (VERDICT.to_string(), reward)).into_iter().collect(),
        ..Trajectory::default()
    };
    // An outcome that ends with a tool call (a limit, a failure) counts that call; observations counted the others.
    trajectory.tool_calls = trajectory.tool_calls.max(outcome.tool_calls);
    trajectory.tool_errors = trajectory.tool_errors.max(outcome.tool_errors);
    let constrained = tokens.fill(&mut trajectory);
    let (scaffolded, fork_of) = (!job.scaffold.is_empty(), origin.map(|o| o.sample));
    let CallCounts { dropped, refused, ignored } = outcome.calls;
    let calls = ProgramCalls { dropped, refused, ignored, ..calls };
    let mut rollout =
        Rollout { problem: job.problem, turns, correct, given, scaffolded, fork_of, calls, ..Rollout::new(trajectory) };
    for ConstrainedToken { at, free_logprob, only } in constrained {
        rollout.set_constrained(at, free_logprob, only);
    }
    Ok(rollout)
}

/// Returns the ids of the rows that a rollout was made from: its problem, and the demonstration that it begins with.
fn parents(problem: &Problem, start: &EpisodeStart) -> Vec<String> {
    let demonstration = match start {
        EpisodeStart::Prefix(prefix) => Some(&prefix.demonstration).filter(|id| !id.is_empty() && **id != problem.id),
        EpisodeStart::Root => None,
    };
    [Some(&problem.id), demonstration].into_iter().flatten().cloned().collect()
}

/// Rebuilds the conversation with the plain prompt; sampled turns keep their tokens.
fn without_scaffold<'a>(
    messages: &[Message],
    turns: &[TurnSummary],
    encoded: &ConversationTokens,
    problem: &Problem,
    setting: &RecordContext<'_, 'a>,
) -> Result<TokenizedConversation<'a>> {
    let mut plain = TokenizedConversation::new(&setting.model.chat, None);
    plain.extend(&setting.environment.prompt(problem)?)?;
    plain.open_first_turn()?;
    let agent_messages: Vec<usize> = (0..messages.len()).filter(|&i| messages[i].role == "assistant").collect();
    for (k, (turn, &at)) in turns.iter().zip(agent_messages.iter().rev().take(turns.len()).rev()).enumerate() {
        plain.push_sampled(&encoded.token_ids[turn.first..turn.end])?;
        plain.set_tool_calls(messages[at].tool_calls.clone());
        let next = agent_messages.get(agent_messages.len() - turns.len() + k + 1).copied().unwrap_or(messages.len());
        if next > at + 1 {
            plain.observe(&messages[at + 1..next])?;
        }
    }
    expect_one_context(plain.encoded())?;
    Ok(plain)
}

/// Rejects several contexts: each prompt contains the scaffold, and only one can be removed.
fn expect_one_context(encoded: &ConversationTokens) -> Result<()> {
    if encoded.restarts.is_empty() {
        return Ok(());
    }
    Err(Error::invalid("a scaffold cannot be removed from episodes whose chat template rewrites earlier turns")
        .help("leave out rubrics and hints, or use a chat template that keeps earlier turns"))
}

/// Per-token columns of one length.
struct TokenColumns {
    encoded: ConversationTokens,
    /// `None` if the sampler did not return a log-probability for every token.
    logprobs: Option<Vec<f32>>,
    /// `None` if the sampler returns no entropies.
    entropies: Option<Vec<f32>>,
    versions: Vec<u32>,
    /// Tokens of turns whose form a program gave.
    constrained: Vec<ConstrainedToken>,
}

impl TokenColumns {
    /// Joins the encoded conversation with the samples of each context, each given with its first token. A sampled
    /// sequence must equal its part of the conversation or the beginning of this part (a last observation may follow).
    fn new(encoded: ConversationTokens, sampled: Vec<(usize, SequenceState)>, start: &EpisodeStart) -> Result<Self> {
        let length = encoded.token_ids.len();
        let (mut logprobs, mut versions) = (vec![0.0; length], Vec::new());
        let mut entropies = Some(vec![0.0; length]);
        let mut constrained = Vec::new();
        for (first, state) in sampled {
            let part = first..first + state.token_ids.len();
            if encoded.token_ids.get(part.clone()) != Some(state.token_ids.as_slice()) {
                return Err(Error::bug(
                    "the conversation does not begin with the sampled tokens: a turn was encoded again",
                ));
            }
            // Given tokens of a prefix get the conversation's mask: they belong to the policy, although it did not
            // sample them in this episode.
            if *start == EpisodeStart::Root && state.loss_mask != encoded.loss_mask[part.clone()] {
                return Err(Error::bug("the sampler's loss mask is not the conversation's"));
            }
            logprobs[part.clone()].copy_from_slice(&state.logprobs);
            match &mut entropies {
                Some(column) if state.entropies.len() == state.token_ids.len() => {
                    column[part].copy_from_slice(&state.entropies);
                }
                unknown => *unknown = None,
            }
            constrained.extend(moved(&state.constrained, first));
            versions.resize(first, versions.last().copied().unwrap_or(0));
            versions.extend(state.weights_version);
        }
        versions.resize(length, versions.last().copied().unwrap_or(0));
        let logprobs = logprobs.iter().all(|logprob| !logprob.is_nan()).then_some(logprobs);
        Ok(Self { logprobs, entropies, versions, constrained, encoded })
    }
    /// Appends the columns of a later segment, whose context does not include these tokens.
    fn append(mut self, next: Self) -> Self {
        let first = self.encoded.token_ids.len();
        self.encoded.append(next.encoded);
        self.logprobs = joined(self.logprobs, next.logprobs);
        self.entropies = joined(self.entropies, next.entropies);
        self.versions.resize(first, self.versions.last().copied().unwrap_or(0));
        self.versions.extend(next.versions);
        self.constrained.extend(moved(&next.constrained, first));
        self
    }
    /// Replaces the prompt, and moves the columns and the turns after it.
    fn replace_prompt(self, plain: &TokenizedConversation<'_>, turns: &mut [TurnSummary]) -> Result<Self> {
        let (old, new) = (self.encoded.prompt_tokens, plain.encoded().prompt_tokens);
        if self.encoded.token_ids[old..] != plain.encoded().token_ids[new..] {
            return Err(Error::bug("the tokens after the prompt changed when its scaffold was taken out"));
        }
        for turn in turns {
            turn.first = turn.first - old + new;
            turn.end = turn.end - old + new;
        }
        let after =
            |list: Vec<f32>| -> Vec<f32> { vec![0.0; new].into_iter().chain(list.into_iter().skip(old)).collect() };
        let first = self.versions.first().copied().unwrap_or(0);
        let versions = vec![first; new].into_iter().chain(self.versions.into_iter().skip(old)).collect();
        Ok(Self {
            encoded: plain.encoded().clone(),
            logprobs: self.logprobs.map(after),
            entropies: self.entropies.map(after),
            versions,
            // Only programs give turns a form, and their episodes have no scaffold.
            constrained: Vec::new(),
        })
    }
    /// Writes the columns into a row, and returns the constrained tokens, which a row does not hold.
    fn fill(self, t: &mut Trajectory) -> Vec<ConstrainedToken> {
        t.prompt_tokens = self.encoded.prompt_tokens as u32;
        t.token_ids = self.encoded.token_ids;
        t.loss_mask = self.encoded.loss_mask;
        t.turn = self.encoded.turn;
        t.restarts = self.encoded.restarts.into_iter().map(|at| at as u32).collect();
        t.logprobs = self.logprobs;
        t.entropies = self.entropies;
        t.weights_version = Some(self.versions);
        self.constrained
    }
}

/// Returns constrained tokens of a sequence that begins at `first`.
fn moved(tokens: &[ConstrainedToken], first: usize) -> impl Iterator<Item = ConstrainedToken> + '_ {
    tokens.iter().map(move |token| ConstrainedToken { at: token.at + first, ..*token })
}

/// Concatenates two columns; `None` if either is unknown.
fn joined(first: Option<Vec<f32>>, next: Option<Vec<f32>>) -> Option<Vec<f32>> {
    let mut all = first?;
    all.extend(next?);
    Some(all)
}
