//! Any text as a `tokenizer.json`: no panic leaves it, texts have one encoding, and ids are within the vocabulary.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trainyard_fuzz::permit_caught_panics;
use trainyard_lm::tokenizer::Tokenizer;

const TEXTS: [&str; 6] = [
    "",
    "a b",
    "What is 12 + 30?\n",
    "<|im_start|>user\nhé 👩‍🚀<|im_end|>",
    "\u{0}\u{feff}\t  x",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
];

fuzz_target!(|text: &str| {
    permit_caught_panics();
    let Ok(tokenizer) = Tokenizer::from_json(text) else { return };
    for text in TEXTS {
        let ids = tokenizer.encode(text).ok();
        assert_eq!(tokenizer.encode(text).ok(), ids, "equal texts have equal encodings");
        let Some(ids) = ids else { continue };
        assert!(ids.iter().all(|id| (*id as usize) < tokenizer.vocabulary_size()), "{ids:?}");
        let _ = tokenizer.decode(&ids);
        let _ = (tokenizer.encode_plain(text), tokenizer.encode_next("a ", text), tokenizer.escape(text).len());
    }
    let _ = (tokenizer.named_tokens(), tokenizer.end_token(), tokenizer.pad_token(), tokenizer.decode(&[0, u32::MAX]));
});
