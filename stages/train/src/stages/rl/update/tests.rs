use super::*;
use crate::optimize::{OptimizerOptions, TrainableParams};
use crate::testing::tiny_model;
use serde_json::json;
use trainyard_learn::part::{Needs, RlPart};
use trainyard_learn::{LossBatch, Rollout, TermValue, registry};
use trainyard_lm::backend::{TokenPosition, TrainableParameters, cpu::Cpu};
use trainyard_lm::optimizer::Decay;
use trainyard_tables::Trajectory;

fn trainer() -> ModelTrainer {
    let model = tiny_model(16, 1, 5);
    let options = OptimizerOptions {
        learning_rate: Some(1e-2),
        decay: Decay::Constant,
        warmup_share: 0.0,
        weight_decay: 0.0,
        ..OptimizerOptions::default()
    };
    ModelTrainer::new(&Cpu, &model, &options, 10, TrainableParams { learns: TrainableParameters::All, seed: 0 })
        .unwrap()
}

fn terms(list: serde_json::Value) -> Vec<Box<dyn LossTerm>> {
    list.as_array().unwrap().iter().map(|t| registry::losses().build(t, &()).unwrap()).collect()
}

/// Rollouts with an advantage per token.
struct Data {
    rollouts: Vec<Rollout>,
    advantages: TokenGrid,
}

impl Data {
    fn samples(&self) -> Vec<UpdateSample<'_>> {
        let sample = |(i, rollout): (usize, _)| UpdateSample {
            rollout,
            advantages: self.advantages[i].as_slice(),
            returns: None,
            weight: 1.0,
            group: i / 2,
            pass_rate: 0.5,
        };
        self.rollouts.iter().enumerate().map(sample).collect()
    }
}

/// Returns four rollouts whose recorded log-probabilities are those of the trainer.
fn data(trainer: &ModelTrainer) -> Data {
    let make = |i: usize| {
        let token_ids: Vec<u32> = (0..5 + i).map(|t| (7 * i + 3 * t) as u32 % 50 + 10).collect();
        let mask: Vec<bool> = (0..token_ids.len()).map(|t| t > 1 && t != 3).collect();
        let sign = if i.is_multiple_of(2) { 1.0 } else { -1.0 };
        let places = TokenPosition::from_masks(&[&mask]);
        let logprobs = trainer.evaluate(&[&token_ids], &places, 1.0).unwrap().logprobs;
        let mut old_logprobs = vec![0.0; token_ids.len()];
        places.iter().zip(logprobs).for_each(|(p, l)| old_logprobs[p.token] = l);
        let advantages = mask.iter().map(|m| if *m { sign } else { 0.0 }).collect();
        let trajectory = Trajectory { token_ids, reward: sign, ..Trajectory::default() };
        (Rollout { trajectory, mask, old_logprobs, correct: sign > 0.0, ..Rollout::default() }, advantages)
    };
    let (rollouts, advantages) = (0..4).map(make).unzip();
    Data { rollouts, advantages }
}

struct Options<'a> {
    terms: &'a [Box<dyn LossTerm>],
    correction: &'a dyn Correction,
    reference: Option<&'a ModelTrainer>,
    micro: usize,
}

fn run(trainer: &mut ModelTrainer, data: &Data, o: &Options<'_>) -> Result<UpdateReport> {
    // Every list of terms in these tests begins with a term on ratios.
    let prefixes: Vec<String> = ["clip", "kl", "third"].map(String::from).into();
    let update = PolicyUpdate {
        recompute: false,
        terms: o.terms,
        prefixes: &prefixes,
        correction: o.correction,
        aggregate: Aggregate::TokenMean,
        horizon: None,
        epochs: 1,
        minibatches: 1,
        reuse_by_chance: false,
        micro_batch_tokens: o.micro,
        temperature: 1.0,
        reference: o.reference,
        chance: Chance::new(1),
        step: 3,
    };
    update.run(trainer, None, &data.samples())
}

fn weights(trainer: &ModelTrainer) -> Vec<f32> {
    trainer.weights().unwrap().0.values().flat_map(|p| p.values.to_vec()).collect()
}

fn assert_close(a: &[f32], b: &[f32], by: f32) {
    let largest = a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
    assert!(largest <= by, "{largest}");
}

#[test]
fn good_tokens_become_likelier_and_bad_ones_less() {
    let mut t = trainer();
    let data = data(&t);
    let before: Vec<f64> = data.rollouts.iter().map(|r| r.old_logprobs.iter().sum()).collect();
    let none = registry::corrections().build(&json!("none"), &()).unwrap();
    let report =
        run(&mut t, &data, &Options { terms: &terms(json!(["clip"])), correction: &*none, reference: None, micro: 64 })
            .unwrap();
    assert_eq!(report.optimizer_steps, 1);
    assert!(
        report.metrics["kl"].abs() < 1e-6
            && report.metrics["clip.fraction"] == 0.0
            && report.metrics["grad_norm"] > 0.0
    );
    for (rollout, before) in data.rollouts.iter().zip(before) {
        let places = TokenPosition::from_masks(&[&rollout.mask]);
        let after = t.evaluate(&[&rollout.trajectory.token_ids], &places, 1.0).unwrap().logprobs;
        let change = after.iter().sum::<f64>() - before;
        assert!(change * rollout.trajectory.reward > 0.0, "{change}");
    }
}

/// Term that requires the whole minibatch and otherwise computes another term.
struct Whole(Box<dyn LossTerm>);
impl RlPart for Whole {
    fn needs(&self) -> Needs {
        self.0.needs()
    }
}
impl LossTerm for Whole {
    fn value(&self, batch: &LossBatch) -> TermValue {
        assert_eq!(batch.mask.len(), 4, "all sequences at once");
        self.0.value(batch)
    }
    fn scope(&self) -> TermScope {
        TermScope::Minibatch
    }
}

#[test]
fn micro_batches_and_scopes_change_only_rounding() {
    let none = registry::corrections().build(&json!("none"), &()).unwrap();
    let list = json!(["clip", {"kind": "entropy", "weight": 0.1}]);
    let mut results = Vec::new();
    for (micro, whole) in [(1000, false), (8, false), (8, true)] {
        let mut t = trainer();
        let data = data(&t);
        let mut terms = terms(list.clone());
        if whole {
            terms = terms.into_iter().map(|t| Box::new(Whole(t)) as Box<dyn LossTerm>).collect();
        }
        let report =
            run(&mut t, &data, &Options { terms: &terms, correction: &*none, reference: None, micro }).unwrap();
        results.push((
            weights(&t),
            report.metrics["loss"],
            report.metrics["clip.fraction"],
            report.metrics["policy_entropy"],
        ));
    }
    for other in &results[1..] {
        assert_close(&results[0].0, &other.0, 2e-4);
        assert!(
            (results[0].1 - other.1).abs() < 1e-5 && results[0].2 == other.2 && (results[0].3 - other.3).abs() < 1e-5
        );
    }
}

#[test]
fn corrections_use_the_policy_before_the_update() {
    let mut t = trainer();
    let mut data = data(&t);
    for rollout in &mut data.rollouts {
        rollout.old_logprobs.iter_mut().for_each(|l| *l -= 1.0);
    }
    let truncated = registry::corrections().build(&json!("truncated"), &()).unwrap();
    let report = run(
        &mut t,
        &data,
        &Options { terms: &terms(json!(["clip"])), correction: &*truncated, reference: None, micro: 64 },
    )
    .unwrap();
    assert!((report.metrics["clip.ratio"] - 1.0).abs() < 1e-5, "the ratio is taken against the recomputed policy");
}

#[test]
fn the_reference_is_measured() {
    let mut t = trainer();
    let data = data(&t);
    let none = registry::corrections().build(&json!("none"), &()).unwrap();
    let reference = trainer();
    let list = terms(json!(["clip", {"kind": "kl", "weight": 0.1}]));
    for expected_zero in [true, false] {
        let report =
            run(&mut t, &data, &Options { terms: &list, correction: &*none, reference: Some(&reference), micro: 64 })
                .unwrap();
        assert_eq!(report.metrics["kl.reference"].abs() < 1e-9, expected_zero);
    }
}

#[test]
fn nan_loss_names_the_step_and_changes_nothing() {
    let mut t = trainer();
    let mut data = data(&t);
    data.advantages[1][4] = f64::NAN;
    let before = weights(&t);
    let none = registry::corrections().build(&json!("none"), &()).unwrap();
    let e =
        run(&mut t, &data, &Options { terms: &terms(json!(["clip"])), correction: &*none, reference: None, micro: 64 })
            .unwrap_err();
    assert_eq!(e.kind, trainyard_core::ErrorKind::Data);
    assert!(e.message.contains("step 3"), "{e}");
    assert_eq!(weights(&t), before);
}

#[test]
fn update_without_loss_tokens_takes_no_step() {
    let mut t = trainer();
    let mut data = data(&t);
    data.rollouts.iter_mut().for_each(|r| r.mask.fill(false));
    let none = registry::corrections().build(&json!("none"), &()).unwrap();
    let report =
        run(&mut t, &data, &Options { terms: &terms(json!(["clip"])), correction: &*none, reference: None, micro: 64 })
            .unwrap();
    assert_eq!(report, UpdateReport::default());
}

#[test]
fn minibatch_count_is_as_configured() {
    let items: Vec<u8> = (0..9).collect();
    let lengths = |parts| shares(&items, parts).iter().map(|share| share.len()).collect::<Vec<_>>();
    assert_eq!(lengths(4), [3, 2, 2, 2]);
    assert_eq!(lengths(3), [3, 3, 3]);
    assert_eq!(lengths(12), [1; 9]);
    assert_eq!(shares(&items, 4).concat(), items);
}
