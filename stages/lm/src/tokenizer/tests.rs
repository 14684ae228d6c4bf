//! Tests the tokenizers that `model/init` builds: round trips, rejected text, determinism, files.

use super::*;
use proptest::prelude::*;

const CORPUS: [&str; 3] = ["Tom has 3 apples and buys 14 more.\nHow many?", "<tool_call>3+14</tool_call>", "17 é"];

fn characters() -> Tokenizer {
    character_tokenizer(CORPUS, &special::COMPACT).unwrap()
}

fn bpe() -> Tokenizer {
    train_bpe(CORPUS.repeat(20), 320, &special::CHATML_SET).unwrap()
}

#[test]
fn special_tokens_come_first_and_characters_by_code_point() {
    let t = characters();
    for (id, token) in special::COMPACT.iter().enumerate() {
        assert_eq!(t.token_id(token), Some(id as u32));
        assert!(t.is_added(id as u32));
    }
    // Eight special tokens, tab, newline, 95 printable characters, and é.
    assert_eq!(t.vocabulary_size(), 8 + 2 + 95 + 1);
    assert_eq!(t.encode("\t\n 0").unwrap(), [8, 9, 10, 26]);
    assert_eq!((t.end_token(), t.pad_token()), (Some(1), Some(0)));
    assert!(!t.is_added(8));
}

#[test]
fn dropout_of_a_file_is_not_applied() {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = bpe();
    tokenizer.save(folder.path()).unwrap();
    let path = folder.path().join("tokenizer.json");
    let mut json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    json["model"]["dropout"] = 0.9.into();
    let with_dropout = Tokenizer::from_json(&json.to_string()).unwrap();
    for _ in 0..20 {
        assert_eq!(with_dropout.encode(CORPUS[0]).unwrap(), tokenizer.encode(CORPUS[0]).unwrap());
    }
}

#[test]
fn markup_is_one_token_as_written_and_letters_when_plain() {
    for t in [characters(), bpe()] {
        let call = t.token_id("<tool_call>").unwrap();
        assert_eq!(t.encode("<tool_call>").unwrap(), [call]);
        let plain = t.encode_plain("a<tool_call>b</tool_call>").unwrap();
        assert!(plain.iter().all(|&id| !t.is_added(id)));
        assert_eq!(t.decode(&plain).unwrap(), "a<tool_call>b</tool_call>");
        assert!(t.has_markup("x</tool_call>") && !t.has_markup("x < y"));
    }
}

#[test]
fn unknown_characters_are_named_never_lost() {
    let t = characters();
    for text in ["日", "a 日 ", "a\n日b", "日 \n"] {
        let error = t.encode(text).unwrap_err();
        assert!(error.message.contains("U+65E5"), "{}", error.message);
    }
    assert!(t.encode("a\n日b").unwrap_err().message.contains("line 2"));
    assert_eq!(t.escape("1 日 é\u{1f600}"), "1 \\u65e5 é\\u1f600");
    assert_eq!(t.escape("plain"), "plain");
    assert_eq!(bpe().decode(&bpe().encode("日 <|im_end|>").unwrap()).unwrap(), "日 <|im_end|>");
    assert!(t.decode(&[9_999]).unwrap_err().message.contains("9999"));
}

#[test]
fn an_unknown_token_counts_as_unknown() {
    let json = r#"{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,
        "pre_tokenizer":{"type":"WhitespaceSplit"},"post_processor":null,"decoder":null,
        "model":{"type":"WordLevel","vocab":{"[UNK]":0,"yes":1},"unk_token":"[UNK]"}}"#;
    let t = Tokenizer::from_json(json).unwrap();
    assert_eq!(t.encode("yes  yes").unwrap(), [1, 1]);
    assert!(t.encode("yes no").unwrap_err().message.contains("`n`"));
}

#[test]
fn training_is_deterministic_and_learns_merges() {
    let (a, b) = (bpe(), bpe());
    assert_eq!(a.digest(), b.digest());
    assert!(a.vocabulary_size() > 270 && a.vocabulary_size() <= 320);
    let ids = a.encode("Tom has 14 apples").unwrap();
    assert!(ids.len() < "Tom has 14 apples".len());
    // Digits stay single.
    assert_eq!(a.encode("14").unwrap().len(), 2);
    // The letters of special tokens are not learned from.
    assert!(a.token_id("tool").is_none());
    assert!(train_bpe(CORPUS, 261, &special::CHATML_SET).unwrap_err().help.unwrap().contains("261"));
    assert!(train_bpe([""], 400, &[]).unwrap_err().message.contains("is empty"));
}

#[test]
fn files_are_read_back_with_the_same_digest() {
    for t in [characters(), bpe()] {
        let folder = tempfile::tempdir().unwrap();
        t.save(folder.path()).unwrap();
        let again = Tokenizer::load(folder.path()).unwrap();
        assert_eq!(again.digest(), t.digest());
        assert_eq!((again.end_token(), again.pad_token()), (t.end_token(), t.pad_token()));
        assert_eq!(again.encode(CORPUS[0]).unwrap(), t.encode(CORPUS[0]).unwrap());
        let config = std::fs::read_to_string(folder.path().join("tokenizer_config.json")).unwrap();
        assert!(config.contains("PreTrainedTokenizerFast") && config.contains("eos_token"));
    }
    let empty = tempfile::tempdir().unwrap();
    assert!(Tokenizer::load(empty.path()).unwrap_err().message.contains("tokenizer.json"));
    std::fs::write(empty.path().join("tokenizer.json"), "{\"model\":").unwrap();
    assert!(Tokenizer::load(empty.path()).unwrap_err().message.contains("tokenizer.json"));
}

#[test]
fn a_table_on_which_the_library_panics_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    characters().save(folder.path()).unwrap();
    let path = folder.path().join("tokenizer.json");
    let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    json["normalizer"] = serde_json::json!({"type": "Precompiled", "precompiled_charsmap": "/////w=="});
    std::fs::write(&path, json.to_string()).unwrap();
    let error = Tokenizer::load(folder.path()).unwrap_err();
    assert!(error.message.contains("tokenizer.json") && error.message.contains("cannot be read"), "{error}");
    assert!(error.help.unwrap().contains("fetch"));
}

proptest! {
    #[test]
    fn printable_text_survives_a_round_trip(text in "[ -~\n\té]{0,80}") {
        let t = characters();
        let ids = t.encode_plain(&text).unwrap();
        prop_assert_eq!(ids.len(), text.chars().count());
        prop_assert_eq!(t.decode(&ids).unwrap(), text);
    }
    #[test]
    fn any_text_survives_bytes(text in any::<String>()) {
        let t = bpe();
        prop_assert_eq!(t.decode(&t.encode(&text).unwrap()).unwrap(), text.clone());
        prop_assert_eq!(t.decode(&t.encode_plain(&text).unwrap()).unwrap(), text);
    }
}
