use super::*;
use crate::testing::{environment, half_trained, sums, tiny_model};
use std::time::Duration;
use trainyard_api::CancelToken;
use trainyard_core::{Chance, ErrorKind, Result};
use trainyard_envs::{AgentTurn, Environment, Episode, EpisodeStep, Outcome, ToolFormat, ToolSpec};
use trainyard_learn::{
    Draw, EpisodePrefix, GroupBudget, LiveSequence, Needs, ProblemPool, Progress, RlPart, Rollout, Spawn, Strategy,
    StrategyAction, TurnSummary,
};
use trainyard_lm::ModelFolder;
use trainyard_tables::{EpisodeStatus, Message, Problem, SamplingParams, StopReason, Trajectory};

mod forks;

fn limits(running: usize) -> EpisodeLimits {
    EpisodeLimits { turn_tokens: 16, episode_tokens: 96, running, kv_memory: 1 << 30, tool_wait: ToolWait::Trajectory }
}

fn roll(
    model: &ModelFolder,
    problems: &[Problem],
    jobs: &[EpisodeJob],
    limits: EpisodeLimits,
    threads: usize,
) -> Result<Vec<Rollout>> {
    roll_in(&*environment(), model, problems, jobs, limits, threads)
}

fn roll_in(
    environment: &dyn Environment,
    model: &ModelFolder,
    problems: &[Problem],
    jobs: &[EpisodeJob],
    limits: EpisodeLimits,
    threads: usize,
) -> Result<Vec<Rollout>> {
    let mut generator = model.generator(threads)?;
    let cancel = CancelToken::default();
    let sampling = SamplingParams { temperature: 1.0, top_p: 1.0, top_k: 0 };
    let mut driver = RolloutDriver {
        sampler: &mut generator,
        model,
        environment,
        limits,
        sampling,
        chance: Chance::new(4),
        name: "t".into(),
        cancel: &cancel,
    };
    driver.run(problems, jobs)
}

fn jobs(problems: usize, samples: u32) -> Vec<EpisodeJob> {
    (0..problems).flat_map(|p| (0..samples).map(move |s| EpisodeJob::root(p, s))).collect()
}

#[test]
fn an_episode_is_the_same_whatever_shares_its_batch() {
    let problems = sums(6, 3, 7);
    let all = jobs(6, 3);
    let together = roll(half_trained(), &problems, &all, limits(64), 2).unwrap();
    assert_eq!(together, roll(half_trained(), &problems, &all, limits(3), 1).unwrap());
    let alone = roll(half_trained(), &problems, &all[7..8], limits(1), 1).unwrap();
    assert_eq!(alone[0], together[7]);
}

#[test]
fn a_problem_keeps_its_draws_in_another_list() {
    let problems = sums(6, 3, 7);
    let whole = roll(half_trained(), &problems, &jobs(6, 3), limits(64), 1).unwrap();
    let half = roll(half_trained(), &problems[3..], &jobs(3, 3), limits(64), 1).unwrap();
    let drawn = |f: &Rollout| (f.trajectory.id.clone(), f.trajectory.seed, f.trajectory.token_ids.clone());
    assert_eq!(half.iter().map(drawn).collect::<Vec<_>>(), whole[9..].iter().map(drawn).collect::<Vec<_>>());
    // Another group of the same problem, and another sample of the same group, get different draws.
    let again: Vec<EpisodeJob> = jobs(6, 3).into_iter().map(|job| EpisodeJob { draw: 1, ..job }).collect();
    let again = roll(half_trained(), &problems, &again, limits(64), 1).unwrap();
    assert!(again.iter().zip(&whole).all(|(a, b)| a.trajectory.seed != b.trajectory.seed));
    assert!(again.iter().zip(&whole).any(|(a, b)| a.trajectory.token_ids != b.trajectory.token_ids));
    assert!(whole.chunks(3).any(|group| group[0].trajectory.token_ids != group[1].trajectory.token_ids));
}

#[test]
fn answers_in_a_prompt_are_not_agent_turns() {
    let mut problems = sums(6, 3, 8);
    for problem in &mut problems {
        let shots = [Message::new("user", "1+1?"), Message::new("assistant", "2")];
        problem.messages = shots.into_iter().chain(std::mem::take(&mut problem.messages)).collect();
    }
    let scaffolded = EpisodeJob { scaffold: "1+1".to_string(), draw: 1, ..EpisodeJob::root(0, 0) };
    let all: Vec<EpisodeJob> = jobs(6, 3).into_iter().chain([scaffolded]).collect();
    let finished = roll(half_trained(), &problems, &all, limits(64), 1).unwrap();
    assert!(finished.iter().any(|f| !f.turns.is_empty()));
    for one in &finished {
        let t = &one.trajectory;
        let prompt = t.prompt_tokens as usize;
        assert!(t.loss_mask[..prompt].iter().all(|m| !m) && t.turn[..prompt].iter().all(|turn| *turn == 0));
        assert_eq!(t.messages.iter().filter(|m| m.role == "assistant").count(), 1 + one.turns.len());
        assert!(one.turns.first().is_none_or(|turn| turn.first == prompt));
        assert_eq!(one.sampled_tokens(), one.turns.iter().map(|turn| turn.end - turn.first).sum::<usize>());
    }
}

#[test]
fn record_contains_the_episode() {
    let problems = sums(12, 3, 8);
    let finished = roll(half_trained(), &problems, &jobs(12, 4), limits(64), 2).unwrap();
    let with_call = finished.iter().find(|f| f.trajectory.tool_calls > 0).expect("a half-trained model calls its tool");
    let t = &with_call.trajectory;
    let n = t.token_ids.len();
    assert!(
        [t.loss_mask.len(), t.turn.len(), t.logprobs.as_ref().unwrap().len(), t.entropies.as_ref().unwrap().len()]
            .iter()
            .all(|l| *l == n)
    );
    assert!(t.loss_mask[..t.prompt_tokens as usize].iter().all(|m| !m));
    assert_eq!(t.turns as usize, with_call.turns.len());
    assert_eq!(t.messages.iter().filter(|m| m.role == "assistant").count(), with_call.turns.len());
    for (mask, logprob) in t.loss_mask.iter().zip(t.logprobs.as_ref().unwrap()) {
        assert!(if *mask { *logprob <= 0.0 } else { *logprob == 0.0 });
    }
    for turn in &with_call.turns {
        assert!(t.loss_mask[turn.first..turn.end].iter().all(|m| *m));
    }
    assert!(finished.iter().any(|f| f.correct) && finished.iter().any(|f| !f.correct), "some pass and some fail");
}

#[test]
fn memory_for_keys_and_values_admits_and_changes_no_result() {
    let problems = sums(6, 3, 8);
    let roll =
        |kv_memory| roll(half_trained(), &problems, &jobs(6, 4), EpisodeLimits { kv_memory, ..limits(64) }, 2).unwrap();
    let rows = |finished: Vec<Rollout>| finished.into_iter().map(|one| one.trajectory).collect::<Vec<_>>();
    let sampler = half_trained().generator(1).unwrap();
    // 96 tokens in 2 layers of 2 heads with 16 numbers each for keys and for values.
    assert_eq!(sampler.cache_bytes(96), 96 * 2 * 2 * (16 + 16) * 4);
    let one = sampler.cache_bytes(96);
    let all = rows(roll(1 << 30));
    assert_eq!(all, rows(roll(3 * one)), "three at a time");
    assert_eq!(all, rows(roll(0)), "one at a time, however little there is");
    let driver = |kv_memory: u64| {
        let mut sampler = half_trained().generator(1).unwrap();
        let (environment, cancel) = (environment(), CancelToken::default());
        let driver = RolloutDriver {
            sampler: &mut sampler,
            model: half_trained(),
            environment: &*environment,
            limits: EpisodeLimits { kv_memory, ..limits(64) },
            sampling: SamplingParams { temperature: 1.0, top_p: 1.0, top_k: 0 },
            chance: Chance::new(1),
            name: String::new(),
            cancel: &cancel,
        };
        driver.most_running()
    };
    assert_eq!((driver(1 << 30), driver(3 * one), driver(one - 1)), (64, 3, 1));
}

#[test]
fn limits_end_episodes() {
    let problems = sums(4, 3, 9);
    let model = tiny_model(32, 2, 3);
    let finished = roll(&model, &problems, &jobs(4, 2), EpisodeLimits { turn_tokens: 5, ..limits(8) }, 1).unwrap();
    assert!(finished.iter().all(|f| f.turns[0].end - f.turns[0].first <= 5));
    assert!(finished.iter().any(Rollout::cut_off), "a random model does not end its turn by itself");
    let none = roll(&model, &problems, &jobs(4, 1), EpisodeLimits { episode_tokens: 2, ..limits(8) }, 1).unwrap();
    assert!(none.iter().all(|f| f.trajectory.stop_reason == StopReason::Length && f.turns.is_empty()));
}

#[test]
fn no_record_is_longer_than_an_episode_may_be() {
    let problems = sums(12, 3, 8);
    let whole = roll(half_trained(), &problems, &jobs(12, 4), limits(64), 2).unwrap();
    let called = whole.iter().position(|f| f.turns.len() == 2 && f.trajectory.tool_calls == 1).unwrap();
    let (end, next) = (whole[called].turns[0].end, whole[called].turns[1].first);
    // The first observation would end one token too late.
    let tight =
        roll(half_trained(), &problems, &jobs(12, 4), EpisodeLimits { episode_tokens: next, ..limits(64) }, 2).unwrap();
    assert!(tight.iter().all(|f| f.trajectory.token_ids.len() <= next));
    let cut = &tight[called];
    assert_eq!((cut.trajectory.token_ids.len(), cut.trajectory.stop_reason), (end, StopReason::Length));
    assert!(cut.trajectory.tool_calls == 1 && cut.cut_off(), "the call is counted, its result is not in the record");
}

#[test]
fn a_continuation_keeps_its_prefix() {
    let problems = sums(8, 3, 10);
    let roots = roll(half_trained(), &problems, &jobs(8, 2), limits(64), 1).unwrap();
    let (at, root) = roots.iter().enumerate().find(|(_, f)| f.turns.len() > 1).expect("some episode has two turns");
    let t = &root.trajectory;
    let first = &root.turns[0];
    let second = &root.turns[1];
    let whole = EpisodeStart::Prefix(EpisodePrefix {
        turns: vec![t.token_ids[first.first..first.end].to_vec()],
        partial: t.token_ids[second.first..=second.first].to_vec(),
        ..EpisodePrefix::default()
    });
    let partial = EpisodeStart::Prefix(EpisodePrefix {
        turns: Vec::new(),
        partial: t.token_ids[first.first..first.first + 2].to_vec(),
        ..EpisodePrefix::default()
    });
    for (start, kept) in [(whole, second.first + 1), (partial, first.first + 2)] {
        let job = EpisodeJob { problem: at / 2, draw: 99, start, ..EpisodeJob::default() };
        let again = roll(half_trained(), &problems, &[job], limits(1), 1).unwrap();
        assert_eq!(again[0].trajectory.token_ids[..kept], t.token_ids[..kept]);
    }
}

/// Word problems whose tools fail with the first call.
struct Lost(Box<dyn Environment>);
struct LostEpisode;
impl Episode for LostEpisode {
    fn step(&mut self, _: &AgentTurn) -> Result<EpisodeStep> {
        Ok(EpisodeStep::Done(Outcome {
            stop: StopReason::Error,
            status: EpisodeStatus::Infrastructure,
            ..Outcome::default()
        }))
    }
    fn poll(&mut self, _: Duration) -> Result<Option<EpisodeStep>> {
        Ok(None)
    }
    fn fork(&self) -> Result<Box<dyn Episode>> {
        Ok(Box::new(Self))
    }
}
impl Environment for Lost {
    fn kind(&self) -> &'static str {
        self.0.kind()
    }
    fn tools(&self) -> Vec<ToolSpec> {
        self.0.tools()
    }
    fn format(&self) -> &dyn ToolFormat {
        self.0.format()
    }
    fn prompt(&self, problem: &Problem) -> Result<Vec<Message>> {
        self.0.prompt(problem)
    }
    fn start(&self, _: &Problem, _: u64) -> Result<Box<dyn Episode>> {
        Ok(Box::new(LostEpisode))
    }
    fn max_turns(&self) -> u32 {
        self.0.max_turns()
    }
    fn verify(&self, problem: &Problem, answer: &str) -> Result<bool> {
        self.0.verify(problem, answer)
    }
    fn read_answer(&self, text: &str) -> Option<String> {
        self.0.read_answer(text)
    }
}

#[test]
fn a_prefix_that_cannot_be_replayed_is_lost_or_refused() {
    let problems = sums(4, 3, 10);
    let roots = roll(half_trained(), &problems, &jobs(4, 4), limits(64), 1).unwrap();
    let (at, root) = roots.iter().enumerate().find(|(_, f)| f.turns.len() > 1).expect("some episode has two turns");
    let turns: Vec<Vec<u32>> = root.turns.iter().map(|t| root.trajectory.token_ids[t.first..t.end].to_vec()).collect();
    let job = |turns: Vec<Vec<u32>>| EpisodeJob {
        start: EpisodeStart::Prefix(EpisodePrefix { turns, ..EpisodePrefix::default() }),
        ..EpisodeJob::root(at / 4, 9)
    };
    let lost =
        roll_in(&Lost(environment()), half_trained(), &problems, &[job(vec![turns[0].clone()])], limits(1), 1).unwrap();
    assert!(lost[0].failed() && lost[0].given == 0, "counted apart, no error of the stage");
    let ended =
        roots.iter().find(|f| f.trajectory.stop_reason == StopReason::Answer).expect("some episode has an answer");
    let last = ended.turns.last().unwrap();
    let answer = ended.trajectory.token_ids[last.first..last.end].to_vec();
    let e = roll(half_trained(), &problems, &[job(vec![answer, turns[0].clone()])], limits(1), 1).unwrap_err();
    assert!(e.kind == ErrorKind::Data && e.message.contains("continue after the end"), "{e}");
}

#[test]
fn gold_answers_are_scored_where_they_fit() {
    let model = tiny_model(16, 1, 1);
    let mut generator = model.generator(1).unwrap();
    let token = model.chat.tokenizer().encode("1").unwrap()[0];
    let row = Trajectory { token_ids: vec![token; 256], ..Trajectory::default() };
    let turn = |first| TurnSummary { first, end: first + 1, ..TurnSummary::default() };
    // Two digits and the end of the turn: the third turn would end at position 257 of 256.
    let turns = [turn(4), turn(253), turn(254)];
    let episode = |answer| (&row, turns.as_slice(), answer);
    let scored = rescore::gold_logprobs(&mut generator, &model.chat, &[episode("12"), episode("")]).unwrap();
    assert_eq!(scored.iter().map(Vec::len).collect::<Vec<_>>(), [2, 0], "no answer, no score");
    assert!(scored[0].iter().all(|l| l.is_finite() && *l < 0.0));
}

#[test]
fn weights_that_are_not_numbers_stop_the_rollouts() {
    let mut model = tiny_model(16, 1, 1);
    let norm = model.weights.get_mut("model.norm.weight").unwrap();
    *norm = (norm.clone() * f64::NAN).unwrap();
    let e = roll(&model, &sums(1, 3, 1), &jobs(1, 1), limits(1), 1).unwrap_err();
    assert_eq!(e.kind, ErrorKind::Data);
    assert!(e.message.contains("sum-0"), "{e}");
}

#[test]
fn a_cancelled_attempt_stops() {
    let model = tiny_model(16, 1, 1);
    let mut generator = model.generator(1).unwrap();
    let environment = environment();
    let cancel = CancelToken::default();
    cancel.cancel();
    let sampling = SamplingParams { temperature: 1.0, top_p: 1.0, top_k: 0 };
    let mut driver = RolloutDriver {
        sampler: &mut generator,
        model: &model,
        environment: &*environment,
        limits: limits(4),
        sampling,
        chance: Chance::new(4),
        name: "t".into(),
        cancel: &cancel,
    };
    assert_eq!(driver.run(&sums(2, 3, 1), &jobs(2, 1)).unwrap_err().kind, ErrorKind::Cancelled);
}

#[test]
fn steps_end_at_lines_and_turns() {
    let model = tiny_model(16, 1, 1);
    let tokenizer = model.chat.tokenizer();
    let text = tokenizer.encode("q<|assistant|>a\n\nbc\nd<|end|>r<|assistant|>e<|end|>").unwrap();
    let mask: Vec<bool> = (0..text.len()).map(|t| (2..=9).contains(&t) || t >= 12).collect();
    let turn: Vec<u16> = (0..text.len()).map(|t| u16::from(t >= 10)).collect();
    let n = text.len() as u32;
    assert_eq!(StepKind::Turns.ends(tokenizer, &text, &mask, &turn).unwrap(), [10, n]);
    assert_eq!(StepKind::Lines.ends(tokenizer, &text, &mask, &turn).unwrap(), [4, 8, 10, n]);
}
