//! Where a store's URL points, by its text alone.
//!
//! A wrong URL stays wrong, while a place out of reach may be there tomorrow; exit codes tell the two apart. Text that
//! only looks like a URL (`s3:/bucket`, `s3//bucket`) is an error: taken for a folder, it would quietly become one.

use object_store::path::Path as Name;
use trainyard_core::{Error, Result};

/// The schemes of this build.
const SCHEMES: [&str; 3] = ["file", "s3", "memory"];
/// Schemes of other stores; text that begins with one is never meant as a folder.
const FOREIGN: [&str; 9] = ["abfs", "abfss", "az", "azure", "gcs", "gs", "hf", "http", "https"];

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
        let Some((scheme, place)) = url.split_once("://") else { return Self::folder(url) };
        let place = place.trim_end_matches('/');
        match scheme {
            "file" => Ok(Self::Folder(place)),
            "s3" => Self::bucket(place),
            "memory" => Ok(Self::Memory(place)),
            _ if SCHEMES.contains(&scheme.to_lowercase().as_str()) => {
                Err(not_a_url(url).help(format!("schemes are lower-case: write {}://{place}", scheme.to_lowercase())))
            }
            _ => Err(Error::invalid(format!("this build has no store scheme `{scheme}://`, found in \"{url}\""))
                .help("write s3://bucket/prefix or the path of a folder")),
        }
    }

    /// A path, unless it looks like a mistyped URL.
    fn folder(text: &'a str) -> Result<Self> {
        let Some((scheme, rest)) = mistyped(text) else { return Ok(Self::Folder(text)) };
        let url = match scheme.as_str() {
            "file" => format!("file:///{rest}"),
            scheme if SCHEMES.contains(&scheme) => format!("{scheme}://{rest}"),
            _ => "s3://bucket/prefix".to_string(),
        };
        Err(not_a_url(text).help(format!("write {url}; for a folder of this name, ./{text}")))
    }

    fn bucket(place: &'a str) -> Result<Self> {
        let (name, prefix) = place.split_once('/').unwrap_or((place, ""));
        if name.is_empty() {
            return Err(Error::invalid("the store URL \"s3://\" names no bucket").help("write s3://bucket/prefix"));
        }
        let parse = |prefix: &str| {
            Name::parse(prefix).map_err(|e| {
                Error::invalid(format!("`{prefix}` is not a valid prefix in \"s3://{place}\": {e}"))
                    .help("write s3://bucket/prefix")
            })
        };
        let prefix = if prefix.is_empty() { None } else { Some(parse(prefix)?) };
        Ok(Self::Bucket { name, prefix })
    }
}

fn not_a_url(text: &str) -> Error {
    Error::invalid(format!("\"{text}\" is not a store URL"))
}

/// The scheme and the rest of text such as `s3:/bucket/x`, `S3:bucket` and `s3//bucket`.
fn mistyped(text: &str) -> Option<(String, &str)> {
    let end = text.find([':', '/'])?;
    let (scheme, rest) = (text[..end].to_lowercase(), &text[end..]);
    let known = SCHEMES.contains(&scheme.as_str()) || FOREIGN.contains(&scheme.as_str());
    (known && (rest.starts_with(':') || rest.starts_with("//"))).then(|| (scheme, rest.trim_start_matches([':', '/'])))
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
        for url in ["gopher://x", "gs://bucket", "S3://bucket", "s3://", "s3:///prefix", "s3://bucket/a//b"] {
            assert_eq!(Place::parse(url).unwrap_err().kind, ErrorKind::Invalid, "{url}");
        }
    }

    #[test]
    fn a_mistyped_url_is_not_taken_for_a_folder() {
        let help = |text: &str| Place::parse(text).unwrap_err().help.unwrap();
        assert_eq!(
            Place::parse("s3:/bucket/x").unwrap_err().to_string(),
            "\"s3:/bucket/x\" is not a store URL; write s3://bucket/x; for a folder of this name, ./s3:/bucket/x"
        );
        assert_eq!(help("s3//bucket"), "write s3://bucket; for a folder of this name, ./s3//bucket");
        assert_eq!(help("S3:bucket"), "write s3://bucket; for a folder of this name, ./S3:bucket");
        assert_eq!(help("S3://bucket/"), "schemes are lower-case: write s3://bucket");
        assert_eq!(help("gs:/bucket"), "write s3://bucket/prefix; for a folder of this name, ./gs:/bucket");
        assert_eq!(help("file:/a/b"), "write file:///a/b; for a folder of this name, ./file:/a/b");
        for folder in ["s3", "s3/x", "./s3:/bucket/x", "az", "a:b", "/s3:/x", "../gs//x"] {
            assert_eq!(Place::parse(folder), Ok(Place::Folder(folder)));
        }
    }
}
