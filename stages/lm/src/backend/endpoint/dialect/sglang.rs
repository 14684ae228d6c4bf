//! Implements SGLang's protocol: `/generate` with `return_logprob`, `logprob_start_len` for given sequences,
//! `/update_weights_from_disk`, adapters by `/load_lora_adapter`.

use super::form::{
    Dialect, EndpointTurnOutput, EndpointTurnRequest, ServedModelName, WeightUpdateApi, at, ids, list, logprob,
    malformed,
};
use serde_json::{Value, json};
use trainyard_core::{Error, Result};
use trainyard_http::JsonRequest;

pub struct Sglang;

const GENERATE: &str = "/generate";

/// Reads `[log-probability, token id, text]`.
fn pair(entry: &Value, what: &str) -> Result<(f32, u32)> {
    let id = entry.pointer("/1").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
    let number = entry.pointer("/0").ok_or_else(|| malformed(what))?;
    Ok((logprob(number, what)?, id.ok_or_else(|| malformed(what))?))
}

impl Dialect for Sglang {
    fn name(&self) -> &'static str {
        "SGLang"
    }
    fn turn_request(&self, request: &EndpointTurnRequest<'_>) -> JsonRequest {
        let sampling = request.sampling;
        let mut body = json!({
            "input_ids": request.tokens,
            "sampling_params": {
                "max_new_tokens": request.max_tokens,
                "temperature": sampling.temperature,
                "top_p": sampling.top_p,
                "top_k": if sampling.top_k == 0 { -1 } else { i64::from(sampling.top_k) },
                "min_p": 0.0,
                "presence_penalty": 0.0,
                "frequency_penalty": 0.0,
                "repetition_penalty": 1.0,
                "sampling_seed": request.seed >> 33,
                "stop_token_ids": request.stop,
                "ignore_eos": true,
                "no_stop_trim": true,
                "skip_special_tokens": false,
            },
            "return_logprob": true,
            "logprob_start_len": -1,
            "top_logprobs_num": if request.top > 1 { request.top } else { 0 },
        });
        if sampling.temperature == 0.0 {
            (body["sampling_params"]["top_p"], body["sampling_params"]["top_k"]) = (json!(1.0), json!(-1));
        }
        with_adapter(body, request.model)
    }
    fn parse_turn(&self, response: &Value) -> Result<EndpointTurnOutput> {
        let what = "meta_info.output_token_logprobs";
        let pairs = list(response, "/meta_info/output_token_logprobs")?;
        let pairs = pairs.iter().map(|entry| pair(entry, what)).collect::<Result<Vec<(f32, u32)>>>()?;
        let (logprobs, tokens): (Vec<f32>, Vec<u32>) = pairs.into_iter().unzip();
        if let Some(theirs) = response.get("output_ids").and_then(Value::as_array)
            && ids(theirs, "output_ids")? != tokens
        {
            return Err(Error::data("the response's `output_ids` differ from the tokens of `output_token_logprobs`"));
        }
        let top = response.pointer("/meta_info/output_top_logprobs/0").and_then(Value::as_array);
        let top = top.into_iter().flatten().map(|entry| pair(entry, "meta_info.output_top_logprobs"));
        let top = top.map(|found| found.map(|(number, id)| (id, f64::from(number)))).collect::<Result<_>>()?;
        Ok(EndpointTurnOutput { tokens, logprobs, top })
    }
    fn prompt_logprobs_request(&self, model: &ServedModelName, tokens: &[u32]) -> Option<JsonRequest> {
        let body = json!({
            "input_ids": tokens,
            "sampling_params": {"max_new_tokens": 1, "temperature": 0.0},
            "return_logprob": true,
            "logprob_start_len": 0,
        });
        Some(with_adapter(body, model))
    }
    fn parse_prompt_logprobs(&self, response: &Value, tokens: &[u32]) -> Result<Vec<f32>> {
        let what = "meta_info.input_token_logprobs";
        let entries = list(response, "/meta_info/input_token_logprobs")?;
        if entries.len() != tokens.len() {
            return Err(malformed(what));
        }
        let one = |(entry, token): (&Value, &u32)| match pair(entry, what)? {
            (number, id) if id == *token => Ok(number),
            (_, id) => Err(Error::data(format!("the response's `{what}` has the token {id}, expected {token}"))),
        };
        std::iter::once(Ok(0.0)).chain(entries.iter().zip(tokens).skip(1).map(one)).collect()
    }
    fn weight_updates(&self) -> Option<&dyn WeightUpdateApi> {
        Some(self)
    }
}

impl WeightUpdateApi for Sglang {
    fn reload(&self, folder: &str, version: u32) -> Vec<JsonRequest> {
        let body = json!({"model_path": folder, "weight_version": version.to_string(), "flush_cache": true});
        vec![JsonRequest::post("/update_weights_from_disk", body)]
    }
    fn load_adapter(&self, name: &str, folder: &str) -> JsonRequest {
        JsonRequest::post("/load_lora_adapter", json!({"lora_name": name, "lora_path": folder}))
    }
    fn unload_adapter(&self, name: &str) -> JsonRequest {
        JsonRequest::post("/unload_lora_adapter", json!({"lora_name": name}))
    }
    fn check_response(&self, response: &Value) -> Result<()> {
        if at(response, "/success")?.as_bool() == Some(true) {
            return Ok(());
        }
        let reason = ["/message", "/error_message"].iter().find_map(|at| response.pointer(at)?.as_str());
        Err(Error::invalid(format!("the server did not load the weights: {}", reason.unwrap_or("no reason given"))))
    }
}

/// Adds the adapter's key to the body: the server has one model, and a separate key names the adapter of a request.
fn with_adapter(mut body: Value, model: &ServedModelName) -> JsonRequest {
    if let Some(adapter) = &model.adapter {
        body["lora_path"] = json!(adapter);
    }
    JsonRequest::post(GENERATE, body)
}
