//! Hostile model folders: `check` and `run` refuse each in bounded time with an error that names the file, and neither
//! crashes, waits for a file, or takes memory by the sizes that a file claims.
//!
//! A case is one line: its name, the change of a good folder, and words of the error.

use crate::hostile::{assert_none, bounded, judge};
use crate::kit::Sandbox;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

type Case = (&'static str, fn(&Path), &'static str);

/// Cases that `check` refuses.
const CHECKED: &[Case] = &[
    ("config is a pipe", |m| pipe(m, "config.json"), "not a regular file"),
    ("config is a device", |m| link(m, "config.json", "/dev/zero"), "not a regular file"),
    ("config is a folder", |m| folder(m, "config.json"), "not a regular file"),
    ("config is nested", |m| text(m, "config.json", "[".repeat(1_000_000)), "recursion limit"),
    ("config is large", |m| text(m, "config.json", format!("{{}}{}", " ".repeat(17 << 20))), "limit of its kind"),
    ("2^40 layers", |m| set(m, "num_hidden_layers", json!(1_u64 << 40)), "num_hidden_layers"),
    ("10^6 layers", |m| set(m, "num_hidden_layers", json!(1_000_000)), "num_hidden_layers"),
    ("more layers than tensors", |m| set(m, "num_hidden_layers", json!(9_999)), "9999 layers"),
    ("one layer more", |m| set(m, "num_hidden_layers", json!(2)), "is missing"),
    ("0 layers", |m| set(m, "num_hidden_layers", json!(0)), "num_hidden_layers"),
    ("vocabulary of 2^62", |m| set(m, "vocab_size", json!(1_u64 << 62)), "vocab_size"),
    ("width of 2^62", |m| set(m, "hidden_size", json!(1_u64 << 62)), "hidden_size"),
    ("heads of 2^62", |m| set(m, "head_dim", json!(1_u64 << 62)), "head_dim"),
    ("heads whose product wraps around", wrapping_heads, "more than the limit"),
    ("0 heads", |m| set(m, "num_attention_heads", json!(0)), "num_attention_heads"),
    ("key-value heads of 2^63", |m| set(m, "num_key_value_heads", json!((1_u64 << 63) - 1)), "num_key_value_heads"),
    ("2^60 positions", |m| set(m, "max_position_embeddings", json!(1_u64 << 60)), "max_position_embeddings"),
    ("another width", |m| set(m, "intermediate_size", json!(63)), "config.json requires"),
    ("weights are a pipe", |m| pipe(m, "model.safetensors"), "not a regular file"),
    ("weights are a device", |m| link(m, "model.safetensors", "/dev/zero"), "not a regular file"),
    ("weights are empty", |m| bytes(m, "model.safetensors", vec![]), "truncated"),
    ("header of 2^63 bytes", |m| bytes(m, "model.safetensors", header(1 << 63, "{}")), "safetensors"),
    ("header of 2^64-1 bytes", |m| bytes(m, "model.safetensors", header(u64::MAX, "{}")), "safetensors"),
    ("header is nested", |m| bytes(m, "model.safetensors", header(200_000, &"[".repeat(200_000))), "safetensors"),
    ("shapes overflow", |m| shapes(m, json!([1_u64 << 32, 1_u64 << 32])), "safetensors"),
    ("offsets overflow", |m| offsets(m, json!([0, 1_u64 << 63])), "safetensors"),
    ("offsets are reversed", |m| offsets(m, json!([64, 0])), "safetensors"),
    ("index leaves the folder", |m| index(m, "../../etc/passwd"), "not a plain file name"),
    ("index names no file", |m| index(m, "absent.safetensors"), "absent.safetensors"),
    ("tokenizer is a pipe", |m| pipe(m, "tokenizer.json"), "not a regular file"),
    ("tokenizer is a device", |m| link(m, "tokenizer.json", "/dev/zero"), "not a regular file"),
    ("tokenizer is nested", |m| text(m, "tokenizer.json", "{\"a\":".repeat(100_000)), "recursion limit"),
    ("normalizers multiply", |m| multiply(m, "normalizer"), "characters of one"),
    ("decoders multiply", |m| multiply(m, "decoder"), "characters of one"),
    ("tokenizer's options are a pipe", |m| pipe(m, "tokenizer_config.json"), "not a regular file"),
    ("template is a pipe", |m| pipe(m, "chat_template.jinja"), "not a regular file"),
    ("template is a device", |m| link(m, "chat_template.jinja", "/dev/zero"), "not a regular file"),
    ("template is large", |m| text(m, "chat_template.jinja", "x".repeat(10 << 20)), "limit of its kind"),
    ("minus signs", |m| tag(m, &"-".repeat(50_000), "1"), "operators"),
    ("negations", |m| tag(m, &"not ".repeat(50_000), "1"), "operators"),
    ("sums", |m| tag(m, &"1+".repeat(100_000), "1"), "operators"),
    ("attributes", |m| tag(m, "messages", &".x".repeat(100_000)), "operators"),
    ("filters", |m| tag(m, "1", &"|e".repeat(100_000)), "operators"),
    ("brackets", |m| tag(m, &"[".repeat(100_000), &"]".repeat(100_000)), "operators"),
    ("parentheses", |m| tag(m, &"(".repeat(20_000), &")".repeat(20_000)), "operators"),
    ("alternatives", |m| begin(m, &format!("{{% if 1 %}}{}{{% endif %}}", "{% elif 1 %}".repeat(9_999))), "`elif`"),
    ("conditions", |m| begin(m, &"{% if 1 %}".repeat(20_000)), "recursion limits"),
    ("loops", |m| begin(m, &format!("{}{}", LOOP.repeat(3), "{% endfor %}".repeat(3))), "fuel"),
    ("output", |m| begin(m, &format!("{0}{0}xxxxxxxxxxxxxxxx{1}{1}", LOOP, "{% endfor %}")), "fuel"),
    ("captured text", |m| begin(m, &captured(&"x".repeat(200_000))), "more than the limit"),
    ("captured raw text", |m| begin(m, &captured(&raw(200_000))), "more than the limit"),
    ("captured numbers", |m| begin(m, &captured("{{ range(9999)|list }}")), "more than the limit"),
    ("kept lists", |m| begin(m, &kept_lists()), "more than the limit"),
    (
        "lists of one expression",
        |m| tag(m, "[", &format!("{}]|length", "range(99999)|list, ".repeat(400))),
        "more than",
    ),
    ("doubled text", |m| grow(m, "'x'", "ns.s ~ ns.s"), "more than the limit"),
    ("replaced text", |m| grow(m, "'x'", "ns.s|replace('x', 'xx')"), "more than the limit"),
    ("joined text", |m| grow(m, "'x'", "[ns.s, ns.s]|join"), "more than the limit"),
    ("a repeated tuple", |m| tag(m, "((1,) * 99999999)", "|length"), "more than the limit"),
    ("nested lists", |m| grow(m, "[]", "[ns.s]"), "nested too deeply"),
    ("a namespace in itself", |m| grow(m, "1", "ns"), "kept in a namespace"),
    ("a wide number", |m| tag(m, "'%999999999d'", "|format(1)"), "width"),
    ("recursion", |m| begin(m, "{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}"), "recursion limit"),
    ("a file", |m| begin(m, "{% include '/etc/passwd' %}"), "rejects"),
];

/// Cases that pass `check` and fail in `run`.
const RUN: &[Case] = &[
    ("weights are not numbers", not_numbers, "the weight files hold this number"),
    ("options of generation are a pipe", |m| pipe(m, "generation_config.json"), "not a regular file"),
    ("options of generation are a device", |m| link(m, "generation_config.json", "/dev/zero"), "not a regular file"),
];

const LOOP: &str = "{% for a in range(99999) %}";

const INIT: &str = r#"
version: 1
name: init
stages:
  a:
    uses: model/init
    with: {hidden_size: 32, layers: 1, heads: 2, intermediate_size: 64}
"#;
const FROM: &str = "version: 1\nname: from\nstages:\n  a: {uses: model/init, with: {from: ./evil}}\n";

pub fn count() -> usize {
    CHECKED.len() + RUN.len()
}

/// Creates a sandbox with a good model in `good` and a file that imports `evil`.
fn sandbox() -> Sandbox {
    let s = Sandbox::new();
    s.write("init.yaml", INIT);
    s.run(&["run", "init.yaml"]).code(0);
    s.run(&["artifacts", "export", "latest/a/model", "good"]).code(0);
    s.write("from.yaml", FROM);
    s
}

/// Copies the good model to `evil` and changes the copy.
fn make(s: &Sandbox, change: fn(&Path)) {
    let evil = s.path("evil");
    let _ = fs::remove_dir_all(&evil);
    fs::create_dir(&evil).unwrap();
    for entry in fs::read_dir(s.path("good")).unwrap().map(Result::unwrap) {
        // Exported files may be read-only.
        fs::write(evil.join(entry.file_name()), fs::read(entry.path()).unwrap()).unwrap();
    }
    change(&evil);
}

/// Asserts that each case ends with this exit code and its words.
fn refused(command: &str, code: i32, cases: &[Case]) {
    let s = sandbox();
    let mut failures = Vec::new();
    for (name, change, words) in cases {
        make(&s, *change);
        let ran = bounded(&s, name, &[command, "from.yaml"]);
        judge(name, &ran, code, words, &mut failures);
    }
    assert_none(&failures);
    make(&s, |_| {});
    bounded(&s, "the good model", &[command, "from.yaml"]).code(0);
}

#[test]
fn damaged_table_of_a_tokenizer_is_named() {
    // The library panics on it, which only the error says.
    let s = sandbox();
    make(&s, charsmap);
    let mut failures = Vec::new();
    for (command, code) in [("check", 2), ("run", 2)] {
        let ran = bounded(&s, command, &[command, "from.yaml"]);
        judge(command, &ran, code, "table of the tokenizer is damaged", &mut failures);
    }
    assert_none(&failures);
}

#[test]
fn check_refuses_hostile_folders() {
    refused("check", 2, CHECKED);
}

#[test]
fn run_refuses_what_check_does_not_read() {
    refused("run", 1, RUN);
}

fn text(model: &Path, file: &str, content: String) {
    bytes(model, file, content.into_bytes());
}

fn bytes(model: &Path, file: &str, content: Vec<u8>) {
    fs::write(model.join(file), content).unwrap();
}

fn pipe(model: &Path, file: &str) {
    let _ = fs::remove_file(model.join(file));
    assert!(std::process::Command::new("mkfifo").arg(model.join(file)).status().unwrap().success());
}

fn link(model: &Path, file: &str, target: &str) {
    let _ = fs::remove_file(model.join(file));
    std::os::unix::fs::symlink(target, model.join(file)).unwrap();
}

fn folder(model: &Path, file: &str) {
    fs::remove_file(model.join(file)).unwrap();
    fs::create_dir(model.join(file)).unwrap();
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Sets a key of `config.json`.
fn set(model: &Path, key: &str, value: Value) {
    let mut config = read_json(&model.join("config.json"));
    config[key] = value;
    text(model, "config.json", config.to_string());
}

/// Sets sizes whose product is 0 in 64 bits.
fn wrapping_heads(model: &Path) {
    set(model, "num_attention_heads", json!(1_u64 << 40));
    set(model, "head_dim", json!(1_u64 << 40));
}

/// Returns a safetensors file whose header claims `size` bytes.
fn header(size: u64, content: &str) -> Vec<u8> {
    [&size.to_le_bytes(), content.as_bytes()].concat()
}

/// Changes the entry of one tensor in the header of the weights.
fn change_tensor(model: &Path, key: &str, value: Value) {
    let whole = fs::read(model.join("model.safetensors")).unwrap();
    let end = 8 + u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    let mut described: Value = serde_json::from_slice(&whole[8..end]).unwrap();
    described["model.norm.weight"][key] = value;
    let described = described.to_string();
    let file = [header(described.len() as u64, &described), whole[end..].to_vec()].concat();
    bytes(model, "model.safetensors", file);
}

fn shapes(model: &Path, value: Value) {
    change_tensor(model, "shape", value);
}

fn offsets(model: &Path, value: Value) {
    change_tensor(model, "data_offsets", value);
}

/// Replaces the weights by an index that names one file.
fn index(model: &Path, file: &str) {
    fs::remove_file(model.join("model.safetensors")).unwrap();
    let index = json!({"metadata": {}, "weight_map": {"model.norm.weight": file}});
    text(model, "model.safetensors.index.json", index.to_string());
}

/// Sets all weights to NaN.
fn not_numbers(model: &Path) {
    let mut whole = fs::read(model.join("model.safetensors")).unwrap();
    let end = 8 + u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    for number in whole[end..].as_chunks_mut::<4>().0 {
        *number = f32::NAN.to_le_bytes();
    }
    bytes(model, "model.safetensors", whole);
}

/// Lets a part of the tokenizer make a gigabyte of each letter.
fn multiply(model: &Path, part: &str) {
    let mut tokenizer = read_json(&model.join("tokenizer.json"));
    let step = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaaaa"});
    tokenizer[part] = json!({"type": "Sequence", format!("{part}s"): vec![step; 9]});
    text(model, "tokenizer.json", tokenizer.to_string());
}

/// Gives the tokenizer a table on which its library panics.
fn charsmap(model: &Path) {
    let mut tokenizer = read_json(&model.join("tokenizer.json"));
    tokenizer["normalizer"] = json!({"type": "Precompiled", "precompiled_charsmap": "/////w=="});
    text(model, "tokenizer.json", tokenizer.to_string());
}

/// Begins the chat template with a text.
fn begin(model: &Path, start: &str) {
    let template = fs::read_to_string(model.join("chat_template.jinja")).unwrap();
    text(model, "chat_template.jinja", format!("{start}{template}"));
}

/// Returns a loop whose output becomes a variable.
fn captured(body: &str) -> String {
    format!("{{% set s %}}{LOOP}{body}{{% endfor %}}{{% endset %}}")
}

fn kept_lists() -> String {
    (0..5_000).map(|n| format!("{{% set l{n} = range(99999)|list %}}")).collect()
}

fn raw(bytes: usize) -> String {
    format!("{{% raw %}}{}{{% endraw %}}", "x".repeat(bytes))
}

/// Begins the chat template with an expression of two parts.
fn tag(model: &Path, left: &str, right: &str) {
    begin(model, &format!("{{{{ {left}{right} }}}}"));
}

/// Begins the chat template with a loop that replaces a value by one made of it.
fn grow(model: &Path, first: &str, next: &str) {
    let namespace = format!("{{% set ns = namespace(s={first}) %}}");
    begin(model, &format!("{namespace}{{% for i in range(90000) %}}{{% set ns.s = {next} %}}{{% endfor %}}"));
}
