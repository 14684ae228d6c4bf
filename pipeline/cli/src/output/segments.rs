//! Finds the segments of an episode among its messages. A segment is the part of an episode that the model read as one
//! text: a further one begins where a program has a second conversation or rewrites its history, and where a chat
//! template rewrites earlier turns.

use serde_json::{Map, Value};

/// Segments of an episode.
#[derive(Debug, PartialEq, Default)]
pub struct EpisodeSegments {
    /// Number of segments; 0 for a row without tokens.
    pub count: usize,
    /// Index of the first message of each segment; empty if the messages do not show it.
    pub first_messages: Vec<usize>,
}

impl EpisodeSegments {
    /// Reads the segments of a row with its columns per token. Each sampled turn is one message of the assistant, so
    /// the turns before a segment give its place. With further assistant messages, such as those of a rewritten
    /// history, the place is unknown.
    pub fn read(cells: &Map<String, Value>, messages: &[Value]) -> Self {
        let list = |name: &str| cells.get(name).and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
        let (mask, turns) = (list("loss_mask"), list("turn"));
        let restarts: Vec<usize> =
            list("restarts").iter().filter_map(Value::as_u64).filter_map(|at| usize::try_from(at).ok()).collect();
        if restarts.is_empty() || mask.is_empty() || mask.len() != turns.len() {
            let count = if restarts.is_empty() { 0 } else { restarts.len() + 1 };
            return Self { count, first_messages: Vec::new() };
        }
        let is_sampled = |at: usize| mask[at] == Value::Bool(true);
        let continues =
            |at: usize| at > 0 && is_sampled(at - 1) && turns[at - 1] == turns[at] && !restarts.contains(&at);
        let first_tokens: Vec<usize> = (0..mask.len()).filter(|at| is_sampled(*at) && !continues(*at)).collect();
        let role = |message: &Value, role: &str| message.get("role").and_then(Value::as_str) == Some(role);
        let agent: Vec<usize> = (0..messages.len()).filter(|at| role(&messages[*at], "assistant")).collect();
        let count = restarts.len() + 1;
        if agent.len() != first_tokens.len() {
            return Self { count, first_messages: Vec::new() };
        }
        let first_message = |restart: &usize| {
            let earlier = first_tokens.iter().filter(|token| *token < restart).count();
            let after = earlier.checked_sub(1).map_or(0, |last| agent[last] + 1);
            // Results of the last turn's calls belong to the segment of the turn.
            after + messages[after..].iter().take_while(|message| role(message, "tool")).count()
        };
        Self { count, first_messages: [0].into_iter().chain(restarts.iter().map(first_message)).collect() }
    }
    /// Returns headings of the segments that begin with the message at `index`.
    pub fn headings(&self, index: usize, message: &Value) -> Vec<String> {
        let repeats = message.get("role").and_then(Value::as_str) == Some("assistant");
        let note = if repeats { ", which begins with messages from above" } else { "" };
        let numbers = (1..).zip(&self.first_messages).filter(|(_, first)| **first == index);
        numbers.map(|(number, _)| format!("── segment {number} of {}{note}", self.count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(row: &Value) -> EpisodeSegments {
        EpisodeSegments::read(row.as_object().unwrap(), row["messages"].as_array().unwrap())
    }

    fn messages(roles: &[&str]) -> Value {
        roles.iter().map(|role| json!({"role": role, "content": "x"})).collect()
    }

    /// A conversation whose agent calls a tool, a helper with a prompt, and the conversation again with a shorter
    /// history.
    fn row() -> Value {
        json!({
            "messages": messages(&["user", "assistant", "tool", "system", "user", "assistant", "assistant"]),
            "loss_mask": [false, true, true, false, false, false, true, false, true, true],
            "turn": [0, 0, 0, 1, 0, 0, 0, 0, 0, 0],
            "restarts": [4, 7],
        })
    }

    #[test]
    fn segments_begin_after_the_results_of_the_turn_before() {
        let segments = read(&row());
        assert_eq!(segments, EpisodeSegments { count: 3, first_messages: vec![0, 3, 6] });
        let all = row();
        let headings = |at: usize| segments.headings(at, &all["messages"][at]);
        assert_eq!(headings(0), ["── segment 1 of 3"]);
        assert_eq!(headings(3), ["── segment 2 of 3"]);
        assert_eq!(headings(6), ["── segment 3 of 3, which begins with messages from above"]);
        assert_eq!(headings(1), [] as [String; 0]);
    }

    #[test]
    fn turns_that_touch_a_restart_are_counted_apart() {
        let row = json!({
            "messages": messages(&["user", "assistant", "assistant"]),
            "loss_mask": [false, true, true], "turn": [0, 0, 0], "restarts": [2],
        });
        assert_eq!(read(&row).first_messages, [0, 2]);
    }

    #[test]
    fn places_that_messages_do_not_show_are_unknown() {
        let mut rewritten = row();
        rewritten["messages"].as_array_mut().unwrap().insert(4, json!({"role": "assistant", "content": "summary"}));
        assert_eq!(read(&rewritten), EpisodeSegments { count: 3, first_messages: Vec::new() });
        let mut one = row();
        one["restarts"] = json!([]);
        assert_eq!(read(&one), EpisodeSegments::default());
        let mut textual = row();
        textual.as_object_mut().unwrap().remove("loss_mask");
        assert_eq!(read(&textual).count, 3);
    }
}
