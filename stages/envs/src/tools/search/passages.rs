//! Reads passages from JSON Lines files: `{"id": …, "title": …, "text": …}` per line.
//!
//! The title is optional; other keys and blank lines are ignored. Ids must be unique, and every passage needs a text.

use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};

const FORM: &str = r#"write {"id": "…", "title": "…", "text": "…"} on every line"#;

/// One passage of a corpus.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct Passage {
    /// Id, unique within the corpus.
    pub id: String,
    /// Title, which is searched together with the text; empty if absent.
    #[serde(default)]
    pub title: String,
    /// Text that is searched and shown.
    pub text: String,
}

/// Reads all passages of a JSON Lines file, in file order. The error is of kind `data` and names the invalid line.
pub fn read_passages(file: &Path) -> Result<Vec<Passage>> {
    let opened = File::open(file).map_err(|e| io_error(file, &e))?;
    let (mut passages, mut ids) = (Vec::new(), BTreeSet::new());
    for (number, line) in BufReader::new(opened).lines().enumerate() {
        let line = line.map_err(|e| io_error(file, &e))?;
        if line.trim().is_empty() {
            continue;
        }
        let invalid = |problem: String| Error::data(format!("{}:{}: {problem}", file.display(), number + 1));
        let passage: Passage =
            serde_json::from_str(&line).map_err(|e| invalid(format!("not a passage: {e}")).help(FORM))?;
        if passage.text.trim().is_empty() {
            return Err(
                invalid(format!("passage `{}` has no text", passage.id)).help("remove the line, or give it a text")
            );
        }
        if !ids.insert(passage.id.clone()) {
            return Err(
                invalid(format!("the id `{}` is used twice", passage.id)).help("give every passage its own `id`")
            );
        }
        passages.push(passage);
    }
    if passages.is_empty() {
        return Err(Error::data(format!("{}: no passages", file.display()))
            .help("use a JSON Lines file with one passage per line"));
    }
    Ok(passages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::NamedTempFile;

    fn file(text: &str) -> NamedTempFile {
        let file = NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn passages_are_read_in_file_order() {
        let text =
            "{\"id\": \"a\", \"title\": \"A\", \"text\": \"one\"}\n\n{\"id\": \"b\", \"text\": \"two\", \"page\": 3}\n";
        let passages = read_passages(file(text).path()).unwrap();
        let seen: Vec<(&str, &str, &str)> =
            passages.iter().map(|p| (p.id.as_str(), p.title.as_str(), p.text.as_str())).collect();
        assert_eq!(seen, [("a", "A", "one"), ("b", "", "two")]);
    }

    #[test]
    fn errors_name_the_line() {
        let good = "{\"id\": \"a\", \"text\": \"one\"}\n";
        for (text, words) in [
            (format!("{good}{{\n"), ":2: not a passage"),
            (format!("{good}{{\"id\": \"b\", \"text\": \" \"}}\n"), ":2: passage `b` has no text"),
            (format!("{good}{good}"), ":2: the id `a` is used twice"),
            ("\n".to_string(), "no passage"),
        ] {
            let error = read_passages(file(&text).path()).unwrap_err();
            assert!(error.message.contains(words) && error.help.is_some(), "{text}: {error}");
        }
        assert!(read_passages(Path::new("no-such-file.jsonl")).is_err());
    }
}
