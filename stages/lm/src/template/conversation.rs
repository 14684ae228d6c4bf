//! Tracks a conversation that grows by messages and by sampled tokens, and its tokens.
//!
//! A context is the model's input before a turn: the template's text of all messages so far, up to the start of the
//! turn. While a template only adds to its text, one sequence contains all turns, with each piece encoded separately
//! and sampled tokens unchanged. If a template rewrites earlier text (it removes thoughts from earlier turns), the next
//! turn begins another context, which is encoded from the template's new text. Earlier turns in that context are read
//! but not learned again. See `docs/design/0022-templates.md`.

use super::chat_encoder::ChatEncoder;
use super::conversation_tokens::ConversationTokens;
use trainyard_core::{Error, Result};
use trainyard_tables::{Message, Trajectory};

/// The messages of a conversation so far, and their tokens.
#[derive(Debug, Clone)]
pub struct TokenizedConversation<'a> {
    pub(super) chat: &'a ChatEncoder,
    /// JSON text of the tools that the template describes.
    pub(super) tools: Option<String>,
    pub(super) messages: Vec<Message>,
    /// The text of the current context that has tokens, as the template shows it now.
    pub(super) text: String,
    /// The last turn, if it was sampled: its text, and whether it ended with a stop token.
    pub(super) sampled: Option<(String, bool)>,
    /// Messages in the current context.
    read: usize,
    pub(super) encoded: ConversationTokens,
    turn: u16,
    open: bool,
}

impl<'a> TokenizedConversation<'a> {
    /// Creates a conversation without messages. `tools`: JSON text of a list of schemas, for the template.
    pub fn new(chat: &'a ChatEncoder, tools: Option<&str>) -> Self {
        Self {
            chat,
            tools: tools.map(str::to_string),
            messages: Vec::new(),
            text: String::new(),
            sampled: None,
            read: 0,
            encoded: ConversationTokens::default(),
            turn: 0,
            open: false,
        }
    }
    /// Encodes a whole conversation for supervised training: every assistant turn with the context that a model would
    /// have before it.
    ///
    /// Errors (kind data): a message that the tokenizer cannot express or the template rejects, an answer that does not
    /// fit the template's generation prompt; (kind invalid) results of tools that the template loses.
    pub fn encode(chat: &'a ChatEncoder, messages: &[Message], tools: Option<&str>) -> Result<ConversationTokens> {
        let mut conversation = Self::new(chat, tools);
        conversation.extend(messages)?;
        conversation.finish()?;
        Ok(conversation.into_parts().1)
    }
    /// Encodes a row with its tools. Only a native template describes the tools of the row's environment, as in
    /// rollouts.
    pub fn encode_row(chat: &'a ChatEncoder, row: &Trajectory) -> Result<ConversationTokens> {
        let of_environment = row.environment_tools.as_ref().filter(|_| chat.describes_environments());
        Self::encode(chat, &row.messages, row.tools.as_ref().or(of_environment).map(String::as_str))
    }
    /// Adds messages; assistant turns among them count as given, not sampled.
    pub fn extend(&mut self, messages: &[Message]) -> Result<()> {
        if self.open {
            return Err(Error::bug("a turn is open: add its sampled tokens first"));
        }
        for message in messages {
            let place = self.place();
            if message.role == "assistant" {
                let message = self.chat.prepare_given(message).map_err(|e| e.at(&place))?;
                self.chat.expect_calls(&message).and_then(|()| self.answer(&message)).map_err(|e| e.at(place))?;
            } else {
                if message.role == "tool" {
                    self.chat.expect_tools().map_err(|e| e.at(place))?;
                }
                self.messages.push(message.clone());
            }
        }
        Ok(())
    }
    /// Opens a turn; a generator then continues the tokens of the current context.
    pub fn open_turn(&mut self) -> Result<()> {
        if self.open {
            return Err(Error::bug("a turn is open already"));
        }
        let text = self.chat.render(&self.messages, true, self.tools.as_deref())?;
        match self.known(&text) {
            Some(known) => self.encode_rest(&text, known, true)?,
            None => self.restart_context(&text)?,
        }
        self.open = true;
        self.mark_prompt();
        Ok(())
    }
    /// Ends the prompt and opens the agent's first turn. No token of the prompt counts as the agent's, even in
    /// assistant messages, and turns are counted from this call on.
    pub fn open_first_turn(&mut self) -> Result<()> {
        self.turn = 0;
        self.open_turn()?;
        self.encoded.keep_last_context();
        self.encoded.loss_mask.fill(false);
        self.encoded.turn.fill(0);
        self.mark_prompt();
        Ok(())
    }
    /// Adds a turn as it was sampled after [`Self::open_turn`], with unchanged ids. Returns its text without the end
    /// token, which is also the content of the new message.
    pub fn push_sampled(&mut self, ids: &[u32]) -> Result<String> {
        if !self.open {
            return Err(Error::bug("no turn is open"));
        }
        let content = self.chat.content(ids)?;
        let stopped = ids.last().is_some_and(|last| self.chat.stop_tokens().contains(last));
        self.sampled = Some((content.clone(), stopped));
        self.encoded.push(ids, true, self.turn);
        self.messages.push(Message::new("assistant", content.clone()));
        self.read = self.messages.len();
        self.open = false;
        self.turn += 1;
        Ok(content)
    }
    /// Sets the parsed tool calls of the last sampled turn, as JSON text, for the record.
    pub fn set_tool_calls(&mut self, calls: Option<String>) {
        if let Some(last) = self.messages.last_mut() {
            last.tool_calls = calls;
        }
    }
    /// Adds observations after a sampled turn and opens the next. Returns the new tokens for `Generator::append`: they
    /// close the turn if its sampling was cut, and end with the generation prompt. Returns `None` if the template
    /// rewrites earlier text: the next turn then continues [`Self::context`], a new sequence. Characters that the
    /// tokenizer cannot express are written as `\uXXXX`, in the tokens and in the messages.
    pub fn observe(&mut self, messages: &[Message]) -> Result<Option<Vec<u32>>> {
        let (start, contexts) = (self.encoded.token_ids.len(), self.encoded.restarts.len());
        let messages = self.chat.escaped(messages);
        self.extend(&messages)?;
        self.open_turn()?;
        let extends = self.encoded.restarts.len() == contexts;
        Ok(extends.then(|| self.encoded.token_ids[start..].to_vec()))
    }
    /// Returns the tokens of the conversation so far.
    pub fn encoded(&self) -> &ConversationTokens {
        &self.encoded
    }
    /// Returns the tokens of the current context, including its turns.
    pub fn context(&self) -> &[u32] {
        &self.encoded.token_ids[self.encoded.start()..]
    }
    /// Returns all messages; sampled turns with their text.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }
    /// Returns the JSON text of the tools that the template describes.
    pub fn tools(&self) -> Option<&str> {
        self.tools.as_deref()
    }
    /// Returns the number of complete agent turns.
    pub fn turns(&self) -> u16 {
        self.turn
    }
    /// Returns all messages with their tokens; the prompt ends before the first assistant content.
    pub fn into_parts(mut self) -> (Vec<Message>, ConversationTokens) {
        self.mark_prompt();
        (self.messages, self.encoded)
    }

    /// Encodes messages after the last turn without opening another turn.
    fn finish(&mut self) -> Result<()> {
        if self.read == self.messages.len() {
            return Ok(());
        }
        let text = self.chat.render(&self.messages, false, self.tools.as_deref())?;
        match self.known(&text) {
            Some(known) => self.encode_rest(&text, known, false),
            None => Ok(()),
        }
    }
    /// Adds one given assistant message as a turn.
    fn answer(&mut self, message: &Message) -> Result<()> {
        self.open_turn()?;
        let context = std::mem::take(&mut self.text);
        self.messages.push(message.clone());
        let render = |messages: &[Message]| self.chat.render(messages, false, self.tools.as_deref());
        let text = render(&self.messages)?;
        let prompt = || {
            let before = render(&self.messages[..self.messages.len() - 1]).ok()?;
            context.strip_prefix(before.as_str())
        };
        let turn = self.chat.answer(&context, &text, message, prompt)?;
        let ids = self.chat.encode_answer(&context, &turn)?;
        self.encoded.push(&ids, true, self.turn);
        self.text = context + &turn;
        self.read = self.messages.len();
        self.open = false;
        self.turn += 1;
        Ok(())
    }
    /// Returns the length of the part of a text that already has tokens, or `None` if the template has rewritten that
    /// part.
    pub(super) fn known(&self, text: &str) -> Option<usize> {
        let Some((body, stopped)) = &self.sampled else {
            return text.starts_with(&self.text).then_some(self.text.len());
        };
        let rest = text.strip_prefix(self.text.as_str())?;
        // Templates trim a turn's text, and some begin it with a space; the tokens stay as sampled.
        let forms = [(0, body.as_str()), (0, body.trim_end()), (rest.len() - rest.trim_start().len(), body.trim())];
        let length =
            forms.iter().find(|(from, form)| rest[*from..].starts_with(form)).map(|(from, form)| from + form.len())?;
        let end = if *stopped { self.chat.end_at(&rest[length..]) } else { 0 };
        Some(self.text.len() + length + end)
    }
    /// Encodes the text after the known part.
    fn encode_rest(&mut self, text: &str, known: usize, open: bool) -> Result<()> {
        let (before, piece) = text.split_at(known);
        let ids = self.piece(piece, before, self.read, open)?;
        self.encoded.push(&ids, false, self.turn);
        self.mark_encoded(text)
    }
    /// Begins another context with the whole text.
    fn restart_context(&mut self, text: &str) -> Result<()> {
        let ids = self.piece(text, "", 0, true)?;
        self.encoded.restart();
        self.encoded.push(&ids, false, self.turn);
        self.mark_encoded(text)
    }
    /// Records messages that have tokens, and opens the next turn; `text` is the template's text of all of them.
    pub(super) fn record_continuation(&mut self, messages: Vec<Message>, ids: &[u32], text: &str) -> Result<()> {
        self.messages = messages;
        self.encoded.push(ids, false, self.turn);
        self.open = true;
        self.mark_encoded(text)
    }
    fn mark_encoded(&mut self, text: &str) -> Result<()> {
        self.text = text.to_string();
        self.sampled = None;
        self.read = self.messages.len();
        Ok(())
    }
    /// Encodes a piece that follows `before` in the text of all messages; the piece contains the messages from `first`
    /// on.
    fn piece(&self, piece: &str, before: &str, first: usize, open: bool) -> Result<Vec<u32>> {
        let render = |messages: &[Message]| self.chat.render(messages, open, self.tools.as_deref());
        self.chat.encode_external(piece, before, &self.messages, first, render)
    }
    /// Returns whether a turn is open.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }
    fn place(&self) -> String {
        format!("message {}", self.messages.len())
    }
    fn mark_prompt(&mut self) {
        if self.turn == 0 {
            self.encoded.prompt_tokens = self.encoded.token_ids.len();
        }
    }
}
