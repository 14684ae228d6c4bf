//! Tests the YAML reader: values, spans, limits and diagnostics.

use super::*;
use crate::tree::core_value;
use proptest::prelude::*;

fn parse(text: &str) -> (Option<YamlNode>, Vec<Diagnostic>, Sources) {
    let mut sources = Sources::default();
    let file = sources.add("f.yaml", None, text);
    let (tree, diagnostics) = read(&sources, file);
    (tree, diagnostics, sources)
}

fn codes(text: &str) -> Vec<(&'static str, u32, u32)> {
    parse(text).1.iter().map(|d| (d.code, d.span.line, d.span.column)).collect()
}

#[test]
fn every_node_and_key_knows_its_place() {
    let (tree, diagnostics, sources) = parse("a: 1\nbé:\n  - 'x y'\n  - {c: d, \"e\": [f]}\ng:\n");
    assert_eq!(diagnostics, []);
    let tree = tree.unwrap();
    let entries = tree.map().unwrap();
    assert_eq!(sources.slice(entries[1].key_span), "bé");
    let items = entries[1].value.list().unwrap();
    assert_eq!(sources.slice(items[0].span), "'x y'");
    assert_eq!((items[0].span.line, items[0].span.column), (3, 5));
    assert_eq!(sources.slice(items[1].span), "{c: d, \"e\": [f]}");
    let inner = items[1].map().unwrap();
    assert_eq!(sources.slice(inner[1].key_span), "\"e\"");
    assert_eq!(sources.slice(inner[1].value.span), "[f]");
    assert!(entries[2].value.is_null());
    assert_eq!(sources.slice(entries[1].value.span), "- 'x y'\n  - {c: d, \"e\": [f]}");
}

#[test]
fn quoting_decides_what_can_be_a_number() {
    let (tree, ..) = parse("a: 1\nb: '1'\nc: \"1\"\nd: |\n  1\n");
    let values: Vec<serde_json::Value> =
        tree.unwrap().map().unwrap().iter().map(|e| core_value(e.value.scalar().unwrap())).collect();
    assert_eq!(values, [1.into(), "1".into(), "1".into(), serde_json::Value::from("1\n")]);
}

#[test]
fn the_dialect_refuses_what_it_does_not_know() {
    assert_eq!(codes("a: 1\nb: 2\na: 3\n"), [("duplicate-key", 3, 1)]);
    assert_eq!(codes("a: !!str 1\n"), [("yaml-tag", 1, 10)]);
    assert_eq!(codes("a: 1\n---\nb: 2\n"), [("yaml-documents", 2, 1)]);
    assert_eq!(codes("x: &x {a: 1}\ny:\n  <<: *x\n"), [("yaml-key", 3, 3)]);
    assert_eq!(codes("? [a, b]\n: 1\n"), [("yaml-key", 1, 3)]);
    assert_eq!(codes("a: *missing\n"), [("yaml-alias", 1, 4)]);
    assert_eq!(codes("a: &a [*a]\n"), [("yaml-alias", 1, 8)]);
    assert_eq!(codes(""), [("yaml-empty", 1, 1)]);
    assert_eq!(codes("# only a comment\n"), [("yaml-empty", 1, 1)]);
    assert_eq!(codes("a: [1, 2\nb: 3\n").first().map(|c| c.0), Some("yaml-syntax"));
    assert_eq!(codes("%YAML 1.1\n---\na: 1\n").first().map(|c| c.0), Some("yaml-syntax"));
    assert_eq!(codes("a: 1\r\nb: 2\r\n"), []);
    assert_eq!(codes("a: 1\r\nb: 2\rc: 3\n"), [("yaml-syntax", 2, 5)], "lines below would have two numbers");
}

#[test]
fn both_places_of_a_duplicate_key_are_shown() {
    let (_, diagnostics, _) = parse("a:\n  b: 1\n  c: 2\n  b: 3\n");
    assert_eq!(diagnostics[0].related[0].span.line, 2);
    assert_eq!(diagnostics[0].span.line, 4);
}

#[test]
fn aliases_expand_to_their_nodes() {
    let (tree, diagnostics, _) = parse("a: &x {k: [1, 2]}\nb: *x\n");
    assert_eq!(diagnostics, []);
    let tree = tree.unwrap();
    assert_eq!(tree.get("a").unwrap(), tree.get("b").unwrap());
}

#[test]
fn alias_bomb_is_rejected_early() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let alias = format!("*a{}", level - 1);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", vec![alias; 10].join(", ")));
    }
    let (tree, diagnostics, _) = parse(&bomb);
    assert!(tree.is_none());
    assert_eq!(diagnostics.iter().map(|d| d.code).collect::<Vec<_>>(), ["yaml-limit"]);
}

#[test]
fn limits_are_exact() {
    let nested = |depth: usize| format!("{}x{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(codes(&nested(MAX_DEPTH)), []);
    assert_eq!(codes(&nested(MAX_DEPTH + 1)).first().map(|c| c.0), Some("yaml-limit"));
    assert!(!codes(&nested(100_000)).is_empty());
    let aliases = |n: usize| format!("a: &a x\nb: [{}]\n", vec!["*a"; n].join(", "));
    assert_eq!(codes(&aliases(MAX_ALIASES)), []);
    assert_eq!(codes(&aliases(MAX_ALIASES + 1)).first().map(|c| c.0), Some("yaml-limit"));
    // An anchored value one level below the deepest, used where it exceeds the limit.
    let deep = format!("a: &a {}\nb: {}*a{}\n", nested(20), "[".repeat(15), "]".repeat(15));
    assert_eq!(codes(&deep).first().map(|c| c.0), Some("yaml-limit"));
    assert_eq!(codes(&" ".repeat(MAX_BYTES + 1)), [("yaml-limit", 1, 1)]);
}

#[test]
fn too_many_nodes_are_refused() {
    let text = format!("a: [{}]", "1,".repeat(MAX_NODES + 1));
    assert_eq!(codes(&text).first().map(|c| c.0), Some("yaml-limit"));
}

proptest! {
    #[test]
    fn no_text_panics(text in "[ -~\\n\\té☃&*!|>%@`\\[\\]{}:,#'\"?-]{0,200}") {
        parse(&text);
    }

    #[test]
    fn spans_are_in_the_text_and_cover_their_scalars(
        keys in proptest::collection::btree_map("[a-z]{1,8}", "[a-zé0-9]{1,8}", 1..10),
    ) {
        let text: String = keys.iter().map(|(k, v)| format!("{k}:   {v}  # note\n")).collect();
        let (tree, diagnostics, sources) = parse(&text);
        prop_assert!(diagnostics.is_empty());
        for entry in tree.unwrap().map().unwrap() {
            prop_assert_eq!(sources.slice(entry.key_span), &entry.key);
            prop_assert_eq!(sources.slice(entry.value.span), &keys[&entry.key]);
        }
    }
}
