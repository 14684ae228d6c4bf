//! Handles thoughts that a template moves: the generation prompt opens them, and earlier turns lose them.

use trainyard_tables::Message;

/// Opening and closing tags of a thought, by family.
const TAGS: [(&str, &str); 3] = [("<think>", "</think>"), ("<|channel>thought", "<channel|>"), ("[THINK]", "[/THINK]")];

/// Returns the start of the thought that is open at byte `at` of a generation prompt, or `at` if no thought is open.
pub fn reasoning_start(prompt: &str, at: usize) -> usize {
    if at == prompt.len() {
        return at;
    }
    let open = TAGS.iter().filter_map(|(open, close)| {
        // The tag may extend beyond `at`, because other tags have the same start.
        let end = prompt.floor_char_boundary(at + open.len());
        let from = prompt[..end].rfind(open).filter(|from| *from <= at)?;
        (!prompt[from..at].contains(close)).then_some(from)
    });
    open.max().unwrap_or(at)
}

/// Returns the text that the model is to write after a generation prompt that ends with `opened`. `shown` is the
/// template's text of the message without `opened`. Returns `None` if `opened` is no thought.
///
/// If the prompt opens a thought, the text begins with the thought of the message (an empty one if it is absent). If
/// the prompt also closes the thought, the text is the part after the thought.
pub fn continue_reasoning(opened: &str, shown: &str, message: &Message) -> Option<String> {
    let (_, close) = TAGS.iter().find(|(open, _)| opened.trim_start().starts_with(open))?;
    let shown = shown.split_once(close).map_or(shown, |(_, rest)| rest);
    if opened.contains(close) {
        return Some(shown.trim_start_matches('\n').to_string());
    }
    let space = &opened[opened.trim_end().len()..];
    let (thought, gap) = match (&message.reasoning_content, message.content.split_once(close)) {
        (Some(thought), _) => (thought.as_str(), "\n\n"),
        (None, Some((thought, after))) => (thought, &after[..after.len() - after.trim_start().len()]),
        (None, None) => ("", "\n\n"),
    };
    let thought = TAGS.iter().fold(thought.trim_start(), |t, (open, _)| t.strip_prefix(open).unwrap_or(t)).trim();
    let break_before = if space.is_empty() { "" } else { "\n" };
    Some(format!("{thought}{break_before}{close}{gap}{}", shown.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thought_that_the_prompt_opens_is_continued() {
        let tagged = Message::new("assistant", "<think>\nAdd.\n</think>\n\n7");
        let separate = Message { reasoning_content: Some("Add.".into()), ..Message::new("assistant", "7") };
        for message in [&tagged, &separate] {
            let text = continue_reasoning("<think>\n", "\n\n7<end>", message).unwrap();
            assert_eq!(text, "Add.\n</think>\n\n7<end>");
        }
        let plain = Message::new("assistant", "7");
        assert_eq!(continue_reasoning("<think>\n", "7<end>", &plain).unwrap(), "\n</think>\n\n7<end>");
    }

    #[test]
    fn open_thought_is_found_at_the_first_difference() {
        let prompt = "<a><think>\n\n</think>\n\n";
        for at in ["<a>", "<a><t", "<a><think>\n"].map(str::len) {
            assert_eq!(reasoning_start(prompt, at), 3, "{at}");
        }
        assert_eq!(reasoning_start(prompt, 2), 2);
        assert_eq!(reasoning_start(prompt, prompt.len()), prompt.len());
        assert_eq!(reasoning_start("<think>a</think>b", 16), 16);
    }

    #[test]
    fn a_thought_that_the_prompt_closes_is_left_out() {
        let message = Message::new("assistant", "<think>\nAdd.\n</think>\n\n7");
        let shown = "<think>\nAdd.\n</think>\n\n7<end>";
        assert_eq!(continue_reasoning("<think>\n\n</think>\n\n", shown, &message).unwrap(), "7<end>");
        assert_eq!(continue_reasoning("\n\n</think>\n\n", shown, &message), None);
        assert_eq!(continue_reasoning("Answer: ", "7<end>", &message), None);
    }
}
