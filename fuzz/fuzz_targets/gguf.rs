//! Any bytes as a GGUF file: no panic leaves it, and a file that `run` reads passes `check`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trainyard_fuzz::{Scratch, permit_caught_panics};
use trainyard_lm::gguf;
use trainyard_lm::template::ChatTemplate;

fuzz_target!(|data: &[u8]| {
    permit_caught_panics();
    let scratch = Scratch::new();
    let path = scratch.write("model.gguf", data);
    assert_eq!(gguf::is_gguf(&path), data.starts_with(b"GGUF"));
    let checked = gguf::read_config(&path);
    let Ok(content) = gguf::read(&path) else { return };
    assert!(checked.is_ok(), "{:?}", checked.err());
    for (name, shape) in content.config.parameters() {
        assert_eq!(content.weights[&name].dims(), shape, "{name}");
    }
    let _ = content.template.map(ChatTemplate::new);
});
