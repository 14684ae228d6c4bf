//! Converts between the requests of a program and the conversations of the sampling loop.

use serde_json::{Value, json};
use trainyard_core::Result;
use trainyard_envs::tools::tools_json;
use trainyard_envs::{AgentTurn, AgentTurnRequest, ParsedTurn, ToolCall, ToolFormat, ToolSpec, Toolbox, TurnTokens};
use trainyard_model_api::turn_parser::{TurnParser, call_markers};
use trainyard_model_api::{
    self as serving, ApiFinishReason, ApiToolCall, ModelApiError, ModelPrompt, ModelResponse, ResponseChoice,
    SampledToken, Usage,
};
use trainyard_tables::{Message, TurnForm};

/// Role of a truncated turn. The program does not receive such a turn as sampled, and no message of the program has
/// this role, so no message equals the turn.
const CUT_ROLE: &str = "cut";

/// A request, converted for the sampling loop.
pub struct EpisodeRequest {
    /// Request for the sampling loop.
    pub turn_request: AgentTurnRequest,
    /// Format of its tool calls; `None` if the request offers no tools.
    format: Option<Box<dyn ToolFormat>>,
    stop: Vec<String>,
    /// Whether the request's sampling options differ from the policy's.
    pub ignored: bool,
}

/// Converts requests by the options of the environment.
pub struct RequestReader<'a> {
    pub toolbox: &'a Toolbox,
    pub format: &'a str,
    /// Whether the system message describes the tools; otherwise the template does.
    pub describe: bool,
}

impl RequestReader<'_> {
    /// Converts a request. Errors: features that a policy in training does not support.
    pub fn read(&self, request: &serving::ModelRequest) -> Result<EpisodeRequest, ModelApiError> {
        let ModelPrompt::Messages(sent) = &request.prompt else {
            let message = "an episode requires a conversation; use chat completions, responses or Anthropic's messages";
            return Err(ModelApiError::invalid_field("prompt", message).code("unsupported_parameter"));
        };
        if sent.last().is_none_or(|last| last.role == "assistant") {
            return Err(ModelApiError::invalid_field(
                "messages",
                "the last message must not be an assistant message; end with a user or tool message",
            ));
        }
        for (param, is_set) in [
            ("n", request.n > 1),
            ("stop_token_ids", !request.stop_tokens.is_empty()),
            ("ignore_eos", request.ignore_end),
            ("prompt_logprobs", request.prompt_logprobs),
        ] {
            if is_set {
                let message = format!("`{param}` is not supported in episodes, which sample one turn at a time");
                return Err(ModelApiError::invalid_field(param, message).code("unsupported_parameter"));
            }
        }
        let tools: Vec<ToolSpec> = request.visible_tools().iter().map(spec).collect();
        let format = if tools.is_empty() { None } else { Some(self.toolbox.format(self.format, &tools)?) };
        let form = form(request, format.as_deref())?;
        let mut messages = ordered(sent);
        if let Some(format) = format.as_deref().filter(|_| self.describe) {
            describe(&mut messages, &format.describe(&tools));
        }
        let template_messages = messages.iter().map(|message| render_calls(message, format.as_deref())).collect();
        let described = (!self.describe && !tools.is_empty()).then(|| tools_json(&tools));
        let sampling = [request.temperature, request.top_p];
        let ignored = sampling.iter().any(Option::is_some)
            || request.top_k.is_some()
            || request.seed.is_some()
            || !request.variables.is_empty();
        let turn_request =
            AgentTurnRequest { messages, template_messages, tools: described, max_tokens: request.max_tokens, form };
        Ok(EpisodeRequest { turn_request, format, stop: request.stop.clone(), ignored })
    }
}

impl EpisodeRequest {
    /// Parses a sampled turn into the message that the program receives. Calls that cannot be parsed remain text.
    pub fn turn(&self, text: &str, tokens: Option<&TurnTokens>) -> ParsedTurn {
        let turn = match &self.format {
            None => AgentTurn { text: text.to_string(), ..AgentTurn::default() },
            Some(format) => format.parse(text),
        };
        let markers = self.format.as_deref().map_or(&[][..], |format| call_markers(format.kind()));
        let mut parser = TurnParser::new(markers, tokens.map_or("", |tokens| &tokens.opened));
        let (first, rest) = (parser.feed(text), parser.end());
        let (thinking, mut content) = (first.thinking + &rest.thinking, first.text + &rest.text);
        let readable = !turn.calls.is_empty() && turn.calls.iter().all(std::result::Result::is_ok);
        if !readable {
            content.push_str(parser.call_text());
        }
        let cut = self.stop.iter().filter_map(|stop| content.find(stop)).min();
        let role = if cut.is_some() { CUT_ROLE } else { "assistant" };
        content.truncate(cut.unwrap_or(content.len()));
        let message = Message {
            tool_calls: if readable { turn.calls_json() } else { None },
            reasoning_content: (!thinking.is_empty()).then_some(thinking),
            ..Message::new(role, content)
        };
        ParsedTurn { turn, message }
    }
    /// Returns the response to the program. `number` distinguishes the ids of its calls from those of other turns.
    pub fn answer(&self, read: &ParsedTurn, tokens: &TurnTokens, number: u32) -> ModelResponse {
        let calls: Vec<&ToolCall> = match read.message.tool_calls {
            Some(_) => read.turn.calls.iter().flatten().collect(),
            None => Vec::new(),
        };
        let call = |(at, call): (usize, &&ToolCall)| ApiToolCall {
            id: format!("call_{number}_{at}"),
            name: call.name.clone(),
            arguments: call.arguments.to_string(),
        };
        let calls: Vec<ApiToolCall> = calls.iter().enumerate().map(call).collect();
        let stop = self.stop.iter().find(|stop| read.turn.text.contains(stop.as_str()));
        let finish = match stop.filter(|_| read.message.role == CUT_ROLE) {
            Some(stop) => ApiFinishReason::Text(stop.clone()),
            None if tokens.cut => ApiFinishReason::Length,
            None if !calls.is_empty() => ApiFinishReason::Calls,
            None => ApiFinishReason::End,
        };
        let each = tokens.ids.iter().zip(&tokens.texts).zip(&tokens.logprobs);
        let sampled = each.map(|((id, text), logprob)| SampledToken {
            id: *id,
            text: text.clone(),
            logprob: Some(*logprob).filter(|logprob| !logprob.is_nan()),
            top: Vec::new(),
        });
        let choice = ResponseChoice {
            thinking: read.message.reasoning_content.clone().unwrap_or_default(),
            text: read.message.content.clone(),
            calls,
            tokens: sampled.collect(),
            finish,
        };
        ModelResponse {
            choices: vec![choice],
            prompt_ids: tokens.prompt.clone(),
            prompt_logprobs: None,
            usage: Usage { prompt: tokens.prompt.len(), sampled: tokens.ids.len(), thinking: 0 },
        }
    }
}

/// Returns the form that a request gives to the turn. Errors: calls of the format cannot be forced.
fn form(request: &serving::ModelRequest, format: Option<&dyn ToolFormat>) -> Result<Option<TurnForm>, ModelApiError> {
    let syntax = format.and_then(ToolFormat::call_syntax);
    if let (Some(format), None, true) = (format, syntax, request.has_form()) {
        return Err(request.refuse_call_format(format.kind(), "set `format: hermes` in the environment"));
    }
    Ok(request.form(syntax))
}

fn spec(tool: &serving::ApiTool) -> ToolSpec {
    let serving::ApiTool { name, description, parameters } = tool.clone();
    ToolSpec { name, description, parameters }
}

/// Appends a text to the system message, or inserts a system message.
fn describe(messages: &mut Vec<Message>, text: &str) {
    match messages.first_mut().filter(|first| first.role == "system") {
        Some(system) if system.content.is_empty() => system.content = text.to_string(),
        Some(system) => system.content = format!("{}\n\n{text}", system.content),
        None => messages.insert(0, Message::new("system", text)),
    }
}

/// Returns the messages with calls in the form of environments. Results are in the order of their calls, without ids.
fn ordered(sent: &[Message]) -> Vec<Message> {
    let mut list: Vec<Message> = Vec::with_capacity(sent.len());
    let mut at = 0;
    // Ids of the latest calls, in order.
    let mut ids: Vec<String> = Vec::new();
    while at < sent.len() {
        let message = &sent[at];
        if message.role == "tool" {
            let end = at + sent[at..].iter().take_while(|m| m.role == "tool").count();
            let place = |m: &&Message| ids.iter().position(|id| Some(id) == m.tool_call_id.as_ref());
            let mut results: Vec<&Message> = sent[at..end].iter().collect();
            results.sort_by_key(|m| place(m).unwrap_or(usize::MAX));
            list.extend(results.into_iter().map(|m| Message::new("tool", m.content.clone())));
            at = end;
            continue;
        }
        let mut converted = message.clone();
        if message.role == "assistant" {
            let calls = message.tool_calls.as_deref().and_then(|text| serde_json::from_str(text).ok());
            let calls: Vec<Value> = calls.unwrap_or_default();
            ids = calls.iter().map(|call| call["id"].as_str().unwrap_or_default().to_string()).collect();
            let converted_calls: Vec<Value> = calls.iter().map(to_tool_call).collect();
            converted.tool_calls = (!converted_calls.is_empty()).then(|| Value::Array(converted_calls).to_string());
        }
        list.push(converted);
        at += 1;
    }
    list
}

/// Converts a call from OpenAI's form to that of environments.
fn to_tool_call(call: &Value) -> Value {
    let function = &call["function"];
    let arguments =
        function["arguments"].as_str().map(|text| serde_json::from_str(text).unwrap_or_else(|_| json!(text)));
    json!({"name": function["name"], "arguments": arguments.unwrap_or_else(|| function["arguments"].clone())})
}

/// Returns a message for the template, with its calls written into its text. Only turns that were not sampled here need
/// it.
fn render_calls(message: &Message, format: Option<&dyn ToolFormat>) -> Message {
    let calls: Option<Vec<ToolCall>> = message.tool_calls.as_deref().and_then(|json| serde_json::from_str(json).ok());
    let (Some(calls), Some(format)) = (calls, format) else { return message.clone() };
    let text = Some(message.content.trim_end().to_string()).filter(|text| !text.is_empty());
    let lines: Vec<String> = text.into_iter().chain(calls.iter().map(|call| format.render(call))).collect();
    Message { content: lines.join("\n"), ..message.clone() }
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
