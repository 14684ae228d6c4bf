//! A complete step of reinforcement learning: transfer of weights to the sampler, groups of rollouts with a KV cache,
//! rewards and advantages, one optimizer step of GRPO. Seconds per step, tokens per second, and the share of this
//! machine's measured matrix-product peak.
//!
//! 8 prompts of 24 tokens × 8 samples of exactly 48 tokens (no stop token), one turn, float32. The reward is the share
//! of one letter, so that groups have a spread. Run with `cargo run --release -p trainyard-benches --bin rl_step
//! [seconds] [threads] [vocabulary]`; `peers/trl_grpo.py` runs TRL's GRPOTrainer on the same work, `rl_step.sh` both in
//! turn. A stage's process is started with the environment of [`trainyard_lm::threads`]; set it here too.

use serde_json::json;
use trainyard_benches::{peak, peak_memory, random_model};
use trainyard_core::{Chance, Clock, Error, Result, SystemClock};
use trainyard_learn::corrections::Correction;
use trainyard_learn::{Advantage, Aggregate, Batch, Group, LossTerm, Rollout, TokenGrid, TurnSummary, registry};
use trainyard_lm::backend::cpu::Cpu;
use trainyard_lm::backend::{Backend, Sampler, SamplerOptions, TrainableParameters};
use trainyard_lm::generate::{DrawKey, SequenceRequest, SequenceState};
use trainyard_lm::optimizer::Decay;
use trainyard_lm::{ModelConfig, threads};
use trainyard_tables::{SamplingParams, Trajectory};
use trainyard_train::optimize::{ModelTrainer, OptimizerOptions, TrainableParams};
use trainyard_train::stages::rl::update::{PolicyUpdate, UpdateSample};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PROMPTS: usize = 8;
const SAMPLES: usize = 8;
const SEQUENCES: usize = PROMPTS * SAMPLES;
const PROMPT: usize = 24;
const NEW: usize = 48;
const LENGTH: usize = PROMPT + NEW;
/// The rewarded token, `e` in ASCII.
const LETTER: u32 = 101;
/// Uncounted first steps, in which buffers grow.
const WARM_UP: u64 = 2;

/// State of the training loop.
struct Loop {
    config: ModelConfig,
    trainer: ModelTrainer,
    sampler: Box<dyn Sampler>,
    advantage: Box<dyn Advantage>,
    terms: Vec<Box<dyn LossTerm>>,
    correction: Box<dyn Correction>,
    chance: Chance,
}

/// Seconds of one step by its parts.
#[derive(Clone, Copy)]
struct Times {
    transfer: f64,
    generation: f64,
    scoring: f64,
    update: f64,
}

impl Times {
    fn total(&self) -> f64 {
        self.transfer + self.generation + self.scoring + self.update
    }
}

impl Loop {
    fn new(vocabulary: usize, threads: usize) -> Result<Self> {
        let config = ModelConfig::llama(vocabulary, 128, 344, 4, 4, 4);
        let chance = Chance::new(1);
        let model = random_model(config.clone(), &chance)?;
        let options = OptimizerOptions {
            learning_rate: Some(1e-4),
            decay: Decay::Constant,
            warmup_share: 0.0,
            ..OptimizerOptions::default()
        };
        let learned = TrainableParams { learns: TrainableParameters::All, seed: 0 };
        Ok(Self {
            trainer: ModelTrainer::new(&Cpu, &model, &options, 1_000, learned)?,
            sampler: Cpu.sampler(&model, &SamplerOptions { threads })?,
            config,
            advantage: registry::advantages().build(&json!({ "kind": "group", "epsilon": 1e-4 }), &())?,
            terms: vec![registry::losses().build(&json!({ "kind": "clip", "clip_low": 0.2, "clip_high": 0.2 }), &())?],
            correction: registry::corrections().build(&json!("none"), &())?,
            chance,
        })
    }

    fn step(&mut self, clock: &dyn Clock, number: u64) -> Result<Times> {
        let start = clock.monotonic();
        self.sampler.set_weights(&self.trainer.weights()?, u32::try_from(number).unwrap_or(u32::MAX))?;
        let transferred = clock.monotonic();
        let groups = self.generate(number)?;
        let generated = clock.monotonic();
        let (batch, advantages) = self.score(number, groups);
        let scored = clock.monotonic();
        let update = PolicyUpdate {
            recompute: false,
            terms: &self.terms,
            prefixes: &["clip".to_string()],
            correction: &*self.correction,
            aggregate: Aggregate::TokenMean,
            horizon: None,
            epochs: 1,
            minibatches: 1,
            reuse_by_chance: false,
            micro_batch_tokens: 8_192,
            temperature: 1.0,
            reference: None,
            chance: self.chance,
            step: number,
        };
        let report = update.run(&mut self.trainer, None, &samples(&batch, &advantages))?;
        let end = clock.monotonic();
        assert_eq!(report.optimizer_steps, 1, "one optimizer step");
        let sampled: usize = batch.rollouts().map(Rollout::loss_tokens).sum();
        assert_eq!(sampled, SEQUENCES * NEW, "every sequence has its full length");
        Ok(Times {
            transfer: (transferred - start).as_secs_f64(),
            generation: (generated - transferred).as_secs_f64(),
            scoring: (scored - generated).as_secs_f64(),
            update: (end - scored).as_secs_f64(),
        })
    }

    /// Samples rollouts, grouped by prompt.
    fn generate(&mut self, step: u64) -> Result<Vec<Vec<SequenceState>>> {
        let chance = self.chance.child("step", &[step]);
        let mut groups = Vec::with_capacity(PROMPTS);
        for problem in 0..PROMPTS as u64 {
            let mut draws = chance.at("prompt", &[problem]);
            let request = SequenceRequest {
                tokens: (0..PROMPT).map(|_| draws.below(self.config.vocab_size as u64) as u32).collect(),
                draw: DrawKey { chance, problem, sample: 0 },
                sampling: SamplingParams { temperature: 1.0, top_p: 1.0, top_k: 0 },
                stop_tokens: Vec::new(),
                max_new_tokens: NEW,
            };
            let numbered = |sample| DrawKey { sample, ..request.draw };
            let requests = (0..SAMPLES as u64).map(|s| SequenceRequest { draw: numbered(s), ..request.clone() });
            groups.push(requests.map(|r| self.sampler.start(r)).collect::<Result<Vec<_>>>()?);
        }
        while self.sampler.running() > 0 {
            self.sampler.step()?;
        }
        Ok(groups.into_iter().map(|ids| ids.into_iter().map(|id| self.sampler.remove(id)).collect()).collect())
    }

    /// Computes rewards and advantages.
    fn score(&mut self, step: u64, groups: Vec<Vec<SequenceState>>) -> (Batch, TokenGrid) {
        let rollout = |group: usize, state: SequenceState| {
            let letters = state.token_ids[state.prompt_tokens..].iter().filter(|t| **t == LETTER).count();
            let trajectory = Trajectory {
                reward: letters as f64 / NEW as f64,
                token_ids: state.token_ids,
                loss_mask: state.loss_mask,
                logprobs: Some(state.logprobs),
                ..Trajectory::default()
            };
            let turns = vec![TurnSummary { first: PROMPT, end: LENGTH, ..TurnSummary::default() }];
            Rollout { group, turns, ..Rollout::new(trajectory) }
        };
        let group = |(g, states): (usize, Vec<SequenceState>)| Group {
            problem: g,
            rollouts: states.into_iter().map(|s| rollout(g, s)).collect(),
            ..Group::default()
        };
        let batch = Batch { step, groups: groups.into_iter().enumerate().map(group).collect() };
        let advantages = self.advantage.assign(&batch);
        (batch, advantages)
    }

    /// Returns the floating-point operations of (generation, update): 2 per weight of a matrix and token for a forward,
    /// 6 with the backward, and the causal half of the attention products. A prompt is computed once for its group, the
    /// last sampled token not at all; the head is computed for sampled tokens only.
    fn operations(&self) -> (f64, f64) {
        let c = &self.config;
        let head = c.vocab_size * c.hidden_size;
        let body = c.parameters().iter().filter(|(_, s)| s.len() == 2).map(|(_, s)| s[0] * s[1]).sum::<usize>() - head;
        let width = c.num_hidden_layers * c.query_width();
        // Pairs of a token with itself and all earlier ones.
        let pairs = |length: usize| length * (length + 1) / 2;
        let decoded = SEQUENCES * (NEW - 1);
        let attended = PROMPTS * pairs(PROMPT) + SEQUENCES * (pairs(LENGTH - 1) - pairs(PROMPT));
        let generation =
            2 * body * (PROMPTS * PROMPT + decoded) + 2 * head * (PROMPTS + decoded) + 4 * width * attended;
        let update =
            6 * body * SEQUENCES * LENGTH + 6 * head * SEQUENCES * NEW + 12 * width * SEQUENCES * pairs(LENGTH);
        (generation as f64, update as f64)
    }
}

/// Converts the batch to the input of the update.
fn samples<'a>(batch: &'a Batch, advantages: &'a TokenGrid) -> Vec<UpdateSample<'a>> {
    let sample = |(rollout, advantages): (&'a Rollout, &'a Vec<f64>)| UpdateSample {
        rollout,
        advantages,
        returns: None,
        weight: 1.0,
        group: rollout.group,
        pass_rate: 0.0,
    };
    batch.rollouts().zip(advantages).map(sample).collect()
}

fn report(run: &Loop, times: &mut [Times], threads: usize, peak: f64) {
    times.sort_by(|a, b| a.total().total_cmp(&b.total()));
    let median = times[times.len() / 2];
    let total = median.total();
    let sampled = (SEQUENCES * NEW) as f64;
    println!(
        "128 wide, 4 layers, vocabulary {}, {PROMPTS} prompts x {SAMPLES} samples, {PROMPT} + {NEW} tokens, {threads} \
         threads:",
        run.config.vocab_size
    );
    println!(
        "  {total:.4} s a step [{:.4} to {:.4}] (median of {})",
        times[0].total(),
        times[times.len() - 1].total(),
        times.len()
    );
    let part = |name: &str, seconds: f64| format!("{name} {seconds:.4} s ({:.0}%)", 100.0 * seconds / total);
    println!(
        "  {}, {}, {}, {}",
        part("generation", median.generation),
        part("update", median.update),
        part("scoring", median.scoring),
        part("weights to the sampler", median.transfer)
    );
    println!(
        "  {sampled:.0} tokens a step: {:.0} tokens/s generated, {:.0} tokens/s end to end; update {:.0} positions/s",
        sampled / median.generation,
        sampled / total,
        (SEQUENCES * LENGTH) as f64 / median.update
    );
    let (generation, update) = run.operations();
    let rate = |operations: f64, seconds: f64| {
        let rate = operations / seconds;
        format!("{:.1} GFLOP/s ({:.0}% of the peak)", rate / 1e9, 100.0 * rate / peak)
    };
    println!(
        "  generation {}, update {}, step {}",
        rate(generation, median.generation),
        rate(update, median.update),
        rate(generation + update, total)
    );
    if let Some(mib) = peak_memory() {
        println!("  {mib:.0} MiB at most");
    }
}

fn main() -> Result<()> {
    let argument = |i: usize| std::env::args().nth(i);
    let seconds: f64 = argument(1).and_then(|s| s.parse().ok()).unwrap_or(10.0);
    let threads: usize = argument(2).and_then(|s| s.parse().ok()).unwrap_or(2);
    let vocabulary: usize = argument(3).and_then(|s| s.parse().ok()).unwrap_or(128);
    if vocabulary <= LETTER as usize {
        return Err(
            Error::invalid(format!("a vocabulary of {vocabulary} lacks the rewarded letter")).help("give at least 102")
        );
    }
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().map_err(Error::invalid)?;
    for (name, value) in threads::ENVIRONMENT {
        if std::env::var(name).as_deref() != Ok(value) {
            println!("note: {name} is not {value}, which a stage's process has");
        }
    }
    let clock = SystemClock::new();
    let peak = peak(&clock);
    println!("{threads} threads, matrix products {:.1} GFLOP/s", peak / 1e9);
    let mut run = Loop::new(vocabulary, threads)?;
    for number in 0..WARM_UP {
        run.step(&clock, number)?;
    }
    let (end, mut times) = (clock.monotonic().as_secs_f64() + seconds, Vec::new());
    while clock.monotonic().as_secs_f64() < end || times.len() < 3 {
        times.push(run.step(&clock, WARM_UP + times.len() as u64)?);
    }
    report(&run, &mut times, threads, peak);
    Ok(())
}
