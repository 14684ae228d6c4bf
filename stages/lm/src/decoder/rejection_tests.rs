//! Tests classifiers, and the errors for weights, tokens and gradients that do not fit the decoder.

use super::tests::{batch_of, flat, shapes, single};
use super::{Decoder, Weights};
use crate::batch::SequenceBatch;
use crate::config::ModelConfig;
use crate::optimizer::Gradients;
use candle_core::{DType, Device, Tensor};

#[test]
fn a_classifier_scores_rows_and_has_no_language_head() {
    for config in shapes() {
        let decoder = single(&config).into_classifier(2).unwrap();
        assert!(
            decoder.parameters().contains_key("score.weight") && !decoder.parameters().contains_key("lm_head.weight")
        );
        let batch = batch_of(&[5, 4], config.vocab_size);
        let hidden = decoder.hidden(&batch).unwrap();
        let scores = decoder.scores(&hidden, &[0, 4, 8]).unwrap();
        assert_eq!((scores.dims(), flat(&scores).iter().all(|s| *s == 0.0)), (&[3, 2][..], true));
        let grads = scores.sum_all().unwrap().backward().unwrap();
        let gradients = Gradients::collect(decoder.parameters(), grads).unwrap();
        assert!(gradients.get("score.weight").unwrap().iter().any(|g| *g != 0.0));
        assert!(decoder.logprobs(&hidden, &[0], &[0], 1.0).unwrap_err().message.contains("classifier"));
        assert!(decoder.scores(&hidden, &[9]).is_err());
    }
}

#[test]
fn invalid_weights_and_tokens_are_reported_by_name() {
    let config = ModelConfig { max_position_embeddings: 8, ..shapes()[0].clone() };
    let decoder = single(&config);
    assert!(decoder.hidden(&batch_of(&[9], 13)).unwrap_err().message.contains("8 positions"));
    let foreign = SequenceBatch::new(vec![vec![1, 13]]).unwrap();
    assert!(decoder.hidden(&foreign).unwrap_err().message.contains("token 13"));

    let broken = |change: fn(&mut Weights)| {
        let mut weights = decoder.weights().unwrap();
        change(&mut weights);
        Decoder::from_weights(&config, weights).map(|_| ()).unwrap_err().to_string()
    };
    let missing = broken(|w| drop(w.remove("model.norm.weight")));
    assert!(missing.contains("`model.norm.weight`") && missing.contains("[8]"), "{missing}");
    let misshapen =
        broken(|w| drop(w.insert("model.norm.weight".into(), Tensor::zeros(3, DType::F32, &Device::Cpu).unwrap())));
    assert!(misshapen.contains("[3]") && misshapen.contains("[8]"), "{misshapen}");
    let extra =
        broken(|w| drop(w.insert("model.layers.7.x".into(), Tensor::zeros(3, DType::F32, &Device::Cpu).unwrap())));
    assert!(extra.contains("model.layers.7.x"), "{extra}");
}

#[test]
fn a_parameter_without_a_gradient_is_an_error() {
    let config = &shapes()[1]; // untied: the language head is a parameter of its own
    let decoder = single(config);
    let hidden = decoder.hidden(&batch_of(&[5], config.vocab_size)).unwrap();
    let grads = hidden.sum_all().unwrap().backward().unwrap();
    assert!(Gradients::collect(decoder.parameters(), grads).unwrap_err().message.contains("lm_head.weight"));
}
