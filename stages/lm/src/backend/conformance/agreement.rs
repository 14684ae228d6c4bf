//! Compares a backend with the reference on every variant of the decoder.

use super::kit::{FULL, SEQUENCES, finish, model, plain, request, token_positions};
use super::variants::{adapted, variants};
use crate::backend::cpu::Cpu;
use crate::backend::{
    Backend, Learner, LearnerHead, LearnerOptions, OutputGradients, Outputs, SamplerOptions, TrainableParameters,
};
use crate::folder::ModelFolder;
use crate::generate::{DrawKey, SequenceId, SequenceRequest, SequenceState};
use crate::optimizer::AdamWConfig;
use trainyard_core::Error;
use trainyard_tables::SamplingParams;

/// Maximum difference of log-probabilities, entropies and values.
const FORWARD: f64 = 1e-4;
/// Maximum difference of a gradient, as a share of the norm of the parameter's gradient.
const GRADIENT: f64 = 1e-3;

/// Compares forward passes, gradients, optimizer steps, sampled tokens and error messages with the reference.
pub(super) fn suite(backend: &dyn Backend) {
    let offers = backend.features();
    for (learns, models) in [(TrainableParameters::All, variants()), (TrainableParameters::Adapter, adapted())] {
        for (name, model) in models {
            if offers.trains {
                outputs_are_those_of_the_reference(backend, &model, learns, name);
                gradients_are_those_of_the_reference(backend, &model, learns, name);
                steps_are_those_of_the_reference(backend, &model, learns, name);
            }
            // A sampler that takes no weights cannot be given an adapter.
            if offers.reproducible_draws && (model.adapter.is_none() || offers.weights) {
                tokens_are_those_of_the_reference(backend, &model, name);
            }
        }
    }
    if backend.features().trains {
        learner_errors_equal_those_of_the_reference(backend);
    }
    sampler_errors_equal_those_of_the_reference(backend);
}

/// Returns a learner of the backend and one of the reference.
fn both(backend: &dyn Backend, model: &ModelFolder, options: &LearnerOptions) -> [Box<dyn Learner>; 2] {
    [backend, &Cpu].map(|backend| backend.learner(model, options).expect("a learner"))
}

fn expect_near(ours: &Outputs, theirs: &Outputs, what: &str) {
    let pairs =
        [(&ours.logprobs, &theirs.logprobs), (&ours.entropies, &theirs.entropies), (&ours.values, &theirs.values)];
    for (ours, theirs) in pairs {
        assert_eq!(ours.len(), theirs.len(), "{what}");
        let off = ours.iter().zip(theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(off < FORWARD, "{what}: {off} off");
    }
}

fn outputs_are_those_of_the_reference(
    backend: &dyn Backend,
    model: &ModelFolder,
    learns: TrainableParameters,
    name: &str,
) {
    let [ours, theirs] = both(backend, model, &LearnerOptions { trainable: learns, ..plain() });
    for temperature in [1.0, 0.6] {
        let of =
            |learner: &dyn Learner| learner.evaluate(&SEQUENCES, &token_positions(), temperature).expect("outputs");
        expect_near(&of(&*ours), &of(&*theirs), &format!("{name} at temperature {temperature}"));
    }
}

/// Compares gradients. With an enormous epsilon, a step of AdamW is rate / epsilon times the gradient, so the weights
/// reveal the gradient.
fn gradients_are_those_of_the_reference(
    backend: &dyn Backend,
    model: &ModelFolder,
    learns: TrainableParameters,
    name: &str,
) {
    const EPSILON: f64 = 1e6;
    for head in [LearnerHead::Own, LearnerHead::Scores(2)] {
        let optimizer = AdamWConfig { epsilon: EPSILON, ..plain().optimizer };
        let learners = both(backend, model, &LearnerOptions { optimizer, head, trainable: learns, seed: 9 });
        let [ours, theirs] = learners.map(|mut learner| {
            let outputs = learner.forward(&SEQUENCES, &token_positions(), 0.8).expect("outputs");
            let slope = |i: usize| 0.4 - 0.3 * (i % 4) as f64;
            let slopes: Vec<f64> = (0..outputs.logprobs.len().max(outputs.values.len())).map(slope).collect();
            let slopes = match head {
                LearnerHead::Own => OutputGradients { logprobs: &slopes, entropies: &slopes[..], values: &[] },
                LearnerHead::Scores(_) => OutputGradients { values: &slopes, ..OutputGradients::default() },
            };
            let before = learner.weights().expect("weights");
            learner.backward(&slopes).expect("a backward pass");
            let norm = learner.step(EPSILON).expect("a step").expect("gradients").gradient_norm;
            (before, learner.weights().expect("weights"), norm)
        });
        assert!((ours.2 - theirs.2).abs() < GRADIENT * theirs.2, "{name} {head:?}: norms {} and {}", ours.2, theirs.2);
        assert!(ours.1.0.keys().eq(theirs.1.0.keys()), "{name} {head:?}: the same parameters are exported");
        for (parameter, after) in &theirs.1.0 {
            let change = |weights: &[f32], before: &[f32]| -> Vec<f64> {
                weights.iter().zip(before).map(|(a, b)| f64::from(a - b)).collect()
            };
            let expected = change(&after.values, &theirs.0.0[parameter].values);
            let found = change(&ours.1.0[parameter].values, &ours.0.0[parameter].values);
            let norm = |list: &[f64]| list.iter().map(|x| x * x).sum::<f64>().sqrt();
            let off: Vec<f64> = expected.iter().zip(&found).map(|(a, b)| a - b).collect();
            let (off, size) = (norm(&off), norm(&expected));
            // Weights near 1 reveal their change to 1e-7.
            let rounding = 1e-7 * (expected.len() as f64).sqrt();
            assert!(off <= GRADIENT * size + rounding, "{name} {head:?} {parameter}: {off} of {size}");
        }
    }
}

fn steps_are_those_of_the_reference(
    backend: &dyn Backend,
    model: &ModelFolder,
    learns: TrainableParameters,
    name: &str,
) {
    let options = LearnerOptions { optimizer: AdamWConfig::default(), trainable: learns, ..LearnerOptions::default() };
    let losses = both(backend, model, &options).map(|mut learner| {
        let mut loss = || {
            let outputs = learner.forward(&SEQUENCES, &token_positions(), 1.0).expect("outputs");
            let slopes = vec![-1.0 / token_positions().len() as f64; token_positions().len()];
            learner
                .backward(&OutputGradients { logprobs: &slopes, ..OutputGradients::default() })
                .expect("a backward pass");
            learner.step(3e-3).expect("a step").expect("gradients");
            -outputs.logprobs.iter().sum::<f64>() / token_positions().len() as f64
        };
        (0..8).map(|_| loss()).collect::<Vec<f64>>()
    });
    let [ours, theirs] = losses;
    let min_drop = if learns == TrainableParameters::All { 0.1 } else { 0.01 };
    assert!(theirs[7] < theirs[0] - min_drop, "{name}: the loss falls: {theirs:?}");
    assert!(ours.iter().zip(&theirs).all(|(a, b)| (a - b).abs() < 1e-3), "{name}: {ours:?} and {theirs:?}");
}

/// Checks that the backend draws the reference's tokens at the same seed, also after truncation, an observation and a
/// fork.
fn tokens_are_those_of_the_reference(backend: &dyn Backend, model: &ModelFolder, name: &str) {
    let truncated = SamplingParams { temperature: 0.9, top_p: 0.9, top_k: 6 };
    let truncated = if backend.refuses(&truncated).is_some() { FULL } else { truncated };
    let greedy = SamplingParams { temperature: 0.0, ..FULL };
    let [ours, theirs] = [backend, &Cpu].map(|backend| -> Vec<SequenceState> {
        let mut sampler = backend.sampler(model, &SamplerOptions { threads: 2 }).expect("a sampler");
        let start = |(i, sampling): (usize, SamplingParams)| {
            let prompt = (0..5 + 7 * (i as u32 % 3)).map(|t| 10 + (t * 3 + i as u32) % 20).collect();
            SequenceRequest { tokens: prompt, sampling, ..request(10, i as u64, 8 + i) }
        };
        let requests = [FULL, truncated, greedy, FULL, FULL, truncated].into_iter().enumerate().map(start);
        let mut ids: Vec<SequenceId> = requests.map(|r| sampler.start(r).expect("a sequence")).collect();
        ids.push(sampler.start(request(10, 9, 6)).expect("a sequence"));
        finish(&mut *sampler);
        sampler.append(ids[0], &[11, 12, 13], 5).expect("an observation");
        let draw = DrawKey { sample: 77, ..request(10, 0, 1).draw };
        ids.push(sampler.fork(ids[3], 9, draw).expect("a fork"));
        ids.push(sampler.fork(ids[7], 4, draw).expect("a fork of a fork that has computed nothing"));
        sampler.remove(ids[3]);
        ids.remove(3);
        finish(&mut *sampler);
        ids.into_iter().map(|id| sampler.sequence(id).clone()).collect()
    });
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours.token_ids, theirs.token_ids, "{name}");
        assert_eq!((&ours.loss_mask, &ours.turn, ours.finish), (&theirs.loss_mask, &theirs.turn, theirs.finish));
        assert_eq!(ours.logprobs.len(), theirs.logprobs.len());
        // Entropies come last, and not every backend offers them.
        let numbers = ours.logprobs.iter().chain(&ours.entropies).zip(theirs.logprobs.iter().chain(&theirs.entropies));
        for (a, b) in numbers {
            assert!((a - b).abs() < FORWARD as f32, "{name}: {a} and {b}");
        }
    }
}

/// Checks that inputs that do not fit are rejected with the reference's message.
fn learner_errors_equal_those_of_the_reference(backend: &dyn Backend) {
    for (model, learns) in [(model(), TrainableParameters::Adapter), (adapted().remove(0).1, TrainableParameters::All)]
    {
        let [ours, theirs]: [Option<Error>; 2] =
            [backend, &Cpu].map(|b| b.learner(&model, &LearnerOptions { trainable: learns, ..plain() }).err());
        assert!(ours.is_some() && ours == theirs, "{ours:?} is not {theirs:?}");
    }
    let learners = both(backend, &model(), &plain());
    let long = vec![10; 65];
    let batches: [&[&[u32]]; 4] = [&[], &[&[]], &[&[1, u32::MAX]], &[&long]];
    for batch in batches {
        let [ours, theirs]: [Error; 2] = [0, 1].map(|i| learners[i].evaluate(batch, &[], 1.0).expect_err("a refusal"));
        assert_eq!((ours.kind, ours.message, ours.help), (theirs.kind, theirs.message, theirs.help));
    }
}

/// Checks that inputs that do not fit are rejected with the reference's message.
fn sampler_errors_equal_those_of_the_reference(backend: &dyn Backend) {
    let mut samplers = [backend, &Cpu].map(|b| b.sampler(&model(), &SamplerOptions { threads: 1 }).expect("a sampler"));
    for tokens in [vec![], vec![10; 64], vec![10, 1000]] {
        let [ours, theirs] = [0, 1].map(|i| {
            samplers[i]
                .start(SequenceRequest { tokens: tokens.clone(), ..request(10, 0, 4) })
                .expect_err("a refusal")
                .message
        });
        assert_eq!(ours, theirs);
    }
}
