//! Encodes external text between the template's own text, with markup in external text as ordinary text.

use super::chat_encoder::ChatEncoder;
use super::json::JsonStyle;
use minijinja::Value;
use trainyard_core::{Error, Result};
use trainyard_tables::Message;

impl ChatEncoder {
    /// Encodes an assistant's turn after `context`, including the token that ends the turn. The text of a stop token
    /// inside the turn is ordinary text.
    pub(super) fn encode_answer(&self, context: &str, turn: &str) -> Result<Vec<u32>> {
        let tokenizer = self.tokenizer();
        let ids = tokenizer.encode_next(context, turn)?;
        let inside = ids.split_last().map_or(&[][..], |(_, inside)| inside);
        if !inside.iter().any(|id| self.stop_tokens().contains(id)) {
            return Ok(ids);
        }
        let (mut ids, mut done) = (Vec::new(), 0);
        let before = |done: usize| format!("{context}{}", &turn[..done]);
        while let Some((start, token)) = self.first_stop(&turn[done..]) {
            let (start, end) = (done + start, done + start + token.len());
            ids.extend(tokenizer.encode_next(&before(done), &turn[done..start])?);
            let last = end == turn.len();
            ids.extend(if last {
                tokenizer.encode(&token)
            } else {
                tokenizer.encode_plain_next(&before(start), &token)
            }?);
            done = end;
        }
        ids.extend(tokenizer.encode_next(&before(done), &turn[done..])?);
        Ok(ids)
    }
    /// Returns messages in which characters that the tokenizer cannot express are written as `\uXXXX`.
    pub fn escaped(&self, messages: &[Message]) -> Vec<Message> {
        let escape = |m: &Message| Message { content: self.tokenizer().escape(&m.content).into_owned(), ..m.clone() };
        messages.iter().map(escape).collect()
    }
    /// Returns the length of the stop token at the start of the text after a turn; 0 if it is absent.
    pub(super) fn end_at(&self, text: &str) -> usize {
        self.first_stop(text).filter(|(start, _)| *start == 0).map_or(0, |(_, token)| token.len())
    }
    pub(super) fn first_stop(&self, text: &str) -> Option<(usize, String)> {
        let tokens = self.stop_tokens().iter().filter_map(|id| self.tokenizer().token(*id));
        tokens.filter_map(|token| Some((text.find(&token)?, token))).min()
    }
    /// Encodes a piece that follows `before` in the text of the messages. Renders the messages again with placeholders
    /// to find user messages and tool results that contain markup, and answers that contain the text of a stop token,
    /// and encodes these as ordinary text.
    pub(super) fn encode_external(
        &self,
        piece: &str,
        before: &str,
        messages: &[Message],
        first: usize,
        render: impl Fn(&[Message]) -> Result<String>,
    ) -> Result<Vec<u32>> {
        let tokenizer = self.tokenizer();
        let is_foreign = |m: &Message| match m.role.as_str() {
            "system" | "developer" => false,
            "assistant" => self.first_stop(&m.content).is_some(),
            _ => tokenizer.has_markup(&m.content),
        };
        let mut masked = messages.to_vec();
        let mut foreign = Vec::new();
        for message in masked.iter_mut().skip(first).filter(|m| is_foreign(m)) {
            let placeholder = format!("\u{e000}{}\u{e000}", foreign.len());
            foreign.push((placeholder.clone(), std::mem::replace(&mut message.content, placeholder)));
        }
        if foreign.is_empty() {
            return tokenizer.encode_next(before, piece);
        }
        let altered = || {
            Error::data("the chat template changes a message that contains special tokens")
                .help("remove them from the message")
        };
        let text = render(&masked)?;
        let (mut ids, mut remaining) = (Vec::new(), piece);
        let mut rest = text.strip_prefix(before).ok_or_else(altered)?;
        let known = |remaining: &str| format!("{before}{}", &piece[..piece.len() - remaining.len()]);
        for (i, (placeholder, content)) in foreign.iter().enumerate() {
            // The template drops this message.
            let Some((between, after)) = rest.split_once(placeholder) else { continue };
            ids.extend(tokenizer.encode_next(&known(remaining), between)?);
            remaining = remaining.strip_prefix(between).ok_or_else(altered)?;
            let next = foreign.get(i + 1).and_then(|(next, _)| after.split_once(next));
            let next = next.map_or(after, |(next, _)| next);
            let form = forms(content).into_iter().find(|form| {
                remaining.strip_prefix(form.as_str()).is_some_and(|remaining| remaining.starts_with(next))
            });
            let form = form.ok_or_else(altered)?;
            ids.extend(tokenizer.encode_plain_next(&known(remaining), &form)?);
            remaining = &remaining[form.len()..];
            rest = after;
        }
        if remaining != rest {
            return Err(altered());
        }
        ids.extend(tokenizer.encode_next(&known(remaining), remaining)?);
        Ok(ids)
    }
}

/// Returns the forms in which templates write a content: unchanged, trimmed, or as JSON.
fn forms(content: &str) -> Vec<String> {
    let json = JsonStyle::new(None).text(&Value::from(content)).unwrap_or_default();
    let inner = json.get(1..json.len().saturating_sub(1)).unwrap_or_default();
    vec![content.to_string(), content.trim().to_string(), inner.to_string()]
}
