//! Any bytes as the `config.json` and the `model.safetensors` of a folder: no panic, weights have the shapes of the
//! config, and a folder that `run` reads passes `check`. A line of `####` separates the files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trainyard_fuzz::{Scratch, two_parts};
use trainyard_lm::GenerationConfig;
use trainyard_lm::checkpoint::{load_model, read_shape};

fuzz_target!(|data: &[u8]| {
    let (config, weights) = two_parts(data);
    if let Ok(value) = serde_json::from_slice(config) {
        let _ = GenerationConfig::from_json(&value);
    }
    let scratch = Scratch::new();
    scratch.write("config.json", config);
    scratch.write("model.safetensors", weights);
    let checked = read_shape(scratch.path());
    let Ok((config, weights)) = load_model(scratch.path()) else { return };
    assert!(checked.is_ok(), "{:?}", checked.err());
    let parameters = config.parameters();
    assert_eq!(weights.len(), parameters.len());
    for (name, shape) in parameters {
        assert_eq!(weights[&name].dims(), shape, "{name}");
    }
});
