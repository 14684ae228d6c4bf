//! Parses locations of data sets on the hub: `hf://datasets/OWNER/NAME[@REVISION][/PATH]`.

use std::fmt;
use trainyard_core::{Error, Result};

/// A data set at a revision, and a path in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetLocation {
    /// `OWNER/NAME`.
    pub repository: String,
    /// Branch, tag or commit.
    pub revision: String,
    /// File, folder or pattern of files; empty means all files.
    pub path: String,
}

const PREFIX: &str = "hf://datasets/";
/// Prefixes of branches with slashes in their names, which the hub creates.
const SPECIAL: [&str; 2] = ["refs/convert/", "refs/pr/"];

impl DatasetLocation {
    /// Parses `hf://datasets/OWNER/NAME[@REVISION][/PATH]`. Errors: invalid.
    pub fn read(text: &str) -> Result<Self> {
        let invalid = || {
            Error::invalid(format!("`{text}` is not a data set of the hub"))
                .help("write hf://datasets/OWNER/NAME, with @REVISION and /PATH after it where needed")
        };
        let rest = text.strip_prefix(PREFIX).ok_or_else(invalid)?;
        let (owner, rest) = rest.split_once('/').ok_or_else(invalid)?;
        let (name, rest) = rest.split_at(rest.find(['@', '/']).unwrap_or(rest.len()));
        let (revision, path) = match rest.strip_prefix('@') {
            None => ("main", rest),
            Some(rest) => {
                let before = SPECIAL.iter().find(|special| rest.starts_with(**special)).map_or(0, |s| s.len());
                rest.split_at(rest[before..].find('/').map_or(rest.len(), |at| before + at))
            }
        };
        let is_plain = |part: &str| {
            !part.is_empty()
                && !part.starts_with('.')
                && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        };
        let path = path.trim_matches('/');
        let climbs = path.split('/').any(|part| part == ".." || part == ".");
        if !is_plain(owner) || !is_plain(name) || !revision.split('/').all(is_plain) || climbs {
            return Err(invalid());
        }
        Ok(Self { repository: format!("{owner}/{name}"), revision: revision.into(), path: path.into() })
    }
    /// Returns the same location at a commit.
    #[must_use]
    pub fn at(&self, commit: &str) -> Self {
        Self { revision: commit.to_string(), ..self.clone() }
    }
    /// Whether the revision is a commit.
    pub fn is_pinned(&self) -> bool {
        is_commit(&self.revision)
    }
}

/// Whether a text is a commit: forty hexadecimal digits.
pub fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

impl fmt::Display for DatasetLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.path.is_empty() { "" } else { "/" };
        write!(f, "{PREFIX}{}@{}{slash}{}", self.repository, self.revision, self.path)
    }
}
