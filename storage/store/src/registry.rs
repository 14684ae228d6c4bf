//! Lists the schemes of stores in buckets. Folders and memory are not listed, since they are on the local machine.

use crate::schemes::{Scheme, az, gs, s3};

/// All bucket schemes, in the order in which help names them.
pub(crate) const BUCKETS: [&Scheme; 3] = [&s3::SCHEME, &az::SCHEME, &gs::SCHEME];

/// Returns the scheme of this name.
pub(crate) fn scheme(name: &str) -> Option<&'static Scheme> {
    BUCKETS.into_iter().find(|scheme| scheme.name == name)
}

/// Resolves the name or alias of a scheme, ignoring case.
pub(crate) fn resolve_alias(name: &str) -> Option<&'static Scheme> {
    let name = name.to_lowercase();
    BUCKETS.into_iter().find(|scheme| scheme.name == name || scheme.aliases.contains(&name.as_str()))
}

/// Returns the scheme of a URL; `None` for a folder or memory.
pub(crate) fn of_url(url: &str) -> Option<&'static Scheme> {
    scheme(url.split_once("://")?.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_and_aliases_are_unique_and_every_scheme_says_what_to_do() {
        let names: Vec<&str> = BUCKETS.iter().flat_map(|s| s.aliases.iter().chain([&s.name])).copied().collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
        assert!(names.iter().all(|name| !["file", "memory"].contains(name)));
        for scheme in BUCKETS {
            assert!(!scheme.credentials.is_empty() && scheme.sign_in.contains("set "), "{scheme:?}");
        }
    }
}
