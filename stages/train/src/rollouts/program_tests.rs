//! Tests episodes whose conversation a program keeps. They equal native episodes if the program only continues its
//! conversation, and have several segments otherwise.

use super::*;
use crate::testing::{environment, half_trained, rewriting, sums};
use std::time::Duration;
use trainyard_api::CancelToken;
use trainyard_core::{Chance, Result};
use trainyard_envs::{
    AgentTurn, AgentTurnRequest, Environment, Episode, EpisodeStep, ParsedTurn, ToolFormat, ToolSpec, TurnTokens,
};
use trainyard_learn::{EpisodePrefix, ProgramCalls, Rollout};
use trainyard_lm::ModelFolder;
use trainyard_tables::{Message, Problem, SamplingParams, Trajectory};

const SAMPLING: SamplingParams = SamplingParams { temperature: 1.0, top_p: 1.0, top_k: 0 };

/// Treatment of the conversation by a program.
#[derive(Clone, Copy, PartialEq)]
enum ProgramBehavior {
    /// Sends all messages back.
    Linear,
    /// Forgets the turns before the last one.
    Forgets,
    /// Sends the question in a second conversation after every turn, then continues the first.
    Asks,
    /// Limits turns to 3 tokens.
    Short,
}

/// Environment of the other tests, run by a program.
struct ProgramEnvironment(Box<dyn Environment>, ProgramBehavior);

struct ScriptedProgram {
    episode: Box<dyn Episode>,
    habit: ProgramBehavior,
    prompt: Vec<Message>,
    messages: Vec<Message>,
    second_messages: Vec<Message>,
    /// Whether the last request was in the second conversation.
    in_second: bool,
    next: Option<EpisodeStep>,
    received: Option<TurnTokens>,
}

fn read(text: &str) -> ParsedTurn {
    let environment = environment();
    let turn = environment.format().parse(text);
    let calls = turn.calls_json();
    let words = text.split("<tool_call>").next().unwrap().trim().to_string();
    let content = if calls.is_some() { words } else { text.to_string() };
    ParsedTurn { message: Message { tool_calls: calls, ..Message::new("assistant", content) }, turn }
}

impl ScriptedProgram {
    fn next_request(&mut self, in_second: bool) -> EpisodeStep {
        self.in_second = in_second;
        let messages = if in_second { &self.second_messages } else { &self.messages };
        let max_tokens = (self.habit == ProgramBehavior::Short).then_some(3);
        EpisodeStep::TurnRequest(AgentTurnRequest {
            messages: messages.clone(),
            template_messages: messages.clone(),
            tools: None,
            max_tokens,
            form: None,
        })
    }
    fn follow(&mut self, step: EpisodeStep) -> EpisodeStep {
        let EpisodeStep::Observe(seen) = step else { return step };
        self.messages.extend(seen.messages.clone());
        if self.habit == ProgramBehavior::Forgets {
            let last = self.messages.len() - seen.messages.len() - 1;
            self.prompt[0].content.insert(0, '+');
            self.messages = [&self.prompt[..], &self.messages[last..]].concat();
        }
        self.next_request(self.habit == ProgramBehavior::Asks)
    }
}

impl Episode for ScriptedProgram {
    fn read(&self, text: &str) -> Option<ParsedTurn> {
        Some(read(text))
    }
    fn record_tokens(&mut self, tokens: TurnTokens) {
        self.received = Some(tokens);
    }
    fn step(&mut self, turn: &AgentTurn) -> Result<EpisodeStep> {
        let tokens = self.received.take().unwrap();
        assert_eq!(tokens.ids.len(), tokens.texts.len());
        assert!(tokens.opened.ends_with("<|assistant|>") && tokens.logprobs.iter().all(|l| *l <= 0.0));
        let message = read(&turn.text).message;
        if self.in_second {
            self.second_messages.extend([message, Message::new("user", "go on")]);
            self.next = Some(self.next_request(false));
            return Ok(EpisodeStep::Pending);
        }
        self.messages.push(message);
        if self.habit == ProgramBehavior::Short {
            assert!(
                tokens.ids.len() <= 3 && (tokens.ids.len() < 3 || !turn.truncated),
                "the program's own limit does not truncate turns"
            );
        }
        let step = self.episode.step(turn)?;
        Ok(self.follow(step))
    }
    fn poll(&mut self, wait: Duration) -> Result<Option<EpisodeStep>> {
        if let Some(step) = self.next.take() {
            return Ok(Some(step));
        }
        let step = self.episode.poll(wait)?;
        Ok(step.map(|step| self.follow(step)))
    }
    fn fork(&self) -> Result<Box<dyn Episode>> {
        self.episode.fork()
    }
}

impl Environment for ProgramEnvironment {
    fn kind(&self) -> &'static str {
        "relayed"
    }
    fn tools(&self) -> Vec<ToolSpec> {
        self.0.tools()
    }
    fn format(&self) -> &dyn ToolFormat {
        self.0.format()
    }
    fn prompts(&self) -> bool {
        false
    }
    fn prompt(&self, _: &Problem) -> Result<Vec<Message>> {
        panic!("the program keeps the conversation")
    }
    fn start(&self, problem: &Problem, seed: u64) -> Result<Box<dyn Episode>> {
        let prompt = self.0.prompt(problem)?;
        let second_messages = [&[Message::new("system", "aside")], &prompt[..]].concat();
        let (episode, messages) = (self.0.start(problem, seed)?, prompt.clone());
        let mut relay = ScriptedProgram {
            episode,
            habit: self.1,
            prompt,
            messages,
            second_messages,
            in_second: false,
            next: None,
            received: None,
        };
        relay.next = Some(relay.next_request(false));
        Ok(Box::new(relay))
    }
    fn max_turns(&self) -> u32 {
        12
    }
    fn verify(&self, problem: &Problem, answer: &str) -> Result<bool> {
        self.0.verify(problem, answer)
    }
    fn read_answer(&self, text: &str) -> Option<String> {
        self.0.read_answer(text)
    }
}

fn jobs() -> Vec<EpisodeJob> {
    (0..8).flat_map(|p| (0..3).map(move |s| EpisodeJob::root(p, s))).collect()
}

fn roll(
    model: &ModelFolder,
    environment: &dyn Environment,
    running: usize,
    jobs: &[EpisodeJob],
) -> Result<Vec<Rollout>> {
    let mut generator = model.generator(1)?;
    let (problems, cancel) = (sums(8, 3, 7), CancelToken::default());
    let kv_memory = 1 << 30;
    let limits =
        EpisodeLimits { turn_tokens: 16, episode_tokens: 96, running, kv_memory, tool_wait: ToolWait::Trajectory };
    let (chance, name) = (Chance::new(4), "t".into());
    let sampling = SAMPLING;
    RolloutDriver { sampler: &mut generator, model, environment, limits, sampling, chance, name, cancel: &cancel }
        .run(&problems, jobs)
}

fn relayed(model: &ModelFolder, habit: ProgramBehavior) -> Vec<Rollout> {
    let relayed = ProgramEnvironment(environment(), habit);
    let finished = roll(model, &relayed, 64, &jobs()).unwrap();
    assert_eq!(
        finished,
        roll(model, &relayed, 2, &jobs()).unwrap(),
        "an episode is the same whatever shares its batch"
    );
    finished
}

/// Asserts that recorded log-probabilities equal the policy's under each context, and that every turn is at the
/// position in its summary.
fn check(model: &ModelFolder, finished: &[Rollout]) {
    let mut generator = model.generator(1).unwrap();
    for one in finished {
        let t = &one.trajectory;
        let scored = generator.logprobs_of(&t.sequences(), &SAMPLING).unwrap();
        let again: Vec<f32> = scored.into_iter().flat_map(|s| s.logprobs).collect();
        let recorded = t.logprobs.as_ref().unwrap();
        assert!((0..again.len()).filter(|i| t.loss_mask[*i]).all(|i| again[i] == recorded[i]));
        let sampled: usize = one.turns.iter().map(|turn| turn.end - turn.first).sum();
        assert_eq!((sampled, one.turns.len()), (one.sampled_tokens(), t.turns as usize));
        assert!(one.turns.iter().all(|turn| (turn.first..turn.end).all(|i| t.loss_mask[i])));
        assert!(one.turns.windows(2).all(|pair| pair[0].end <= pair[1].first));
        assert!((0..t.turn.len()).filter(|i| t.loss_mask[*i]).all(|i| {
            let turn = &one.turns[usize::from(t.turn[i])];
            (turn.first..turn.end).contains(&i)
        }));
        assert_eq!(t.contexts().len() as u32, one.calls.segments);
        assert!(t.messages.iter().filter(|m| m.role == "assistant").count() >= one.turns.len());
    }
}

#[test]
fn continuing_program_gives_the_bits_of_the_native_path() {
    let native = roll(half_trained(), &*environment(), 64, &jobs()).unwrap();
    let relayed = relayed(half_trained(), ProgramBehavior::Linear);
    assert!(relayed.iter().any(|one| one.turns.len() > 1), "tools answered");
    // Only the program knows which calls failed.
    let sure = relayed.into_iter().zip(native).filter(|(_, native)| native.trajectory.tool_errors == 0);
    for (one, native) in sure {
        assert_eq!(one.calls.segments, 1);
        // The answer is read by the environment's own verifier.
        let unread = |rollout: Rollout| {
            let trajectory = Trajectory { answer: None, answer_check: None, ..rollout.trajectory };
            Rollout { calls: ProgramCalls::default(), trajectory, ..rollout }
        };
        assert_eq!(unread(one), unread(native));
    }
}

#[test]
fn a_template_that_rewrites_turns_is_healed() {
    let model = rewriting();
    let finished = relayed(&model, ProgramBehavior::Linear);
    check(&model, &finished);
    assert!(finished.iter().all(|one| one.calls.segments == 1 && one.trajectory.restarts.is_empty()));
    let healed: u32 = finished.iter().map(|one| one.calls.healed).sum();
    let turns: usize = finished.iter().map(|one| one.turns.len().saturating_sub(1)).sum();
    assert!(healed > 3 && healed as usize <= turns, "{healed} of {turns}");
}

#[test]
fn a_program_that_forgets_begins_segments() {
    let finished = relayed(half_trained(), ProgramBehavior::Forgets);
    check(half_trained(), &finished);
    let several: Vec<&Rollout> = finished.iter().filter(|one| one.turns.len() > 1).collect();
    assert!(!several.is_empty());
    for one in several {
        assert_eq!(one.calls.segments as usize, one.turns.len());
        assert_eq!(one.calls.forked, one.calls.segments - 1);
    }
}

#[test]
fn parallel_conversations_are_resumable_segments() {
    let finished = relayed(half_trained(), ProgramBehavior::Asks);
    check(half_trained(), &finished);
    let several: Vec<&Rollout> = finished.iter().filter(|one| one.turns.len() > 2).collect();
    assert!(!several.is_empty());
    for one in several {
        assert_eq!((one.calls.segments, one.calls.forked), (2, 0), "{:?}", one.trajectory.messages);
        assert_eq!(one.trajectory.messages.iter().filter(|m| m.content == "aside").count(), 1);
    }
}

#[test]
fn a_programs_own_limit_cuts_turns_and_not_episodes() {
    let finished = relayed(half_trained(), ProgramBehavior::Short);
    check(half_trained(), &finished);
    let turns = || finished.iter().flat_map(|one| &one.turns);
    assert!(turns().all(|turn| turn.end - turn.first <= 3) && turns().any(|turn| turn.end - turn.first == 3));
}

#[test]
fn turns_are_limited_and_given_turns_are_rejected() {
    let relayed = ProgramEnvironment(environment(), ProgramBehavior::Asks);
    let one = EpisodeJob { max_turns: Some(2), ..EpisodeJob::root(0, 0) };
    let finished = roll(half_trained(), &relayed, 1, &[one]).unwrap();
    assert!(finished[0].turns.len() <= 2);
    let prefix = EpisodeStart::Prefix(EpisodePrefix { partial: vec![5], ..EpisodePrefix::default() });
    for job in [
        EpisodeJob { scaffold: "hint".into(), ..EpisodeJob::root(0, 0) },
        EpisodeJob { start: prefix, ..EpisodeJob::root(0, 0) },
    ] {
        let error = roll(half_trained(), &relayed, 1, &[job]).unwrap_err();
        assert!(error.message.contains("cannot begin with"), "{error}");
    }
}
