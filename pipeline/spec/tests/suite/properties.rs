//! Tests that no input makes the compiler panic, and that every diagnostic points into its text.

use crate::compiles::{Memory, compile_text};
use crate::samples::folder;
use proptest::prelude::*;
use serde_json::Value;
use trainyard_spec::diagnostic::Sources;
use trainyard_spec::tree::{YamlContent, YamlNode, core_value};
use trainyard_spec::yaml;

/// Parses a file to JSON, by the core schema.
pub fn plain(text: &str) -> Value {
    fn json(node: &YamlNode) -> Value {
        match &node.content {
            YamlContent::Scalar(s) => core_value(s),
            YamlContent::List(items) => items.iter().map(json).collect(),
            YamlContent::Map(entries) => {
                Value::Object(entries.iter().map(|e| (e.key.clone(), json(&e.value))).collect())
            }
        }
    }
    let mut sources = Sources::default();
    let file = sources.add("f", None, text);
    json(&yaml::read(&sources, file).0.unwrap())
}

fn all_samples() -> Vec<String> {
    let mut texts = Vec::new();
    for room in ["valid", "invalid"] {
        let mut paths: Vec<_> = std::fs::read_dir(folder(room)).unwrap().map(|e| e.unwrap().path()).collect();
        paths.sort();
        texts.extend(
            paths
                .iter()
                .filter(|p| p.extension().is_some_and(|e| e == "yaml"))
                .map(|p| std::fs::read_to_string(p).unwrap()),
        );
    }
    texts
}

/// Cuts, duplicates, swaps or replaces a part of a text.
fn mutate(text: &str, operation: u8, a: usize, b: usize, word: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let n = characters.len().max(1);
    let (a, b) = (a % n, b % n);
    let (from, to) = (a.min(b), (a.max(b)).min(a.min(b) + 40).min(characters.len()));
    let (head, middle, tail): (String, String, String) =
        (characters[..from].iter().collect(), characters[from..to].iter().collect(), characters[to..].iter().collect());
    match operation % 4 {
        0 => head + &tail,
        1 => head + &middle + &middle + &tail,
        2 => head + word + &tail,
        _ => head + word + &middle + &tail,
    }
}

fn check_places(text: &str, params: &[&str]) -> Result<(), TestCaseError> {
    let compiled = compile_text(&Memory::of(&[("/w/f.yaml", text)]), params);
    prop_assert_eq!(compiled.plan.is_some(), compiled.errors() == 0);
    for d in &compiled.diagnostics {
        let spans = d.related.iter().map(|r| r.span).chain([d.span]);
        for span in spans {
            let source = &compiled.sources.get(span.file).unwrap().text;
            prop_assert!(source.get(span.start as usize..span.end as usize).is_some(), "{:?}", d);
            prop_assert!(span.line >= 1 && span.column >= 1);
            prop_assert!(span.line as usize <= source.lines().count() + 1, "{:?}", d);
        }
        prop_assert!(!d.message.is_empty());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_mutation_of_a_sample_panics(
        sample in 0usize..64, operation in any::<u8>(), a in any::<usize>(), b in any::<usize>(),
        word in prop_oneof![
            Just("${{ "), Just(" }}"), Just("${{ stages.a.b }}"), Just("*x"), Just("&x "), Just("- "), Just(": "),
            Just("{"), Just("]"), Just("é☃"), Just("null"), Just("\t"), Just("matrix: {x: [1, 2]}"),
            Just("for_each: ${{ stages.data.problems }}"), Just("99999999999999999999"), Just("\""), Just("\r\n"),
        ],
        params in proptest::collection::vec("[a-z]{1,5}=?[a-z0-9\\[{]{0,4}", 0..2),
    ) {
        let samples = all_samples();
        let text = mutate(&samples[sample % samples.len()], operation, a, b, word);
        let params: Vec<&str> = params.iter().map(String::as_str).collect();
        check_places(&text, &params)?;
    }

    #[test]
    fn no_text_panics(text in "(version: 1\nname: x\nstages:\n)?[ -~\n\té☃]{0,120}") {
        check_places(&text, &[])?;
    }
}
