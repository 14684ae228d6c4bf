//! Implements the tool `search`, which returns the best matching passages of a local corpus.
//!
//! A result has one passage per line (`title: text`), best first, ranked by BM25 ([`index`]). The tool needs a corpus,
//! so the environment that has one opens the sessions.

pub mod index;
pub mod passages;

pub use index::SearchIndex;
pub use passages::{Passage, read_passages};

use crate::tools::tool::text_argument;
use crate::tools::{PendingToolResult, ToolResult, ToolSession, ToolSpec};
use serde_json::{Value, json};
use std::sync::Arc;
use trainyard_core::Result;

/// The tool's name in calls.
pub const NAME: &str = "search";
/// Maximum length of a query in bytes.
pub const MAX_QUERY_BYTES: usize = 1 << 10;
/// Result when no passage contains a word of the query.
pub const NO_RESULTS: &str = "no passages found";

const DESCRIPTION: &str = "Searches a collection of passages and returns those that fit the query best, one a line. \
A query is plain words.";

/// Returns the tool's description for the model.
pub fn spec() -> ToolSpec {
    ToolSpec {
        name: NAME.to_string(),
        description: DESCRIPTION.to_string(),
        parameters: json!({
            "type": "object",
            "properties": {"query": {"type": "string", "description": "for example: founder of Brixel"}},
            "required": ["query"],
        }),
    }
}

/// A stateless session that reads an index shared by all sessions.
pub struct SearchSession {
    index: Arc<SearchIndex>,
    top_k: usize,
    output_bytes: usize,
}

impl SearchSession {
    /// Returns a session whose results have up to `top_k` passages and `output_bytes` bytes.
    pub fn new(index: Arc<SearchIndex>, top_k: usize, output_bytes: usize) -> Self {
        Self { index, top_k, output_bytes }
    }
    fn search(&self, query: &str) -> ToolResult {
        if query.len() > MAX_QUERY_BYTES {
            return ToolResult::error(format!("error: the query is longer than {MAX_QUERY_BYTES} bytes"));
        }
        match self.index.search(query, self.top_k) {
            Ok(None) => ToolResult::error("error: the query has no word"),
            Ok(Some(found)) if found.is_empty() => ToolResult::ok(NO_RESULTS),
            Ok(Some(found)) => ToolResult::ok(page(&found, self.output_bytes)),
            Err(e) => ToolResult::infrastructure(format!("error: {}", e.message)),
        }
    }
}

impl ToolSession for SearchSession {
    fn submit(&mut self, arguments: &Value) -> PendingToolResult {
        PendingToolResult::ready(match text_argument(NAME, "query", arguments) {
            Err(error) => error,
            Ok(query) => self.search(query),
        })
    }
    fn fork(&self) -> Result<Box<dyn ToolSession>> {
        Ok(Box::new(Self::new(Arc::clone(&self.index), self.top_k, self.output_bytes)))
    }
}

/// Returns the passages, one per line. The first passage that exceeds `max_bytes` ends the result. If the very first
/// one is too long, it is cut, so that a result is never empty.
fn page(found: &[&Passage], max_bytes: usize) -> String {
    let mut page = String::new();
    for passage in found {
        let line = line(passage);
        if page.is_empty() {
            page.push_str(&line[..line.floor_char_boundary(max_bytes)]);
        } else if page.len() + 1 + line.len() <= max_bytes {
            page.push('\n');
            page.push_str(&line);
        } else {
            break;
        }
    }
    page
}

/// Returns `title: text` without line breaks.
fn line(passage: &Passage) -> String {
    let text: Vec<&str> = passage.text.split_whitespace().collect();
    let title: Vec<&str> = passage.title.split_whitespace().collect();
    if title.is_empty() { text.join(" ") } else { format!("{}: {}", title.join(" "), text.join(" ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passage(id: &str, title: &str, text: &str) -> Passage {
        Passage { id: id.to_string(), title: title.to_string(), text: text.to_string() }
    }

    fn session(top_k: usize, output_bytes: usize) -> SearchSession {
        let passages = vec![
            passage("a", "Oslo", "Oslo lies on\na fjord."),
            passage("b", "", "Bergen lies on a fjord, too."),
            passage("c", "Rome", "Rome lies on the Tiber."),
        ];
        SearchSession::new(Arc::new(SearchIndex::build(passages).unwrap()), top_k, output_bytes)
    }

    fn ask(session: &mut dyn ToolSession, arguments: &Value) -> ToolResult {
        session.submit(arguments).poll().unwrap()
    }

    #[test]
    fn results_have_one_passage_per_line_best_first() {
        let mut two = session(2, 2048);
        let found = ask(&mut two, &json!({"query": "Oslo fjord"}));
        assert_eq!(found, ToolResult::ok("Oslo: Oslo lies on a fjord.\nBergen lies on a fjord, too."));
        let fork = two.fork().unwrap().submit(&json!({"query": "TIBER?"})).poll().unwrap();
        assert_eq!(fork, ToolResult::ok("Rome: Rome lies on the Tiber."));
        assert_eq!(ask(&mut two, &json!({"query": "Paris"})), ToolResult::ok(NO_RESULTS));
    }

    #[test]
    fn passages_that_do_not_fit_are_left_out_and_the_first_is_cut() {
        let query = json!({"query": "Oslo fjord"});
        let line = "Oslo: Oslo lies on a fjord.";
        assert_eq!(ask(&mut session(2, 40), &query).text, line);
        assert_eq!(ask(&mut session(2, 9), &query).text, "Oslo: Osl");
        assert_eq!(ask(&mut session(1, 2048), &query).text, line);
    }

    #[test]
    fn agent_sees_errors_for_bad_queries() {
        for (arguments, words) in [
            (json!({"query": " ?! "}), "no word"),
            (json!({"query": "a".repeat(2000)}), "longer than"),
            (json!({"query": 3}), "must be a string"),
            (json!({}), "needs the argument"),
        ] {
            let result = ask(&mut session(1, 2048), &arguments);
            assert!(result.error && !result.infrastructure && result.text.contains(words), "{arguments}: {result:?}");
        }
    }
}
