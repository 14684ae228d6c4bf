//! One answer during sampling: tokens are decoded, up to a stop text, and separated into thoughts, text and calls.

use super::calls;
use super::pieces::Pieces;
use super::stops::Stops;
use std::sync::Arc;
use trainyard_core::{Chance, Result};
use trainyard_envs::formats::ToolFormat;
use trainyard_lm::template::Chat;
use trainyard_lm::tokenizer::Tokenizer;
use trainyard_model_api::speech::{Said, Speech};
use trainyard_model_api::{Asked, Call, Choice, Finish, Piece, Token, Top};

/// Letters of the ids of calls: all templates accept nine letters and digits.
const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const ID: usize = 9;

/// A sampled token.
pub struct Drawn<'a> {
    pub id: u32,
    /// Log-probability; NaN where the sampler does not know it.
    pub logprob: f32,
    pub top: &'a [(u32, f32)],
}

/// One answer during sampling.
pub struct Turn {
    choice: usize,
    pieces: Pieces,
    stops: Stops,
    speech: Speech,
    format: Option<Arc<dyn ToolFormat>>,
    /// Source of the ids of its calls.
    ids: Chance,
    so_far: Choice,
    pub thinking: usize,
}

impl Turn {
    /// Creates answer number `choice` of a request.
    pub fn new(asked: &Asked, choice: usize, speech: Speech, format: Option<Arc<dyn ToolFormat>>, ids: Chance) -> Self {
        Self {
            choice,
            pieces: Pieces::default(),
            stops: Stops::new(&asked.stop, asked.keep_stop),
            speech,
            format,
            ids,
            so_far: Choice::default(),
            thinking: 0,
        }
    }
    /// Processes a token: returns its addition, and the reason of the turn's end, if a stop text of the request or the
    /// only permitted call ends it. `ends` means that the sampler ends the turn by this token.
    pub fn take(
        &mut self,
        chat: &Chat,
        asked: &Asked,
        drawn: &Drawn<'_>,
        ends: bool,
    ) -> Result<(Piece, Option<Finish>)> {
        let tokenizer = chat.tokenizer();
        self.thinking += usize::from(self.speech.thinks());
        let mut piece =
            Piece { choice: self.choice, tokens: vec![token(tokenizer, asked, drawn)?], ..Piece::default() };
        let text = if ends && !asked.keep_stop {
            self.pieces.end(tokenizer)?
        } else {
            self.pieces.push(tokenizer, drawn.id)?
        };
        let (text, stopped) = self.stops.feed(&text);
        add(&mut piece, self.speech.feed(&text));
        let mut finish = stopped.map(Finish::Text);
        let only = finish.is_none() && !asked.parallel_calls && self.speech.calls();
        if only && self.calls().is_some() {
            finish = Some(Finish::End);
        }
        self.so_far.add(&piece);
        Ok((piece, finish))
    }
    /// Ends the turn: returns the text that was held back, and the whole turn.
    pub fn end(&mut self, chat: &Chat, finish: Finish) -> Result<(Piece, Choice)> {
        let mut piece = Piece { choice: self.choice, ..Piece::default() };
        let mut rest = String::new();
        if !matches!(finish, Finish::Text(_)) {
            let (text, _) = self.stops.feed(&self.pieces.end(chat.tokenizer())?);
            rest = text + &self.stops.end();
        }
        add(&mut piece, self.speech.feed(&rest));
        add(&mut piece, self.speech.end());
        match self.calls() {
            Some(calls) => piece.calls = calls,
            // Text that cannot be parsed as calls is part of the answer.
            None => piece.text.push_str(self.speech.call_text()),
        }
        self.so_far.add(&piece);
        let called = !self.so_far.calls.is_empty() && finish == Finish::End;
        self.so_far.finish = if called { Finish::Calls } else { finish };
        Ok((piece, std::mem::take(&mut self.so_far)))
    }
    fn calls(&self) -> Option<Vec<Call>> {
        let format = self.format.as_ref()?;
        let calls = calls::read(&**format, self.speech.call_text())?;
        let call = |(i, call): (usize, trainyard_envs::tools::ToolCall)| {
            let mut draws = self.ids.at("call", &[self.choice as u64, i as u64]);
            let id = (0..ID).map(|_| char::from(*draws.choose(LETTERS))).collect();
            Call { id, name: call.name, arguments: call.arguments.to_string() }
        };
        Some(calls.into_iter().enumerate().map(call).collect())
    }
}

fn add(piece: &mut Piece, said: Said) {
    piece.thinking.push_str(&said.thinking);
    piece.text.push_str(&said.text);
}

/// Returns a token with its texts, where they are requested.
fn token(tokenizer: &Tokenizer, asked: &Asked, drawn: &Drawn<'_>) -> Result<Token> {
    let text = |id: u32| if asked.logprobs.is_some() { tokenizer.decode(&[id]) } else { Ok(String::new()) };
    let top = drawn.top.iter().take(asked.logprobs.unwrap_or(0));
    let top: Result<Vec<Top>> =
        top.map(|(id, logprob)| Ok(Top { id: *id, text: text(*id)?, logprob: *logprob })).collect();
    let logprob = Some(drawn.logprob).filter(|logprob| !logprob.is_nan());
    Ok(Token { id: drawn.id, text: text(drawn.id)?, logprob, top: top? })
}
