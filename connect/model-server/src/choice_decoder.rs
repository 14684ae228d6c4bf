//! Decodes the tokens of one choice during sampling, up to a stop text, and separates thoughts, text and calls.

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

/// Letters of call ids: all templates accept ids of nine letters and digits.
const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const CALL_ID_LENGTH: usize = 9;

/// A sampled token.
pub struct SamplerToken<'a> {
    pub id: u32,
    /// Log-probability; NaN if the sampler does not report it.
    pub logprob: f32,
    pub top: &'a [(u32, f32)],
}

/// One choice during sampling.
pub struct ChoiceDecoder {
    choice: usize,
    decoder: TokenDecoder,
    stops: StopMatcher,
    parser: TurnParser,
    format: Option<Arc<dyn ToolFormat>>,
    /// Random source of the ids of calls.
    ids: Chance,
    partial: ResponseChoice,
    pub thinking: usize,
}

impl ChoiceDecoder {
    /// Creates the decoder of choice number `choice` of a request.
    pub fn new(
        request: &ModelRequest,
        choice: usize,
        parser: TurnParser,
        format: Option<Arc<dyn ToolFormat>>,
        ids: Chance,
    ) -> Self {
        Self {
            choice,
            decoder: TokenDecoder::default(),
            stops: StopMatcher::new(&request.stop, request.keep_stop),
            parser,
            format,
            ids,
            partial: ResponseChoice::default(),
            thinking: 0,
        }
    }
    /// Decodes a token and returns the delta, with the reason of the turn's end if a stop text of the request or the
    /// only permitted call ends the turn. `ends` is true if the sampler ends the turn with this token.
    pub fn push_token(
        &mut self,
        chat: &ChatEncoder,
        request: &ModelRequest,
        sampled: &SamplerToken<'_>,
        ends: bool,
    ) -> Result<(ChoiceDelta, Option<ApiFinishReason>)> {
        let tokenizer = chat.tokenizer();
        self.thinking += usize::from(self.parser.is_thinking());
        let mut delta = ChoiceDelta {
            choice: self.choice,
            tokens: vec![token(tokenizer, request, sampled)?],
            ..ChoiceDelta::default()
        };
        let text = if ends && !request.keep_stop {
            self.decoder.end(tokenizer)?
        } else {
            self.decoder.push(tokenizer, sampled.id)?
        };
        let (text, stopped) = self.stops.feed(&text);
        add(&mut delta, self.parser.feed(&text));
        let mut finish = stopped.map(ApiFinishReason::Text);
        let is_only_call = finish.is_none() && !request.parallel_calls && self.parser.in_calls();
        if is_only_call && self.calls().is_some() {
            finish = Some(ApiFinishReason::End);
        }
        self.partial.add(&delta);
        Ok((delta, finish))
    }
    /// Ends the turn. Returns the delta of the text that was held back, and the complete turn.
    pub fn end(&mut self, chat: &ChatEncoder, finish: ApiFinishReason) -> Result<(ChoiceDelta, ResponseChoice)> {
        let mut delta = ChoiceDelta { choice: self.choice, ..ChoiceDelta::default() };
        let mut rest = String::new();
        if !matches!(finish, ApiFinishReason::Text(_)) {
            let (text, _) = self.stops.feed(&self.decoder.end(chat.tokenizer())?);
            rest = text + &self.stops.end();
        }
        add(&mut delta, self.parser.feed(&rest));
        add(&mut delta, self.parser.end());
        match self.calls() {
            Some(calls) => delta.calls = calls,
            // Text that cannot be parsed as calls is part of the response.
            None => delta.text.push_str(self.parser.call_text()),
        }
        self.partial.add(&delta);
        let called = !self.partial.calls.is_empty() && finish == ApiFinishReason::End;
        self.partial.finish = if called { ApiFinishReason::Calls } else { finish };
        Ok((delta, std::mem::take(&mut self.partial)))
    }
    fn calls(&self) -> Option<Vec<ApiToolCall>> {
        let format = self.format.as_ref()?;
        let calls = calls::parse_calls(&**format, self.parser.call_text())?;
        let call = |(i, call): (usize, trainyard_envs::tools::ToolCall)| {
            let mut draws = self.ids.at("call", &[self.choice as u64, i as u64]);
            let id = (0..CALL_ID_LENGTH).map(|_| char::from(*draws.choose(LETTERS))).collect();
            ApiToolCall { id, name: call.name, arguments: call.arguments.to_string() }
        };
        Some(calls.into_iter().enumerate().map(call).collect())
    }
}

fn add(delta: &mut ChoiceDelta, parsed: ParsedText) {
    delta.thinking.push_str(&parsed.thinking);
    delta.text.push_str(&parsed.text);
}

/// Returns a token with its most probable alternatives. The texts are empty unless the request selects
/// log-probabilities.
fn token(tokenizer: &Tokenizer, request: &ModelRequest, sampled: &SamplerToken<'_>) -> Result<SampledToken> {
    let text = |id: u32| if request.logprobs.is_some() { tokenizer.decode(&[id]) } else { Ok(String::new()) };
    let top = sampled.top.iter().take(request.logprobs.unwrap_or(0));
    let top: Result<Vec<TopLogprob>> =
        top.map(|(id, logprob)| Ok(TopLogprob { id: *id, text: text(*id)?, logprob: *logprob })).collect();
    let logprob = Some(sampled.logprob).filter(|logprob| !logprob.is_nan());
    Ok(SampledToken { id: sampled.id, text: text(sampled.id)?, logprob, top: top? })
}
