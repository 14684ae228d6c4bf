//! Tests `extends`: the rule of merging, spans that survive it, and the merged file as YAML.

use crate::catalogue::Kinds;
use crate::compiles::{Memory, compile_text};
use crate::properties::plain;
use crate::samples::folder;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::path::Path;
use trainyard_spec::compile::Compilation;
use trainyard_spec::merged::{merged, relative};
use trainyard_spec::{FileSystem, LocalFileSystem, Sources, merge, print, yaml};

/// Implements the merging rule a second time, on JSON.
fn rule(base: Value, child: Value, path: &[&str]) -> Value {
    let named = |kind: Value| Map::from_iter([("kind".to_string(), kind)]);
    match (base, child) {
        (Value::Object(base), Value::Object(child)) => Value::Object(rule_maps(base, child, path)),
        (Value::Object(base), child @ Value::String(_)) if base.contains_key("kind") => {
            Value::Object(rule_maps(base, named(child), path))
        }
        (base @ Value::String(_), Value::Object(child)) => Value::Object(rule_maps(named(base), child, path)),
        (_, child) => child,
    }
}

fn rule_maps(mut base: Map<String, Value>, child: Map<String, Value>, path: &[&str]) -> Map<String, Value> {
    let is_stage = path.len() == 2 && path[0] == "stages";
    let discriminator = if is_stage { "uses" } else { "kind" };
    let inside = path.len() > 2 || (path.len() == 1 && path[0] != "stages") || (path.len() == 2 && !is_stage);
    if (is_stage || inside)
        && let (Some(old), Some(new)) = (base.get(discriminator), child.get(discriminator))
        && [old, new].iter().all(|v| !v.is_array() && !v.is_object())
        && !new.is_null()
        && old != new
    {
        return child;
    }
    for (key, value) in child {
        let old = base.remove(&key);
        match (old, value) {
            (Some(_), Value::Null) => {}
            (Some(old), value) => {
                let below: Vec<&str> = path.iter().copied().chain([key.as_str()]).collect();
                base.insert(key.clone(), rule(old, value, &below));
            }
            (None, value) => {
                base.insert(key, value);
            }
        }
    }
    base
}

fn merge_texts(base: &str, child: &str) -> Value {
    let mut sources = Sources::default();
    let mut tree = |name: &str, text: &str| {
        let file = sources.add(name, None, text);
        yaml::read(&sources, file).0.unwrap_or_else(|| panic!("{text}"))
    };
    let (base, child) = (tree("base", base), tree("over", child));
    plain(&print::yaml(&merge::workflow(base, child), &sources))
}

/// Formats JSON as valid YAML, which allows no raw control characters.
fn text_of(value: &Value) -> String {
    value.to_string().replace('\u{7f}', "\\u007f")
}

fn merge_values(base: &Value, child: &Value) -> Value {
    merge_texts(&text_of(base), &text_of(child))
}

#[test]
fn maps_merge_and_lists_replace() {
    let base = json!({"params": {"a": {"type": "int", "default": 1}, "b": 2}, "l": [1, 2]});
    let over = json!({"params": {"a": {"default": 5}, "c": 3}, "l": [9]});
    let both = json!({"params": {"a": {"type": "int", "default": 5}, "b": 2, "c": 3}, "l": [9]});
    assert_eq!(merge_values(&base, &over), both);
}

#[test]
fn null_removes_a_key_of_the_parent_and_is_kept_otherwise() {
    let base = json!({"stages": {"a": {"uses": "sft", "with": {"steps": 3, "seed": 1}}, "b": {"uses": "noop"}}});
    let over = json!({"stages": {"a": {"with": {"steps": null, "label": null}}, "b": null}});
    assert_eq!(
        merge_values(&base, &over),
        json!({"stages": {"a": {"uses": "sft", "with": {"seed": 1, "label": null}}}})
    );
}

#[test]
fn another_kind_drops_its_siblings_and_a_bare_name_is_its_kind() {
    let with = |value: Value| json!({"stages": {"a": {"uses": "rl", "with": {"part": value}}}});
    let over = |value: Value| json!({"stages": {"a": {"with": {"part": value}}}});
    let merged = |old: Value, new: Value| merge_values(&with(old), &over(new))["stages"]["a"]["with"]["part"].clone();
    let part = json!({"kind": "x", "p": 1});
    assert_eq!(merged(part.clone(), json!({"q": 2})), json!({"kind": "x", "p": 1, "q": 2}));
    assert_eq!(merged(part.clone(), json!({"kind": "x", "q": 2})), json!({"kind": "x", "p": 1, "q": 2}));
    assert_eq!(merged(part.clone(), json!({"kind": "y", "q": 2})), json!({"kind": "y", "q": 2}));
    assert_eq!(merged(part.clone(), json!("y")), json!({"kind": "y"}));
    assert_eq!(merged(part.clone(), json!("x")), part);
    assert_eq!(merged(json!("x"), json!({"p": 1})), part);
    assert_eq!(merged(json!(true), json!({"p": 1})), json!({"p": 1}), "a bool is no name");
    assert_eq!(merged(part, json!(3)), json!(3));
}

#[test]
fn different_body_drops_the_parents_keys_of_a_stage() {
    let base = json!({"stages": {"a": {"uses": "sft", "with": {"steps": 3}, "timeout": "3h"}}});
    let merged = |stage: Value| merge_values(&base, &json!({"stages": {"a": stage}}))["stages"]["a"].clone();
    assert_eq!(merged(json!({"uses": "rl", "when": false})), json!({"uses": "rl", "when": false}));
    assert_eq!(merged(json!({"run": ["x"]})), json!({"run": ["x"]}));
    assert_eq!(merged(json!({"uses": "sft", "with": {"seed": 1}}))["with"], json!({"steps": 3, "seed": 1}));
    let outside = json!({"outputs": {"uses": "a", "x": 1}});
    assert_eq!(merge_values(&outside, &json!({"outputs": {"uses": "b"}})), json!({"outputs": {"uses": "b", "x": 1}}));
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..4).prop_map(Value::from),
        Just(json!(2.5)),
        "[a-c ]{0,3}".prop_map(Value::from),
        Just(json!("")),
        Just(json!("null")),
        Just(json!("7")),
        Just(json!("- a: [b], {c} # d")),
        Just(json!("two\nlines\n")),
        Just(json!(" \ttab \u{7f}\u{e9}'\"\\")),
        Just(json!("several words in a row ".repeat(7).trim())),
    ]
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![Just("kind"), Just("uses"), Just("stages"), Just("a"), Just("b"), Just("a: b"), Just("7")]
        .prop_map(str::to_string)
}

fn document() -> impl Strategy<Value = Value> {
    let value = leaf().prop_recursive(5, 48, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key(), inner, 0..4).prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    });
    proptest::collection::btree_map(key(), value, 1..5).prop_map(|m| Value::Object(m.into_iter().collect()))
}

proptest! {
    #[test]
    fn merging_equals_the_documented_rule(base in document(), over in document()) {
        prop_assert_eq!(merge_values(&base, &over), rule(base, over, &[]));
    }

    #[test]
    fn an_empty_child_changes_nothing(base in document()) {
        prop_assert_eq!(merge_values(&base, &json!({})), base);
    }

    #[test]
    fn what_is_printed_reads_back_the_same(value in document()) {
        let once = printed(&text_of(&value));
        prop_assert_eq!(plain(&once), value);
        prop_assert_eq!(printed(&once), once.clone(), "printing twice changes nothing");
    }
}

fn printed(text: &str) -> String {
    let mut sources = Sources::default();
    let file = sources.add("f", None, text);
    let (tree, found) = yaml::read(&sources, file);
    print::yaml(&tree.unwrap_or_else(|| panic!("{found:?}\n{text}")), &sources)
}

#[test]
fn comments_and_style_survive_printing() {
    let text = "\
version: 1
# Of the file.
name: x
stages:
  a:
    uses: rl
    with:
      # Few.
      steps: 3
      loss: {aggregate: sum, terms: [{kind: clip}]}
    checks:
      # Why this bound.
      - {metric: kl, max: \"${{ params.kl }}\"}
  b:
    run: |
      echo one
      echo two
";
    assert_eq!(printed(text), text);
}

#[test]
fn every_sample_reads_back_the_same() {
    for room in ["valid", "invalid"] {
        for entry in std::fs::read_dir(folder(room)).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let mut sources = Sources::default();
            let file = sources.add("f", None, text.clone());
            let (Some(tree), found) = yaml::read(&sources, file) else { continue };
            if path.extension().is_some_and(|e| e == "yaml") && found.is_empty() {
                assert_eq!(plain(&print::yaml(&tree, &sources)), plain(&text), "{}", path.display());
            }
        }
    }
}

/// Merges the file, to be written into the same folder.
fn beside(files: &dyn FileSystem, path: &Path) -> String {
    let home = path.parent().unwrap().to_path_buf();
    let merged = merged(files, &Kinds::new(), path, &home, &mut |target| relative(&home, target));
    merged.text.unwrap_or_else(|| panic!("{:?}", merged.diagnostics))
}

fn digest(compiled: &Compilation) -> String {
    compiled.plan.as_ref().unwrap_or_else(|| panic!("{:?}", compiled.diagnostics)).digest.to_string()
}

#[test]
fn the_merged_file_plans_to_the_same_digests() {
    let files = |entries: &[(&str, &str)]| {
        let mut all = vec![
            ("/w/p/base.yaml", BASE),
            ("/w/p/part.yaml", PART),
            ("/w/p/d.jsonl", "rows"),
            ("/w/p/own.jsonl", "own rows"),
            ("/w/p/lib/clean.py", "print()"),
        ];
        all.extend_from_slice(entries);
        Memory::of(&all)
    };
    let child = files(&[("/w/f.yaml", CHILD)]);
    let compiled = compile_text(&child, &[]);
    let text = beside(&child, Path::new("/w/f.yaml"));
    assert!(!text.contains("extends"), "{text}");
    let again = files(&[("/w/f.yaml", &text)]);
    assert_eq!(digest(&compile_text(&again, &[])), digest(&compiled), "{text}");
    assert_eq!(beside(&again, Path::new("/w/f.yaml")), text, "a file without a parent is as it was");
}

const BASE: &str = "
version: 1
name: base
params: {data: {type: path, default: d.jsonl}, more: {type: list, items: path, default: [d.jsonl]}}
stages:
  data: {uses: data/import, with: {source: d.jsonl}}
  chosen: {uses: data/import, with: {source: \"${{ params.data }}\"}}
  # A part of the parent's folder.
  part: {uses: ./part.yaml}
  clean: {run: [python3, clean.py], files: [lib/clean.py]}
";
const PART: &str = "
version: 1
name: part
stages:
  a: {uses: data/import, with: {source: own.jsonl}}
";
const CHILD: &str = "
extends: p/base.yaml
name: f
stages:
  more: {uses: noop, needs: [data]}
";

#[test]
fn diagnostics_point_into_the_file_whose_line_is_wrong() {
    let files = Memory::of(&[
        ("/w/f.yaml", "extends: p/base.yaml\nname: f\nstages:\n  a: {with: {steps: 0}}\n"),
        (
            "/w/p/base.yaml",
            "version: 1\nname: b\nstages:\n  a:\n    uses: sft\n    with: {seed: x}\n  b: {uses: nop}\n",
        ),
    ]);
    let compiled = compile_text(&files, &[]);
    let places: Vec<String> = compiled.diagnostics.iter().map(|d| compiled.sources.place(d.span)).collect();
    assert_eq!(places, ["/w/f.yaml:4:21", "/w/p/base.yaml:6:18", "/w/p/base.yaml:7:13"]);
}

/// Both files keep their own ports and options, though they take them from one parent.
#[test]
fn two_files_of_one_run_may_extend_the_same_parent() {
    let parent = "version: 1\nname: p\nstages:\n  a: {run: \"true\", outputs: {x: files}}\n";
    let files = Memory::of(&[
        ("/w/f.yaml", "extends: p.yaml\nname: f\nstages:\n  other: {uses: ./g.yaml}\n  a: {outputs: {y: table}}\n"),
        ("/w/g.yaml", "extends: p.yaml\nname: g\nstages:\n  a: {outputs: {z: table}}\n"),
        ("/w/p.yaml", parent),
    ]);
    let compiled = compile_text(&files, &[]);
    let plan = compiled.plan.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics));
    let outputs = |key: &str| -> Vec<String> {
        plan.nodes.iter().find(|n| n.key.0 == key).unwrap().outputs.keys().cloned().collect()
    };
    assert_eq!(outputs("a"), ["x", "y"]);
    assert_eq!(outputs("other/a"), ["x", "z"]);
}

#[test]
fn a_merged_file_on_a_disk_keeps_its_sources() {
    let path = folder("valid").join("extends.yaml");
    let text = beside(&LocalFileSystem, &path);
    for expected in ["../data/problems.jsonl", "../data/clean.py", "./parts/arm.yaml", "name: extends"] {
        assert!(text.contains(expected), "lacks {expected}\n{text}");
    }
}
