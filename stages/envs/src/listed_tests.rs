//! Checks that every file in a folder of parts has a registry line or is known to need none.

use crate::{environments, formats, rewards, tools, verifiers};
use std::collections::BTreeSet;
use std::path::Path;

/// Returns the files and folders of `src/<folder>` without a registry line, unless `shared` names them, and names
/// without a file.
fn unlisted(folder: &str, shared: &[&str], names: &[&str]) -> Vec<String> {
    let stem = |entry: std::fs::DirEntry| entry.path().file_stem().unwrap().to_str().unwrap().to_string();
    let files: BTreeSet<String> =
        std::fs::read_dir(Path::new("src").join(folder)).unwrap().map(|entry| stem(entry.unwrap())).collect();
    let files: BTreeSet<String> =
        files.into_iter().filter(|name| name != "mod" && name != "registry" && !name.ends_with("_tests")).collect();
    let listed: BTreeSet<String> =
        shared.iter().map(ToString::to_string).chain(names.iter().map(|name| name.replace('-', "_"))).collect();
    files.symmetric_difference(&listed).cloned().collect()
}

#[test]
fn files_and_registry_lines_match() {
    let shared = [
        "answer",
        "dialogue",
        "dialogue_environment",
        "dialogue_options",
        "environment",
        "environment_options",
        "episode_state",
        "generating_environment",
        "generator",
        "latency",
        "mistakes",
        "names",
        "questions",
        "setup",
    ];
    assert_eq!(unlisted("environments", &shared, &environments::family().names()), Vec::<String>::new());
    assert_eq!(
        unlisted("rewards", &["context", "count", "kit", "reward", "weighted"], &rewards::family().names()),
        Vec::<String>::new()
    );
    assert_eq!(
        unlisted("formats", &["format", "json_calls", "markup", "text", "turn"], &formats::registry::names()),
        Vec::<String>::new()
    );
    assert_eq!(
        unlisted(
            "verifiers",
            &["check", "extract", "extraction", "literals", "verifier"],
            &verifiers::registry::names()
        ),
        Vec::<String>::new()
    );
    // Environments with a corpus or a database open `search` and `sql` themselves.
    let shared = [
        "call",
        "config",
        "confinement",
        "cpython",
        "difference",
        "embedded",
        "hello",
        "host",
        "interpreter",
        "limits",
        "pending_result",
        "pool",
        "program",
        "search",
        "sql",
        "sql_session",
        "tool",
        "tools_json",
        "wire",
        "worker",
        "worker_program",
        "worker_sessions",
    ];
    assert_eq!(unlisted("tools", &shared, &tools::registry::names()), Vec::<String>::new());
}
