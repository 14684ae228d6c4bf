//! The recipes embedded in the binary work in an empty folder, and mean the same as their files.

use crate::kit::{Sandbox, repository};
use serde_json::Value;
use std::path::PathBuf;

/// One recipe of each kind of chain: a plain trial, one with two cold starts, one on another world.
const NAMES: [(&str, &str); 3] =
    [("filters-and-curricula", "simpletir"), ("filters-and-curricula", "rif-rft"), ("rewards", "ikea")];

fn file(subject: &str, name: &str) -> PathBuf {
    repository().join("workflows/recipes").join(subject).join(format!("{name}.yaml"))
}

/// Returns stages with their kinds and digests, as far as they are known before a run.
fn digests(s: &Sandbox, file: &str, params: &[&str]) -> Value {
    let params: Vec<&str> = params.iter().flat_map(|p| ["-p", p]).collect();
    let planned = s.run(&[&["plan", file, "--format", "json"], params.as_slice()].concat()).code(0).json();
    let stages = planned["stages"].as_array().unwrap();
    assert!(stages.iter().any(|stage| stage["digest"].is_string()), "{planned}");
    assert!(planned["digest"].is_string(), "{planned}");
    planned
}

#[test]
fn they_are_listed_by_subject_and_shown() {
    let s = Sandbox::new();
    let listed = s.run(&["recipes", "--format", "json"]).code(0).json();
    let listed = listed.as_array().unwrap();
    assert!(listed.len() >= 25 && listed.iter().all(|r| r["parts"].as_array().is_some_and(|p| !p.is_empty())));
    let subject = |name: &str| &listed.iter().find(|r| r["name"] == name).unwrap()["subject"];
    assert_eq!((subject("simpletir"), subject("arpo")), (&"filters-and-curricula".into(), &"rollouts".into()));
    let shown = s.run(&["recipes", "show", "simpletir"]).code(0).stdout;
    assert_eq!(shown, std::fs::read_to_string(file("filters-and-curricula", "simpletir")).unwrap());
    s.run(&["recipes", "show", "simpeltir"]).code(2).says("no recipe `simpeltir` in this build").says("simpletir");
    s.run(&["recipes", "show", "trial"]).code(2).says("no key `recipe`");
    s.run(&["init", "--recipe", "simpeltir", "new"]).code(2).says("did you mean `simpletir`?");
    assert!(!s.path("new").exists());
}

#[test]
fn from_the_binary_from_the_disk_merged_or_as_ones_own_they_are_the_same() {
    for (subject, name) in NAMES {
        let s = Sandbox::new();
        let disk = file(subject, name);
        s.run(&["init", name, "--recipe", name]).code(0).prints("-p size=quick");
        assert!(!s.read(&format!("{name}/workflow.yaml")).contains("extends:"));
        for params in [&["size=quick"][..], &["mechanism=off"]] {
            let expected = digests(&s, disk.to_str().unwrap(), params);
            let shipped = format!("/trainyard:/recipes/{subject}/{name}.yaml");
            assert_eq!(digests(&s, &shipped, params), expected, "{name} from the binary");
            assert_eq!(digests(&s, &format!("{name}/workflow.yaml"), params), expected, "{name} as one's own");
        }
    }
}

#[test]
fn the_merged_file_saved_beside_plans_to_the_same_digests() {
    let s = Sandbox::new();
    for path in files() {
        let text = std::fs::read_to_string(repository().join("workflows/recipes").join(&path)).unwrap();
        s.write(&format!("recipes/{path}"), text);
    }
    for (subject, name) in NAMES {
        let path = format!("recipes/{subject}/{name}.yaml");
        let shown = s.run(&["plan", &path, "--show-file"]).code(0).stdout;
        assert!(shown.starts_with("# yaml-language-server") && !shown.contains("extends:"), "{shown}");
        let saved = format!("recipes/{subject}/saved.yaml");
        s.write(&saved, &shown);
        assert_eq!(digests(&s, &saved, &[]), digests(&s, &path, &[]), "{shown}");
        let merged = s.run(&["recipes", "show", name, "--merged"]).code(0).stdout;
        assert!(shown.ends_with(&merged), "{merged}");
    }
}

#[test]
fn show_file_prints_a_file_with_mistakes_too() {
    let s = Sandbox::new();
    s.write("base.yaml", "version: 1\nname: base\nstages:\n  a: {uses: noop, timeuot: 3s}\n");
    s.write("child.yaml", "extends: base.yaml\nname: child\n");
    let ran = s.run(&["plan", "child.yaml", "--show-file"]).code(2);
    ran.prints("name: child\n").prints("timeuot: 3s").says("base.yaml:4:19");
}

#[test]
fn recipes_say_only_what_is_theirs() {
    for path in files() {
        let text = std::fs::read_to_string(repository().join("workflows/recipes").join(&path)).unwrap();
        let lines = text.lines().filter(|l| !l.trim().is_empty()).count();
        if text.contains("\nrecipe:") {
            assert!((20..=60).contains(&lines), "{path} has {lines} lines, a recipe has 20 to 60");
        }
        assert!(text.lines().all(|l| l.chars().count() <= 120), "{path} has lines of more than 120 characters");
    }
}

/// Returns all files of the recipes, as relative paths.
fn files() -> Vec<String> {
    let root = repository().join("workflows/recipes");
    let mut files = Vec::new();
    for folder in std::fs::read_dir(&root).unwrap() {
        for file in std::fs::read_dir(folder.unwrap().path()).unwrap() {
            files.push(file.unwrap().path().strip_prefix(&root).unwrap().display().to_string());
        }
    }
    files.sort();
    assert!(files.len() > 25, "{files:?}");
    files
}
