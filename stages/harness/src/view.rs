//! Between what a program sends and reads and what the sampling loop compares and samples.

use serde_json::{Value, json};
use trainyard_core::Result;
use trainyard_envs::tools::described;
use trainyard_envs::{AgentTurn, Asked, Read, ToolCall, ToolFormat, ToolSpec, Toolbox, TurnTokens};
use trainyard_serving::speech::{Speech, signs};
use trainyard_serving::{self as serving, Answered, Call, Choice, Finish, Prompt, Refusal, Token, Usage};
use trainyard_tables::Message;

/// The role of a turn that its program never sees as it was sampled, so that no message is it.
const CUT: &str = "cut";

/// One request as the episode understands it.
pub struct Request {
    /// For the sampling loop.
    pub asked: Asked,
    /// How its tools are called; none if it offers none.
    format: Option<Box<dyn ToolFormat>>,
    stop: Vec<String>,
    /// It wants to be sampled otherwise than the policy is.
    pub ignored: bool,
}

/// How requests are read, by the options of the environment.
pub struct Reader<'a> {
    pub toolbox: &'a Toolbox,
    pub format: &'a str,
    /// Tools are described in the system message; otherwise by the template.
    pub describe: bool,
}

impl Reader<'_> {
    /// Errors: what a policy in training cannot do for a program.
    pub fn read(&self, asked: &serving::Asked) -> Result<Request, Refusal> {
        let Prompt::Messages(sent) = &asked.prompt else {
            let message = "an episode is a conversation: ask by chat completions, responses or Anthropic's messages";
            return Err(Refusal::field("prompt", message).code("unsupported_parameter"));
        };
        if sent.last().is_none_or(|last| last.role == "assistant") {
            return Err(Refusal::field("messages", "the last message must not be the assistant's: it speaks next"));
        }
        for (param, wrong) in [
            ("n", asked.n > 1),
            ("stop_token_ids", !asked.stop_tokens.is_empty()),
            ("ignore_eos", asked.ignore_end),
            ("prompt_logprobs", asked.prompt_logprobs),
        ] {
            if wrong {
                let message = format!("`{param}` is not supported in episodes, which sample one turn at a time");
                return Err(Refusal::field(param, message).code("unsupported_parameter"));
            }
        }
        let tools: Vec<ToolSpec> = asked.offered().iter().map(spec).collect();
        let format = if tools.is_empty() { None } else { Some(self.toolbox.format(self.format, &tools)?) };
        let mut messages = ordered(sent);
        if let Some(format) = format.as_deref().filter(|_| self.describe) {
            describe(&mut messages, &format.describe(&tools));
        }
        let written = messages.iter().map(|message| written(message, format.as_deref())).collect();
        let shown = (!self.describe && !tools.is_empty()).then(|| described(&tools));
        let sampling = [asked.temperature, asked.top_p];
        let ignored = sampling.iter().any(Option::is_some)
            || asked.top_k.is_some()
            || asked.seed.is_some()
            || !asked.variables.is_empty();
        let asked_for = Asked { messages, written, tools: shown, max_tokens: asked.max_tokens };
        Ok(Request { asked: asked_for, format, stop: asked.stop.clone(), ignored })
    }
}

impl Request {
    /// A turn as the program gets it.
    pub fn turn(&self, text: &str, tokens: Option<&TurnTokens>) -> Read {
        let turn = match &self.format {
            None => AgentTurn { text: text.to_string(), ..AgentTurn::default() },
            Some(format) => format.parse(text),
        };
        let signs = self.format.as_deref().map_or(&[][..], |format| signs(format.kind()));
        let mut speech = Speech::new(signs, tokens.map_or("", |tokens| &tokens.opened));
        let (first, rest) = (speech.feed(text), speech.end());
        let (thinking, mut content) = (first.thinking + &rest.thinking, first.text + &rest.text);
        let readable = !turn.calls.is_empty() && turn.calls.iter().all(std::result::Result::is_ok);
        if !readable {
            content.push_str(speech.call_text());
        }
        let cut = self.stop.iter().filter_map(|stop| content.find(stop)).min();
        let role = if cut.is_some() { CUT } else { "assistant" };
        content.truncate(cut.unwrap_or(content.len()));
        let message = Message {
            tool_calls: if readable { turn.calls_json() } else { None },
            reasoning_content: (!thinking.is_empty()).then_some(thinking),
            ..Message::new(role, content)
        };
        Read { turn, message }
    }
    /// The answer to the program. `number` tells its calls from those of other turns.
    pub fn answer(&self, read: &Read, tokens: &TurnTokens, number: u32) -> Answered {
        let calls: Vec<&ToolCall> = match read.message.tool_calls {
            Some(_) => read.turn.calls.iter().flatten().collect(),
            None => Vec::new(),
        };
        let call = |(at, call): (usize, &&ToolCall)| Call {
            id: format!("call_{number}_{at}"),
            name: call.name.clone(),
            arguments: call.arguments.to_string(),
        };
        let calls: Vec<Call> = calls.iter().enumerate().map(call).collect();
        let stop = self.stop.iter().find(|stop| read.turn.text.contains(stop.as_str()));
        let finish = match stop.filter(|_| read.message.role == CUT) {
            Some(stop) => Finish::Text(stop.clone()),
            None if tokens.cut => Finish::Length,
            None if !calls.is_empty() => Finish::Calls,
            None => Finish::End,
        };
        let each = tokens.ids.iter().zip(&tokens.texts).zip(&tokens.logprobs);
        let sampled = each.map(|((id, text), logprob)| Token {
            id: *id,
            text: text.clone(),
            logprob: Some(*logprob).filter(|logprob| !logprob.is_nan()),
            top: Vec::new(),
        });
        let choice = Choice {
            thinking: read.message.reasoning_content.clone().unwrap_or_default(),
            text: read.message.content.clone(),
            calls,
            tokens: sampled.collect(),
            finish,
        };
        Answered {
            choices: vec![choice],
            prompt_ids: tokens.prompt.clone(),
            prompt_logprobs: None,
            usage: Usage { prompt: tokens.prompt.len(), sampled: tokens.ids.len(), thinking: 0 },
        }
    }
}

fn spec(tool: &serving::Tool) -> ToolSpec {
    let serving::Tool { name, description, parameters } = tool.clone();
    ToolSpec { name, description, parameters }
}

/// Puts a text into the system message, behind what the program says there.
fn describe(messages: &mut Vec<Message>, text: &str) {
    match messages.first_mut().filter(|first| first.role == "system") {
        Some(system) if system.content.is_empty() => system.content = text.to_string(),
        Some(system) => system.content = format!("{}\n\n{text}", system.content),
        None => messages.insert(0, Message::new("system", text)),
    }
}

/// Messages with calls in our form, and results in the order of their calls instead of with their ids.
fn ordered(sent: &[Message]) -> Vec<Message> {
    let mut list: Vec<Message> = Vec::with_capacity(sent.len());
    let mut at = 0;
    // Ids of the last calls, in order.
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
        let mut own = message.clone();
        if message.role == "assistant" {
            let calls = message.tool_calls.as_deref().and_then(|text| serde_json::from_str(text).ok());
            let calls: Vec<Value> = calls.unwrap_or_default();
            ids = calls.iter().map(|call| call["id"].as_str().unwrap_or_default().to_string()).collect();
            let ours: Vec<Value> = calls.iter().map(ours).collect();
            own.tool_calls = (!ours.is_empty()).then(|| Value::Array(ours).to_string());
        }
        list.push(own);
        at += 1;
    }
    list
}

/// A call of OpenAI's form in ours.
fn ours(call: &Value) -> Value {
    let function = &call["function"];
    let arguments =
        function["arguments"].as_str().map(|text| serde_json::from_str(text).unwrap_or_else(|_| json!(text)));
    json!({"name": function["name"], "arguments": arguments.unwrap_or_else(|| function["arguments"].clone())})
}

/// A message as a template is to get it: calls of turns that nobody sampled here are written into their text.
fn written(message: &Message, format: Option<&dyn ToolFormat>) -> Message {
    let calls: Option<Vec<ToolCall>> = message.tool_calls.as_deref().and_then(|text| serde_json::from_str(text).ok());
    let (Some(calls), Some(format)) = (calls, format) else { return message.clone() };
    let said = Some(message.content.trim_end().to_string()).filter(|said| !said.is_empty());
    let lines: Vec<String> = said.into_iter().chain(calls.iter().map(|call| format.render(call))).collect();
    Message { content: lines.join("\n"), ..message.clone() }
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
