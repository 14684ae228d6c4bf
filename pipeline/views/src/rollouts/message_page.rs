//! Divides the messages of a rollout into pages of bounded size.

use serde::de::IgnoredAny;
use std::ops::Range;
use trainyard_tables::Message;

/// Maximum elements of a page of messages. With everything else that the page of a rollout may show at once, it has
/// fewer than 3,000.
const ELEMENTS: usize = 1_200;
/// Maximum elements of a message without its texts and calls: the article, its heading with the role, the number and a
/// failed call, and the id of the answered call.
const OF_MESSAGE: usize = 8;
/// Maximum elements of a tool call.
const OF_CALL: usize = 6;
/// Elements of the link to the rest of a text, or to the calls that are left out.
const OF_LINK: usize = 2;
/// Tool calls of one message that are shown.
pub(super) const CALLS: usize = 40;
/// Maximum characters of a page of messages, which a browser lays out within a frame of 50 ms. It needs three times as
/// long for 400,000.
const CHARS: usize = 100_000;

/// Messages of one page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessagePage {
    /// Numbers of the messages, from 0.
    pub range: Range<usize>,
    /// First message of the page before; `None` on the first page.
    pub previous: Option<usize>,
    /// First message of the page after; `None` on the last page.
    pub next: Option<usize>,
    /// First message of the page that ends with the last message.
    pub last: usize,
    /// Number of tool calls of a message that are shown.
    pub calls: usize,
}

/// Returns the page of the messages from number `from` on. A text counts with at most `cut` bytes, since longer ones
/// are cut.
pub fn message_page(messages: &[Message], from: usize, cut: usize) -> MessagePage {
    let from = from.min(messages.len().saturating_sub(1));
    let end = from + fitting(messages[from..].iter(), cut);
    let before = fitting(messages[..from].iter().rev(), cut);
    MessagePage {
        range: from..end,
        previous: (from > 0).then(|| from - before),
        next: (end < messages.len()).then_some(end),
        last: messages.len() - fitting(messages.iter().rev(), cut),
        calls: CALLS,
    }
}

/// Counts the messages that fit on a page; the first one always does.
fn fitting<'a>(messages: impl Iterator<Item = &'a Message>, cut: usize) -> usize {
    let (mut elements, mut chars, mut count) = (0, 0, 0);
    for message in messages {
        elements += elements_of(message, cut);
        chars += texts(message).into_iter().flatten().map(|text| text.len().min(cut)).sum::<usize>();
        if count > 0 && (elements > ELEMENTS || chars > CHARS) {
            break;
        }
        count += 1;
    }
    count
}

/// Returns the content, the reasoning and the calls.
fn texts(message: &Message) -> [Option<&str>; 3] {
    [Some(message.content.as_str()), message.reasoning_content.as_deref(), message.tool_calls.as_deref()]
}

/// Returns the maximum number of elements that show a message.
fn elements_of(message: &Message, cut: usize) -> usize {
    let [content, reasoning, calls] = texts(message);
    let of_text = |text: &str| if text.len() > cut { 1 + OF_LINK } else { usize::from(!text.is_empty()) };
    // Reasoning is folded: its box has a summary.
    let folded = if reasoning.is_some_and(|text| !text.is_empty()) { 2 } else { 0 };
    let of_calls = |stored: &str| match serde_json::from_str::<Vec<IgnoredAny>>(stored) {
        Ok(calls) => OF_CALL * calls.len().min(CALLS) + if calls.len() > CALLS { OF_LINK } else { 0 },
        Err(_) => OF_CALL,
    };
    OF_MESSAGE + content.map_or(0, of_text) + reasoning.map_or(0, of_text) + folded + calls.map_or(0, of_calls)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(stored: &str) -> Message {
        Message { tool_calls: Some(stored.into()), ..Message::default() }
    }

    #[test]
    fn pages_have_all_messages_once() {
        let call = calls(r#"[{"name": "a"}, {"name": "b"}]"#);
        let messages: Vec<Message> =
            (0..33_000).map(|n| if n % 2 == 0 { call.clone() } else { Message::new("tool", "5") }).collect();
        let (mut from, mut pages) = (0, 0);
        while let Some(next) = {
            let page = message_page(&messages, from, 20_000);
            assert_eq!(page.range.start, from);
            let elements: usize = messages[page.range.clone()].iter().map(|one| elements_of(one, 20_000)).sum();
            let is_whole = page.range.len() > 50 || page.next.is_none();
            assert!(elements <= ELEMENTS && is_whole, "{page:?} has {elements} elements");
            page.next
        } {
            assert_eq!(message_page(&messages, next, 20_000).previous.map(|at| at <= next), Some(true));
            from = next;
            pages += 1;
        }
        assert!(pages > 300, "{pages}");
        assert_eq!(message_page(&messages, 40_000, 1).range.end, 33_000);
    }

    #[test]
    fn the_last_page_ends_with_the_last_message() {
        let messages = vec![Message::new("tool", "5"); 33_000];
        let last = message_page(&messages, 0, 20_000).last;
        let page = message_page(&messages, last, 20_000);
        assert_eq!((page.range, page.next, page.last), (last..33_000, None, last));
        assert!(last > 32_000 && last < 32_950, "{last} begins a whole page");
        assert_eq!(message_page(&messages[..3], 0, 20_000).last, 0);
    }

    #[test]
    fn elements_are_those_of_the_page() {
        let of = |stored: &str| elements_of(&calls(stored), 100);
        assert_eq!(elements_of(&Message::new("user", ""), 100), OF_MESSAGE);
        assert_eq!(elements_of(&Message::new("user", "x".repeat(101)), 100), OF_MESSAGE + 3, "a text and a link");
        assert_eq!((of("[]"), of("[{}, {}, 3]"), of("no list")), (8, 8 + 3 * 6, 8 + 6), "calls need no name");
        assert_eq!(of(&serde_json::to_string(&vec![0; 60]).unwrap()), 8 + CALLS * 6 + 2, "the others are a link");
        let thought = Message { reasoning_content: Some("so".into()), ..Message::default() };
        assert_eq!(elements_of(&thought, 100), OF_MESSAGE + 3);
    }

    #[test]
    fn long_messages_end_a_page() {
        let messages = vec![Message::new("user", "x".repeat(10_000_000)); 50];
        let page = message_page(&messages, 0, 20_000);
        assert_eq!((page.range, page.next), (0..5, Some(5)), "5 times 20,000 characters");
        assert_eq!(message_page(&messages, 30, usize::MAX).range, 30..31, "at least one message");
        assert_eq!(message_page(&[], 5, 10).range, 0..0);
    }
}
