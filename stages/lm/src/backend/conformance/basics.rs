//! Checks a single backend without a comparison with the reference.

use super::kit::{
    ConformanceFolder, FULL, POSITIONS, SEQUENCES, evaluate, finish, learner, model, plain, request, sampler,
    token_positions, trainer_of,
};
use crate::backend::{
    Backend, ForcedScoring, Learner, LearnerHead, LearnerOptions, OutputGradients, Outputs, Sampler, SamplerOptions,
    TokenPosition, TrainableParameters,
};
use crate::generate::{DrawKey, SequenceFinish, SequenceId, SequenceLogprobs, SequenceRequest, SequenceState};
use trainyard_core::ErrorKind;
use trainyard_tables::SamplingParams;

/// Runs all checks that the backend's features allow.
pub(super) fn suite(backend: &dyn Backend) {
    let offers = backend.features();
    if offers.trains {
        outputs_are_probabilities(backend);
        steps_lower_the_loss(backend);
        gradients_of_parts_add_up(backend);
        a_frozen_decoder_keeps_its_weights(backend);
        saved_learner_resumes_bit_for_bit(backend);
        training_errors_are_reported(backend);
    }
    sampling_errors_are_reported(backend);
    if offers.reproducible_draws {
        sequences_are_batch_invariant(backend);
        paused_turn_resumes_unchanged(backend);
    }
    forks_and_observations_only_append(backend);
    samplers_and_learners_agree(backend);
    if offers.weights {
        new_weights_carry_their_version(backend);
    }
    if offers.scores {
        scores_are_those_of_the_learner(backend);
    }
}

/// Checks that the probabilities of all tokens sum to 1, that entropies match them, and that a forward pass returns the
/// numbers of an evaluation.
fn outputs_are_probabilities(backend: &dyn Backend) {
    let mut learner = learner(backend, &plain());
    let vocabulary = learner.config().vocab_size as u32;
    for temperature in [1.0, 0.7] {
        let endings: Vec<Vec<u32>> = (0..vocabulary).map(|last| vec![10, 11, last]).collect();
        let sequences: Vec<&[u32]> = endings.iter().map(Vec::as_slice).collect();
        let last: Vec<TokenPosition> =
            (0..sequences.len()).map(|sequence| TokenPosition { sequence, token: 2 }).collect();
        let all = learner.evaluate(&sequences, &last, temperature).expect("outputs");
        let total: f64 = all.logprobs.iter().map(|l| l.exp()).sum();
        let entropy: f64 = all.logprobs.iter().map(|l| -l * l.exp()).sum();
        assert!((total - 1.0).abs() < 1e-4, "probabilities sum to {total}");
        assert!((entropy - all.entropies[0]).abs() < 1e-4, "entropy {} instead of {entropy}", all.entropies[0]);
    }
    assert!(evaluate(&*learner).values.is_empty(), "a language model has no values");
    let forward = learner.forward(&SEQUENCES, &token_positions(), 1.0).expect("outputs");
    assert_eq!(forward, evaluate(&*learner), "a forward pass and an evaluation give the same bits");
}

/// Checks that steps against the gradient lower the loss of the given slopes, for every kind of output.
fn steps_lower_the_loss(backend: &dyn Backend) {
    for head in [LearnerHead::Own, LearnerHead::Scores(1)] {
        let mut learner = learner(backend, &LearnerOptions { head, ..plain() });
        let slopes: Vec<f64> = (0..token_positions().len()).map(|i| 0.3 - 0.2 * (i % 3) as f64).collect();
        let slopes = match head {
            LearnerHead::Own => OutputGradients { logprobs: &slopes, entropies: &slopes, values: &[] },
            LearnerHead::Scores(_) => OutputGradients { values: &slopes, ..OutputGradients::default() },
        };
        let before = surrogate(&evaluate(&*learner), &slopes);
        for _ in 0..3 {
            learner.forward(&SEQUENCES, &token_positions(), 1.0).expect("outputs");
            learner.backward(&slopes).expect("a backward pass");
            let report = learner.step(1e-3).expect("a step").expect("there are gradients");
            assert!(report.gradient_norm > 0.0, "{head:?}: the gradient is 0");
        }
        let after = surrogate(&evaluate(&*learner), &slopes);
        assert!(after < before, "{head:?}: steps against the gradient raise the loss from {before} to {after}");
        assert_eq!(learner.steps(), 3);
    }
}
fn surrogate(outputs: &Outputs, slopes: &OutputGradients<'_>) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    dot(&outputs.logprobs, slopes.logprobs)
        + dot(&outputs.entropies, slopes.entropies)
        + dot(&outputs.values, slopes.values)
}

/// Checks that two micro-batches give the gradient of the whole batch.
fn gradients_of_parts_add_up(backend: &dyn Backend) {
    let norm = |cuts: &[std::ops::Range<usize>]| {
        let mut learner = learner(backend, &plain());
        for cut in cuts {
            let sequences = &SEQUENCES[cut.clone()];
            let positions =
                TokenPosition::from_masks(&sequences.iter().map(|s| vec![true; s.len()]).collect::<Vec<_>>());
            learner.forward(sequences, &positions, 1.0).expect("outputs");
            learner
                .backward(&OutputGradients { logprobs: &vec![-1.0; positions.len()], ..OutputGradients::default() })
                .expect("backward");
        }
        learner.step(0.0).expect("a step").expect("there are gradients").gradient_norm
    };
    let (whole, parts) = (norm(std::slice::from_ref(&(0..3))), norm(&[0..1, 1..3]));
    assert!((whole - parts).abs() < 1e-4 * whole, "the norm is {whole} at once and {parts} in two parts");
}

/// Checks that with [`TrainableParameters::Scores`] only the head changes, and that a new head starts at 0.
fn a_frozen_decoder_keeps_its_weights(backend: &dyn Backend) {
    let mut learner = learner(
        backend,
        &LearnerOptions { head: LearnerHead::Scores(1), trainable: TrainableParameters::Scores, ..plain() },
    );
    let before = learner.weights().expect("weights");
    let outputs = learner.forward(&SEQUENCES, &token_positions(), 1.0).expect("outputs");
    assert!(outputs.values.iter().all(|v| *v == 0.0) && outputs.logprobs.is_empty(), "a new head gives 0");
    learner
        .backward(&OutputGradients { values: &vec![1.0; token_positions().len()], ..OutputGradients::default() })
        .expect("backward");
    learner.step(1e-2).expect("a step");
    let after = learner.weights().expect("weights");
    let changed: Vec<&String> = before.0.iter().filter(|(n, p)| after.0[*n] != **p).map(|(n, _)| n).collect();
    let learned: Vec<String> = learner.parameters().into_iter().map(|(name, _)| name).collect();
    assert_eq!(changed, ["score.weight"]);
    assert_eq!(learned, ["score.weight"]);
}

/// Checks that weights, moments and counters survive [`Learner::save`] and [`Learner::load`] exactly.
fn saved_learner_resumes_bit_for_bit(backend: &dyn Backend) {
    let train = |learner: &mut dyn Learner| {
        learner.forward(&SEQUENCES, &token_positions(), 1.0).expect("outputs");
        learner
            .backward(&OutputGradients { logprobs: &vec![-0.1; token_positions().len()], ..OutputGradients::default() })
            .expect("backward");
        learner.step(1e-3).expect("a step");
    };
    let folder = ConformanceFolder::new(backend.kind());
    let mut first = learner(backend, &plain());
    train(&mut *first);
    first.save(&folder.0, "a-").expect("saved");
    let mut second = learner(backend, &plain());
    second.load(&folder.0, "a-").expect("loaded");
    assert_eq!(second.steps(), 1);
    for learner in [&mut first, &mut second] {
        train(&mut **learner);
    }
    assert_eq!(first.weights().expect("weights"), second.weights().expect("weights"));
}

/// Checks that invalid calls are errors and change no state.
fn training_errors_are_reported(backend: &dyn Backend) {
    let mut learner = learner(backend, &plain());
    let before = learner.weights().expect("weights");
    assert_eq!(learner.backward(&OutputGradients::default()).unwrap_err().kind, ErrorKind::Bug);
    assert!(learner.evaluate(&[], &[], 1.0).is_err(), "no sequence");
    assert!(learner.evaluate(&[&[][..]], &[], 1.0).is_err(), "an empty sequence");
    assert!(learner.evaluate(&[&[u32::MAX][..]], &[], 1.0).is_err(), "a token outside of the vocabulary");
    assert!(learner.evaluate(&[&[10; POSITIONS + 1][..]], &[], 1.0).is_err(), "a sequence longer than the model");
    assert_eq!(learner.step(1.0).expect("a step without gradients"), None);
    learner.forward(&SEQUENCES, &token_positions(), 1.0).expect("outputs");
    learner
        .backward(&OutputGradients { logprobs: &vec![f64::NAN; token_positions().len()], ..OutputGradients::default() })
        .expect("backward");
    assert_eq!(learner.step(1.0).unwrap_err().kind, ErrorKind::Data, "a gradient that is not finite");
    assert_eq!(learner.weights().expect("weights"), before);
}

/// Checks that invalid calls are errors.
fn sampling_errors_are_reported(backend: &dyn Backend) {
    let mut sampler = sampler(backend);
    assert!(sampler.start(SequenceRequest { tokens: Vec::new(), ..request(10, 0, 4) }).is_err(), "no tokens");
    assert!(sampler.start(SequenceRequest { tokens: vec![u32::MAX], ..request(10, 0, 4) }).is_err(), "a foreign token");
    assert!(
        sampler.start(SequenceRequest { tokens: vec![10; POSITIONS], ..request(10, 0, 4) }).is_err(),
        "no position left"
    );
    let id = sampler.start(request(10, 0, 4)).expect("a sequence");
    assert!(sampler.append(id, &[12], 4).is_err(), "an observation while the turn samples");
    assert!(sampler.score(&[&[10]], &[&[0]]).is_err() && sampler.score_labels() == 0, "there is no scoring head");
}

/// Panics unless both have equal tokens and equal numbers: equal bits, or within 1e-4 if the last bits may depend on
/// the other sequences of a batch.
fn expect_same(backend: &dyn Backend, a: &SequenceState, b: &SequenceState) {
    if backend.is_batch_invariant() {
        assert_eq!(a, b);
        return;
    }
    assert_eq!(SequenceState { logprobs: Vec::new(), entropies: Vec::new(), ..a.clone() }, {
        SequenceState { logprobs: Vec::new(), entropies: Vec::new(), ..b.clone() }
    });
    for (a, b) in a.logprobs.iter().chain(&a.entropies).zip(b.logprobs.iter().chain(&b.entropies)) {
        assert!((a - b).abs() < 1e-4, "{a} and {b}");
    }
}

/// Checks that a sequence is the same alone and in a batch.
fn sequences_are_batch_invariant(backend: &dyn Backend) {
    let mut alone = sampler(backend);
    let id = alone.start(request(10, 1, 8)).expect("a sequence");
    assert_eq!(finish(&mut *alone), [(id, SequenceFinish::Length)]);
    let mut together = sampler(backend);
    let ids: Vec<SequenceId> = (0..5).map(|s| together.start(request(10, s, 8)).expect("a sequence")).collect();
    together.start(request(40, 0, 20)).expect("a sequence");
    finish(&mut *together);
    expect_same(backend, alone.sequence(id), together.sequence(ids[1]));
    let tokens = |id: SequenceId| together.sequence(id).token_ids.clone();
    assert!(ids[1..].iter().any(|id| tokens(*id) != tokens(ids[0])), "samples of one prompt differ");
}

/// Checks that forks share their prefix, that observations are not sampled, and that all lists have the same length.
fn forks_and_observations_only_append(backend: &dyn Backend) {
    let mut sampler = sampler(backend);
    let id = sampler.start(request(10, 0, 6)).expect("a sequence");
    finish(&mut *sampler);
    let parent = sampler.sequence(id).clone();
    let child = sampler.fork(id, 5, DrawKey { sample: 9, ..request(10, 0, 6).draw }).expect("a fork");
    finish(&mut *sampler);
    let forked = sampler.sequence(child).clone();
    assert_eq!(forked.token_ids[..5], parent.token_ids[..5]);
    assert_eq!(
        (forked.token_ids.len(), forked.sampled_in_turn().len()),
        (9, 6),
        "inherited tokens count as the turn's"
    );
    sampler.append(id, &[15, 16], 3).expect("an observation");
    finish(&mut *sampler);
    let state = sampler.remove(id);
    assert_eq!(state.token_ids[..9], parent.token_ids[..]);
    assert_eq!(state.token_ids[9..11], [15, 16]);
    assert_eq!(state.loss_mask[9..], [false, false, true, true, true]);
    assert_eq!((state.current_turn(), state.sampled_in_turn().len()), (1, 3));
    let length = state.token_ids.len();
    let lengths = [state.turn.len(), state.logprobs.len(), state.weights_version.len()];
    assert_eq!(lengths, [length; 3]);
    let entropies = if backend.features().entropies { length } else { 0 };
    assert_eq!(state.entropies.len(), entropies, "entropies are present if the features declare them");
    assert_eq!(sampler.sequence(child), &forked, "a fork lives on when its parent is removed");
}

/// Checks that pausing and resuming a turn changes no token.
fn paused_turn_resumes_unchanged(backend: &dyn Backend) {
    let mut sampler = sampler(backend);
    let (whole, cut) =
        (sampler.start(request(10, 0, 6)).expect("a sequence"), sampler.start(request(10, 0, 2)).expect("a sequence"));
    let late = sampler.start(request(10, 0, 6)).expect("a sequence");
    sampler.pause(late);
    finish(&mut *sampler);
    for id in [cut, late] {
        sampler.resume(id, 6).expect("a turn that ended at its limit");
    }
    assert!(sampler.resume(cut, 6).is_err(), "it samples");
    finish(&mut *sampler);
    for id in [cut, late] {
        expect_same(backend, sampler.sequence(id), sampler.sequence(whole));
    }
}

/// Checks that recorded log-probabilities and entropies equal those of teacher forcing (bit for bit, if the backend
/// guarantees equal bits), and those of the learner up to rounding.
fn samplers_and_learners_agree(backend: &dyn Backend) {
    for sampling in [FULL, SamplingParams { temperature: 0.6, ..FULL }] {
        let mut sampler = sampler(backend);
        let id = sampler.start(SequenceRequest { sampling, ..request(10, 2, 12) }).expect("a sequence");
        finish(&mut *sampler);
        let state = sampler.remove(id);
        let forced = forced(backend, &mut *sampler, &state.token_ids, &sampling);
        let positions = TokenPosition::from_masks(&[&state.loss_mask]);
        let learned = trainer_of(backend)
            .learner(&model(), &plain())
            .and_then(|learner| learner.evaluate(&[&state.token_ids], &positions, sampling.temperature))
            .expect("outputs");
        for (n, position) in positions.iter().enumerate() {
            let t = position.token;
            let off = (f64::from(state.logprobs[t]) - learned.logprobs[n]).abs();
            assert!(off < 1e-3, "the log-probability of token {t} differs by {off}");
            let tolerance = if backend.is_batch_invariant() { 0.0 } else { 1e-4 };
            if let Some(forced) = &forced {
                let difference = (forced.logprobs[t] - state.logprobs[t]).abs();
                assert!(difference <= tolerance, "token {t} is forced {difference} off");
            }
            if backend.features().entropies {
                let off = (f64::from(state.entropies[t]) - learned.entropies[n]).abs();
                assert!(off < 1e-3, "the entropy of token {t} differs by {off}");
                let difference = forced.as_ref().map_or(0.0, |forced| (forced.entropies[t] - state.entropies[t]).abs());
                assert!(difference <= tolerance, "the entropy of token {t} is forced {difference} off");
            }
        }
    }
}

/// Scores a given sequence under a distribution. Returns `None` if the backend reports that it does not support such
/// scores.
fn forced(
    backend: &dyn Backend,
    sampler: &mut dyn Sampler,
    tokens: &[u32],
    sampling: &SamplingParams,
) -> Option<SequenceLogprobs> {
    let offered = match backend.features().forced_scoring {
        ForcedScoring::Always => true,
        ForcedScoring::Plain => *sampling == FULL,
        ForcedScoring::Never => false,
    };
    let scored = sampler.logprobs_of(&[tokens], sampling);
    assert!(sampler.logprobs_of(&[], sampling).expect("no sequences").is_empty());
    if !offered {
        let error = scored.expect_err("scores that are not offered");
        assert!(error.kind == ErrorKind::Invalid && error.help.is_some(), "{error}");
        return None;
    }
    Some(scored.expect("scores").remove(0))
}

/// Checks that tokens carry the version of the weights that sampled them, and that a sampler computes with the
/// learner's weights.
fn new_weights_carry_their_version(backend: &dyn Backend) {
    let mut learner = trainer_of(backend).learner(&model(), &plain()).expect("a learner of the model");
    learner.forward(&SEQUENCES, &token_positions(), 1.0).expect("outputs");
    learner
        .backward(&OutputGradients { logprobs: &vec![-1.0; token_positions().len()], ..OutputGradients::default() })
        .expect("backward");
    learner.step(1e-2).expect("a step");
    let mut sampler = sampler(backend);
    assert_eq!(sampler.version(), 0);
    let id = sampler.start(request(10, 0, 2)).expect("a sequence");
    finish(&mut *sampler);
    sampler.set_weights(&learner.weights().expect("weights"), 5).expect("weights of the same model");
    sampler.resume(id, 4).expect("a turn that ended at its limit");
    finish(&mut *sampler);
    assert_eq!(sampler.version(), 5);
    assert_eq!(sampler.sequence(id).weights_version[3..], [0, 0, 5, 5]);
    let Some(forced) = forced(backend, &mut *sampler, SEQUENCES[0], &FULL) else { return };
    let learned = learner
        .evaluate(&[SEQUENCES[0]], &TokenPosition::from_masks(&[vec![true; SEQUENCES[0].len()]]), 1.0)
        .expect("outputs");
    for (t, logprob) in learned.logprobs.iter().enumerate() {
        let off = (f64::from(forced.logprobs[t + 1]) - logprob).abs();
        assert!(off < 1e-3, "after new weights, token {} differs by {off}", t + 1);
    }
}

/// Checks that a sampler of a model with a scoring head returns the learner's values, also after the last token.
fn scores_are_those_of_the_learner(backend: &dyn Backend) {
    let mut learner = learner(backend, &LearnerOptions { head: LearnerHead::Scores(1), ..plain() });
    learner.forward(&SEQUENCES, &token_positions(), 1.0).expect("outputs");
    learner
        .backward(&OutputGradients { values: &vec![1.0; token_positions().len()], ..OutputGradients::default() })
        .expect("backward");
    learner.step(1e-2).expect("a step");
    let mut scored = model().with_parameters(&learner.weights().expect("weights")).expect("a model");
    scored.config = learner.config().clone();
    let mut sampler = backend.sampler(&scored, &SamplerOptions { threads: 1 }).expect("a sampler");
    assert_eq!(sampler.score_labels(), 1);
    let tokens = SEQUENCES[0];
    let values = sampler.score(&[tokens], &[&[0, 2, 4]]).expect("scores").remove(0);
    let at = [1, 3, 5].map(|token| TokenPosition { sequence: 0, token });
    let expected = learner.evaluate(&[tokens], &at, 1.0).expect("outputs").values;
    assert!(expected.iter().all(|v| *v != 0.0), "the head has learned something");
    for (value, expected) in values.iter().zip(expected) {
        assert!((f64::from(*value) - expected).abs() < 1e-3, "{value} instead of {expected}");
    }
}
