//! Recognizes free text: the characters of a JSON string, or raw text without certain parts.

/// Maximum texts that free text must not contain.
const MAX_EXCLUDED: usize = 4;

/// Rule of free text.
#[derive(Debug, Clone)]
pub struct TextRule {
    /// Whether the text is within a JSON string.
    json: bool,
    /// Texts that it does not contain; the first byte of each does not occur again in it.
    excluded: Vec<Vec<u8>>,
    /// Minimum and maximum of its characters.
    min: u32,
    max: Option<u32>,
}

/// An incomplete character or escape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Pending {
    Nothing,
    /// A character that needs this many bytes more, the next one within the bounds.
    Utf8(u8, u8, u8),
    Escape,
    /// An escape by code with this many digits.
    Code(u8),
}

/// State within free text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TextState {
    pending: Pending,
    /// Complete characters, not counted beyond what the rule bounds.
    count: u32,
    /// Bytes of each excluded text that the text ends with.
    begun: [u8; MAX_EXCLUDED],
}

impl TextState {
    pub const START: Self = Self { pending: Pending::Nothing, count: 0, begun: [0; MAX_EXCLUDED] };
}

impl TextRule {
    /// Creates the rule of the characters of a JSON string.
    pub fn json(excluded: &[&str], min: u32, max: Option<u32>) -> Self {
        Self { json: true, excluded: bytes(excluded), min, max }
    }
    /// Creates the rule of raw text.
    pub fn raw(excluded: &[&str]) -> Self {
        Self { json: false, excluded: bytes(excluded), min: 0, max: None }
    }
    /// Returns whether the text may end.
    pub fn may_end(&self, state: &TextState) -> bool {
        state.pending == Pending::Nothing && state.count >= self.min
    }
    /// Returns the state after a byte, or `None` if the text cannot contain it there.
    pub fn step(&self, state: &TextState, byte: u8) -> Option<TextState> {
        let begun = self.without_excluded(state.begun, byte)?;
        let count = state.count;
        let next = |pending| Some(TextState { pending, count, begun });
        let complete = Some(TextState { pending: Pending::Nothing, count: self.counted(count), begun });
        match state.pending {
            Pending::Nothing if self.max.is_some_and(|max| count >= max) => None,
            Pending::Nothing => match byte {
                b'\\' if self.json => next(Pending::Escape),
                b'"' if self.json => None,
                b'\n' | b'\t' if !self.json => complete,
                0x20..=0x7e => complete,
                0xc2..=0xdf => next(Pending::Utf8(1, 0x80, 0xbf)),
                0xe0 => next(Pending::Utf8(2, 0xa0, 0xbf)),
                0xed => next(Pending::Utf8(2, 0x80, 0x9f)),
                0xe1..=0xef => next(Pending::Utf8(2, 0x80, 0xbf)),
                0xf0 => next(Pending::Utf8(3, 0x90, 0xbf)),
                0xf1..=0xf3 => next(Pending::Utf8(3, 0x80, 0xbf)),
                0xf4 => next(Pending::Utf8(3, 0x80, 0x8f)),
                _ => None,
            },
            Pending::Utf8(_, low, high) if byte < low || byte > high => None,
            Pending::Utf8(1, ..) => complete,
            Pending::Utf8(more, ..) => next(Pending::Utf8(more - 1, 0x80, 0xbf)),
            Pending::Escape => match byte {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => complete,
                b'u' => next(Pending::Code(0)),
                _ => None,
            },
            // Codes from D800 on are halves of a character, which are no text alone.
            Pending::Code(0) if matches!(byte, b'd' | b'D') => None,
            Pending::Code(_) if !byte.is_ascii_hexdigit() => None,
            Pending::Code(3) => complete,
            Pending::Code(digits) => next(Pending::Code(digits + 1)),
        }
    }
    /// Returns the count after one more character; counts that differ in nothing stay equal.
    fn counted(&self, count: u32) -> u32 {
        if self.max.is_some() || count < self.min { count + 1 } else { count }
    }
    fn without_excluded(&self, mut begun: [u8; MAX_EXCLUDED], byte: u8) -> Option<[u8; MAX_EXCLUDED]> {
        for (text, length) in self.excluded.iter().zip(&mut begun) {
            *length = if text[usize::from(*length)] == byte { *length + 1 } else { u8::from(text[0] == byte) };
            if usize::from(*length) == text.len() {
                return None;
            }
        }
        Some(begun)
    }
}

fn bytes(texts: &[&str]) -> Vec<Vec<u8>> {
    debug_assert!(texts.len() <= MAX_EXCLUDED);
    texts.iter().filter(|text| text.len() > 1).map(|text| text.as_bytes().to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(rule: &TextRule, text: &[u8]) -> bool {
        let mut state = Some(TextState::START);
        for byte in text {
            state = state.and_then(|state| rule.step(&state, *byte));
        }
        state.is_some_and(|state| rule.may_end(&state))
    }

    #[test]
    fn json_text_has_only_valid_characters_and_escapes() {
        let rule = TextRule::json(&[], 0, None);
        for good in ["", "a b", "naïve ☃ 漢字 🙂", r"\n\\\u00e9", r#"\""#] {
            assert!(accepts(&rule, good.as_bytes()), "{good}");
            assert!(serde_json::from_str::<String>(&format!("\"{good}\"")).is_ok(), "{good}");
        }
        for bad in [&b"\""[..], b"\n", br"\x", br"\ud834", br"\u00g0", b"\xc3", b"\xed\xa0\x80", b"\xff", br"\"] {
            assert!(!accepts(&rule, bad), "{bad:?}");
        }
    }

    #[test]
    fn characters_are_counted_and_excluded_texts_refused() {
        let rule = TextRule::json(&[], 2, Some(3));
        assert_eq!(
            ["a", "☃☃", r"\n\u0041☃", "abcd"].map(|text| accepts(&rule, text.as_bytes())),
            [false, true, true, false]
        );
        let rule = TextRule::raw(&["</think>"]);
        assert!(accepts(&rule, b"a < b\n<</thin k> </think"));
        assert!(!accepts(&rule, b"a<</think>"));
    }
}
