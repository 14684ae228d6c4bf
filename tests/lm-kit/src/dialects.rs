//! Parses the requests and builds the responses in the fields of each server.

use crate::engine::{MockTurnOutput, MockTurnRequest};
use crate::state::{MODEL, MockServerResponse, MockServerState, lock};
use serde_json::{Value, json};
use std::path::Path;
use trainyard_core::Result;
use trainyard_lm::backend::endpoint::InferenceServerKind;
use trainyard_lm::generate::DrawKey;
use trainyard_tables::SamplingParams;

/// Number of turns that the search for a draw covers.
const TURNS: u64 = 6;

pub fn respond(state: &MockServerState, path: &str, body: &Value) -> MockServerResponse {
    let response = match (state.kind, path) {
        (_, "/v1/models") => Ok(models(state)),
        (InferenceServerKind::Vllm, "/v1/completions") => completions(state, body),
        (InferenceServerKind::Vllm, "/tokenize") | (InferenceServerKind::Sglang, "/tokenize") => {
            tokens(state, &body["prompt"])
        }
        (InferenceServerKind::Vllm, "/collective_rpc") => {
            reload(state, &body["kwargs"]["weights_path"], json!({"results": [null]}))
        }
        (InferenceServerKind::Vllm, "/reset_prefix_cache") => Ok(Value::Null),
        (InferenceServerKind::Vllm, "/v1/load_lora_adapter") | (InferenceServerKind::Sglang, "/load_lora_adapter") => {
            adapter(state, body, true)
        }
        (InferenceServerKind::Vllm, "/v1/unload_lora_adapter")
        | (InferenceServerKind::Sglang, "/unload_lora_adapter") => adapter(state, body, false),
        (InferenceServerKind::Sglang, "/generate") => generate(state, body),
        (InferenceServerKind::Sglang, "/update_weights_from_disk") => reload(
            state,
            &body["model_path"],
            json!({"success": true, "message": "Succeeded to update model weights."}),
        ),
        (InferenceServerKind::LlamaCpp, "/tokenize") => tokens(state, &body["content"]),
        (InferenceServerKind::LlamaCpp, "/props") => {
            Ok(json!({"default_generation_settings": {"n_ctx": context(state)}}))
        }
        (InferenceServerKind::LlamaCpp, "/completion") => completion(state, body),
        _ => return (404, json!({"detail": "Not Found"})),
    };
    match response {
        Ok(value) => (200, value),
        Err(e) => (400, json!({"error": {"message": e.message}})),
    }
}

fn context(state: &MockServerState) -> usize {
    let positions = lock(&state.engine).positions();
    state.options.context.map_or(positions, |context| context.min(positions))
}

fn models(state: &MockServerState) -> Value {
    let mut list = vec![json!({"id": MODEL, "object": "model", "parent": null, "max_model_len": context(state)})];
    let adapters = lock(&state.engine).adapters();
    list.extend(adapters.into_iter().map(|name| json!({"id": name, "object": "model", "parent": MODEL})));
    json!({"object": "list", "data": list})
}

fn tokens(state: &MockServerState, text: &Value) -> Result<Value> {
    let ids = lock(&state.engine).tokenize(text.as_str().unwrap_or_default())?;
    Ok(json!({"count": ids.len(), "tokens": ids}))
}

fn reload(state: &MockServerState, folder: &Value, response: Value) -> Result<Value> {
    lock(&state.engine).reload(Path::new(folder.as_str().unwrap_or_default()))?;
    Ok(response)
}

fn adapter(state: &MockServerState, body: &Value, load: bool) -> Result<Value> {
    let mut engine = lock(&state.engine);
    let name = body["lora_name"].as_str().unwrap_or_default();
    if load {
        engine.load_adapter(name, Path::new(body["lora_path"].as_str().unwrap_or_default()))?;
    } else {
        engine.unload_adapter(name)?;
    }
    Ok(if state.kind == InferenceServerKind::Vllm {
        json!(format!("Success: LoRA adapter '{name}'."))
    } else {
        json!({"success": true})
    })
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().into_iter().flatten().filter_map(Value::as_u64).map(|id| id as u32).collect()
}

/// Returns the draw whose seed satisfies `is` (a dialect may truncate seeds) and the number of its turn, or `None` if
/// no known draw matches.
fn find_draw(state: &MockServerState, position: usize, is: impl Fn(u64) -> bool) -> Option<(DrawKey, usize)> {
    state.options.keys.iter().find_map(|key| {
        let turn = (0..TURNS).find(|turn| {
            let place = [key.problem, key.sample, *turn, position as u64];
            is(key.chance.at("sample", &place).next_u64())
        });
        turn.map(|turn| (*key, turn as usize))
    })
}

fn completions(state: &MockServerState, body: &Value) -> Result<Value> {
    let tokens = ids(&body["prompt"]);
    let model = body["model"].as_str().filter(|model| *model != MODEL);
    let mut engine = lock(&state.engine);
    let seed = body["seed"].as_u64().unwrap_or_default();
    let prompt_logprobs = if body["prompt_logprobs"].is_null() {
        Value::Null
    } else {
        let numbers = engine.forced(model, &tokens)?;
        let one = |(token, number): (&u32, f32)| json!({token.to_string(): {"logprob": number, "rank": 1}});
        let given = tokens.iter().zip(numbers).skip(1).map(one);
        Value::Array(std::iter::once(Value::Null).chain(given).collect())
    };
    let output = engine.turn(MockTurnRequest {
        adapter: model,
        draw: find_draw(state, tokens.len(), |drawn| drawn >> 1 == seed),
        sampling: SamplingParams {
            temperature: body["temperature"].as_f64().unwrap_or(1.0),
            top_p: body["top_p"].as_f64().unwrap_or(1.0),
            top_k: body["top_k"].as_u64().unwrap_or(0) as u32,
        },
        stop: ids(&body["stop_token_ids"]),
        max_tokens: body["max_tokens"].as_u64().unwrap_or(16) as usize,
        top: body["logprobs"].as_u64().unwrap_or(0) as usize,
        seed,
        tokens,
    })?;
    let (numbers, top) =
        if state.options.processed { (&output.sampled, &output.top[0]) } else { (&output.plain, &output.top[2]) };
    let listed: serde_json::Map<String, Value> =
        top.iter().map(|(token, number)| (format!("token_id:{token}"), json!(number))).collect();
    let logprobs = json!({
        "token_logprobs": numbers,
        "tokens": output.tokens.iter().map(|t| format!("token_id:{t}")).collect::<Vec<_>>(),
        "top_logprobs": [listed],
    });
    let choice = json!({
        "index": 0, "text": "", "token_ids": output.tokens, "logprobs": logprobs, "prompt_logprobs": prompt_logprobs,
        "finish_reason": if output.stopped.is_some() { "stop" } else { "length" }, "stop_reason": output.stopped,
    });
    Ok(json!({"id": "cmpl-1", "object": "text_completion", "model": MODEL, "choices": [choice]}))
}

fn generate(state: &MockServerState, body: &Value) -> Result<Value> {
    let tokens = ids(&body["input_ids"]);
    let options = &body["sampling_params"];
    let adapter = body["lora_path"].as_str();
    let mut engine = lock(&state.engine);
    let given: Vec<Value> = if body["logprob_start_len"] == 0 {
        let numbers = engine.forced(adapter, &tokens)?;
        let pairs = tokens.iter().zip(numbers).enumerate();
        pairs
            .map(|(i, (token, number))| if i == 0 { json!([null, token, null]) } else { json!([number, token, null]) })
            .collect()
    } else {
        Vec::new()
    };
    let seed = options["sampling_seed"].as_u64().unwrap_or_default();
    let output = engine.turn(MockTurnRequest {
        adapter,
        draw: find_draw(state, tokens.len(), |drawn| drawn >> 33 == seed),
        sampling: SamplingParams {
            temperature: options["temperature"].as_f64().unwrap_or(1.0),
            top_p: options["top_p"].as_f64().unwrap_or(1.0),
            top_k: options["top_k"].as_i64().unwrap_or(-1).max(0) as u32,
        },
        stop: ids(&options["stop_token_ids"]),
        max_tokens: options["max_new_tokens"].as_u64().unwrap_or(128) as usize,
        top: body["top_logprobs_num"].as_u64().unwrap_or(0) as usize,
        seed,
        tokens,
    })?;
    let (numbers, top) =
        if state.options.processed { (&output.tempered, &output.top[1]) } else { (&output.plain, &output.top[2]) };
    let reason = match output.stopped {
        Some(token) => json!({"type": "stop", "matched": token}),
        None => json!({"type": "length", "length": output.tokens.len()}),
    };
    let listed: Vec<Value> = output.tokens.iter().zip(numbers).map(|(t, n)| json!([n, t, null])).collect();
    let meta = json!({
        "finish_reason": reason,
        "input_token_logprobs": given,
        "output_token_logprobs": listed,
        "output_top_logprobs": [top.iter().map(|(t, n)| json!([n, t, null])).collect::<Vec<_>>()],
        "completion_tokens": output.tokens.len(),
    });
    Ok(json!({"text": "", "output_ids": output.tokens, "meta_info": meta}))
}

fn completion(state: &MockServerState, body: &Value) -> Result<Value> {
    let tokens = ids(&body["prompt"]);
    let mut engine = lock(&state.engine);
    let seed = body["seed"].as_u64().unwrap_or_default();
    // Only the model's end tokens end a turn.
    let stop = engine.stop_tokens();
    let evaluated = tokens.len();
    let MockTurnOutput { tokens, sampled, plain, stopped, .. } = engine.turn(MockTurnRequest {
        adapter: None,
        draw: find_draw(state, tokens.len(), |drawn| u64::from((drawn as u32).min(u32::MAX - 1)) == seed),
        sampling: SamplingParams {
            temperature: body["temperature"].as_f64().unwrap_or(0.8),
            top_p: body["top_p"].as_f64().unwrap_or(0.95),
            top_k: body["top_k"].as_u64().unwrap_or(40) as u32,
        },
        stop,
        max_tokens: body["n_predict"].as_u64().unwrap_or(128) as usize,
        top: 1,
        seed,
        tokens,
    })?;
    let post = body["post_sampling_probs"] == true;
    let one = |(i, token): (usize, &u32)| {
        if post {
            json!({"id": token, "token": "", "prob": sampled[i].exp()})
        } else {
            json!({"id": token, "token": "", "logprob": plain[i]})
        }
    };
    Ok(json!({
        "content": "", "tokens": tokens, "stop_type": if stopped.is_some() { "eos" } else { "limit" },
        "completion_probabilities": tokens.iter().enumerate().map(one).collect::<Vec<_>>(),
        "tokens_evaluated": evaluated, "truncated": false,
    }))
}
