//! Reads the fields that OpenAI's APIs share, including vLLM's extensions.

use super::fields::{FieldResult, RequestFields};
use crate::request::{ApiTool, ApiToolChoice, ModelRequest, OutputForm};
use serde_json::{Map, Value, json};

/// Maximum choices for one prompt.
const MAX_CHOICES: u64 = 128;
/// Maximum number of most probable tokens that a request may list.
const MAX_TOP_LOGPROBS: u64 = 20;
/// Maximum stop texts.
const MAX_STOP_TEXTS: usize = 16;

/// Reads the sampling options into `request`, and rejects unsupported fields that would affect sampling.
pub fn sampling(fields: &RequestFields<'_>, request: &mut ModelRequest) -> FieldResult<()> {
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
        ("spaces_between_special_tokens", &[json!(true)]),
    ])?;
    request.output = output(fields, "response_format")?;
    request.temperature = fields.number("temperature", 0.0..=100.0)?;
    request.top_p = fields.number("top_p", 0.0..=1.0)?;
    if request.top_p == Some(0.0) {
        return Err(fields.wrong("top_p", "is 0, but must be above 0; `temperature: 0` is greedy"));
    }
    request.top_k = match fields.get("top_k") {
        // vLLM treats -1 like 0.
        Some(value) if value.as_i64() == Some(-1) => Some(0),
        _ => fields.count("top_k", 0..=u64::from(u32::MAX))?.map(|k| k as u32),
    };
    request.seed = match fields.get("seed").and_then(Value::as_i64) {
        Some(seed) => Some(seed as u64),
        None => fields.count("seed", 0..=u64::MAX)?,
    };
    request.n = fields.count("n", 1..=MAX_CHOICES)?.unwrap_or(1) as usize;
    request.stream = fields.flag("stream")?.unwrap_or(false);
    if let Some(options) = fields.get("stream_options") {
        let path = fields.path("stream_options");
        request.stream_usage = RequestFields::new(options, &path)?.flag("include_usage")?.unwrap_or(false);
    }
    request.stop = stops(fields, "stop")?;
    request.stop_tokens = ids(fields, "stop_token_ids")?.unwrap_or_default();
    request.ignore_end = fields.flag("ignore_eos")?.unwrap_or(false);
    request.keep_stop = fields.flag("include_stop_str_in_output")?.unwrap_or(false);
    request.token_ids = fields.flag("return_token_ids")?.unwrap_or(false);
    request.tokens_as_ids = fields.flag("return_tokens_as_token_ids")?.unwrap_or(false);
    // Samplers compute the probabilities of the prompt's tokens, but not their ranks.
    request.prompt_logprobs = fields.count("prompt_logprobs", 0..=0)?.is_some();
    Ok(())
}

/// Reads the form of the response. A schema is in the object `json_schema` or next to the type.
pub fn output(fields: &RequestFields<'_>, key: &str) -> FieldResult<OutputForm> {
    let Some(value) = fields.get(key).filter(|value| value.as_object().is_none_or(|map| !map.is_empty())) else {
        return Ok(OutputForm::Text);
    };
    let path = fields.path(key);
    let outer = RequestFields::new(value, &path)?;
    match outer.required("type")? {
        "text" => Ok(OutputForm::Text),
        "json_object" => Ok(OutputForm::JsonObject),
        "json_schema" => {
            let inner_path = outer.path("json_schema");
            let inner = match outer.get("json_schema") {
                Some(inner) => RequestFields::new(inner, &inner_path)?,
                None => outer,
            };
            let schema = inner.object("schema")?.ok_or_else(|| inner.wrong("schema", "is missing"))?;
            Ok(OutputForm::Schema(Value::Object(schema.clone())))
        }
        _ => Err(outer.unsupported("type")),
    }
}

/// Reads the limit of sampled tokens, from the first of `keys` that is present.
pub fn limit(fields: &RequestFields<'_>, keys: &[&str]) -> FieldResult<Option<usize>> {
    for key in keys {
        if let Some(count) = fields.count(key, 1..=u64::from(u32::MAX))? {
            return Ok(Some(count as usize));
        }
    }
    Ok(None)
}

/// Reads the number of most probable tokens to list at each position.
pub fn top(fields: &RequestFields<'_>, key: &str) -> FieldResult<Option<usize>> {
    Ok(fields.count(key, 0..=MAX_TOP_LOGPROBS)?.map(|count| count as usize))
}

/// Reads stop texts: a text, or a list of texts.
pub fn stops(fields: &RequestFields<'_>, key: &str) -> FieldResult<Vec<String>> {
    let all = match fields.get(key) {
        None => Vec::new(),
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(list)) => list
            .iter()
            .map(|text| text.as_str().map(str::to_string))
            .collect::<Option<_>>()
            .ok_or_else(|| fields.wrong(key, "must contain only texts"))?,
        Some(_) => return Err(fields.wrong(key, "must be a text or a list of texts")),
    };
    if all.len() > MAX_STOP_TEXTS {
        return Err(fields.wrong(key, &format!("has {} texts, but the maximum is {MAX_STOP_TEXTS}", all.len())));
    }
    if all.iter().any(String::is_empty) {
        return Err(fields.wrong(key, "contains an empty text, which would end every turn immediately"));
    }
    Ok(all)
}

/// Reads a list of token ids.
pub fn ids(fields: &RequestFields<'_>, key: &str) -> FieldResult<Option<Vec<u32>>> {
    let Some(list) = fields.list(key)? else { return Ok(None) };
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    let ids: Option<Vec<u32>> = list.iter().map(id).collect();
    ids.map(Some).ok_or_else(|| fields.wrong(key, "must contain only token ids"))
}

/// Reads further variables of the template into `request`; `reasoning_effort` is one of them.
pub fn variables(fields: &RequestFields<'_>, request: &mut ModelRequest) -> FieldResult<()> {
    fields.expect_neutral(&[
        ("chat_template", &[]),
        ("add_generation_prompt", &[json!(true)]),
        ("continue_final_message", &[json!(false)]),
        ("documents", &[]),
    ])?;
    if let Some(effort) = fields.text("reasoning_effort")? {
        request.variables.insert("reasoning_effort".into(), json!(effort));
    }
    for (name, value) in fields.object("chat_template_kwargs")?.into_iter().flatten() {
        if ["messages", "tools", "documents", "add_generation_prompt"].contains(&name.as_str()) {
            let path = format!("chat_template_kwargs.{name}");
            return Err(fields.wrong(&path, "is set for every template; remove it"));
        }
        request.variables.insert(name.clone(), value.clone());
    }
    Ok(())
}

/// Reads a tool of the type `function`, whose description is in the object `function` or next to the type.
pub fn tool(value: &Value, path: &str) -> FieldResult<ApiTool> {
    let outer = RequestFields::new(value, path)?;
    let kind = outer.required("type")?;
    if kind != "function" {
        let problem = format!("is `{kind}`, a tool that this server does not run; offer tools of the type `function`");
        return Err(outer.wrong("type", &problem).code("unsupported_tool"));
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

/// Reads the tools and the tool choice into `request`.
pub fn tools(fields: &RequestFields<'_>, request: &mut ModelRequest) -> FieldResult<()> {
    let list = fields.list("tools")?.into_iter().flatten().enumerate();
    request.tools =
        list.map(|(i, value)| tool(value, &fields.path(&format!("tools[{i}]")))).collect::<FieldResult<_>>()?;
    request.parallel_calls = fields.flag("parallel_tool_calls")?.unwrap_or(true);
    request.tool_choice = match fields.get("tool_choice") {
        None => ApiToolChoice::Auto,
        Some(Value::String(choice)) if choice == "auto" => ApiToolChoice::Auto,
        Some(Value::String(choice)) if choice == "none" => ApiToolChoice::None,
        Some(Value::String(choice)) if choice == "required" => ApiToolChoice::Required,
        Some(Value::String(_)) => {
            return Err(fields.wrong("tool_choice", "must be auto, none, required or a function"));
        }
        Some(value) => ApiToolChoice::Named(named(value)?),
    };
    expect_offered(fields, request)
}

/// Reads the name of the tool that a choice forces.
fn named(value: &Value) -> FieldResult<String> {
    let outer = RequestFields::new(value, "tool_choice")?;
    if outer.required("type")? != "function" {
        return Err(outer.unsupported("type"));
    }
    let inner = outer.get("function").map(|function| RequestFields::new(function, "tool_choice.function"));
    Ok(inner.transpose()?.unwrap_or(outer).required("name")?.to_string())
}

/// Checks that the tools of a forced call are offered.
pub fn expect_offered(fields: &RequestFields<'_>, request: &ModelRequest) -> FieldResult<()> {
    let offered = |name: &String| request.tools.iter().any(|tool| tool.name == *name);
    match &request.tool_choice {
        ApiToolChoice::Required if request.tools.is_empty() => {
            Err(fields.wrong("tool_choice", "forces a call, but the request offers no tools"))
        }
        ApiToolChoice::Named(name) if !offered(name) => {
            Err(fields.wrong("tool_choice", &format!("forces a call of `{name}`, which is not among the tools")))
        }
        _ => Ok(()),
    }
}
