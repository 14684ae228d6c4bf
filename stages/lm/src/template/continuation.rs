//! Continues a conversation of an external program, which has only parsed messages and sends them back with every call.
//!
//! A template that renders a turn again does not reproduce its tokens: spaces in calls change, thoughts are dropped.
//! The conversation therefore keeps the tokens of sampled turns regardless of the template and encodes only the text
//! after the last of them. If the template has rewritten earlier turns, a placeholder for the last turn locates that
//! text. See `docs/design/0022-templates.md`.

use super::conversation::TokenizedConversation;
use super::message::with_separate_calls;
use trainyard_core::{Error, Result};
use trainyard_tables::Message;

/// Text that occurs in no template, and that JSON does not escape.
const PLACEHOLDER: &str = "trainyard-turn-Qz7kq";

/// Result of [`TokenizedConversation::continue_turn`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnContinuation {
    /// New tokens for `Generator::append`; they end with the generation prompt.
    pub tokens: Vec<u32>,
    /// Whether the last turn, rendered and encoded again from its parsed message, would have had other tokens.
    pub healed: bool,
}

impl TokenizedConversation<'_> {
    /// Adds messages after a sampled turn and opens the next turn in the same context, so that all tokens so far stay.
    /// Returns `None`, without a change, if the template shows no end of the last turn to continue from.
    ///
    /// If [`TokenizedConversation::observe`] would stay in its context too, both give the same tokens. Assistant
    /// messages among `messages` count as given, not as turns of the agent.
    ///
    /// Errors: kind data (the template rejects the messages, or the tokenizer cannot express them).
    pub fn continue_turn(&mut self, messages: &[Message]) -> Result<Option<TurnContinuation>> {
        if self.is_open() || self.sampled.is_none() {
            return Err(Error::bug("a conversation can only continue after a sampled turn"));
        }
        let last = self.messages.len() - 1;
        let all: Vec<Message> = self.messages.iter().cloned().chain(self.chat.escaped(messages)).collect();
        if all[last + 1..].iter().any(|m| m.role == "tool") {
            self.chat.expect_tools()?;
        }
        let text = self.rendered(&all, true)?;
        let healed = self.drifts(&all, last)?;
        let ids = match self.known(&text) {
            Some(known) => self.encode_after(&text, known, &all, last + 1)?,
            None => {
                let mut all = all.clone();
                insert_placeholder(&mut all[last]);
                let with_placeholder = self.rendered(&all, true)?;
                match self.placeholder_end(&with_placeholder, &all[..=last])? {
                    Some(known) if is_continuation(&with_placeholder[known..], &text, &all[last + 1..]) => {
                        self.encode_after(&with_placeholder, known, &all, last + 1)?
                    }
                    _ => return Ok(None),
                }
            }
        };
        self.record_continuation(all, &ids, &text)?;
        Ok(Some(TurnContinuation { tokens: ids, healed }))
    }

    fn rendered(&self, messages: &[Message], open: bool) -> Result<String> {
        self.chat.render(messages, open, self.tools.as_deref())
    }
    /// Encodes `text` from the byte `known` on; that part shows the messages from `first` on.
    fn encode_after(&self, text: &str, known: usize, messages: &[Message], first: usize) -> Result<Vec<u32>> {
        let (before, piece) = text.split_at(known);
        self.chat.encode_external(piece, before, messages, first, |messages| self.rendered(messages, true))
    }
    /// Returns the position at which the turn of the placeholder ends: before its end token if the turn was cut, else
    /// after the token. Returns `None` if the template shows no such end.
    fn placeholder_end(&self, text: &str, until: &[Message]) -> Result<Option<usize>> {
        let alone = self.rendered(until, false)?;
        // The text after the placeholder may contain the same string.
        let Some((count, (at_alone, _))) = alone.match_indices(PLACEHOLDER).enumerate().last() else { return Ok(None) };
        let Some((at, _)) = text.match_indices(PLACEHOLDER).nth(count) else { return Ok(None) };
        let (rest, alone) = (&text[at + PLACEHOLDER.len()..], &alone[at_alone + PLACEHOLDER.len()..]);
        let Some(start) = self.chat.last_end(alone) else { return Ok(None) };
        // Some templates end the last turn differently from earlier ones.
        let token = self.chat.tokenizer().first_added(rest.get(start..).unwrap_or_default());
        let Some((0, token)) = token.filter(|_| rest[..start] == alone[..start]) else { return Ok(None) };
        let end = start + token.len();
        let stopped = self.sampled.as_ref().is_some_and(|(_, stopped)| *stopped);
        Ok(Some(at + PLACEHOLDER.len() + if stopped { end } else { start }))
    }
    /// Returns whether the last turn would have other tokens if its parsed message were rendered and encoded again.
    fn drifts(&self, messages: &[Message], last: usize) -> Result<bool> {
        let Some((body, stopped)) = &self.sampled else { return Ok(false) };
        let mut parsed = messages.to_vec();
        parsed[last] = with_separate_calls(&messages[last])?;
        if parsed[last].tool_calls.is_some() && self.chat.expect_calls(&parsed[last]).is_err() {
            return Ok(true);
        }
        let shown = self.rendered(&parsed, true);
        if !shown.is_ok_and(|text| text.starts_with(&self.text) && text[self.text.len()..].starts_with(body.as_str())) {
            return Ok(true);
        }
        let end = self.chat.tokenizer().token(self.chat.end_token()).filter(|_| *stopped).unwrap_or_default();
        let again = self.chat.encode_answer(&self.text, &format!("{body}{end}"));
        Ok(!again.is_ok_and(|ids| self.encoded.token_ids.ends_with(&ids)))
    }
}

/// Returns whether `piece`, the end of a text after the placeholder, also ends the text with the turn itself and
/// contains all `messages`. Some templates put results before the text of their turn.
fn is_continuation(piece: &str, text: &str, messages: &[Message]) -> bool {
    let misplaced = |m: &Message| text.contains(m.content.trim()) && !piece.contains(m.content.trim());
    text.ends_with(piece) && !messages.iter().any(misplaced)
}

/// Replaces the text of a message by the placeholder; keeps the names of the calls, which the results after them may
/// need. Some templates show no text next to calls.
fn insert_placeholder(message: &mut Message) {
    message.content = PLACEHOLDER.to_string();
    message.reasoning_content = None;
    let calls = message.tool_calls.as_deref().and_then(|text| serde_json::from_str(text).ok());
    let calls: Vec<serde_json::Value> = calls.unwrap_or_default();
    let bare = calls.iter().map(|call| serde_json::json!({"name": call["name"], "arguments": {"a": PLACEHOLDER}}));
    message.tool_calls = (!calls.is_empty()).then(|| bare.collect::<serde_json::Value>().to_string());
}
