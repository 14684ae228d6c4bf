//! Files of a site by the path of their page, and the addresses between them.

use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::Digest;

/// Parameters that the script of a list reads.
const LIST_PARAMETERS: [&str; 2] = ["step", "problem"];
/// Maximum characters of a name of a file.
const MAX_NAME: usize = 80;
/// Characters of a digest in a name.
const DIGITS: usize = 10;

/// Files of a site by the path of their page, such as `/runs/r1`.
#[derive(Debug, Clone, Default)]
pub struct SiteMap {
    files: BTreeMap<String, String>,
    lists: BTreeSet<String>,
}

impl SiteMap {
    /// Adds a page. Its file is in a folder that is called like the path.
    pub fn add(&mut self, path: &str) {
        let names: Vec<String> = path.split('/').filter(|name| !name.is_empty()).map(file_name).collect();
        let folder = if names.is_empty() { String::new() } else { format!("{}/", names.join("/")) };
        self.files.insert(path.to_string(), format!("{folder}index.html"));
    }
    /// Adds a list whose rows the script of the site selects by the parameters of the address.
    pub fn add_list(&mut self, path: &str) {
        self.add(path);
        self.lists.insert(path.to_string());
    }
    /// Adds an asset.
    pub fn add_asset(&mut self, name: &str) {
        self.files.insert(format!("/assets/{name}"), format!("assets/{name}"));
    }
    /// Returns the file of a page or an asset.
    pub fn file(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }
    /// Returns the address of a file of the site as seen from the file of the page at `page`, for an address on that
    /// page. Addresses with a host stay as they are. Returns `None` for pages that the site does not have.
    pub fn address(&self, page: &str, address: &str) -> Option<String> {
        if address.starts_with('#') || address.starts_with("https://") || address.starts_with("http://") {
            return Some(address.to_string());
        }
        let target = Target::of(page, address)?;
        let file = self.file(&target.path)?;
        let is_list = self.lists.contains(&target.path);
        let mut names =
            target.query.split('&').filter_map(|pair| pair.split('=').next()).filter(|name| !name.is_empty());
        if names.any(|name| !is_list || !LIST_PARAMETERS.contains(&name)) {
            return None;
        }
        let up = "../".repeat(self.file(page)?.matches('/').count());
        let query = if target.query.is_empty() { String::new() } else { format!("?{}", target.query) };
        Some(format!("{up}{file}{query}{}", target.fragment))
    }
}

/// Page that an address leads to.
struct Target {
    path: String,
    /// Parameters, without `?`.
    query: String,
    /// Fragment with `#`, or nothing.
    fragment: String,
}

impl Target {
    /// Resolves an address of the page at `page`. Returns `None` for an address with a scheme or a host.
    fn of(page: &str, address: &str) -> Option<Self> {
        let (rest, fragment) = match address.find('#') {
            Some(at) => (&address[..at], &address[at..]),
            None => (address, ""),
        };
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let has_scheme = path.split('/').next().is_some_and(|first| first.contains(':'));
        if has_scheme || path.starts_with("//") {
            return None;
        }
        Some(Self { path: resolved(page, path), query: query.to_string(), fragment: fragment.to_string() })
    }
}

fn resolved(page: &str, path: &str) -> String {
    if path.is_empty() {
        return page.to_string();
    }
    let folder = if path.starts_with('/') { "" } else { &page[..page.rfind('/').unwrap_or(0)] };
    let mut names: Vec<&str> = folder.split('/').filter(|name| !name.is_empty()).collect();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    format!("/{}", names.join("/"))
}

/// Returns a name of a file for a segment of a path. Encoded, long and hidden names get a digest, since a browser would
/// decode the first, and file systems refuse the others.
fn file_name(segment: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if segment.len() <= MAX_NAME && segment.chars().all(is_plain) && !segment.starts_with('.') {
        return segment.to_string();
    }
    let begin: String = segment.chars().map(|c| if is_plain(c) { c } else { '_' }).take(MAX_NAME / 2).collect();
    let digest = Digest::of(segment.as_bytes()).to_string();
    let digits: String = digest.chars().filter(char::is_ascii_hexdigit).rev().take(DIGITS).collect();
    format!("{}-{digits}", begin.trim_start_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> SiteMap {
        let mut map = SiteMap::default();
        for path in ["/", "/runs/r", "/runs/r/stages/a%2Fb", "/artifacts/d/out/rows/7"] {
            map.add(path);
        }
        map.add_list("/artifacts/d/out/rollouts");
        map.add_asset("style.css");
        map
    }

    #[test]
    fn addresses_lead_from_file_to_file() {
        let map = map();
        let stage = "/runs/r/stages/a%2Fb";
        let is = |page: &str, address: &str, expected: &str| {
            assert_eq!(map.address(page, address).as_deref(), Some(expected), "{address} on {page}");
        };
        is("/", "runs/r", "runs/r/index.html");
        is("/", "./", "index.html");
        is("/runs/r", "../", "../../index.html");
        is("/runs/r", "../assets/style.css", "../../assets/style.css");
        is("/runs/r", "#stages", "#stages");
        is("/runs/r", "?#stages", "../../runs/r/index.html#stages");
        is(stage, "../../../artifacts/d/out/rows/7#m3", "../../../../artifacts/d/out/rows/7/index.html#m3");
        let list = "../artifacts/d/out/rollouts?step=12";
        is("/runs/r", list, "../../artifacts/d/out/rollouts/index.html?step=12");
        is("/runs/r", "https://example.org/x", "https://example.org/x");
    }

    #[test]
    fn other_pages_and_other_states_have_no_address() {
        let map = map();
        for address in [
            "../runs/other",
            "?part=graph",
            "../artifacts/d/out/rollouts?sort=-reward",
            "../artifacts/d/out/rollouts?step=1&find=x",
            "../artifacts/d/out/rows/7?from=20",
            "javascript:alert(1)",
            "data:text/html,x",
            "//evil.example/x",
            "mailto:a@b.example",
        ] {
            assert_eq!(map.address("/runs/r", address), None, "{address}");
        }
    }

    #[test]
    fn files_have_names_that_no_browser_decodes() {
        let name = file_name("sft%5Blr%3D1%5D");
        assert!(name.starts_with("sft_5Blr_3D1_5D-") && !name.contains('%'), "{name}");
        assert_ne!(file_name("a%2Fb"), file_name("a%2Fc"));
        assert_eq!(file_name("sft"), "sft");
        assert!(file_name(&"x".repeat(300)).len() < 100);
        assert!(!file_name("..").starts_with('.'));
    }
}
