//! Any text as a turn of a model, in every format of tool calls: no panic; a turn in pieces has the parts of the whole
//! turn; a parsed call is rendered and parsed as the same call.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use trainyard_envs::formats::{build, registry};
use trainyard_envs::{ToolFormat, ToolSpec};
use trainyard_model_api::turn_parser::{ParsedText, TurnParser, call_markers};

/// Ends of prompts; the second one opens a thought.
const OPENED: [&str; 2] = ["", "<|im_start|>assistant\n<think>\n"];

fn tools() -> Vec<ToolSpec> {
    let parameters = json!({
        "type": "object",
        "properties": {"code": {"type": "string"}, "count": {"type": "integer"}, "options": {"type": "object"}},
        "required": ["code"],
    });
    vec![ToolSpec { name: "python".into(), description: "Runs code.".into(), parameters }]
}

/// Returns thought, text and calls of a turn that arrives in these pieces.
fn parse<'t>(format: &str, opened: &str, pieces: impl Iterator<Item = &'t str>) -> (ParsedText, String) {
    let mut parser = TurnParser::new(call_markers(format), opened);
    let mut all = ParsedText::default();
    let mut add = |parsed: ParsedText| {
        all.thinking += &parsed.thinking;
        all.text += &parsed.text;
    };
    for piece in pieces {
        add(parser.feed(piece));
    }
    add(parser.end());
    (all, parser.call_text().to_string())
}

/// Splits a turn into pieces whose lengths follow from its bytes and `salt`.
fn pieces(turn: &str, salt: usize) -> Vec<&str> {
    let (mut pieces, mut rest) = (Vec::new(), turn);
    while !rest.is_empty() {
        let wanted = (rest.len().wrapping_mul(31) ^ usize::from(rest.as_bytes()[0]) ^ salt) % 9 + 1;
        let (piece, after) = rest.split_at(rest.ceil_char_boundary(wanted.min(rest.len())));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// Asserts that the calls of a turn survive rendering.
fn render_again(format: &dyn ToolFormat, turn: &str) {
    for call in format.parse(turn).calls.into_iter().flatten() {
        let text = format.render(&call);
        // Formats without JSON cannot render every argument.
        if format.call_syntax().is_some() {
            let again = format.parse(&text).calls;
            let arguments: serde_json::Value = serde_json::from_str(&call.arguments.to_string()).expect("it is JSON");
            let same = matches!(&again[..], [Ok(found)] if found.name == call.name && found.arguments == arguments);
            assert!(same, "{}: {text:?} gives {again:?}", format.kind());
        }
    }
}

fuzz_target!(|turn: &str| {
    let tools = tools();
    for name in registry::names() {
        let format = build(name, &tools).expect("every format describes this tool");
        for opened in OPENED {
            let whole = parse(name, opened, std::iter::once(turn));
            for salt in [0, 5] {
                assert_eq!(parse(name, opened, pieces(turn, salt).into_iter()), whole, "{name}");
            }
            render_again(&*format, &whole.1);
        }
        render_again(&*format, turn);
    }
});
