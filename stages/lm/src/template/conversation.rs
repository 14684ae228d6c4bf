//! A conversation that grows by messages and by sampled tokens, and its tokens, piece by piece.
//!
//! Each piece is what the template adds to its rendering of everything before; every piece verifies that the earlier
//! text is a prefix of the later one. Sampled turns are never encoded again: the template sees a placeholder, so
//! whatever it would do to their text does not matter, and their tokens stay as sampled.

use super::chat::{Chat, SENTINEL};
use super::options::RenderOptions;
use std::ops::Range;
use trainyard_core::{Error, Result};
use trainyard_tables::Message;

/// Tokens of a conversation. All lists have one length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encoded {
    /// Tokens of all messages so far, in order.
    pub token_ids: Vec<u32>,
    /// True for the content of assistant messages and the token that ends them, but for those of a prompt that
    /// [`Conversation::open_first_turn`] has ended.
    pub loss_mask: Vec<bool>,
    /// Agent turn from 0; the prompt belongs to turn 0, an observation to the turn that it opens.
    pub turn: Vec<u16>,
    /// Tokens before the first assistant content, the generation prompt included.
    pub prompt_tokens: usize,
}

impl Encoded {
    fn push(&mut self, ids: &[u32], mask: bool, turn: u16) {
        let length = self.token_ids.len() + ids.len();
        self.token_ids.extend_from_slice(ids);
        self.loss_mask.resize(length, mask);
        self.turn.resize(length, turn);
    }
}

/// The messages of a conversation so far, and their tokens.
#[derive(Debug, Clone)]
pub struct Conversation<'a> {
    chat: &'a Chat,
    options: RenderOptions,
    messages: Vec<Message>,
    /// The messages as the template sees them: sampled turns are a placeholder.
    shown: Vec<Message>,
    /// The template's text of all this.
    text: String,
    /// The end of `text` that has no tokens yet.
    pending: String,
    encoded: Encoded,
    turn: u16,
    open: bool,
}

impl<'a> Conversation<'a> {
    /// A conversation without messages.
    pub fn new(chat: &'a Chat, options: RenderOptions) -> Self {
        Self {
            chat,
            options,
            messages: Vec::new(),
            shown: Vec::new(),
            text: String::new(),
            pending: String::new(),
            encoded: Encoded::default(),
            turn: 0,
            open: false,
        }
    }
    /// A whole conversation, as supervised training needs it.
    ///
    /// Errors (kind data): a message that the tokenizer cannot express or the template rejects, an assistant message
    /// that holds the end token; (kind invalid) a template whose earlier text changes when messages are added.
    pub fn encode(chat: &'a Chat, messages: &[Message], options: RenderOptions) -> Result<Encoded> {
        let mut conversation = Self::new(chat, options);
        conversation.extend(messages)?;
        Ok(conversation.into_parts().1)
    }
    /// Adds messages. Consecutive messages that are not the assistant's form one piece. Returns where the new tokens
    /// are.
    pub fn extend(&mut self, messages: &[Message]) -> Result<Range<usize>> {
        if self.open {
            return Err(Error::bug("a turn is open: give it its sampled tokens first"));
        }
        let start = self.encoded.token_ids.len();
        for run in messages.chunk_by(|a, b| a.role != "assistant" && b.role != "assistant") {
            match run {
                [message] if message.role == "assistant" => self.answer(message)?,
                _ => self.listen(run)?,
            }
        }
        Ok(start..self.encoded.token_ids.len())
    }
    /// Adds the generation prompt; the tokens so far are what a generator is to continue.
    pub fn open_turn(&mut self) -> Result<()> {
        if self.open {
            return Err(Error::bug("a turn is open already"));
        }
        let text = self.chat.render(&self.shown, true, &self.options)?;
        let added = self.added(&text, "the generation prompt")?;
        let piece = std::mem::take(&mut self.pending) + &added;
        let ids = self.chat.tokenizer().encode(&piece)?;
        self.encoded.push(&ids, false, self.turn);
        self.text = text;
        self.open = true;
        self.mark_prompt();
        Ok(())
    }
    /// Ends the prompt and opens the agent's first turn. No token of the prompt is the agent's, even where an assistant
    /// speaks in it, and turns are counted from here.
    pub fn open_first_turn(&mut self) -> Result<()> {
        self.encoded.loss_mask.fill(false);
        self.encoded.turn.fill(0);
        self.turn = 0;
        self.open_turn()
    }
    /// Adds a turn as it was sampled after [`Self::open_turn`]; the ids are kept as they are. Returns its text without
    /// the end token, which is also the content of the new message.
    pub fn sampled(&mut self, ids: &[u32]) -> Result<String> {
        if !self.open {
            return Err(Error::bug("no turn is open for sampled tokens"));
        }
        let content = self.chat.content(ids)?;
        self.shown.push(Message::new("assistant", SENTINEL));
        let text = self.chat.render(&self.shown, false, &self.options)?;
        let closing = self.added(&text, "a sampled turn")?;
        let (end, rest) = self.chat.closing();
        if closing.strip_prefix(SENTINEL) != Some(&format!("{end}{rest}")) {
            return Err(self.violated("a sampled turn", "it closes this assistant message unlike others"));
        }
        let stopped = ids.last().is_some_and(|last| self.chat.stop_tokens().contains(last));
        self.pending = if stopped { rest.to_string() } else { format!("{end}{rest}") };
        self.encoded.push(ids, true, self.turn);
        self.messages.push(Message::new("assistant", content.clone()));
        self.text = text;
        self.open = false;
        self.turn += 1;
        Ok(content)
    }
    /// The parsed tool calls of the last sampled turn, as JSON text, for the record.
    pub fn set_tool_calls(&mut self, calls: Option<String>) {
        if let Some(last) = self.messages.last_mut() {
            last.tool_calls = calls;
        }
    }
    /// Adds observations after a sampled turn and opens the next. Returns the new tokens for `Generator::append`: they
    /// close the turn if its sampling was cut, and end with the generation prompt. Characters that the tokenizer cannot
    /// express are written as `\uXXXX`, in the tokens and in the messages.
    pub fn observe(&mut self, messages: &[Message]) -> Result<Vec<u32>> {
        let start = self.encoded.token_ids.len();
        let escape =
            |m: &Message| Message { content: self.chat.tokenizer().escape(&m.content).into_owned(), ..m.clone() };
        let messages: Vec<Message> = messages.iter().map(escape).collect();
        self.extend(&messages)?;
        self.open_turn()?;
        Ok(self.encoded.token_ids[start..].to_vec())
    }
    /// Tokens of the conversation so far.
    pub fn encoded(&self) -> &Encoded {
        &self.encoded
    }
    /// All messages; sampled turns with their text.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }
    /// Agent turns that are complete.
    pub fn turns(&self) -> u16 {
        self.turn
    }
    /// All messages with their tokens; the prompt is what precedes the first assistant content.
    pub fn into_parts(mut self) -> (Vec<Message>, Encoded) {
        self.mark_prompt();
        (self.messages, self.encoded)
    }

    /// One piece of messages that are not the assistant's.
    fn listen(&mut self, run: &[Message]) -> Result<()> {
        let place = format!("message {}", self.messages.len());
        self.messages.extend_from_slice(run);
        self.shown.extend_from_slice(run);
        let text = self.chat.render(&self.shown, false, &self.options).map_err(|e| e.at(&place))?;
        let piece = self.pending.clone() + &self.added(&text, &place)?;
        let ids = self.encode_foreign(&piece, run.len(), &place).map_err(|e| e.at(&place))?;
        self.pending.clear();
        self.encoded.push(&ids, false, self.turn);
        self.text = text;
        Ok(())
    }
    /// One given assistant message.
    fn answer(&mut self, message: &Message) -> Result<()> {
        let place = format!("message {}", self.messages.len());
        self.open_turn().map_err(|e| e.at(&place))?;
        self.messages.push(message.clone());
        self.shown.push(message.clone());
        let text = self.chat.render(&self.shown, false, &self.options).map_err(|e| e.at(&place))?;
        let added = self.added(&text, &place)?;
        let (end, rest) = self.chat.closing();
        let content = added
            .strip_suffix(rest)
            .and_then(|t| t.strip_suffix(end))
            .ok_or_else(|| self.violated(&place, "it closes this assistant message unlike others"))?;
        let tokenizer = self.chat.tokenizer();
        let mut ids = tokenizer.encode(content).map_err(|e| e.at(&place))?;
        if ids.iter().any(|id| self.chat.stop_tokens().contains(id)) {
            return Err(Error::data(format!("{place}: an assistant message holds a token that ends messages"))
                .help("remove it from the content"));
        }
        ids.extend(tokenizer.encode(end)?);
        self.encoded.push(&ids, true, self.turn);
        self.pending = rest.to_string();
        self.text = text;
        self.open = false;
        self.turn += 1;
        Ok(())
    }
    /// Tokens of a piece, which the last `run` messages add, where markup inside user and tool messages is ordinary
    /// text. Such messages are found by rendering the piece a second time with placeholders instead of them.
    fn encode_foreign(&self, piece: &str, run: usize, place: &str) -> Result<Vec<u32>> {
        let tokenizer = self.chat.tokenizer();
        let mut masked = self.shown.clone();
        let mut foreign = Vec::new();
        for message in
            masked.iter_mut().rev().take(run).rev().filter(|m| m.role != "system" && tokenizer.has_markup(&m.content))
        {
            let placeholder = format!("\u{e000}{}\u{e000}", foreign.len());
            foreign.push((placeholder.clone(), std::mem::replace(&mut message.content, placeholder)));
        }
        if foreign.is_empty() {
            return tokenizer.encode(piece);
        }
        let text = self.chat.render(&masked, false, &self.options)?;
        let template = self.pending.clone() + &self.added(&text, place)?;
        let (mut ids, mut rest, mut rebuilt) = (Vec::new(), template.as_str(), String::new());
        for (placeholder, content) in &foreign {
            let Some((before, after)) = rest.split_once(placeholder) else { break };
            ids.extend(tokenizer.encode(before)?);
            ids.extend(tokenizer.encode_plain(content)?);
            rebuilt.push_str(before);
            rebuilt.push_str(content);
            rest = after;
        }
        ids.extend(tokenizer.encode(rest)?);
        if rebuilt + rest != piece {
            return Err(Error::data("the chat template alters a message that holds special tokens")
                .help("remove them from the message"));
        }
        Ok(ids)
    }
    /// What `text` adds to the text so far.
    fn added(&self, text: &str, place: &str) -> Result<String> {
        text.strip_prefix(self.text.as_str()).map(str::to_string).ok_or_else(|| {
            let common = self.text.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
            let show =
                |t: &str| t.get(t.floor_char_boundary(common)..).unwrap_or("").chars().take(40).collect::<String>();
            self.violated(
                place,
                &format!(
                    "it rewrites earlier text at byte {common}: `{}` becomes `{}`",
                    show(&self.text).escape_debug(),
                    show(text).escape_debug()
                ),
            )
        })
    }
    fn violated(&self, place: &str, what: &str) -> Error {
        Error::invalid(format!("the chat template cannot be encoded piece by piece: at {place} {what}")).help(
            "use a template that only appends (`compact`, `chatml`), or switch off what removes earlier text, \
                such as stripping old reasoning",
        )
    }
    fn mark_prompt(&mut self) {
        if self.turn == 0 {
            self.encoded.prompt_tokens = self.encoded.token_ids.len();
        }
    }
}
