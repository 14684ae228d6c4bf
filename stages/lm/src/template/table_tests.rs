//! Official templates × conversations against `transformers`.
//!
//! The templates belong to others and are not kept here: `.ci/templates` fetches them and names their folder in
//! `TRAINYARD_TEST_TEMPLATES`. What `transformers` renders is kept in `fixtures/renderings.json`, which
//! `fixtures/render.py` writes; with `TRAINYARD_TEST_TRANSFORMERS=PYTHON` it is run again.

use super::*;
use minijinja::Value;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

const CONVERSATIONS: &str = include_str!("fixtures/conversations.json");
const TOOLS: &str = include_str!("fixtures/tools.json");
const RENDERINGS: &str = include_str!("fixtures/renderings.json");

#[derive(Deserialize)]
struct Given {
    messages: Vec<Value>,
    #[serde(default)]
    tools: bool,
    #[serde(default = "yes")]
    add_generation_prompt: bool,
    #[serde(default)]
    variables: BTreeMap<String, serde_json::Value>,
}

fn yes() -> bool {
    true
}

/// The folder of templates; none if the tests that need it are skipped.
fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("TRAINYARD_TEST_TEMPLATES").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("SKIPPED: TRAINYARD_TEST_TEMPLATES names no folder of official templates (see .ci/templates)");
    }
    folder
}

#[test]
fn official_templates_render_as_transformers_does() {
    let Some(folder) = folder() else { return };
    let conversations: BTreeMap<String, Given> = serde_json::from_str(CONVERSATIONS).unwrap();
    let expected: BTreeMap<String, BTreeMap<String, Option<String>>> = serde_json::from_str(RENDERINGS).unwrap();
    let mut wrong = Vec::new();
    for (name, renderings) in &expected {
        let path = folder.join(format!("{name}.jinja"));
        let source = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let template = ChatTemplate::new(source).unwrap_or_else(|e| panic!("{name}: {}", e.message));
        for (conversation, given) in &conversations {
            let mut variables = given.variables.clone();
            variables.extend([("bos_token".into(), "<s>".into()), ("eos_token".into(), "</s>".into())]);
            let tools = given.tools.then(|| TOOLS.to_string());
            let options = RenderOptions { tools, variables, ..RenderOptions::default() };
            let rendered = template.render_values(&given.messages, given.add_generation_prompt, &options);
            match (&renderings[conversation], rendered) {
                (Some(expected), Ok(text)) if *expected == text => {}
                (None, Err(_)) => {}
                (expected, rendered) => wrong.push(format!("{name}, {conversation}:\n{expected:?}\n{rendered:?}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n\n"));
}

#[test]
fn the_renderings_are_what_transformers_gives() {
    let Some(python) = std::env::var_os("TRAINYARD_TEST_TRANSFORMERS") else {
        eprintln!("SKIPPED: TRAINYARD_TEST_TRANSFORMERS names no Python that has `transformers`");
        return;
    };
    let Some(folder) = folder() else { return };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/template/fixtures/render.py");
    let output = std::process::Command::new(python).arg(script).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout == RENDERINGS.as_bytes(), "run {script} again");
}
