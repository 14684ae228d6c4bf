//! Fields that OpenAI's forms share, vLLM's extensions among them.

use super::fields::{FieldResult, RequestFields};
use crate::request::{ApiTool, ApiToolChoice, ModelRequest};
use serde_json::{Map, Value, json};

/// Maximum choices for one prompt.
const MOST_ANSWERS: u64 = 128;
/// Maximum most probable tokens that are listed.
const MOST_TOP: u64 = 20;
/// Maximum stop texts.
const MOST_STOPS: usize = 16;

/// Reads the options of sampling, and rejects unsupported fields that would affect it.
pub fn sampling(fields: &RequestFields<'_>, asked: &mut ModelRequest) -> FieldResult<()> {
    fields.expect_neutral(&[
        ("presence_penalty", &[json!(0)]),
        ("frequency_penalty", &[json!(0)]),
        ("repetition_penalty", &[json!(1)]),
        ("length_penalty", &[json!(1)]),
        ("min_p", &[json!(0)]),
        ("min_tokens", &[json!(0)]),
        ("logit_bias", &[]),
        ("best_of", &[json!(1)]),
        ("use_beam_search", &[json!(false)]),
        ("bad_words", &[]),
        ("allowed_token_ids", &[]),
        ("logits_processors", &[]),
        ("truncate_prompt_tokens", &[json!(-1)]),
        ("guided_json", &[]),
        ("guided_regex", &[]),
        ("guided_choice", &[]),
        ("guided_grammar", &[]),
        ("structured_outputs", &[]),
        ("response_format", &[json!({"type": "text"})]),
        ("spaces_between_special_tokens", &[json!(true)]),
    ])?;
    asked.temperature = fields.number("temperature", 0.0..=100.0)?;
    asked.top_p = fields.number("top_p", 0.0..=1.0)?;
    if asked.top_p == Some(0.0) {
        return Err(fields.wrong("top_p", "is 0, but must be above 0; `temperature: 0` is greedy"));
    }
    asked.top_k = match fields.get("top_k") {
        // -1 means the same as 0.
        Some(value) if value.as_i64() == Some(-1) => Some(0),
        _ => fields.count("top_k", 0..=u64::from(u32::MAX))?.map(|k| k as u32),
    };
    asked.seed = match fields.get("seed").and_then(Value::as_i64) {
        Some(seed) => Some(seed as u64),
        None => fields.count("seed", 0..=u64::MAX)?,
    };
    asked.n = fields.count("n", 1..=MOST_ANSWERS)?.unwrap_or(1) as usize;
    asked.stream = fields.flag("stream")?.unwrap_or(false);
    if let Some(options) = fields.get("stream_options") {
        let path = fields.path("stream_options");
        asked.stream_usage = RequestFields::new(options, &path)?.flag("include_usage")?.unwrap_or(false);
    }
    asked.stop = stops(fields, "stop")?;
    asked.stop_tokens = ids(fields, "stop_token_ids")?.unwrap_or_default();
    asked.ignore_end = fields.flag("ignore_eos")?.unwrap_or(false);
    asked.keep_stop = fields.flag("include_stop_str_in_output")?.unwrap_or(false);
    asked.token_ids = fields.flag("return_token_ids")?.unwrap_or(false);
    asked.tokens_as_ids = fields.flag("return_tokens_as_token_ids")?.unwrap_or(false);
    // Our samplers compute the probability of the prompt's tokens, but not their ranks.
    asked.prompt_logprobs = fields.count("prompt_logprobs", 0..=0)?.is_some();
    Ok(())
}

/// Reads the limit of sampled tokens, under the first of several names.
pub fn limit(fields: &RequestFields<'_>, keys: &[&str]) -> FieldResult<Option<usize>> {
    for key in keys {
        if let Some(count) = fields.count(key, 1..=u64::from(u32::MAX))? {
            return Ok(Some(count as usize));
        }
    }
    Ok(None)
}

/// Reads the number of most probable tokens to list.
pub fn top(fields: &RequestFields<'_>, key: &str) -> FieldResult<Option<usize>> {
    Ok(fields.count(key, 0..=MOST_TOP)?.map(|count| count as usize))
}

/// Reads stop texts: one, or a list.
pub fn stops(fields: &RequestFields<'_>, key: &str) -> FieldResult<Vec<String>> {
    let all = match fields.get(key) {
        None => Vec::new(),
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(list)) => list
            .iter()
            .map(|text| text.as_str().map(str::to_string))
            .collect::<Option<_>>()
            .ok_or_else(|| fields.wrong(key, "must hold texts"))?,
        Some(_) => return Err(fields.wrong(key, "must be a text or a list of texts")),
    };
    if all.len() > MOST_STOPS {
        return Err(fields.wrong(key, &format!("has {} texts, but {MOST_STOPS} are the most", all.len())));
    }
    if all.iter().any(String::is_empty) {
        return Err(fields.wrong(key, "holds an empty text, which would end every turn at once"));
    }
    Ok(all)
}

/// Reads a list of token ids.
pub fn ids(fields: &RequestFields<'_>, key: &str) -> FieldResult<Option<Vec<u32>>> {
    let Some(list) = fields.list(key)? else { return Ok(None) };
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    let ids: Option<Vec<u32>> = list.iter().map(id).collect();
    ids.map(Some).ok_or_else(|| fields.wrong(key, "must hold token ids"))
}

/// Reads further variables of the template, which include named efforts of reasoning.
pub fn variables(fields: &RequestFields<'_>, asked: &mut ModelRequest) -> FieldResult<()> {
    fields.expect_neutral(&[
        ("chat_template", &[]),
        ("add_generation_prompt", &[json!(true)]),
        ("continue_final_message", &[json!(false)]),
        ("documents", &[]),
    ])?;
    if let Some(effort) = fields.text("reasoning_effort")? {
        asked.variables.insert("reasoning_effort".into(), json!(effort));
    }
    for (name, value) in fields.object("chat_template_kwargs")?.into_iter().flatten() {
        if ["messages", "tools", "documents", "add_generation_prompt"].contains(&name.as_str()) {
            let path = format!("chat_template_kwargs.{name}");
            return Err(fields.wrong(&path, "is given to every template already; leave it out"));
        }
        asked.variables.insert(name.clone(), value.clone());
    }
    Ok(())
}

/// Reads a tool of the kind `function`, whose description is in a separate object (`function`) or next to the kind.
pub fn tool(value: &Value, path: &str) -> FieldResult<ApiTool> {
    let outer = RequestFields::new(value, path)?;
    let kind = outer.required("type")?;
    if kind != "function" {
        let what = format!("is `{kind}`, a tool that this server does not run; offer tools of the type `function`");
        return Err(outer.wrong("type", &what).code("unsupported_tool"));
    }
    let inner_path = outer.path("function");
    let inner = match outer.get("function") {
        Some(function) => RequestFields::new(function, &inner_path)?,
        None => outer,
    };
    let name = inner.required("name")?;
    if name.is_empty() {
        return Err(inner.wrong("name", "is empty"));
    }
    let parameters = inner.object("parameters")?.cloned();
    Ok(ApiTool {
        name: name.to_string(),
        description: inner.text("description")?.unwrap_or_default().to_string(),
        parameters: Value::Object(parameters.unwrap_or_else(no_parameters)),
    })
}

/// Returns the schema of a tool without parameters.
pub fn no_parameters() -> Map<String, Value> {
    let schema = json!({"type": "object", "properties": {}});
    schema.as_object().cloned().unwrap_or_default()
}

/// Reads the tools, and whether they may be called.
pub fn tools(fields: &RequestFields<'_>, asked: &mut ModelRequest) -> FieldResult<()> {
    let list = fields.list("tools")?.into_iter().flatten().enumerate();
    asked.tools =
        list.map(|(i, value)| tool(value, &fields.path(&format!("tools[{i}]")))).collect::<FieldResult<_>>()?;
    asked.parallel_calls = fields.flag("parallel_tool_calls")?.unwrap_or(true);
    asked.tool_choice = match fields.get("tool_choice") {
        None => ApiToolChoice::Auto,
        Some(Value::String(choice)) if choice == "auto" => ApiToolChoice::Auto,
        Some(Value::String(choice)) if choice == "none" => ApiToolChoice::None,
        Some(_) => return Err(forced(fields)),
    };
    Ok(())
}

/// Returns the refusal of a forced call, which is not supported.
pub fn forced(fields: &RequestFields<'_>) -> crate::error::ModelApiError {
    let what = "forces a call, which this server does not support; use `auto` or `none`";
    fields.wrong("tool_choice", what).code("unsupported_parameter")
}
