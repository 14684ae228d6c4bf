//! Tests that inference computes the same numbers as the training model.

use super::*;
use crate::batch::SequenceBatch;

#[test]
fn logprobs_agree_with_the_training_model() {
    for config in variants() {
        let weights = weights(&config);
        let decoder = Decoder::from_weights(&config, weights.clone()).unwrap();
        let mut generator = Generator::new(&config, &weights, 2).unwrap();
        for temperature in [1.0, 0.7] {
            let mut requests: Vec<SequenceRequest> = (0..5).map(|i| request(i, 3 + 9 * i as usize, 30)).collect();
            requests.iter_mut().for_each(|r| r.sampling = sampling(temperature));
            let states = generator.generate(requests).unwrap();
            let batch = SequenceBatch::new(states.iter().map(|s| s.token_ids.clone()).collect()).unwrap();
            let hidden = decoder.hidden_no_grad(&batch).unwrap();
            for (i, state) in states.iter().enumerate() {
                let sampled: Vec<usize> = (0..state.token_ids.len()).filter(|&t| state.loss_mask[t]).collect();
                let rows: Vec<u32> = sampled.iter().map(|&t| batch.row(i, t - 1)).collect();
                let targets: Vec<u32> = sampled.iter().map(|&t| state.token_ids[t]).collect();
                let (logprobs, entropies) = decoder.logprobs(&hidden, &rows, &targets, temperature).unwrap();
                let (logprobs, entropies) = (logprobs.to_vec1::<f32>().unwrap(), entropies.to_vec1::<f32>().unwrap());
                for (j, &t) in sampled.iter().enumerate() {
                    assert!(
                        (logprobs[j] - state.logprobs[t]).abs() < 1e-4,
                        "{}: {} {}",
                        config.family.name,
                        logprobs[j],
                        state.logprobs[t]
                    );
                    assert!((entropies[j] - state.entropies[t]).abs() < 1e-4);
                }
            }
        }
    }
}

#[test]
fn teacher_forcing_gives_the_bits_that_sampling_recorded() {
    for config in variants() {
        let mut generator = generator(&config, 1);
        let sampling = SamplingParams { temperature: 0.9, top_p: 0.8, top_k: 20 };
        let requests = (0..4).map(|i| SequenceRequest { sampling, ..request(i, 4, 40) }).collect();
        let states = generator.generate(requests).unwrap();
        let sequences: Vec<&[u32]> = states.iter().map(|s| s.token_ids.as_slice()).collect();
        let scored = generator.logprobs_of(&sequences, &sampling).unwrap();
        for (state, scored) in states.iter().zip(&scored) {
            for t in (0..state.token_ids.len()).filter(|&t| state.loss_mask[t]) {
                assert_eq!(state.logprobs[t].to_bits(), scored.logprobs[t].to_bits());
                assert_eq!(state.entropies[t].to_bits(), scored.entropies[t].to_bits());
            }
        }
    }
}

#[test]
fn greedy_tokens_are_the_most_probable_ones() {
    let config = &variants()[0];
    let mut generator = generator(config, 1);
    let state =
        generator.generate(vec![SequenceRequest { sampling: sampling(0.0), ..request(1, 5, 12) }]).unwrap().remove(0);
    let decoder = Decoder::from_weights(config, weights(config)).unwrap();
    let hidden = decoder.hidden_no_grad(&SequenceBatch::new(vec![state.token_ids.clone()]).unwrap()).unwrap();
    for t in 5..state.token_ids.len() {
        let targets: Vec<u32> = (0..VOCABULARY as u32).collect();
        let rows = vec![t as u32 - 1; VOCABULARY];
        let all = decoder.logprobs(&hidden, &rows, &targets, 1.0).unwrap().0.to_vec1::<f32>().unwrap();
        let best = all.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let taken = all[state.token_ids[t] as usize];
        assert!(best - taken < 1e-4);
        let entropy: f32 = all.iter().map(|l| -l.exp() * l).sum();
        assert!((state.logprobs[t] - taken).abs() < 1e-4 && (state.entropies[t] - entropy).abs() < 1e-3);
    }
}

#[test]
fn hidden_states_and_scores_agree_with_the_training_model() {
    let config = &variants()[0];
    let classifier = Decoder::from_weights(config, weights(config)).unwrap().into_classifier(2).unwrap();
    let config = classifier.config().clone();
    let mut weights = classifier.weights().unwrap();
    let head: Vec<f32> = (0..64).map(|i| (i as f32 * 0.37).sin()).collect();
    weights.insert("score.weight".into(), Tensor::from_vec(head, (2, 32), &candle_core::Device::Cpu).unwrap());
    classifier.set_weights(&weights).unwrap();
    let mut generator = Generator::new(&config, &weights, 2).unwrap();
    assert_eq!(generator.score_labels(), 2);
    let sequences: Vec<Vec<u32>> = (0..3).map(|i| request(i, 20 + i as usize, 0).tokens).collect();
    let positions: [&[u32]; 3] = [&[0, 5, 19], &[], &[21]];
    let views: Vec<&[u32]> = sequences.iter().map(Vec::as_slice).collect();
    let hidden = generator.hidden_of(&views, &positions).unwrap();
    let scores = generator.score(&views, &positions).unwrap();
    let batch = SequenceBatch::new(sequences.clone()).unwrap();
    let expected = classifier.hidden_no_grad(&batch).unwrap();
    for i in [0, 2] {
        let rows: Vec<u32> = positions[i].iter().map(|&p| batch.row(i, p as usize)).collect();
        let theirs = classifier.scores(&expected, &rows).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert!(theirs.iter().zip(&scores[i]).all(|(a, b)| (a - b).abs() < 1e-4), "{theirs:?} {:?}", scores[i]);
        for (row, ours) in rows.iter().zip(hidden[i].chunks(32)) {
            let theirs = expected.get(*row as usize).unwrap().to_vec1::<f32>().unwrap();
            assert!(theirs.iter().zip(ours).all(|(a, b)| (a - b).abs() < 1e-4));
        }
    }
    assert!(scores[1].is_empty() && hidden[1].is_empty());
}
