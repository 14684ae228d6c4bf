//! Collects the digests of all files that a JSON document names: objects with `path`, `digest` and `size`, at any
//! depth.
//!
//! Specs and results of attempts name files in several fields, and later versions may add more. A search by shape finds
//! all of them.

use serde_json::Value;
use std::collections::BTreeSet;
use trainyard_core::Digest;

/// Adds the digests of all files in a document.
pub(super) fn files(document: &Value, named: &mut BTreeSet<Digest>) {
    match document {
        Value::Array(items) => items.iter().for_each(|item| files(item, named)),
        Value::Object(fields) => {
            let text = |key: &str| fields.get(key).and_then(Value::as_str);
            let is_file = text("path").is_some() && fields.get("size").is_some_and(Value::is_u64);
            if is_file && let Some(Ok(digest)) = text("digest").map(|digest| Digest::try_from(digest.to_string())) {
                named.insert(digest);
            }
            fields.values().for_each(|field| files(field, named));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn files_are_found_at_any_depth() {
        let (a, b, c) = (Digest::of(b"a"), Digest::of(b"b"), Digest::of(b"c"));
        let document = json!({
            "inputs": {"p": [{"output": {"digest": c, "files": [{"path": "x", "digest": a, "size": 1}]}}]},
            "uploaded": {"/src": [{"path": "", "digest": b, "size": 0}]},
            "broken": {"path": "x", "digest": "abc", "size": 1},
        });
        let mut named = BTreeSet::new();
        files(&document, &mut named);
        assert_eq!(named, BTreeSet::from([a, b]), "a content digest without a path is no file");
    }
}
