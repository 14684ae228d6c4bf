//! vLLM: `/v1/completions` with `return_token_ids`, `prompt_logprobs` for given sequences, `reload_weights` by
//! `/collective_rpc` (a server in development mode), adapters by `/v1/load_lora_adapter`.
//!
//! All sampling options are sent, because a server takes missing ones from the model's generation config.

use super::form::{Ask, Dialect, HandOver, Name, Told, at, ids, list, logprob, missing, odd};
use serde_json::{Value, json};
use trainyard_core::Result;
use trainyard_http::Call;

pub struct Vllm;

const COMPLETIONS: &str = "/v1/completions";

impl Dialect for Vllm {
    fn name(&self) -> &'static str {
        "vLLM"
    }
    fn turn(&self, ask: &Ask<'_>) -> Call {
        let mut body = json!({
            "model": ask.model.of_request(),
            "prompt": ask.tokens,
            "max_tokens": ask.most,
            "temperature": ask.sampling.temperature,
            "top_p": ask.sampling.top_p,
            "top_k": ask.sampling.top_k,
            "min_p": 0.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "repetition_penalty": 1.0,
            "seed": ask.seed >> 1,
            "stop_token_ids": ask.stop,
            "ignore_eos": true,
            "include_stop_str_in_output": true,
            "skip_special_tokens": false,
            "add_special_tokens": false,
            "logprobs": ask.top,
            "return_token_ids": true,
            "return_tokens_as_token_ids": true,
        });
        // Greedy decoding ignores truncation, which some versions reject in combination with it.
        if ask.sampling.temperature == 0.0 {
            (body["top_p"], body["top_k"]) = (json!(1.0), json!(0));
        }
        Call::post(COMPLETIONS, body)
    }
    fn told(&self, answer: &Value) -> Result<Told> {
        let choice = at(answer, "/choices/0")?;
        let tokens = ids(list(choice, "/token_ids")?, "token_ids")?;
        let numbers = list(choice, "/logprobs/token_logprobs")?;
        if numbers.len() != tokens.len() {
            return Err(odd("logprobs.token_logprobs"));
        }
        let logprobs = numbers.iter().map(|n| logprob(n, "token_logprobs")).collect::<Result<_>>()?;
        let top = choice.pointer("/logprobs/top_logprobs/0").and_then(Value::as_object);
        let pair =
            |(name, number): (&String, &Value)| Some((name.strip_prefix("token_id:")?.parse().ok()?, number.as_f64()?));
        Ok(Told { tokens, logprobs, top: top.into_iter().flatten().filter_map(pair).collect() })
    }
    fn force(&self, model: &Name, tokens: &[u32]) -> Option<Call> {
        let body = json!({
            "model": model.of_request(), "prompt": tokens, "max_tokens": 1, "temperature": 0.0,
            "add_special_tokens": false, "prompt_logprobs": 0, "return_token_ids": true,
        });
        Some(Call::post(COMPLETIONS, body))
    }
    fn forced(&self, answer: &Value, tokens: &[u32]) -> Result<Vec<f32>> {
        let what = "prompt_logprobs";
        let entries = list(answer, "/choices/0/prompt_logprobs")?;
        if entries.len() != tokens.len() {
            return Err(odd(what));
        }
        let one = |(entry, token): (&Value, &u32)| {
            let number = entry.pointer(&format!("/{token}/logprob")).ok_or_else(|| missing("/prompt_logprobs"))?;
            logprob(number, what)
        };
        std::iter::once(Ok(0.0)).chain(entries.iter().zip(tokens).skip(1).map(one)).collect()
    }
    fn hand_over(&self) -> Option<&dyn HandOver> {
        Some(self)
    }
}

impl HandOver for Vllm {
    fn reload(&self, folder: &str, _version: u32) -> Vec<Call> {
        let body = json!({"method": "reload_weights", "kwargs": {"weights_path": folder}});
        // The prompt cache was computed by the earlier weights.
        vec![Call::post("/collective_rpc", body), Call::post("/reset_prefix_cache", json!({}))]
    }
    fn load_adapter(&self, name: &str, folder: &str) -> Call {
        Call::post("/v1/load_lora_adapter", json!({"lora_name": name, "lora_path": folder}))
    }
    fn unload_adapter(&self, name: &str) -> Call {
        Call::post("/v1/unload_lora_adapter", json!({"lora_name": name}))
    }
    fn done(&self, _answer: &Value) -> Result<()> {
        // The response is only a status.
        Ok(())
    }
}
