//! Finds the bodies of calls between the tags that several formats share.

/// Opens a call.
pub const OPEN: &str = "<tool_call>";
/// Closes a call.
pub const CLOSE: &str = "</tool_call>";

/// Returns the texts between the tags, in order, with an error for an unclosed call or a stray closing tag.
pub(crate) fn bodies(text: &str) -> Vec<Result<&str, String>> {
    let mut bodies = Vec::new();
    let mut rest = text;
    loop {
        let (open, close) = (rest.find(OPEN), rest.find(CLOSE));
        match (open, close) {
            (None, None) => return bodies,
            (None, Some(at)) => {
                bodies.push(Err(format!("error: {CLOSE} without {OPEN}")));
                rest = &rest[at + CLOSE.len()..];
            }
            (Some(open), Some(close)) if close < open => {
                bodies.push(Err(format!("error: {CLOSE} without {OPEN}")));
                rest = &rest[close + CLOSE.len()..];
            }
            (Some(open), _) => {
                let inside = &rest[open + OPEN.len()..];
                match (inside.find(CLOSE), inside.find(OPEN)) {
                    (Some(close), None) => {
                        bodies.push(Ok(&inside[..close]));
                        rest = &inside[close + CLOSE.len()..];
                    }
                    (Some(close), Some(next)) if close < next => {
                        bodies.push(Ok(&inside[..close]));
                        rest = &inside[close + CLOSE.len()..];
                    }
                    (_, Some(next)) => {
                        bodies.push(Err(format!("error: the tool call is not closed by {CLOSE}")));
                        rest = &inside[next..];
                    }
                    (None, None) => {
                        bodies.push(Err(format!("error: the tool call is not closed by {CLOSE}")));
                        return bodies;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str) -> Vec<String> {
        bodies(text).into_iter().map(|b| b.map_or_else(|_| "!".to_string(), str::to_string)).collect()
    }

    #[test]
    fn calls_are_found_and_stray_tags_reported() {
        assert_eq!(shown("hello"), Vec::<String>::new());
        assert_eq!(shown("a<tool_call>1</tool_call>b<tool_call>2</tool_call>"), ["1", "2"]);
        assert_eq!(shown("<tool_call>1"), ["!"]);
        assert_eq!(shown("</tool_call>"), ["!"]);
        assert_eq!(shown("</tool_call><tool_call>1</tool_call>"), ["!", "1"]);
        assert_eq!(shown("<tool_call>1<tool_call>2</tool_call>"), ["!", "2"]);
        assert_eq!(shown("<tool_call>1</tool_call></tool_call>"), ["1", "!"]);
        assert_eq!(shown("<tool_call></tool_call>"), [""]);
    }

    proptest! {
        #[test]
        fn any_mix_of_tags_is_read(
            parts in proptest::collection::vec(
                prop_oneof![Just(OPEN), Just(CLOSE), Just("é"), Just("x=1\n")],
                0..12,
            ),
        ) {
            let text = parts.concat();
            let found = bodies(&text);
            prop_assert_eq!(found.is_empty(), !text.contains(OPEN) && !text.contains(CLOSE));
        }
    }
}
