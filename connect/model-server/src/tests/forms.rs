//! Tests responses of a given form: by a random model, and the texts that their grammars permit.

use super::scripted::{chat, chat_request, chat_request_with_tool, options, response, send, wait};
use crate::output::grammar;
use crate::{ModelServer, ModelServerOptions};
use serde_json::{Value, json};
use std::sync::Arc;
use trainyard_core::Chance;
use trainyard_envs::formats::build;
use trainyard_lm::constrain::{GrammarConstraint, TokenBytes};
use trainyard_lm::generate::TokenConstraint as _;
use trainyard_lm::{Decoder, GenerationConfig, Generator, ModelConfig};
use trainyard_model_api::{ApiFinishReason, ApiTool, ApiToolChoice, ModelRequest, OutputForm};

/// Returns a server of a small random model.
fn random_server(options: ModelServerOptions) -> ModelServer {
    let chat = chat(false);
    let rows = chat.tokenizer().vocabulary_size();
    let config = ModelConfig { max_position_embeddings: 1500, ..ModelConfig::llama(rows, 16, 32, 1, 2, 2) };
    let weights = Decoder::initialize(&config, &Chance::new(3)).unwrap().weights().unwrap();
    let generator = Generator::new(&config, &weights, 1).unwrap();
    ModelServer::start(&chat, &GenerationConfig::default(), Box::new(generator), options).unwrap()
}

fn schema() -> Value {
    json!({"type": "object", "required": ["city", "days"], "properties": {
        "city": {"type": "string", "maxLength": 6}, "days": {"type": "array", "items": {"type": "boolean"},
            "minItems": 1, "maxItems": 2}}})
}

fn two_tools() -> Vec<ApiTool> {
    let tool = |name: &str| ApiTool {
        name: name.into(),
        description: String::new(),
        parameters: json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}),
    };
    vec![tool("sum"), tool("product")]
}

#[test]
fn response_has_the_form_of_the_schema() {
    let host = random_server(options());
    for seed in 0..10 {
        let request = ModelRequest {
            output: OutputForm::Schema(schema()),
            seed: Some(seed),
            n: 2,
            max_tokens: Some(1000),
            logprobs: Some(3),
            ..chat_request("weather?")
        };
        for choice in response(&host, request).choices {
            assert_eq!(choice.finish, ApiFinishReason::End, "{}", choice.text);
            let value: Value = serde_json::from_str(&choice.text).unwrap();
            assert!(value["city"].as_str().unwrap().chars().count() <= 6, "{value}");
            let days = value["days"].as_array().unwrap();
            assert!((1..=2).contains(&days.len()) && days.iter().all(Value::is_boolean), "{value}");
            assert!(choice.tokens.iter().all(|token| token.logprob.unwrap() <= 0.0 && !token.top.is_empty()));
        }
    }
}

#[test]
fn forced_calls_name_the_right_tool() {
    for calls in ["hermes", "mistral", "toolrl", "llama3"] {
        let host = random_server(ModelServerOptions { calls: Some(calls.into()), ..options() });
        for seed in 0..5 {
            let of = |tool_choice: ApiToolChoice| {
                let request = ModelRequest {
                    tools: two_tools(),
                    tool_choice,
                    parallel_calls: false,
                    seed: Some(seed),
                    max_tokens: Some(1000),
                    ..chat_request("2+2?")
                };
                response(&host, request).choices.remove(0)
            };
            let choice = of(ApiToolChoice::Required);
            assert_eq!(choice.finish, ApiFinishReason::Calls, "{calls}: {}", choice.text);
            assert!(choice.calls.len() == 1 && ["sum", "product"].contains(&choice.calls[0].name.as_str()));
            let choice = of(ApiToolChoice::Named("product".into()));
            let [call] = choice.calls.as_slice() else { panic!("{calls}: {choice:?}") };
            assert_eq!(call.name, "product");
            let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
            assert!(arguments["a"].is_i64(), "{arguments}");
        }
    }
}

#[test]
fn requests_that_cannot_be_constrained_are_refused() {
    let refused = |host: &ModelServer, request: ModelRequest| {
        let refusal = wait(send(host, request)).unwrap_err();
        assert_eq!(refusal.status, 400, "{}", refusal.message);
        (refusal.param.unwrap_or_default(), refusal.message)
    };
    let host = random_server(options());
    let pattern = json!({"type": "string", "pattern": "a+"});
    let form = OutputForm::Schema(pattern.clone());
    let (param, message) = refused(&host, ModelRequest { output: form, ..chat_request("x") });
    assert!(param == "response_format" && message.contains("`/pattern` of the schema"), "{message}");
    let mut request = ModelRequest { tool_choice: ApiToolChoice::Required, ..chat_request_with_tool("x") };
    request.tools[0].parameters["properties"]["a"] = pattern;
    let (param, message) = refused(&host, request);
    assert!(param == "tools[0]" && message.contains("tool `sum`") && message.contains("/properties/a/pattern"));
    let host = random_server(ModelServerOptions { calls: Some("qwen".into()), ..options() });
    let request = ModelRequest { tool_choice: ApiToolChoice::Required, ..chat_request_with_tool("x") };
    let (param, message) = refused(&host, request);
    assert!(param == "tool_choice" && message.contains("`qwen`"), "{message}");
}

/// Returns whether the grammar of a request permits a text as a whole turn.
fn permits(request: &ModelRequest, format: &str, thought: Option<&'static str>, text: &str) -> bool {
    let chat = chat(false);
    let format = build(format, &[]).unwrap();
    let format = (!request.tools.is_empty()).then_some(&*format);
    let grammar = grammar(request, format, thought).unwrap().unwrap();
    let tokens = Arc::new(TokenBytes::new(chat.tokenizer()).unwrap());
    let mut constraint = GrammarConstraint::new(tokens, grammar, &[chat.end_token()]).unwrap();
    let vocabulary = chat.tokenizer().vocabulary_size() as u32;
    let mut ids = chat.tokenizer().encode(text).unwrap();
    ids.push(chat.end_token());
    ids.into_iter().all(|id| {
        let forbidden = constraint.forbidden(vocabulary);
        constraint.advance(id);
        forbidden.is_some_and(|forbidden| !forbidden.iter().any(|ids| ids.contains(&id)))
    })
}

#[test]
fn thoughts_and_calls_precede_the_form() {
    let call = "<tool_call>\n{\"name\": \"sum\", \"arguments\": {\"a\": 2}}\n</tool_call>";
    let two = format!("{call}\n{call}");
    let wrong_tool = call.replace("sum", "other");
    let tag = call.replace("{\"a\": 2}", "{\"a\": \"</tool_call>\"}");
    let answer = "{\"a\": [1]}";
    let form = ModelRequest { output: OutputForm::JsonObject, ..chat_request_with_tool("x") };
    for (text, permitted) in [
        (answer, true),
        (call, true),
        (two.as_str(), true),
        (wrong_tool.as_str(), false),
        ("[1]", false),
        (tag.as_str(), false),
    ] {
        assert_eq!(permits(&form, "hermes", None, text), permitted, "{text}");
    }
    let forced = ModelRequest { tool_choice: ApiToolChoice::Required, ..form.clone() };
    assert!(permits(&forced, "hermes", None, call) && !permits(&forced, "hermes", None, answer));
    let named = ModelRequest { tool_choice: ApiToolChoice::Named("sum".into()), ..form.clone() };
    assert!(permits(&named, "hermes", None, call) && !permits(&named, "hermes", None, &two));
    let thought = |text: &str| permits(&form, "hermes", Some("</think>"), text);
    assert!(thought(&format!("hm <b>\n</think>\n\n{answer}")) && thought(&format!("</think>{call}")));
    assert!(!thought(answer) && !thought("hm</think>hm"));
    assert!(grammar(&chat_request_with_tool("x"), None, None).unwrap().is_none(), "a free response");
}
