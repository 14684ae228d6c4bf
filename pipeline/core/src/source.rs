//! Matches the patterns by which a source names several files. This module does not read the disk; the code that walks
//! folders calls it for each path.

use crate::{Error, Result};
use std::path::{Component, Path, PathBuf};

/// A pattern such as `data/train-*.parquet`: `?` and `*` match within a name, `**` any folders, `[a-f]` one character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    folder: PathBuf,
    pattern: glob::Pattern,
}

impl Glob {
    /// Parses a path as a pattern; `None` if it has no wildcard. Errors: invalid (brackets that do not end, `***`).
    pub fn of(path: &Path) -> Result<Option<Self>> {
        let has_wildcard = |part: &Component<'_>| part.as_os_str().to_string_lossy().contains(['*', '?', '[']);
        let parts: Vec<Component<'_>> = path.components().collect();
        let Some(first) = parts.iter().position(has_wildcard) else { return Ok(None) };
        let rest: PathBuf = parts[first..].iter().collect();
        let pattern = glob::Pattern::new(&rest.to_string_lossy()).map_err(|e| {
            Error::invalid(format!("{}: not a pattern of files: {e}", path.display()))
                .help("put a wildcard that is a part of the name into brackets: `[*]`")
        })?;
        Ok(Some(Self { folder: parts[..first].iter().collect(), pattern }))
    }
    /// Returns the folder that contains all matches: the path up to the first part with a wildcard.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
    /// Returns whether a path below the folder matches, with `/` between its parts.
    pub fn matches(&self, path: &str) -> bool {
        let options = glob::MatchOptions {
            case_sensitive: true,
            require_literal_separator: true,
            require_literal_leading_dot: true,
        };
        self.pattern.matches_with(path, options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_within_names_and_two_stars_match_folders() {
        let glob = |path: &str| Glob::of(Path::new(path)).unwrap().unwrap();
        let one = glob("/data/x/train-*.parquet");
        assert_eq!(one.folder(), Path::new("/data/x"));
        assert!(one.matches("train-1.parquet") && !one.matches("a/train-1.parquet") && !one.matches("train-1.json"));
        let deep = glob("/data/**/*.json");
        assert_eq!(deep.folder(), Path::new("/data"));
        assert!(deep.matches("a.json") && deep.matches("a/b/c.json") && !deep.matches("a/b.jsonl"));
        assert!(!deep.matches(".cache/a.json"));
        assert!(glob("/d/[ab]?.txt").matches("b1.txt"));
        assert_eq!(Glob::of(Path::new("/data/train.jsonl")).unwrap(), None);
        assert!(Glob::of(Path::new("/data/[a.txt")).unwrap_err().message.contains("/data/[a.txt"));
    }
}
