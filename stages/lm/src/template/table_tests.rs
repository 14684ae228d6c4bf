//! Compares official templates with `transformers` over a table of conversations.
//!
//! The templates are third-party and not stored in this repository: `.ci/templates` fetches them and names their folder
//! in `TRAINYARD_TEST_TEMPLATES`. `fixtures/renderings.json` holds the output of `transformers`, which
//! `fixtures/render.py` writes. With `TRAINYARD_TEST_TRANSFORMERS=PYTHON` the test runs `transformers` again.

use super::*;
use crate::tokenizer::{Tokenizer, character_tokenizer};
use minijinja::Value;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use trainyard_tables::Message;

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

/// Returns the folder of templates, or `None` if the tests that need it are skipped.
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

/// Tokens of the families that a turn may end with, and some that it may contain.
const SPECIAL: [&str; 16] = [
    "<s>",
    "</s>",
    "<|im_start|>",
    "<|im_end|>",
    "<|start_header_id|>",
    "<|eot_id|>",
    "<end_of_turn>",
    "<turn|>",
    "<|tool_response>",
    "<|end|>",
    "<|call|>",
    "<|return|>",
    "<｜end▁of▁sentence｜>",
    "<tool_call>",
    "<think>",
    "</think>",
];

fn message(value: &Value) -> Message {
    let text = |name: &str| value.get_attr(name).unwrap().as_str().map(str::to_string);
    let calls = value.get_attr("tool_calls").unwrap();
    Message {
        role: text("role").unwrap(),
        content: text("content").unwrap_or_default(),
        tool_calls: (!calls.is_undefined()).then(|| json::JsonStyle::new(None).text(&calls).unwrap()),
        name: text("name"),
        reasoning_content: text("reasoning_content"),
        tool_call_id: text("tool_call_id"),
    }
}

/// Checks that the text before a turn is the template's text of the messages before it, and that every turn is learned
/// once.
fn check_contexts(chat: &ChatEncoder, messages: &[Message], tools: Option<&str>) -> Result<usize, String> {
    let encoded = TokenizedConversation::encode(chat, messages, tools).map_err(|e| e.to_string())?;
    let answers = (0..messages.len()).filter(|i| messages[*i].role == "assistant");
    for (turn, at) in answers.enumerate() {
        let own: Vec<usize> = (0..encoded.token_ids.len())
            .filter(|i| encoded.loss_mask[*i] && usize::from(encoded.turn[*i]) == turn)
            .collect();
        let first = own[0];
        assert_eq!(own.last(), Some(&(first + own.len() - 1)), "a turn is one stretch");
        let context = encoded.contexts().into_iter().find(|context| context.contains(&first)).unwrap();
        let before = chat.tokenizer().decode(&encoded.token_ids[context.start..first]).unwrap();
        assert_eq!(before, chat.render(&messages[..at], true, tools).unwrap(), "turn {turn}");
        assert!(chat.tokenizer().is_added(encoded.token_ids[first + own.len() - 1]), "turn {turn} has an end");
    }
    Ok(encoded.contexts().len())
}

#[test]
fn official_templates_learn_every_turn_under_its_own_context() {
    let Some(folder) = folder() else { return };
    let conversations: BTreeMap<String, Given> = serde_json::from_str(CONVERSATIONS).unwrap();
    let renderings: BTreeMap<String, BTreeMap<String, Option<String>>> = serde_json::from_str(RENDERINGS).unwrap();
    let tokenizer = tokenizer();
    let (mut refused, mut without_tools, mut several) = (Vec::new(), Vec::new(), Vec::new());
    for (name, renderings) in &renderings {
        let source = std::fs::read_to_string(folder.join(format!("{name}.jinja"))).unwrap();
        let chat = match ChatEncoder::new(tokenizer.clone(), ChatTemplate::new(source).unwrap()) {
            Ok(chat) => chat,
            Err(e) => {
                refused.push(format!("{name}: {}", e.message));
                continue;
            }
        };
        for (conversation, given) in &conversations {
            let options = TemplateOptions { variables: given.variables.clone(), ..TemplateOptions::default() };
            let chat = chat.clone().with_options(&options);
            let messages: Vec<Message> = given.messages.iter().map(message).collect();
            let has_role = |role: &str| messages.iter().any(|m| m.role == role);
            match check_contexts(&chat, &messages, given.tools.then_some(TOOLS)) {
                Ok(1) => {}
                Ok(contexts) => {
                    assert!(contexts <= messages.len());
                    several.push(format!("{name}, {conversation}"));
                }
                // `transformers` rejects tools in templates that do not support them.
                Err(_) if renderings[conversation].is_none() => {}
                Err(e) if e.contains("does not write the calls") => {}
                // The template ends a turn only after its second call.
                Err(e) if name == "deepseek_r1_distill" && e.contains("does not end this message") => {}
                // These templates show the system message only while the question is last.
                Err(e)
                    if name.starts_with("mistral_v")
                        && has_role("system")
                        && e.contains("renders this message differently") => {}
                Err(_) if has_role("tool") && chat.expect_tools().is_err() => {}
                Err(e) => refused.push(format!("{name}, {conversation}: {e}")),
            }
        }
        if chat.expect_tools().is_err() {
            without_tools.push(name.as_str());
        }
    }
    // The template's turns end where the next role begins, without an end token.
    refused.retain(|r| !r.starts_with("glm4moe: "));
    assert_eq!(refused, Vec::<String>::new());
    assert_eq!(without_tools, ["gemma", "gemma3", "mistral_v1", "mistral_v7_tekken", "phi3", "phi3_5", "phi_4"]);
    for rewrites in ["qwen3, reasoning", "deepseek_r1_distill, thoughts in the content", "qwen3_5_think, reasoning"] {
        assert!(several.iter().any(|s| s == rewrites), "{several:#?}");
    }
    assert!(!several.iter().any(|s| s.starts_with("qwen2_5") || s.starts_with("llama3")), "{several:#?}");
}

/// Plays a conversation like a program that sends everything back: turns with thoughts and different spaces, then the
/// messages after them. Returns whether all of it stays one context.
fn stays_in_one_context(chat: &ChatEncoder, messages: &[Message], tools: Option<&str>) -> Result<bool, String> {
    let to_text = |e: trainyard_core::Error| e.to_string();
    let answers: Vec<usize> = (0..messages.len()).filter(|i| messages[*i].role == "assistant").collect();
    let first = *answers.first().ok_or("no assistant message")?;
    let mut played = TokenizedConversation::new(chat, tools);
    played.extend(&messages[..first]).map_err(to_text)?;
    played.open_first_turn().map_err(to_text)?;
    for (turn, at) in answers.iter().enumerate() {
        let message = &messages[*at];
        let calls: Vec<serde_json::Value> =
            message.tool_calls.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let calls: Vec<serde_json::Value> =
            calls.iter().map(|call| call.get("function").unwrap_or(call).clone()).collect();
        let mut text = format!("<think>\nhm {turn}\n</think>\n\n{} ", message.content.replace("</think>", ""));
        text.extend(calls.iter().map(|call| format!("<tool_call>{call}</tool_call>")));
        let mut ids = chat.tokenizer().encode(&text).map_err(to_text)?;
        ids.push(chat.end_token());
        played.push_sampled(&ids).map_err(to_text)?;
        let bare = |call: &serde_json::Value| serde_json::json!({"name": call["name"], "arguments": call["arguments"]});
        let ours: serde_json::Value = calls.iter().map(bare).collect();
        played.set_tool_calls((!calls.is_empty()).then(|| ours.to_string()));
        let Some(next) = answers.get(turn + 1) else { break };
        let before = played.encoded().token_ids.clone();
        let Some(continuation) = played.continue_turn(&messages[at + 1..*next]).map_err(to_text)? else {
            return Ok(false);
        };
        assert!(played.encoded().token_ids.starts_with(&before) && played.encoded().restarts.is_empty());
        let new = chat.tokenizer().decode(&continuation.tokens).map_err(to_text)?;
        let shown = chat.render(played.messages(), true, tools).map_err(to_text)?;
        assert!(shown.ends_with(&new), "{new}\nis not the end of\n{shown}");
        let missing = |m: &Message| shown.contains(m.content.trim()) && !new.contains(m.content.trim());
        assert!(!messages[at + 1..*next].iter().any(missing), "{new}\nleaves something out of\n{shown}");
    }
    Ok(true)
}

#[test]
fn official_templates_keep_external_programs_in_one_context() {
    let Some(folder) = folder() else { return };
    let conversations: BTreeMap<String, Given> = serde_json::from_str(CONVERSATIONS).unwrap();
    let renderings: BTreeMap<String, BTreeMap<String, Option<String>>> = serde_json::from_str(RENDERINGS).unwrap();
    let tokenizer = tokenizer();
    let (mut several, mut played) = (Vec::new(), 0);
    for name in renderings.keys() {
        let source = std::fs::read_to_string(folder.join(format!("{name}.jinja"))).unwrap();
        let Ok(chat) = ChatEncoder::new(tokenizer.clone(), ChatTemplate::new(source).unwrap()) else { continue };
        for (conversation, given) in &conversations {
            let options = TemplateOptions { variables: given.variables.clone(), ..TemplateOptions::default() };
            let chat = chat.clone().with_options(&options);
            let messages: Vec<Message> = given.messages.iter().map(message).collect();
            match stays_in_one_context(&chat, &messages, given.tools.then_some(TOOLS)) {
                Ok(true) => played += 1,
                Ok(false) => several.push(format!("{name}, {conversation}")),
                // The template also rejects it in the native environment.
                Err(_) => {}
            }
        }
    }
    assert!(played > 100, "{played}");
    // The template shows results before the text of their turn.
    several.retain(|one| !one.starts_with("gemma4"));
    assert_eq!(several, Vec::<String>::new());
}

/// Returns a tokenizer with one token per character, with the tokens of all families and a token that begins texts.
fn tokenizer() -> Tokenizer {
    let folder = tempfile::tempdir().unwrap();
    character_tokenizer([CONVERSATIONS, TOOLS, RENDERINGS], &SPECIAL).unwrap().save(folder.path()).unwrap();
    let path = folder.path().join("tokenizer_config.json");
    let mut config: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    config["bos_token"] = "<s>".into();
    std::fs::write(&path, config.to_string()).unwrap();
    Tokenizer::load(folder.path()).unwrap()
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
