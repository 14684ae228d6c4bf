//! Searches messages that are in memory, without an index.

use super::Excerpt;
use super::build::searched_text;
use super::pattern::{PatternKind, SearchPattern};
use trainyard_core::Result;
use trainyard_tables::Message;

/// Page of the messages that match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MessageMatches {
    /// Number of each message, from 0, with the excerpt of its first match.
    pub shown: Vec<(usize, Excerpt)>,
    /// Number of all messages that match.
    pub total: usize,
}

/// Searches messages: their contents, reasoning and tool calls. Leaves out the first `from` messages that match, and
/// returns at most `limit`. Errors: invalid (an empty pattern, a mistake in a regular expression).
pub fn search_messages(
    messages: &[Message],
    (pattern, kind): (&str, PatternKind),
    (from, limit): (usize, usize),
) -> Result<MessageMatches> {
    let pattern = SearchPattern::new(pattern, kind)?;
    let mut found = MessageMatches::default();
    for (number, message) in messages.iter().enumerate() {
        let text = searched_text(message);
        let Some(range) = pattern.find(&text) else { continue };
        if found.total >= from && found.shown.len() < limit {
            found.shown.push((number, Excerpt::of(&text, range)));
        }
        found.total += 1;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(pattern: &str, kind: PatternKind, part: (usize, usize)) -> (Vec<usize>, usize) {
        let call = Message { tool_calls: Some(r#"[{"name": "Lima"}]"#.into()), ..Message::default() };
        let thought = Message { reasoning_content: Some("not lima".into()), ..Message::new("assistant", "Oslo") };
        let messages = [Message::new("user", "LIMA or Oslo?"), call, Message::new("tool", "20"), thought];
        let found = search_messages(&messages, (pattern, kind), part).unwrap();
        (found.shown.iter().map(|(number, _)| *number).collect(), found.total)
    }

    #[test]
    fn contents_reasoning_and_calls_are_searched() {
        assert_eq!(numbers("lima", PatternKind::Text, (0, 10)), (vec![0, 1, 3], 3));
        assert_eq!(numbers("L.ma", PatternKind::Regex, (0, 10)), (vec![1], 1));
        assert_eq!(numbers("Bergen", PatternKind::Text, (0, 10)), (vec![], 0));
    }

    #[test]
    fn matches_are_paged_and_all_counted() {
        assert_eq!(numbers("lima", PatternKind::Text, (1, 1)), (vec![1], 3));
        assert_eq!(numbers("lima", PatternKind::Text, (9, 5)), (vec![], 3));
    }

    #[test]
    fn an_excerpt_has_the_match() {
        let found = search_messages(&[Message::new("tool", "a\nneedle b")], ("NEEDLE", PatternKind::Text), (0, 1));
        let excerpt = found.unwrap().shown.remove(0).1;
        assert_eq!((excerpt.before.as_str(), excerpt.found.as_str(), excerpt.after.as_str()), ("a ", "needle", " b"));
        assert!(search_messages(&[], ("", PatternKind::Text), (0, 1)).is_err());
    }
}
