//! Every file of a folder of parts is a line of its registry, or known to be none.

use crate::{environments, formats, rewards, tools, verifiers};
use std::collections::BTreeSet;
use std::path::Path;

/// Files and folders of `src/<folder>` that neither a registry lists nor `shared` names; and names of either that have no file.
fn strays(folder: &str, shared: &[&str], names: &[&str]) -> Vec<String> {
    let stem = |entry: std::fs::DirEntry| entry.path().file_stem().unwrap().to_str().unwrap().to_string();
    let there: BTreeSet<String> =
        std::fs::read_dir(Path::new("src").join(folder)).unwrap().map(|entry| stem(entry.unwrap())).collect();
    let there: BTreeSet<String> =
        there.into_iter().filter(|name| name != "mod" && name != "registry" && !name.ends_with("_tests")).collect();
    let known: BTreeSet<String> =
        shared.iter().map(ToString::to_string).chain(names.iter().map(|name| name.replace('-', "_"))).collect();
    there.symmetric_difference(&known).cloned().collect()
}

#[test]
fn every_part_has_a_file_and_every_file_a_line() {
    let shared = [
        "answer",
        "dialogue",
        "dialogue_environment",
        "dialogue_options",
        "environment",
        "generator",
        "latency",
        "mistakes",
        "names",
        "world",
    ];
    assert_eq!(strays("environments", &shared, &environments::family().names()), Vec::<String>::new());
    assert_eq!(strays("rewards", &["kit", "reward", "weighted"], &rewards::family().names()), Vec::<String>::new());
    assert_eq!(strays("formats", &["format", "markup"], &formats::registry::names()), Vec::<String>::new());
    assert_eq!(strays("verifiers", &["extract", "verifier"], &verifiers::registry::names()), Vec::<String>::new());
    // `search` and `sql` are opened by the environments that have a corpus or a database.
    let shared =
        ["confinement", "host", "interpreter", "limits", "pool", "search", "sql", "ticket", "tool", "wire", "worker"];
    assert_eq!(strays("tools", &shared, &tools::registry::names()), Vec::<String>::new());
}
