//! Corruption that changes neither names nor sizes: readers detect it, and the same command or `--rerun` heals it.

use crate::kit::Sandbox;
use std::path::{Path, PathBuf};

const CHAIN: &str = r#"
version: 1
name: chain
params:
  tail: {type: string, default: a}
stages:
  first:
    run: echo first >> LOG; printf hello > ${{ outputs.o }}/x
    outputs: {o: {kind: files}}
  second:
    with: {i: "${{ stages.first.o }}"}
    run: cat ${{ inputs.i }}/x > ${{ outputs.o }}/y; printf %s ${{ params.tail }} >> ${{ outputs.o }}/y
    outputs: {o: {kind: files}}
"#;

/// Creates a sandbox with a chain that has run once.
fn chain() -> Sandbox {
    let s = Sandbox::new();
    s.write("chain.yaml", CHAIN.replace("LOG", s.path("log").to_str().unwrap()));
    s.run(&["run", "chain.yaml"]).code(0);
    s
}

/// Returns how often the first stage has run.
fn ran_first(s: &Sandbox) -> usize {
    s.read("log").lines().count()
}

/// Returns the path of the object with these bytes.
fn object(s: &Sandbox, bytes: &[u8]) -> PathBuf {
    let mut all = s.files(".trainyard/objects").into_iter().map(|name| s.store().join("objects").join(name));
    all.find(|path| std::fs::read(path).unwrap() == bytes).expect("the object is stored")
}

/// Flips one bit. Stored objects are write-protected, so the file is replaced.
fn flip(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[0] ^= 1;
    std::fs::remove_file(path).unwrap();
    std::fs::write(path, bytes).unwrap();
}

fn exported(s: &Sandbox, artifact: &str, file: &str) -> String {
    s.run(&["artifacts", "export", artifact, "out"]).code(0);
    s.read(&format!("out/{file}"))
}

#[test]
fn flipped_bit_is_found_by_its_reader_and_healed_by_the_same_command() {
    let s = chain();
    let object = object(&s, b"hello");
    flip(&object);
    let name = object.file_name().unwrap().to_str().unwrap();
    let changed = ["run", "chain.yaml", "-p", "tail=b"];
    s.run(&changed).code(0).says("an input is missing or damaged: `first` runs again");
    assert_eq!(ran_first(&s), 2);
    let explained = s.run(&["explain", "latest", "second"]).code(0);
    explained.prints("is damaged").prints(name).prints("stage `first`");
    assert_eq!(exported(&s, "latest/second/o", "y"), "hellob");
}

#[test]
fn rerun_replaces_a_damaged_object() {
    let s = chain();
    let object = object(&s, b"hello");
    flip(&object);
    s.run(&["run", "chain.yaml", "--rerun", "first"]).code(0);
    assert_eq!(std::fs::read(&object).unwrap(), b"hello");
    s.run(&["run", "chain.yaml", "-p", "tail=b"]).code(0);
    assert_eq!(ran_first(&s), 2);
    assert_eq!(exported(&s, "latest/second/o", "y"), "hellob");
}

#[test]
fn export_never_returns_damaged_bytes() {
    let s = chain();
    flip(&object(&s, b"hello"));
    s.run(&["artifacts", "export", "latest/first/o", "out"]).code(1).says("is damaged");
    assert!(!s.path("out").exists());
    s.run(&["run", "chain.yaml", "--rerun", "first"]).code(0);
    assert_eq!(exported(&s, "latest/first/o", "x"), "hello");
}

#[test]
fn empty_manifest_is_superseded_by_the_next_generation() {
    let s = chain();
    let manifests = || s.files(".trainyard/artifacts");
    let empty = |generation: &str| {
        let newest: Vec<_> = manifests().into_iter().filter(|name| name.ends_with(generation)).collect();
        assert_eq!(newest.len(), 2, "{:?}", manifests());
        newest.iter().for_each(|name| std::fs::write(s.store().join("artifacts").join(name), "").unwrap());
    };
    empty("/0.json");
    s.run(&["run", "chain.yaml"]).code(0);
    assert_eq!(ran_first(&s), 2);
    s.run(&["run", "chain.yaml"]).code(0);
    assert_eq!(ran_first(&s), 2, "the healed artifact is a hit");
    empty("/1.json");
    s.run(&["run", "chain.yaml", "--rerun", "first"]).code(0);
    assert_eq!(ran_first(&s), 3);
    assert_eq!(exported(&s, "latest/second/o", "y"), "helloa");
    s.run(&["artifacts", "gc"]).code(0);
}
