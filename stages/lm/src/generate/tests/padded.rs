//! Tests models whose vocabulary is larger than the tokenizer's.

use super::*;
use crate::batch::SequenceBatch;
use crate::folder::{GenerationConfig, ModelFolder};
use crate::template::{BuiltinTemplate, ChatEncoder};
use crate::tokenizer::character_tokenizer;

/// Returns the folder of a tokenizer of characters, with `padding` rows more than it has tokens, and logits that prefer
/// them.
fn folder(padding: usize) -> ModelFolder {
    let template = BuiltinTemplate::Compact;
    let tokenizer = character_tokenizer(["0123456789"], template.special_tokens()).unwrap();
    let used = tokenizer.vocabulary_size();
    let config = ModelConfig { tie_word_embeddings: false, ..ModelConfig::llama(used + padding, 16, 24, 2, 2, 1) };
    let mut weights = Decoder::initialize(&config, &Chance::new(3)).unwrap().weights().unwrap();
    let head = weights["lm_head.weight"].clone();
    let last = (head.narrow(0, used, padding).unwrap() * 300.0).unwrap();
    weights.insert("lm_head.weight".into(), Tensor::cat(&[&head.narrow(0, 0, used).unwrap(), &last], 0).unwrap());
    let chat = ChatEncoder::new(tokenizer, template.template().unwrap()).unwrap();
    ModelFolder::new(config, weights, chat, GenerationConfig::default()).unwrap()
}

#[test]
fn rows_without_a_token_are_never_sampled_and_training_agrees() {
    let folder = folder(9);
    let used = folder.chat.tokenizer().vocabulary_size() as u32;
    assert_eq!(folder.config.unused_tokens, vec![used..used + 9; 1]);
    let mut generator = folder.generator(2).unwrap();
    let decoder = Decoder::from_weights(&folder.config, folder.weights.clone()).unwrap();
    let mut unmasked = folder.config.clone();
    unmasked.unused_tokens.clear();
    let mut before = Generator::new(&unmasked, &folder.weights, 1).unwrap();
    let requests = || (0..4).map(|i| SequenceRequest { tokens: vec![10, 11, i as u32], ..request(i, 3, 40) }).collect();
    let drawn = before.generate(requests()).unwrap();
    assert!(drawn.iter().any(|s| s.token_ids.iter().any(|t| *t >= used)), "these weights prefer the padding");
    for state in generator.generate(requests()).unwrap() {
        assert!(state.token_ids.iter().all(|t| *t < used), "{:?}", state.token_ids);
        let batch = SequenceBatch::new(vec![state.token_ids.clone()]).unwrap();
        let hidden = decoder.hidden_no_grad(&batch).unwrap();
        let rows: Vec<u32> = (2..state.token_ids.len() as u32 - 1).collect();
        let (p, h) = decoder.logprobs(&hidden, &rows, &state.token_ids[3..], 1.0).unwrap();
        for (ours, theirs) in [(p, &state.logprobs), (h, &state.entropies)] {
            let ours = ours.to_vec1::<f32>().unwrap();
            assert!(ours.iter().zip(&theirs[3..]).all(|(a, b)| (a - b).abs() < 1e-4), "{ours:?} {theirs:?}");
        }
    }
}

#[test]
fn tokens_unknown_to_the_tokenizer_are_rejected_by_id() {
    let folder = folder(9);
    let bad = folder.chat.tokenizer().vocabulary_size() as u32 + 4;
    let decoder = Decoder::from_weights(&folder.config, folder.weights.clone()).unwrap();
    let message = |e: trainyard_core::Error| e.to_string();
    let words = format!("token {bad} has no entry in the tokenizer");
    let batch = SequenceBatch::new(vec![vec![10, bad]]).unwrap();
    assert!(message(decoder.hidden(&batch).unwrap_err()).contains(&words));
    let hidden = decoder.hidden(&SequenceBatch::new(vec![vec![10, 11]]).unwrap()).unwrap();
    assert!(message(decoder.logprobs(&hidden, &[0], &[bad], 1.0).unwrap_err()).contains(&words));
    let mut generator = folder.generator(1).unwrap();
    let error = generator.add(SequenceRequest { tokens: vec![10, bad], ..request(1, 2, 3) }).unwrap_err();
    assert!(message(error).contains(&words));
    assert!(message(generator.logprobs_of(&[&[10, bad]], &sampling(1.0)).unwrap_err()).contains(&words));
}
