//! Checks a backend with models that have an adapter.

use super::kit::{ConformanceFolder, FULL, SEQUENCES, evaluate, finish, model, plain, request, token_positions};
use super::variants::{adapted, with_adapter};
use crate::adapter::{Adapter, AdapterOptions, SCORES};
use crate::backend::{
    Backend, Learner, LearnerHead, LearnerOptions, OutputGradients, Parameters, SamplerOptions, TokenPosition,
    TrainableParameters,
};
use crate::checkpoint::load_tensors;
use crate::folder::ModelFolder;
use trainyard_core::Chance;

pub(super) fn suite(backend: &dyn Backend) {
    a_fresh_adapter_changes_nothing(backend);
    for (name, model) in adapted() {
        the_base_stays_and_the_adapter_learns(backend, &model, name);
        saved_adapter_resumes_bit_for_bit(backend, &model, name);
        samplers_take_the_adapter_alone(backend, &model, name);
    }
    scoring_head_learns_with_the_adapter(backend);
}

fn learner(backend: &dyn Backend, model: &ModelFolder, learns: TrainableParameters) -> Box<dyn Learner> {
    backend.learner(model, &LearnerOptions { trainable: learns, seed: 3, ..plain() }).expect("a learner")
}
fn train(learner: &mut dyn Learner) {
    let outputs = learner.forward(&SEQUENCES, &token_positions(), 1.0).expect("outputs");
    let slopes = vec![-0.1; token_positions().len()];
    let slopes = match outputs.values.is_empty() {
        true => OutputGradients { logprobs: &slopes, ..OutputGradients::default() },
        false => OutputGradients { values: &slopes, ..OutputGradients::default() },
    };
    learner.backward(&slopes).expect("a backward pass");
    learner.step(1e-2).expect("a step").expect("gradients");
}
/// Returns log-probabilities at [`token_positions`], computed by a sampler.
fn sampled(backend: &dyn Backend, model: &ModelFolder, weights: Option<&Parameters>) -> Vec<f32> {
    let mut sampler = backend.sampler(model, &SamplerOptions { threads: 2 }).expect("a sampler");
    if let Some(weights) = weights {
        sampler.set_weights(weights, 1).expect("weights of the adapter");
    }
    let scored = sampler.logprobs_of(&SEQUENCES, &FULL).expect("scores");
    token_positions().into_iter().map(|position| scored[position.sequence].logprobs[position.token]).collect()
}
fn max_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Checks that an adapter changes nothing before training, since its factor B is 0.
fn a_fresh_adapter_changes_nothing(backend: &dyn Backend) {
    let base = model();
    let fresh = Adapter::new(&base.config, &AdapterOptions::default(), &Chance::new(2)).expect("an adapter");
    let fresh = base.adapted(fresh).expect("an adapter of the model");
    assert_eq!(sampled(backend, &fresh, None), sampled(backend, &base, None));
    let of = |model: &ModelFolder, learns| evaluate(&*learner(backend, model, learns));
    assert_eq!(of(&fresh, TrainableParameters::Adapter), of(&base, TrainableParameters::All));
}

/// Checks that training changes every tensor of the adapter and none of the base.
fn the_base_stays_and_the_adapter_learns(backend: &dyn Backend, model: &ModelFolder, name: &str) {
    let before = Parameters::from_weights(&model.weights).expect("weights");
    let adapter = model.adapter.as_ref().expect("an adapter");
    let mut learner = learner(backend, model, TrainableParameters::Adapter);
    let names: Vec<String> = learner.parameters().into_iter().map(|(name, _)| name).collect();
    assert!(names.iter().eq(adapter.tensors.keys()), "{name}: {names:?}");
    assert_eq!(learner.weights().expect("weights"), Parameters::from_weights(&adapter.tensors).expect("weights"));
    train(&mut *learner);
    let after = learner.weights().expect("weights");
    let start = Parameters::from_weights(&adapter.tensors).expect("weights");
    assert!(after.0.keys().eq(names.iter()), "{name}: only the adapter is exported");
    for (parameter, values) in &after.0 {
        assert_ne!(*values, start.0[parameter], "{name}: {parameter} learns");
    }
    assert_eq!(Parameters::from_weights(&model.weights).expect("weights"), before, "{name}: the base has changed");
    // A learner without an optimizer computes the same model.
    let trained = model.with_parameters(&after).expect("a model");
    let fixed = self::learner(backend, &trained, TrainableParameters::Nothing);
    assert!(fixed.parameters().is_empty());
    assert_eq!(evaluate(&*fixed), evaluate(&*learner), "{name}");
}

/// Checks that a resume point contains the trained parameters and none of the base, and that dropout resumes with the
/// draws of its step.
fn saved_adapter_resumes_bit_for_bit(backend: &dyn Backend, model: &ModelFolder, name: &str) {
    let folder = ConformanceFolder::new(&format!("{}-adapter", backend.kind()));
    let mut first = learner(backend, model, TrainableParameters::Adapter);
    train(&mut *first);
    first.save(&folder.0, "a-").expect("saved");
    let saved = load_tensors(&folder.0.join("a-weights.safetensors")).expect("a file");
    assert!(saved.keys().eq(model.adapter.as_ref().expect("an adapter").tensors.keys()), "{name}");
    let mut second = learner(backend, model, TrainableParameters::Adapter);
    // State left by an earlier pass has no effect.
    second.forward(&SEQUENCES, &token_positions(), 1.0).expect("outputs");
    second.load(&folder.0, "a-").expect("loaded");
    for learner in [&mut first, &mut second] {
        train(&mut **learner);
    }
    assert_eq!(first.weights().expect("weights"), second.weights().expect("weights"), "{name}");
}

/// Checks that a sampler computes the unmerged adapter like the learner and like the merged model, and that it accepts
/// new weights of the adapter alone.
fn samplers_take_the_adapter_alone(backend: &dyn Backend, model: &ModelFolder, name: &str) {
    let mut learner = learner(backend, model, TrainableParameters::Adapter);
    for _ in 0..2 {
        train(&mut *learner);
    }
    let weights = learner.weights().expect("weights");
    let numbers = sampled(backend, model, Some(&weights));
    assert!(max_difference(&numbers, &sampled(backend, model, None)) > 1e-3, "{name}: training changes the model");
    let trained = model.with_parameters(&weights).expect("a model");
    assert_eq!(numbers, sampled(backend, &trained, None), "{name}: weights that are set and weights that are loaded");
    let merged = sampled(backend, &trained.merged().expect("a model"), None);
    assert!(max_difference(&numbers, &merged) < 1e-4, "{name}: merged and unmerged");
    let learned: Vec<f32> = evaluate(&*learner).logprobs.into_iter().map(|x| x as f32).collect();
    assert!(max_difference(&numbers, &learned) < 1e-3, "{name}: the sampler and the learner");
    let mut sampler = backend.sampler(model, &SamplerOptions { threads: 1 }).expect("a sampler");
    let id = sampler.start(request(10, 0, 2)).expect("a sequence");
    finish(&mut *sampler);
    sampler.set_weights(&weights, 5).expect("weights of the adapter");
    sampler.resume(id, 4).expect("a turn that ended at its limit");
    finish(&mut *sampler);
    assert_eq!(sampler.sequence(id).weights_version[3..], [0, 0, 5, 5], "{name}");
}
/// Checks that the sampler receives the head that `prm` trains together with the adapter.
fn scoring_head_learns_with_the_adapter(backend: &dyn Backend) {
    let model = with_adapter(&model(), &AdapterOptions { rank: 2, ..AdapterOptions::default() });
    let options = LearnerOptions { head: LearnerHead::Scores(1), trainable: TrainableParameters::Adapter, ..plain() };
    let mut learner = backend.learner(&model, &options).expect("a learner");
    for _ in 0..3 {
        train(&mut *learner);
    }
    let weights = learner.weights().expect("weights");
    assert!(weights.0.contains_key(SCORES) && weights.0.keys().all(|name| name == SCORES || name.contains(".lora_")));
    let scored = model.with_parameters(&weights).expect("a model");
    assert_eq!(scored.config.num_labels, Some(1));
    let mut sampler = backend.sampler(&scored, &SamplerOptions { threads: 1 }).expect("a sampler");
    let values = sampler.score(&[SEQUENCES[0]], &[&[0, 2, 4]]).expect("scores").remove(0);
    let at = [1, 3, 5].map(|token| TokenPosition { sequence: 0, token });
    let expected = learner.evaluate(&[SEQUENCES[0]], &at, 1.0).expect("outputs").values;
    for (value, expected) in values.iter().zip(expected) {
        assert!(expected != 0.0 && (f64::from(*value) - expected).abs() < 1e-3, "{value} instead of {expected}");
    }
    train(&mut *learner);
    sampler.set_weights(&learner.weights().expect("weights"), 1).expect("weights of the adapter and its head");
    let later = sampler.score(&[SEQUENCES[0]], &[&[0, 2, 4]]).expect("scores").remove(0);
    assert_ne!(later, values, "the head is replaced, too");
}
