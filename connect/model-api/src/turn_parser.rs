//! Parses the streamed text of a model into thoughts, text, and the calls at its end.
//!
//! Markup may arrive in parts, so the parser holds back text that could become markup until more text decides. From the
//! first marker of a call on, it collects all text as the text of calls, which the caller parses by their format.

use trainyard_tables::turn_form::{THINKING_TAGS, opened_thought};

/// Marker of the beginning of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallMarker {
    /// A text at any position.
    Anywhere(&'static str),
    /// A text at the start of the turn, after optional white space.
    AtStart(&'static str),
}

/// Returns the markers of a tool-call format; empty for an unknown format, whose calls are never separated.
pub fn call_markers(format: &str) -> &'static [CallMarker] {
    match format {
        "hermes" | "qwen" | "code" | "toolrl" => &[CallMarker::Anywhere("<tool_call>")],
        "mistral" => &[CallMarker::Anywhere("[TOOL_CALLS]")],
        "llama3" => &[CallMarker::Anywhere("<|python_tag|>"), CallMarker::AtStart("{")],
        _ => &[],
    }
}

/// Text whose kind is decided.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ParsedText {
    /// Text of the thought.
    pub thinking: String,
    /// Text after the thought.
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TurnParserState {
    /// The text so far is only white space.
    Start,
    /// Within a thought that ends with this tag.
    Thought(&'static str),
    /// After a thought: white space is skipped.
    AfterThought,
    Text,
    Calls,
}

/// Parser of a streamed turn.
#[derive(Debug, Clone)]
pub struct TurnParser {
    markers: &'static [CallMarker],
    state: TurnParserState,
    /// Whether the thought has had more than white space.
    has_thought_text: bool,
    buffer: String,
    calls: String,
}

impl TurnParser {
    /// Creates a parser that separates calls at `markers`; without markers it separates no calls. `opened` is the end
    /// of the prompt, which may have opened a thought.
    pub fn new(markers: &'static [CallMarker], opened: &str) -> Self {
        let state = opened_thought(opened).map_or(TurnParserState::Start, TurnParserState::Thought);
        Self { markers, state, has_thought_text: false, buffer: String::new(), calls: String::new() }
    }
    /// Creates a parser of a turn without markup, which is text only.
    pub fn plain() -> Self {
        Self {
            markers: &[],
            state: TurnParserState::Text,
            has_thought_text: false,
            buffer: String::new(),
            calls: String::new(),
        }
    }
    /// Returns whether the parser is within a thought.
    pub fn is_thinking(&self) -> bool {
        matches!(self.state, TurnParserState::Thought(_))
    }
    /// Returns the tag that ends the thought, within a thought.
    pub fn closing_tag(&self) -> Option<&'static str> {
        match self.state {
            TurnParserState::Thought(close) => Some(close),
            _ => None,
        }
    }
    /// Returns whether calls have begun.
    pub fn in_calls(&self) -> bool {
        self.state == TurnParserState::Calls
    }
    /// Returns the text of the calls so far, including markup.
    pub fn call_text(&self) -> &str {
        &self.calls
    }
    /// Adds text of the turn, and returns the text that is decided now.
    pub fn feed(&mut self, text: &str) -> ParsedText {
        self.buffer.push_str(text);
        let mut parsed = ParsedText::default();
        while self.step(&mut parsed, false) {}
        parsed
    }
    /// Ends the turn, and returns the text that was held back.
    pub fn end(&mut self) -> ParsedText {
        let mut parsed = ParsedText::default();
        while self.step(&mut parsed, true) {}
        parsed
    }
    /// Parses a part of the held text; returns whether another step may parse more.
    fn step(&mut self, parsed: &mut ParsedText, last: bool) -> bool {
        match self.state {
            TurnParserState::Calls => {
                self.calls.push_str(&std::mem::take(&mut self.buffer));
                false
            }
            TurnParserState::Start => self.parse_start(last),
            TurnParserState::AfterThought => {
                self.buffer = self.buffer.trim_start().to_string();
                if self.buffer.is_empty() {
                    return false;
                }
                self.state = TurnParserState::Start;
                true
            }
            TurnParserState::Thought(close) => self.parse_thought(close, parsed, last),
            TurnParserState::Text => self.parse_text(parsed, last),
        }
    }
    /// Parses a thought, without the white space at both ends.
    fn parse_thought(&mut self, close: &str, parsed: &mut ParsedText, last: bool) -> bool {
        if !self.has_thought_text {
            self.buffer = self.buffer.trim_start().to_string();
        }
        if let Some(at) = self.buffer.find(close) {
            parsed.thinking.push_str(self.buffer[..at].trim_end());
            self.buffer.drain(..at + close.len());
            self.state = TurnParserState::AfterThought;
            return true;
        }
        let safe = self.buffer[..self.safe_len(&[close], last)].trim_end().len();
        self.has_thought_text |= safe > 0;
        parsed.thinking.extend(self.buffer.drain(..safe));
        false
    }
    /// Decides whether the turn begins with a thought, calls or text.
    fn parse_start(&mut self, last: bool) -> bool {
        let start = self.buffer.trim_start();
        if start.is_empty() && !last {
            return false;
        }
        if let Some((open, close)) = THINKING_TAGS.iter().find(|(open, _)| start.starts_with(open)) {
            self.buffer = start[open.len()..].to_string();
            self.state = TurnParserState::Thought(close);
            return true;
        }
        let first = |marker: &CallMarker| matches!(marker, CallMarker::AtStart(text) if start.starts_with(text));
        if self.markers.iter().any(first) {
            self.state = TurnParserState::Calls;
            return true;
        }
        let may_open_thought = THINKING_TAGS.iter().any(|(open, _)| open.starts_with(start));
        if may_open_thought && !last {
            return false;
        }
        self.state = TurnParserState::Text;
        true
    }
    fn parse_text(&mut self, parsed: &mut ParsedText, last: bool) -> bool {
        let anywhere = self.markers.iter().filter_map(|marker| match marker {
            CallMarker::Anywhere(text) => Some(*text),
            CallMarker::AtStart(_) => None,
        });
        let anywhere: Vec<&str> = anywhere.collect();
        if let Some(at) = anywhere.iter().filter_map(|marker| self.buffer.find(marker)).min() {
            // White space before a call belongs to the call text, in case that is later returned as text.
            let text_len = self.buffer[..at].trim_end().len();
            parsed.text.extend(self.buffer.drain(..text_len));
            self.state = TurnParserState::Calls;
            return true;
        }
        let mut safe = self.safe_len(&anywhere, last);
        if !last && !anywhere.is_empty() {
            // White space may precede a call.
            safe = self.buffer[..safe].trim_end().len();
        }
        parsed.text.extend(self.buffer.drain(..safe));
        false
    }
    /// Returns the number of bytes at the start of the held text that cannot begin a marker.
    fn safe_len(&self, markers: &[&str], last: bool) -> usize {
        if last { self.buffer.len() } else { safe_prefix_len(&self.buffer, markers) }
    }
}

/// Returns the number of bytes at the start of `text` that cannot belong to a marker, regardless of the text that
/// follows.
pub fn safe_prefix_len(text: &str, markers: &[&str]) -> usize {
    let begins = |at: usize| markers.iter().any(|marker| marker.starts_with(&text[at..]));
    let longest = markers.iter().map(|marker| marker.len()).max().unwrap_or(0);
    let from = text.floor_char_boundary(text.len().saturating_sub(longest));
    text[from..].char_indices().map(|(at, _)| from + at).find(|at| begins(*at)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns thought, text and calls of a turn that is fed in parts of `size` characters.
    fn read(format: &str, opened: &str, turn: &str, size: usize) -> (String, String, String) {
        let mut parser = TurnParser::new(call_markers(format), opened);
        let mut all = ParsedText::default();
        let characters: Vec<char> = turn.chars().collect();
        for part in characters.chunks(size) {
            let parsed = parser.feed(&part.iter().collect::<String>());
            all.thinking += &parsed.thinking;
            all.text += &parsed.text;
        }
        let parsed = parser.end();
        (all.thinking + &parsed.thinking, all.text + &parsed.text, parser.call_text().to_string())
    }

    #[test]
    fn turn_is_split_regardless_of_chunks() {
        let cases = [
            ("hermes", "", "Hello <b>.", ("", "Hello <b>.", "")),
            ("hermes", "", "I add.\n<tool_call>\n{}</tool_call> x", ("", "I add.", "\n<tool_call>\n{}</tool_call> x")),
            ("hermes", "", "<think>\nhm\n</think>\n\nFour <t", ("hm", "Four <t", "")),
            ("hermes", "<|im_start|>assistant\n<think>\n", "hm\n</think>\n\nFour", ("hm", "Four", "")),
            ("hermes", "<think>\n\n</think>\n\n", "Four", ("", "Four", "")),
            ("hermes", "", "<think>never\n\nends </th", ("never\n\nends </th", "", "")),
            ("hermes", "", "<think></think><tool_call>", ("", "", "<tool_call>")),
            ("mistral", "", "[THINK]a[/THINK][TOOL_CALLS][{}]", ("a", "", "[TOOL_CALLS][{}]")),
            ("llama3", "", " {\"name\": 1}", ("", "", " {\"name\": 1}")),
            ("llama3", "", "a {b}", ("", "a {b}", "")),
            ("none", "", "<tool_call>", ("", "<tool_call>", "")),
            ("hermes", "", "  ", ("", "  ", "")),
            ("hermes", "", "tail \n", ("", "tail \n", "")),
        ];
        for (format, opened, turn, (thinking, text, calls)) in cases {
            for size in [1, 2, 3, 100] {
                let found = read(format, opened, turn, size);
                assert_eq!(found, (thinking.into(), text.into(), calls.into()), "{turn:?} by {size}");
            }
        }
    }

    #[test]
    fn plain_parser_ignores_markup() {
        let mut parser = TurnParser::plain();
        assert_eq!(parser.feed("<think>a").text, "<think>a");
        assert_eq!(parser.feed("<tool_call>").text, "<tool_call>");
    }

    #[test]
    fn only_marker_prefixes_are_held_back() {
        assert_eq!(safe_prefix_len("a<", &["<b>"]), 1);
        assert_eq!(safe_prefix_len("a<c", &["<b>"]), 3);
        assert_eq!(safe_prefix_len("é<b", &["<b>", "x"]), 2);
        assert_eq!(safe_prefix_len("abc", &[]), 3);
    }
}
