//! Finds stop texts in streamed text, independent of token boundaries.

use trainyard_model_api::turn_parser::safe_prefix_len;

/// Search for stop texts.
#[derive(Debug, Default)]
pub struct StopMatcher {
    texts: Vec<String>,
    /// Whether the stop text stays in the response.
    keep: bool,
    buffer: String,
}

impl StopMatcher {
    /// Creates a matcher of `texts`; `keep` keeps the stop text in the response.
    pub fn new(texts: &[String], keep: bool) -> Self {
        Self { texts: texts.to_vec(), keep, buffer: String::new() }
    }
    /// Adds text, and returns the text that belongs to the turn and the stop text, if one ends the turn. Text that may
    /// begin a stop text is held back.
    pub fn feed(&mut self, text: &str) -> (String, Option<String>) {
        if self.texts.is_empty() {
            return (text.to_string(), None);
        }
        self.buffer.push_str(text);
        let found =
            self.texts.iter().filter_map(|stop| Some((self.buffer.find(stop)?, stop))).min_by_key(|(at, _)| *at);
        if let Some((at, stop)) = found {
            let (stop, end) = (stop.clone(), if self.keep { at + stop.len() } else { at });
            self.buffer.truncate(end);
            return (std::mem::take(&mut self.buffer), Some(stop));
        }
        let markers: Vec<&str> = self.texts.iter().map(String::as_str).collect();
        let safe = safe_prefix_len(&self.buffer, &markers);
        (self.buffer.drain(..safe).collect(), None)
    }
    /// Returns the text that was held back.
    pub fn end(&mut self) -> String {
        std::mem::take(&mut self.buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_text_is_found_across_chunks() {
        let stops = ["END".to_string(), "\n\n".to_string()];
        let run = |keep: bool, parts: &[&str]| {
            let mut reader = StopMatcher::new(&stops, keep);
            let mut all = String::new();
            for part in parts {
                let (text, stop) = reader.feed(part);
                all += &text;
                if stop.is_some() {
                    return (all, stop);
                }
            }
            (all + &reader.end(), None)
        };
        assert_eq!(run(false, &["a E", "N", "D b"]), ("a ".into(), Some("END".into())));
        assert_eq!(run(true, &["a E", "N", "D b"]), ("a END".into(), Some("END".into())));
        assert_eq!(run(false, &["a\n", "b\n", "\n"]), ("a\nb".into(), Some("\n\n".into())));
        assert_eq!(run(false, &["a E", "N"]), ("a EN".into(), None));
        assert_eq!(StopMatcher::new(&[], false).feed("x"), ("x".into(), None));
    }
}
