//! Tests the requests that the engine rejects.

use super::*;
use crate::generate::SequenceFinish;

#[test]
fn nan_weights_end_the_sequence_without_a_token() {
    let config = &variants()[0];
    for name in [
        "model.norm.weight",
        "model.layers.1.self_attn.k_proj.weight",
        "model.layers.0.mlp.up_proj.weight",
        "model.embed_tokens.weight",
    ] {
        for bad in [f32::NAN, f32::INFINITY] {
            let mut weights = weights(config);
            let tensor = &weights[name];
            let mut values = tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            values.fill(bad);
            weights
                .insert(name.to_string(), Tensor::from_vec(values, tensor.dims(), &candle_core::Device::Cpu).unwrap());
            let mut generator = Generator::new(config, &weights, 1).unwrap();
            let id = generator.add(SequenceRequest { sampling: sampling(0.0), ..request(1, 20, 5) }).unwrap();
            assert_eq!(generator.step().unwrap(), [(id, SequenceFinish::Nan)], "{name} {bad}");
            assert_eq!(generator.sequence(id).token_ids.len(), 20);
            assert!(generator.append(id, &[1], 1).is_err());
            let scored = generator.logprobs_of(&[&[1, 2, 3]], &sampling(1.0)).unwrap().remove(0);
            assert!(scored.logprobs[1].is_nan() && scored.entropies[2].is_nan());
        }
    }
}

#[test]
fn invalid_requests_are_rejected_with_the_reason() {
    let config = &variants()[0];
    let mut generator = generator(config, 1);
    let refused = |generator: &mut Generator, change: &dyn Fn(&mut SequenceRequest)| {
        let mut request = request(1, 5, 5);
        change(&mut request);
        generator.add(request).unwrap_err().message
    };
    assert!(refused(&mut generator, &|r| r.tokens.clear()).contains("at least one token"));
    assert!(refused(&mut generator, &|r| r.tokens.push(53)).contains("token 53"));
    assert!(refused(&mut generator, &|r| r.tokens = vec![1; 256]).contains("256"));
    assert!(refused(&mut generator, &|r| r.sampling.temperature = -1.0).contains("temperature"));
    assert!(refused(&mut generator, &|r| r.sampling.top_p = 0.0).contains("top_p"));
    let id = generator.add(request(1, 5, 5)).unwrap();
    assert!(generator.append(id, &[1], 5).unwrap_err().message.contains("is still sampling"));
    generator.run().unwrap();
    assert!(generator.append(id, &[], 5).is_err() && generator.append(id, &[99], 5).is_err());
    assert!(
        generator.fork(id, 0, request(1, 1, 1).draw).is_err()
            && generator.fork(id, 1_000, request(1, 1, 1).draw).is_err()
    );
    assert!(generator.score(&[&[1]], &[&[0]]).unwrap_err().message.contains("score.weight"));
    assert!(generator.logprobs_of(&[&[1, 70]], &sampling(1.0)).is_err());
    assert!(generator.hidden_of(&[&[1, 2]], &[&[2]]).is_err());
}

#[test]
fn mismatched_weights_are_rejected_by_name() {
    let config = &variants()[0];
    let mut missing = weights(config);
    missing.remove("model.layers.1.mlp.down_proj.weight");
    let error = Generator::new(config, &missing, 1).err().unwrap();
    assert!(error.message.contains("model.layers.1.mlp.down_proj.weight"));
    let mut wide = config.clone();
    wide.intermediate_size += 1;
    assert!(Generator::new(&wide, &weights(config), 1).err().unwrap().message.contains("[41, 32]"));
}
