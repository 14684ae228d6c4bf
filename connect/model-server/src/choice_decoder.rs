//! One answer during sampling: tokens are decoded, up to a stop text, and separated into thoughts, text and calls.

use super::calls;
use super::stop_matcher::StopMatcher;
use super::token_decoder::TokenDecoder;
use std::sync::Arc;
use trainyard_core::{Chance, Result};
use trainyard_envs::formats::ToolFormat;
use trainyard_lm::template::ChatEncoder;
use trainyard_lm::tokenizer::Tokenizer;
use trainyard_model_api::turn_parser::{ParsedText, TurnParser};
use trainyard_model_api::{
    ApiFinishReason, ApiToolCall, ChoiceDelta, ModelRequest, ResponseChoice, SampledToken, TopLogprob,
};

/// Letters of the ids of calls: all templates accept nine letters and digits.
const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const ID: usize = 9;

/// A sampled token.
pub struct SamplerToken<'a> {
    pub id: u32,
    /// Log-probability; NaN where the sampler does not know it.
    pub logprob: f32,
    pub top: &'a [(u32, f32)],
}

/// One answer during sampling.
pub struct ChoiceDecoder {
    choice: usize,
    decoder: TokenDecoder,
    stops: StopMatcher,
    parser: TurnParser,
    format: Option<Arc<dyn ToolFormat>>,
    /// Source of the ids of its calls.
    ids: Chance,
    partial: ResponseChoice,
    pub thinking: usize,
}

impl ChoiceDecoder {
    /// Creates answer number `choice` of a request.
    pub fn new(
        asked: &ModelRequest,
        choice: usize,
        speech: TurnParser,
        format: Option<Arc<dyn ToolFormat>>,
        ids: Chance,
    ) -> Self {
        Self {
            choice,
            decoder: TokenDecoder::default(),
            stops: StopMatcher::new(&asked.stop, asked.keep_stop),
            parser: speech,
            format,
            ids,
            partial: ResponseChoice::default(),
            thinking: 0,
        }
    }
    /// Processes a token: returns its addition, and the reason of the turn's end, if a stop text of the request or the
    /// only permitted call ends it. `ends` means that the sampler ends the turn by this token.
    pub fn push_token(
        &mut self,
        chat: &ChatEncoder,
        asked: &ModelRequest,
        drawn: &SamplerToken<'_>,
        ends: bool,
    ) -> Result<(ChoiceDelta, Option<ApiFinishReason>)> {
        let tokenizer = chat.tokenizer();
        self.thinking += usize::from(self.parser.is_thinking());
        let mut piece = ChoiceDelta {
            choice: self.choice,
            tokens: vec![token(tokenizer, asked, drawn)?],
            ..ChoiceDelta::default()
        };
        let text = if ends && !asked.keep_stop {
            self.decoder.end(tokenizer)?
        } else {
            self.decoder.push(tokenizer, drawn.id)?
        };
        let (text, stopped) = self.stops.feed(&text);
        add(&mut piece, self.parser.feed(&text));
        let mut finish = stopped.map(ApiFinishReason::Text);
        let only = finish.is_none() && !asked.parallel_calls && self.parser.in_calls();
        if only && self.calls().is_some() {
            finish = Some(ApiFinishReason::End);
        }
        self.partial.add(&piece);
        Ok((piece, finish))
    }
    /// Ends the turn: returns the text that was held back, and the whole turn.
    pub fn end(&mut self, chat: &ChatEncoder, finish: ApiFinishReason) -> Result<(ChoiceDelta, ResponseChoice)> {
        let mut piece = ChoiceDelta { choice: self.choice, ..ChoiceDelta::default() };
        let mut rest = String::new();
        if !matches!(finish, ApiFinishReason::Text(_)) {
            let (text, _) = self.stops.feed(&self.decoder.end(chat.tokenizer())?);
            rest = text + &self.stops.end();
        }
        add(&mut piece, self.parser.feed(&rest));
        add(&mut piece, self.parser.end());
        match self.calls() {
            Some(calls) => piece.calls = calls,
            // Text that cannot be parsed as calls is part of the answer.
            None => piece.text.push_str(self.parser.call_text()),
        }
        self.partial.add(&piece);
        let called = !self.partial.calls.is_empty() && finish == ApiFinishReason::End;
        self.partial.finish = if called { ApiFinishReason::Calls } else { finish };
        Ok((piece, std::mem::take(&mut self.partial)))
    }
    fn calls(&self) -> Option<Vec<ApiToolCall>> {
        let format = self.format.as_ref()?;
        let calls = calls::parse_calls(&**format, self.parser.call_text())?;
        let call = |(i, call): (usize, trainyard_envs::tools::ToolCall)| {
            let mut draws = self.ids.at("call", &[self.choice as u64, i as u64]);
            let id = (0..ID).map(|_| char::from(*draws.choose(LETTERS))).collect();
            ApiToolCall { id, name: call.name, arguments: call.arguments.to_string() }
        };
        Some(calls.into_iter().enumerate().map(call).collect())
    }
}

fn add(piece: &mut ChoiceDelta, said: ParsedText) {
    piece.thinking.push_str(&said.thinking);
    piece.text.push_str(&said.text);
}

/// Returns a token with its texts, where they are requested.
fn token(tokenizer: &Tokenizer, asked: &ModelRequest, drawn: &SamplerToken<'_>) -> Result<SampledToken> {
    let text = |id: u32| if asked.logprobs.is_some() { tokenizer.decode(&[id]) } else { Ok(String::new()) };
    let top = drawn.top.iter().take(asked.logprobs.unwrap_or(0));
    let top: Result<Vec<TopLogprob>> =
        top.map(|(id, logprob)| Ok(TopLogprob { id: *id, text: text(*id)?, logprob: *logprob })).collect();
    let logprob = Some(drawn.logprob).filter(|logprob| !logprob.is_nan());
    Ok(SampledToken { id: drawn.id, text: text(drawn.id)?, logprob, top: top? })
}
