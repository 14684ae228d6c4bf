//! Stop texts, independent of token boundaries.

use trainyard_model_api::speech::clear_of;

/// Search for stop texts.
#[derive(Debug, Default)]
pub struct Stops {
    texts: Vec<String>,
    /// Whether the stop text stays in the answer.
    keep: bool,
    held: String,
}

impl Stops {
    /// Creates a search for these texts.
    pub fn new(texts: &[String], keep: bool) -> Self {
        Self { texts: texts.to_vec(), keep, held: String::new() }
    }
    /// Returns the text that belongs to the turn, and the stop text that ended it.
    pub fn feed(&mut self, text: &str) -> (String, Option<String>) {
        if self.texts.is_empty() {
            return (text.to_string(), None);
        }
        self.held.push_str(text);
        let found = self.texts.iter().filter_map(|stop| Some((self.held.find(stop)?, stop))).min_by_key(|(at, _)| *at);
        if let Some((at, stop)) = found {
            let (stop, end) = (stop.clone(), if self.keep { at + stop.len() } else { at });
            self.held.truncate(end);
            return (std::mem::take(&mut self.held), Some(stop));
        }
        let markers: Vec<&str> = self.texts.iter().map(String::as_str).collect();
        let clear = clear_of(&self.held, &markers);
        (self.held.drain(..clear).collect(), None)
    }
    /// Returns text that was held back and is no stop text.
    pub fn end(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_over_the_border_of_pieces() {
        let stops = ["END".to_string(), "\n\n".to_string()];
        let run = |keep: bool, parts: &[&str]| {
            let mut reader = Stops::new(&stops, keep);
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
        assert_eq!(Stops::new(&[], false).feed("x"), ("x".into(), None));
    }
}
