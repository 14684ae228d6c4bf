//! Implements vLLM's protocol: `/v1/completions` with `return_token_ids`, `prompt_logprobs` for given sequences,
//! `reload_weights` by `/collective_rpc` (a server in development mode), adapters by `/v1/load_lora_adapter`.
//!
//! Requests contain all sampling options, because a server takes missing ones from the model's generation config.

use super::form::{
    Dialect, EndpointTurnOutput, EndpointTurnRequest, ServedModelName, WeightUpdateApi, at, ids, list, logprob,
    malformed, missing,
};
use serde_json::{Value, json};
use trainyard_core::Result;
use trainyard_http::JsonRequest;

pub struct Vllm;

const COMPLETIONS: &str = "/v1/completions";

impl Dialect for Vllm {
    fn name(&self) -> &'static str {
        "vLLM"
    }
    fn turn_request(&self, request: &EndpointTurnRequest<'_>) -> JsonRequest {
        let mut body = json!({
            "model": request.model.request_model(),
            "prompt": request.tokens,
            "max_tokens": request.max_tokens,
            "temperature": request.sampling.temperature,
            "top_p": request.sampling.top_p,
            "top_k": request.sampling.top_k,
            "min_p": 0.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "repetition_penalty": 1.0,
            "seed": request.seed >> 1,
            "stop_token_ids": request.stop,
            "ignore_eos": true,
            "include_stop_str_in_output": true,
            "skip_special_tokens": false,
            "add_special_tokens": false,
            "logprobs": request.top,
            "return_token_ids": true,
            "return_tokens_as_token_ids": true,
        });
        // Greedy decoding ignores truncation, which some versions reject in combination with it.
        if request.sampling.temperature == 0.0 {
            (body["top_p"], body["top_k"]) = (json!(1.0), json!(0));
        }
        JsonRequest::post(COMPLETIONS, body)
    }
    fn parse_turn(&self, response: &Value) -> Result<EndpointTurnOutput> {
        let choice = at(response, "/choices/0")?;
        let tokens = ids(list(choice, "/token_ids")?, "token_ids")?;
        let numbers = list(choice, "/logprobs/token_logprobs")?;
        if numbers.len() != tokens.len() {
            return Err(malformed("logprobs.token_logprobs"));
        }
        let logprobs = numbers.iter().map(|n| logprob(n, "token_logprobs")).collect::<Result<_>>()?;
        let top = choice.pointer("/logprobs/top_logprobs/0").and_then(Value::as_object);
        let pair =
            |(name, number): (&String, &Value)| Some((name.strip_prefix("token_id:")?.parse().ok()?, number.as_f64()?));
        Ok(EndpointTurnOutput { tokens, logprobs, top: top.into_iter().flatten().filter_map(pair).collect() })
    }
    fn prompt_logprobs_request(&self, model: &ServedModelName, tokens: &[u32]) -> Option<JsonRequest> {
        let body = json!({
            "model": model.request_model(), "prompt": tokens, "max_tokens": 1, "temperature": 0.0,
            "add_special_tokens": false, "prompt_logprobs": 0, "return_token_ids": true,
        });
        Some(JsonRequest::post(COMPLETIONS, body))
    }
    fn parse_prompt_logprobs(&self, response: &Value, tokens: &[u32]) -> Result<Vec<f32>> {
        let what = "prompt_logprobs";
        let entries = list(response, "/choices/0/prompt_logprobs")?;
        if entries.len() != tokens.len() {
            return Err(malformed(what));
        }
        let one = |(entry, token): (&Value, &u32)| {
            let number = entry.pointer(&format!("/{token}/logprob")).ok_or_else(|| missing("/prompt_logprobs"))?;
            logprob(number, what)
        };
        std::iter::once(Ok(0.0)).chain(entries.iter().zip(tokens).skip(1).map(one)).collect()
    }
    fn weight_updates(&self) -> Option<&dyn WeightUpdateApi> {
        Some(self)
    }
}

impl WeightUpdateApi for Vllm {
    fn reload(&self, folder: &str, _version: u32) -> Vec<JsonRequest> {
        let body = json!({"method": "reload_weights", "kwargs": {"weights_path": folder}});
        // The prompt cache was computed by the earlier weights.
        vec![JsonRequest::post("/collective_rpc", body), JsonRequest::post("/reset_prefix_cache", json!({}))]
    }
    fn load_adapter(&self, name: &str, folder: &str) -> JsonRequest {
        JsonRequest::post("/v1/load_lora_adapter", json!({"lora_name": name, "lora_path": folder}))
    }
    fn unload_adapter(&self, name: &str) -> JsonRequest {
        JsonRequest::post("/v1/unload_lora_adapter", json!({"lora_name": name}))
    }
    fn check_response(&self, _response: &Value) -> Result<()> {
        // The response is only a status.
        Ok(())
    }
}
