//! Finds the words of a command whose files are sources: `[python3, my_reward.py]`.
//!
//! The schema marks commands by `"format": "command"`. A word is a source if it names a file by a path relative to the
//! file in which it is written. After the first word, an absolute path names a source too. All other words stay words:
//! `python3` is found on the PATH of the machine, and the machine has its own `/usr/bin/python3`.

use crate::files::FileSystem;
use std::path::Path;

/// File extensions of programs that need an interpreter.
pub const SCRIPTS: [&str; 8] = [".bash", ".jl", ".js", ".pl", ".py", ".r", ".rb", ".sh"];

/// Whether a word can only be a file: a relative path with the extension of a script, or one that begins with a dot.
pub fn is_script(word: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    let ends = SCRIPTS.iter().any(|ending| word.to_lowercase().ends_with(ending));
    !word.starts_with(['/', '-'])
        && word.chars().all(plain)
        && (ends || word.starts_with("./") || word.starts_with("../"))
}

/// Whether a word may be a source, judged by its text.
pub fn may_be_source(word: &str) -> bool {
    word.starts_with('/') || is_script(word)
}

/// Whether the word at a pointer names a file at `location`, its absolute path. A word that should name one is a source
/// too, so that a missing file is reported.
pub fn names_source(files: &dyn FileSystem, pointer: &str, word: &str, location: &str) -> bool {
    let is_program = pointer.ends_with("/0") && word.starts_with('/');
    !is_program && !word.contains("://") && (is_script(word) || files.is_file(Path::new(location)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_recognized_by_their_text() {
        for word in ["a.py", "lib/a.sh", "./run", "../x/run.R"] {
            assert!(is_script(word), "{word}");
        }
        for word in ["python3", "-c", "print('a.py')", "/w/a.py", "--file=a.py", "-m", "data.json", ""] {
            assert!(!is_script(word), "{word}");
        }
    }
}
