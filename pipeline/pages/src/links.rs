//! Addresses of pages, relative to the page that links to them.

use axum::http::Extensions;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Characters that stay in a segment of a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Extension of a request for a page of a static site (see `site`).
#[derive(Debug, Clone, Copy)]
pub struct StaticCopy;

/// Addresses as seen from one page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Links {
    /// Steps up from the page to the root: empty or a sequence of `../`.
    root: String,
    /// Whether the server has a daemon, so that schedules and workflows are areas of the navigation.
    pub has_daemon: bool,
    /// Whether the page becomes a file.
    is_static: bool,
}

impl Links {
    /// Returns the addresses as seen from the page at `path`, which begins with `/`.
    pub fn from_path(path: &str) -> Self {
        let depth = path.strip_prefix('/').unwrap_or(path).matches('/').count();
        Self { root: "../".repeat(depth), has_daemon: false, is_static: false }
    }
    /// Returns the addresses as seen from the page at `path`, for a request with these extensions.
    pub fn of_request(path: &str, extensions: &Extensions) -> Self {
        Self { is_static: extensions.get::<StaticCopy>().is_some(), ..Self::from_path(path) }
    }
    /// Returns whether the page becomes a file, so that nothing on it reaches a server.
    pub fn is_static(&self) -> bool {
        self.is_static
    }
    /// Returns the address of the path made of these segments.
    pub fn to(&self, segments: &[&str]) -> String {
        if segments.is_empty() {
            return if self.root.is_empty() { "./".to_string() } else { self.root.clone() };
        }
        let path: Vec<String> = segments.iter().map(|text| segment(text)).collect();
        format!("{}{}", self.root, path.join("/"))
    }
    /// Returns the address of an asset.
    pub fn asset(&self, name: &str) -> String {
        self.to(&["assets", name])
    }
    /// Returns the address of a run.
    pub fn run(&self, run: &str) -> String {
        self.to(&["runs", run])
    }
    /// Returns the address of a stage of a run.
    pub fn stage(&self, run: &str, stage: &str) -> String {
        self.to(&["runs", run, "stages", stage])
    }
    /// Returns the address of an artifact.
    pub fn artifact(&self, stage_digest: &str, output: &str) -> String {
        self.to(&["artifacts", stage_digest, output])
    }
    /// Returns the address of the trajectories of an artifact.
    pub fn rollouts(&self, stage_digest: &str, output: &str) -> String {
        self.to(&["artifacts", stage_digest, output, "rollouts"])
    }
    /// Returns the address of a row of an artifact.
    pub fn row(&self, stage_digest: &str, output: &str, row: u64) -> String {
        self.to(&["artifacts", stage_digest, output, "rows", &row.to_string()])
    }
    /// Returns the address of a part of an artifact, such as a group of its rollouts.
    pub fn within(&self, stage_digest: &str, output: &str, part: &[&str]) -> String {
        self.to(&[&["artifacts", stage_digest, output], part].concat())
    }
}

impl Links {
    /// Returns the address of a schedule.
    pub fn schedule(&self, name: &str) -> String {
        self.to(&["schedules", name])
    }
    /// Returns the address of a workflow file of the daemon's folder.
    pub fn workflow(&self, file: &str) -> String {
        self.to(&["workflows", file])
    }
}

/// Encodes a text as one segment of a path.
fn segment(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

/// Returns a query string of these parameters, with `?`; empty without parameters.
pub fn query(parameters: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = parameters.iter().map(|(name, value)| format!("{name}={}", segment(value))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_relative_to_the_page() {
        assert_eq!(Links::from_path("/").run("r1"), "runs/r1");
        assert_eq!(Links::from_path("/runs/r1").run("r2"), "../runs/r2");
        assert_eq!(Links::from_path("/runs/r1/stages/a%2Fb").to(&[]), "../../../");
        assert_eq!(Links::from_path("/").to(&[]), "./");
    }

    #[test]
    fn names_are_one_segment() {
        let links = Links::from_path("/");
        assert_eq!(links.stage("r", "a/b[lr=1]"), "runs/r/stages/a%2Fb%5Blr%3D1%5D");
        assert_eq!(links.to(&["ü?#"]), "%C3%BC%3F%23");
        assert_eq!(query(&[("a", "x&y"), ("b", "")]), "?a=x%26y&b=");
        assert_eq!(query(&[]), "");
    }
}
