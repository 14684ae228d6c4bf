//! OpenAI's completions: literal texts and token ids, with vLLM's extensions.

use super::chat_write::usage;
use super::common;
use super::fields::{Fields, Read};
use super::stream::{Event, Stamp, Stream};
use super::tokens;
use crate::answered::{Answered, Choice, Finish, Piece, Token};
use crate::asked::{Asked, Form, Prompt};
use crate::refusal::Refusal;
use serde_json::{Map, Value, json};

/// Default limit of sampled tokens in OpenAI's API.
const MOST: usize = 16;

/// Reads a request. Errors: an invalid field, by its path.
pub fn read(body: &Value) -> Read<Asked> {
    let fields = Fields::new(body, "")?;
    // No tokens are added to a prompt here, so `add_special_tokens` is accepted where it requires that.
    fields.expect_neutral(&[("suffix", &[json!("")]), ("echo", &[json!(false)])])?;
    let prompt = prompt(&fields)?;
    let mut asked = Asked::new(Form::Completions, fields.text("model")?.unwrap_or_default(), prompt);
    common::sampling(&fields, &mut asked)?;
    asked.max_tokens = Some(common::limit(&fields, &["max_tokens"])?.unwrap_or(MOST));
    asked.logprobs = common::top(&fields, "logprobs")?;
    Ok(asked)
}

fn prompt(fields: &Fields<'_>) -> Read<Prompt> {
    let several = || fields.wrong("prompt", "holds several prompts; send a request for each");
    let of_list = |list: &[Value]| match list {
        [] => Err(fields.wrong("prompt", "is empty")),
        [Value::String(text)] => Ok(Prompt::Text(text.clone())),
        [Value::String(_), ..] | [Value::Array(_), _, ..] => Err(several()),
        ids => {
            let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
            let ids: Option<Vec<u32>> = ids.iter().map(id).collect();
            ids.map(Prompt::Tokens).ok_or_else(|| fields.wrong("prompt", "must be a text or a list of token ids"))
        }
    };
    match fields.get("prompt") {
        None => Err(fields.wrong("prompt", "is missing")),
        Some(Value::String(text)) if text.is_empty() => Err(fields.wrong("prompt", "is empty")),
        Some(Value::String(text)) => Ok(Prompt::Text(text.clone())),
        Some(Value::Array(list)) => match list.as_slice() {
            [Value::Array(inner)] => of_list(inner),
            list => of_list(list),
        },
        Some(_) => Err(fields.wrong("prompt", "must be a text or a list of token ids")),
    }
}

/// Writes the whole response.
pub fn write(asked: &Asked, answered: &Answered, stamp: &Stamp) -> Value {
    let choice = |(index, choice): (usize, &Choice)| {
        let mut value = part(asked, index, &said(choice), &choice.tokens, 0);
        end(&mut value, &choice.finish);
        value["prompt_logprobs"] = given(answered);
        if asked.token_ids {
            value["prompt_token_ids"] = json!(answered.prompt_ids);
        }
        value
    };
    let mut answer = head(asked, stamp);
    answer["choices"] = answered.choices.iter().enumerate().map(choice).collect();
    answer["usage"] = usage(&answered.usage);
    answer
}

/// Returns the full text, including thoughts: this form does not separate parts of a text.
fn said(choice: &Choice) -> String {
    format!("{}{}", choice.thinking, choice.text)
}

fn head(asked: &Asked, stamp: &Stamp) -> Value {
    json!({"id": stamp.id, "object": "text_completion", "created": stamp.created, "model": asked.model})
}

/// Returns the addition of a text after `offset` characters.
fn part(asked: &Asked, index: usize, text: &str, list: &[Token], offset: usize) -> Value {
    let mut value = json!({
        "index": index, "text": text, "finish_reason": null, "logprobs": logprobs(asked, list, offset),
    });
    if asked.token_ids {
        value["token_ids"] = json!(tokens::ids(list));
    }
    value
}

fn end(value: &mut Value, finish: &Finish) {
    value["finish_reason"] = json!(tokens::finish(finish));
    value["stop_reason"] = tokens::stop_reason(finish);
}

fn logprobs(asked: &Asked, list: &[Token], offset: usize) -> Value {
    if asked.logprobs.is_none() {
        return Value::Null;
    }
    let mut at = offset;
    let mut place = |token: &Token| {
        let here = at;
        at += token.text.chars().count();
        here
    };
    let offsets: Vec<usize> = list.iter().map(&mut place).collect();
    let top = |token: &Token| {
        let pairs = token.top.iter().map(|top| (tokens::name(asked, top.id, &top.text), json!(top.logprob)));
        let own = (tokens::name(asked, token.id, &token.text), json!(token.logprob));
        pairs.chain([own]).collect::<Map<String, Value>>()
    };
    json!({
        "tokens": list.iter().map(|token| tokens::name(asked, token.id, &token.text)).collect::<Vec<_>>(),
        "token_logprobs": list.iter().map(|token| token.logprob).collect::<Vec<_>>(),
        "top_logprobs": list.iter().map(top).collect::<Vec<_>>(),
        "text_offset": offsets,
    })
}

/// Returns log-probabilities of the prompt, as vLLM lists them: null for the first token.
fn given(answered: &Answered) -> Value {
    let Some(logprobs) = &answered.prompt_logprobs else { return Value::Null };
    let one = |(id, logprob): (&u32, &f32)| json!({id.to_string(): {"logprob": logprob}});
    let rest = answered.prompt_ids.iter().zip(logprobs).skip(1).map(one);
    std::iter::once(Value::Null).chain(rest).collect()
}

/// The response in chunks.
pub struct Chunks {
    asked: Asked,
    stamp: Stamp,
    /// Characters of the tokens of every choice so far.
    offsets: Vec<usize>,
}

impl Chunks {
    pub fn new(asked: &Asked, stamp: &Stamp) -> Self {
        Self { asked: asked.clone(), stamp: stamp.clone(), offsets: vec![0; asked.n] }
    }
    fn chunk(&self, choices: Value) -> Event {
        let mut chunk = head(&self.asked, &self.stamp);
        chunk["choices"] = choices;
        Event::plain(chunk)
    }
}

impl Stream for Chunks {
    fn begin(&mut self) -> Vec<Event> {
        Vec::new()
    }
    fn piece(&mut self, piece: &Piece) -> Vec<Event> {
        let text = format!("{}{}", piece.thinking, piece.text);
        let listed = self.asked.token_ids || self.asked.logprobs.is_some();
        let told = listed && !piece.tokens.is_empty();
        if text.is_empty() && !told {
            return Vec::new();
        }
        let offset = self.offsets.get(piece.choice).copied().unwrap_or(0);
        if let Some(at) = self.offsets.get_mut(piece.choice) {
            *at += piece.tokens.iter().map(|token| token.text.chars().count()).sum::<usize>();
        }
        vec![self.chunk(json!([part(&self.asked, piece.choice, &text, &piece.tokens, offset)]))]
    }
    fn end(&mut self, answered: &Answered) -> Vec<Event> {
        let last = |(index, choice): (usize, &Choice)| {
            let mut value = part(&self.asked, index, "", &[], 0);
            value["logprobs"] = Value::Null;
            end(&mut value, &choice.finish);
            self.chunk(json!([value]))
        };
        let mut events: Vec<Event> = answered.choices.iter().enumerate().map(last).collect();
        if self.asked.stream_usage {
            let mut chunk = head(&self.asked, &self.stamp);
            (chunk["choices"], chunk["usage"]) = (json!([]), usage(&answered.usage));
            events.push(Event::plain(chunk));
        }
        events.push(Event { name: None, data: None });
        events
    }
    fn fail(&mut self, refusal: &Refusal) -> Vec<Event> {
        vec![Event::plain(refusal.body(Form::Completions)), Event { name: None, data: None }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answered::Top;

    #[test]
    fn prompts_are_texts_or_ids() {
        let of = |prompt: Value| read(&json!({"model": "m", "prompt": prompt}));
        assert_eq!(of(json!("a")).unwrap().prompt, Prompt::Text("a".into()));
        assert_eq!(of(json!(["a"])).unwrap().prompt, Prompt::Text("a".into()));
        for ids in [json!([1, 2]), json!([[1, 2]])] {
            assert_eq!(of(ids).unwrap().prompt, Prompt::Tokens(vec![1, 2]));
        }
        assert_eq!(of(json!("a")).unwrap().max_tokens, Some(16));
        for wrong in [json!(""), json!([]), json!([[]]), json!(["a", "b"]), json!([[1], [2]]), json!([-1]), json!(3)] {
            assert_eq!(of(wrong.clone()).unwrap_err().param.as_deref(), Some("prompt"), "{wrong}");
        }
        assert!(read(&json!({"prompt": "a", "echo": true})).is_err() && read(&json!({})).is_err());
    }

    /// The request is that of the backend `endpoint` to a vLLM server.
    #[test]
    fn extensions_of_vllm_are_read_and_answered() {
        let asked = read(&json!({
            "model": "m", "prompt": [1, 2], "max_tokens": 3, "temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0,
            "presence_penalty": 0.0, "frequency_penalty": 0.0, "repetition_penalty": 1.0, "seed": u64::MAX >> 1,
            "stop_token_ids": [4], "ignore_eos": true, "include_stop_str_in_output": true,
            "skip_special_tokens": false, "add_special_tokens": false, "logprobs": 1, "return_token_ids": true,
            "return_tokens_as_token_ids": true, "prompt_logprobs": 0,
        }))
        .unwrap();
        assert_eq!((asked.seed, asked.logprobs, asked.prompt_logprobs), (Some(u64::MAX >> 1), Some(1), true));
        let top = vec![Top { id: 7, text: "x".into(), logprob: -0.1 }];
        let choice = Choice {
            text: "ab".into(),
            tokens: vec![Token { id: 3, text: "ab".into(), logprob: Some(-2.0), top }],
            finish: Finish::Token(4),
            ..Choice::default()
        };
        let answered = Answered {
            choices: vec![choice],
            prompt_ids: vec![1, 2],
            prompt_logprobs: Some(vec![0.0, -1.5]),
            ..Answered::default()
        };
        let answer = write(&asked, &answered, &Stamp { id: "cmpl-1".into(), created: 5 });
        let choice = &answer["choices"][0];
        assert_eq!((&choice["token_ids"], &choice["stop_reason"]), (&json!([3]), &json!(4)));
        assert_eq!(choice["logprobs"]["top_logprobs"], json!([{"token_id:7": -0.1f32, "token_id:3": -2.0}]));
        assert_eq!(choice["logprobs"]["token_logprobs"], json!([-2.0]));
        assert_eq!(choice["prompt_logprobs"], json!([null, {"2": {"logprob": -1.5}}]));
    }
}
