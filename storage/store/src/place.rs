//! Where a store's URL points, by its text alone.
//!
//! A wrong URL stays wrong, while a place out of reach may be there tomorrow; exit codes tell the two apart.

use object_store::path::Path as Name;
use trainyard_core::{Error, Result};

#[derive(Debug, PartialEq)]
pub(crate) enum Place<'a> {
    Folder(&'a str),
    Bucket {
        name: &'a str,
        prefix: Option<Name>,
    },
    /// An empty name gives each opener a store of its own.
    Memory(&'a str),
}

impl<'a> Place<'a> {
    pub fn parse(url: &'a str) -> Result<Self> {
        let Some((scheme, place)) = url.split_once("://") else { return Ok(Self::Folder(url)) };
        let place = place.trim_end_matches('/');
        match scheme {
            "file" => Ok(Self::Folder(place)),
            "s3" => Self::bucket(place),
            "memory" => Ok(Self::Memory(place)),
            _ => Err(Error::invalid(format!("no store scheme `{scheme}` in `{url}`"))
                .help("use a folder, file://, s3://bucket/prefix or memory://")),
        }
    }

    fn bucket(place: &'a str) -> Result<Self> {
        let (name, prefix) = place.split_once('/').unwrap_or((place, ""));
        if name.is_empty() {
            return Err(Error::invalid("the store URL `s3://` names no bucket").help("write s3://bucket/prefix"));
        }
        let parse = |prefix: &str| {
            Name::parse(prefix).map_err(|e| {
                Error::invalid(format!("`{prefix}` in `s3://{place}` is no prefix: {e}"))
                    .help("write s3://bucket/prefix")
            })
        };
        let prefix = if prefix.is_empty() { None } else { Some(parse(prefix)?) };
        Ok(Self::Bucket { name, prefix })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::ErrorKind;

    #[test]
    fn urls_are_parsed() {
        assert_eq!(Place::parse("a/b"), Ok(Place::Folder("a/b")));
        assert_eq!(Place::parse("file:///a/b/"), Ok(Place::Folder("/a/b")));
        assert_eq!(Place::parse("memory://x"), Ok(Place::Memory("x")));
        assert_eq!(Place::parse("s3://bucket/"), Ok(Place::Bucket { name: "bucket", prefix: None }));
        let prefix = Some(Name::from("a/b"));
        assert_eq!(Place::parse("s3://bucket/a/b"), Ok(Place::Bucket { name: "bucket", prefix }));
    }

    #[test]
    fn impossible_urls_are_invalid() {
        for url in ["gopher://x", "s3://", "s3:///prefix", "s3://bucket/a//b"] {
            assert_eq!(Place::parse(url).unwrap_err().kind, ErrorKind::Invalid, "{url}");
        }
    }
}
