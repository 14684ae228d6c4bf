//! Parses locations on the hub: `hf://datasets/OWNER/NAME[@REVISION][/PATH]` of data sets,
//! `hf://OWNER/NAME[@REVISION][/PATH]` of models.

use std::fmt;
use trainyard_core::{Error, Result};

/// The content of a repository on the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepositoryKind {
    /// Rows.
    Dataset,
    /// Weights, tokenizer and configuration.
    Model,
}

impl RepositoryKind {
    /// Returns the name of the kind in messages.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Dataset => "data set",
            Self::Model => "model",
        }
    }
    /// Returns the plural in paths of the interface and in names of the cache's folders.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::Dataset => "datasets",
            Self::Model => "models",
        }
    }
    fn prefix(self) -> &'static str {
        match self {
            Self::Dataset => "hf://datasets/",
            Self::Model => "hf://",
        }
    }
}

/// A repository at a revision, and a path in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubLocation {
    /// Data set or model.
    pub kind: RepositoryKind,
    /// `OWNER/NAME`.
    pub repository: String,
    /// Branch, tag or commit.
    pub revision: String,
    /// File, folder or pattern of files; empty means all files.
    pub path: String,
}

/// Prefixes of branches with slashes in their names, which the hub creates.
const SPECIAL: [&str; 2] = ["refs/convert/", "refs/pr/"];

impl HubLocation {
    /// Parses the location of a data set or a model. Errors: invalid.
    pub fn read(text: &str) -> Result<Self> {
        let dataset = text.starts_with(RepositoryKind::Dataset.prefix());
        Self::read_as(if dataset { RepositoryKind::Dataset } else { RepositoryKind::Model }, text)
    }
    /// Parses the location of a repository of this kind. Errors: invalid.
    pub fn read_as(kind: RepositoryKind, text: &str) -> Result<Self> {
        let (noun, prefix) = (kind.noun(), kind.prefix());
        let invalid = || {
            Error::invalid(format!("`{text}` is not a {noun} of the hub"))
                .help(format!("write {prefix}OWNER/NAME, with @REVISION and /PATH after it where needed"))
        };
        let rest = text.strip_prefix(prefix).ok_or_else(invalid)?;
        if kind == RepositoryKind::Model && rest.starts_with("datasets/") {
            return Err(invalid());
        }
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
        Ok(Self { kind, repository: format!("{owner}/{name}"), revision: revision.into(), path: path.into() })
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

impl fmt::Display for HubLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.path.is_empty() { "" } else { "/" };
        write!(f, "{}{}@{}{slash}{}", self.kind.prefix(), self.repository, self.revision, self.path)
    }
}
