//! Incremental parsing of a model's text into thoughts, text, and the calls that end it.
//!
//! Markup may arrive in parts, so text that could become markup is held back until it is unambiguous. The parser of
//! their format reads calls: from the first sign of one on, all text is kept separately.

/// Opening and closing tags of a thought, by model family.
pub const THOUGHTS: [(&str, &str); 3] =
    [("<think>", "</think>"), ("<|channel>thought", "<channel|>"), ("[THINK]", "[/THINK]")];

/// A sign that calls begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// A text at any place.
    Anywhere(&'static str),
    /// A text at the start of the answer, after optional white space.
    First(&'static str),
}

/// Returns the signs of a format of calls by its name; empty for an unknown format, whose calls are never separated.
pub fn signs(format: &str) -> &'static [Sign] {
    match format {
        "hermes" | "qwen" | "code" | "toolrl" => &[Sign::Anywhere("<tool_call>")],
        "mistral" => &[Sign::Anywhere("[TOOL_CALLS]")],
        "llama3" => &[Sign::Anywhere("<|python_tag|>"), Sign::First("{")],
        _ => &[],
    }
}

/// Text that is unambiguous.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Said {
    /// Text of the thought.
    pub thinking: String,
    /// Text of the answer.
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The text so far is only white space.
    Start,
    /// In a thought that this text ends.
    Thought(&'static str),
    /// After a thought: white space is skipped.
    Behind,
    Text,
    Calls,
}

/// Parser of a streamed turn.
#[derive(Debug, Clone)]
pub struct Speech {
    signs: &'static [Sign],
    state: State,
    /// Whether the thought has had more than white space.
    pondered: bool,
    held: String,
    calls: String,
}

impl Speech {
    /// Creates a parser of calls with these signs; without any, calls are not separated. `opened` is the end of the
    /// prompt, which may open a thought.
    pub fn new(signs: &'static [Sign], opened: &str) -> Self {
        let opened = opened.trim_end();
        let thought = THOUGHTS.iter().find(|(open, _)| opened.ends_with(open));
        let state = thought.map_or(State::Start, |(_, close)| State::Thought(close));
        Self { signs, state, pondered: false, held: String::new(), calls: String::new() }
    }
    /// Creates a parser of a turn without markup: all of it is text.
    pub fn plain() -> Self {
        Self { signs: &[], state: State::Text, pondered: false, held: String::new(), calls: String::new() }
    }
    /// Returns whether the parser is within a thought.
    pub fn thinks(&self) -> bool {
        matches!(self.state, State::Thought(_))
    }
    /// Returns whether calls have begun.
    pub fn calls(&self) -> bool {
        self.state == State::Calls
    }
    /// Returns the text of the calls so far, including markup.
    pub fn call_text(&self) -> &str {
        &self.calls
    }
    /// Parses more of the turn.
    pub fn feed(&mut self, text: &str) -> Said {
        self.held.push_str(text);
        let mut said = Said::default();
        while self.step(&mut said, false) {}
        said
    }
    /// Ends the turn: text that was held back becomes final.
    pub fn end(&mut self) -> Said {
        let mut said = Said::default();
        while self.step(&mut said, true) {}
        said
    }
    /// Parses a part of the held text; returns whether there may be another.
    fn step(&mut self, said: &mut Said, last: bool) -> bool {
        match self.state {
            State::Calls => {
                self.calls.push_str(&std::mem::take(&mut self.held));
                false
            }
            State::Start => self.start(last),
            State::Behind => {
                self.held = self.held.trim_start().to_string();
                if self.held.is_empty() {
                    return false;
                }
                self.state = State::Start;
                true
            }
            State::Thought(close) => self.think(close, said, last),
            State::Text => self.speak(said, last),
        }
    }
    /// Parses a thought, without the white space at both ends.
    fn think(&mut self, close: &str, said: &mut Said, last: bool) -> bool {
        if !self.pondered {
            self.held = self.held.trim_start().to_string();
        }
        if let Some(at) = self.held.find(close) {
            said.thinking.push_str(self.held[..at].trim_end());
            self.held.drain(..at + close.len());
            self.state = State::Behind;
            return true;
        }
        let clear = self.held[..self.clear(&[close], last)].trim_end().len();
        self.pondered |= clear > 0;
        said.thinking.extend(self.held.drain(..clear));
        false
    }
    /// Determines the start of the turn.
    fn start(&mut self, last: bool) -> bool {
        let begun = self.held.trim_start();
        if begun.is_empty() && !last {
            return false;
        }
        if let Some((open, close)) = THOUGHTS.iter().find(|(open, _)| begun.starts_with(open)) {
            self.held = begun[open.len()..].to_string();
            self.state = State::Thought(close);
            return true;
        }
        let first = |sign: &Sign| matches!(sign, Sign::First(text) if begun.starts_with(text));
        if self.signs.iter().any(first) {
            self.state = State::Calls;
            return true;
        }
        let could = THOUGHTS.iter().any(|(open, _)| open.starts_with(begun));
        if could && !last {
            return false;
        }
        self.state = State::Text;
        true
    }
    fn speak(&mut self, said: &mut Said, last: bool) -> bool {
        let anywhere = self.signs.iter().filter_map(|sign| match sign {
            Sign::Anywhere(text) => Some(*text),
            Sign::First(_) => None,
        });
        let anywhere: Vec<&str> = anywhere.collect();
        if let Some(at) = anywhere.iter().filter_map(|sign| self.held.find(sign)).min() {
            // White space before a call belongs to the call, in case it is shown as text.
            let spoken = self.held[..at].trim_end().len();
            said.text.extend(self.held.drain(..spoken));
            self.state = State::Calls;
            return true;
        }
        let mut clear = self.clear(&anywhere, last);
        if !last && !anywhere.is_empty() {
            // White space may precede a call.
            clear = self.held[..clear].trim_end().len();
        }
        said.text.extend(self.held.drain(..clear));
        false
    }
    /// Returns the bytes of the held text that cannot begin a marker.
    fn clear(&self, markers: &[&str], last: bool) -> usize {
        if last { self.held.len() } else { clear_of(&self.held, markers) }
    }
}

/// Returns the bytes at the start of a text that cannot be part of one of the markers, whatever follows.
pub fn clear_of(text: &str, markers: &[&str]) -> usize {
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
        let mut speech = Speech::new(signs(format), opened);
        let mut all = Said::default();
        let characters: Vec<char> = turn.chars().collect();
        for part in characters.chunks(size) {
            let said = speech.feed(&part.iter().collect::<String>());
            all.thinking += &said.thinking;
            all.text += &said.text;
        }
        let said = speech.end();
        (all.thinking + &said.thinking, all.text + &said.text, speech.call_text().to_string())
    }

    #[test]
    fn turns_are_taken_apart_however_they_come() {
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
    fn plain_turns_have_no_markup() {
        let mut speech = Speech::plain();
        assert_eq!(speech.feed("<think>a").text, "<think>a");
        assert_eq!(speech.feed("<tool_call>").text, "<tool_call>");
    }

    #[test]
    fn only_beginnings_of_markers_are_held_back() {
        assert_eq!(clear_of("a<", &["<b>"]), 1);
        assert_eq!(clear_of("a<c", &["<b>"]), 3);
        assert_eq!(clear_of("é<b", &["<b>", "x"]), 2);
        assert_eq!(clear_of("abc", &[]), 3);
    }
}
