//! Parses a store's URL.
//!
//! An invalid URL never becomes valid, while an unreachable store may come back; exit codes distinguish the two. Text
//! that only resembles a URL (`s3:/bucket`, `s3//bucket`) is an error, because it would otherwise silently become a
//! folder.

use crate::registry::{BUCKETS, resolve_alias, scheme};
use crate::schemes::Scheme;
use object_store::path::Path as Name;
use trainyard_core::{Error, Result};

/// Schemes of locations on this machine.
const LOCAL_SCHEMES: [&str; 2] = ["file", "memory"];
/// Schemes that are not stores; text that begins with one is never meant as a folder.
const UNSUPPORTED_SCHEMES: [&str; 3] = ["hf", "http", "https"];

#[derive(Debug, PartialEq)]
pub(crate) enum StoreLocation<'a> {
    Folder(&'a str),
    Bucket {
        scheme: &'static Scheme,
        name: &'a str,
        prefix: Option<Name>,
    },
    /// An empty name gives each opener a separate store.
    Memory(&'a str),
}

impl<'a> StoreLocation<'a> {
    pub fn parse(url: &'a str) -> Result<Self> {
        let Some((before, place)) = url.split_once("://") else { return Self::folder(url) };
        let place = place.trim_end_matches('/');
        match before {
            "file" => return Ok(Self::Folder(place)),
            "memory" => return Ok(Self::Memory(place)),
            _ => {}
        }
        if let Some(scheme) = scheme(before) {
            return Self::bucket(scheme, place);
        }
        let lower = before.to_lowercase();
        if LOCAL_SCHEMES.contains(&lower.as_str()) || scheme(&lower).is_some() {
            return Err(not_a_url(url).help(format!("schemes are lower-case: write {lower}://{place}")));
        }
        let help = resolve_alias(before).map_or_else(examples, |scheme| format!("write {}://{place}", scheme.name));
        Err(Error::invalid(format!("this build has no store scheme `{before}://`, found in \"{url}\"")).help(help))
    }

    /// Returns a path, unless it resembles a mistyped URL.
    fn folder(text: &'a str) -> Result<Self> {
        let Some((before, rest)) = split_mistyped_url(text) else { return Ok(Self::Folder(text)) };
        let url = match (before.as_str(), resolve_alias(&before)) {
            ("file", _) => format!("file:///{rest}"),
            ("memory", _) => format!("memory://{rest}"),
            (_, Some(scheme)) => format!("{}://{rest}", scheme.name),
            _ => BUCKETS[0].example(),
        };
        Err(not_a_url(text).help(format!("write {url}; for a folder of this name, ./{text}")))
    }

    fn bucket(scheme: &'static Scheme, place: &'a str) -> Result<Self> {
        let (name, prefix) = place.split_once('/').unwrap_or((place, ""));
        let write = format!("write {}", scheme.example());
        if name.is_empty() {
            let message = format!("the store URL \"{}://\" names no {}", scheme.name, scheme.place);
            return Err(Error::invalid(message).help(write));
        }
        let parse = |prefix: &str| {
            Name::parse(prefix).map_err(|e| {
                Error::invalid(format!("`{prefix}` is not a valid prefix in \"{}://{place}\": {e}", scheme.name))
                    .help(write)
            })
        };
        let prefix = if prefix.is_empty() { None } else { Some(parse(prefix)?) };
        Ok(Self::Bucket { scheme, name, prefix })
    }
}

fn not_a_url(text: &str) -> Error {
    Error::invalid(format!("\"{text}\" is not a store URL"))
}

fn examples() -> String {
    let buckets: Vec<String> = BUCKETS.iter().map(|scheme| scheme.example()).collect();
    format!("write {}, or the path of a folder", buckets.join(", "))
}

/// Splits text such as `s3:/bucket/x`, `S3:bucket` and `s3//bucket` into the scheme and the rest.
fn split_mistyped_url(text: &str) -> Option<(String, &str)> {
    let end = text.find([':', '/'])?;
    let (before, rest) = (text[..end].to_lowercase(), &text[end..]);
    let known = LOCAL_SCHEMES.contains(&before.as_str())
        || UNSUPPORTED_SCHEMES.contains(&before.as_str())
        || resolve_alias(&before).is_some();
    (known && (rest.starts_with(':') || rest.starts_with("//"))).then(|| (before, rest.trim_start_matches([':', '/'])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::ErrorKind;

    #[test]
    fn urls_are_parsed() {
        assert_eq!(StoreLocation::parse("a/b"), Ok(StoreLocation::Folder("a/b")));
        assert_eq!(StoreLocation::parse("file:///a/b/"), Ok(StoreLocation::Folder("/a/b")));
        assert_eq!(StoreLocation::parse("memory://x"), Ok(StoreLocation::Memory("x")));
        for scheme in BUCKETS {
            let url = format!("{}://bucket/", scheme.name);
            assert_eq!(StoreLocation::parse(&url), Ok(StoreLocation::Bucket { scheme, name: "bucket", prefix: None }));
            let (url, prefix) = (format!("{url}a/b"), Some(Name::from("a/b")));
            assert_eq!(StoreLocation::parse(&url), Ok(StoreLocation::Bucket { scheme, name: "bucket", prefix }));
        }
    }

    #[test]
    fn malformed_urls_are_invalid() {
        for url in ["gopher://x", "gcs://bucket", "S3://bucket", "az://", "s3:///prefix", "gs://bucket/a//b"] {
            assert_eq!(StoreLocation::parse(url).unwrap_err().kind, ErrorKind::Invalid, "{url}");
        }
    }

    #[test]
    fn mistyped_url_is_not_a_folder() {
        let help = |text: &str| StoreLocation::parse(text).unwrap_err().help.unwrap();
        assert_eq!(
            StoreLocation::parse("s3:/bucket/x").unwrap_err().to_string(),
            "\"s3:/bucket/x\" is not a store URL; write s3://bucket/x; for a folder of this name, ./s3:/bucket/x"
        );
        assert_eq!(help("s3//bucket"), "write s3://bucket; for a folder of this name, ./s3//bucket");
        assert_eq!(help("S3:bucket"), "write s3://bucket; for a folder of this name, ./S3:bucket");
        assert_eq!(help("S3://bucket/"), "schemes are lower-case: write s3://bucket");
        assert_eq!(help("gs:/bucket"), "write gs://bucket; for a folder of this name, ./gs:/bucket");
        assert_eq!(help("abfss:/c/x"), "write az://c/x; for a folder of this name, ./abfss:/c/x");
        assert_eq!(help("http:/x"), "write s3://bucket/prefix; for a folder of this name, ./http:/x");
        assert_eq!(help("gcs://bucket/x"), "write gs://bucket/x");
        assert_eq!(
            help("ftp://x"),
            "write s3://bucket/prefix, az://container/prefix, gs://bucket/prefix, or the path of a folder"
        );
        assert_eq!(help("file:/a/b"), "write file:///a/b; for a folder of this name, ./file:/a/b");
        for folder in ["s3", "s3/x", "./s3:/bucket/x", "az", "a:b", "/s3:/x", "../gs//x"] {
            assert_eq!(StoreLocation::parse(folder), Ok(StoreLocation::Folder(folder)));
        }
    }
}
