//! Pages for users and contributors: their links, the length and the stage kinds of the README, and every complete
//! workflow in them.

use crate::kit::{Sandbox, repository};
use std::path::{Path, PathBuf};

/// Most lines of the README.
const README_LINES: usize = 100;
/// Rows of the file `problems.jsonl`, which workflows in pages may import.
const PROBLEMS: &str = r#"{"question": "What is 1 + 1?", "answer": "2"}
{"question": "What is 1 + 2?", "answer": "3"}
"#;
/// Folders of shipped files that workflows in pages may name.
const SHIPPED: [&str; 2] = ["examples/harness", "python/adapters"];
/// Comment before a workflow that cannot be checked, with the reason after it.
const NOT_CHECKED: &str = "<!-- not checked: ";
/// Mark of a block that the test of the tutorial checks.
const TESTED: &str = "<!-- file: ";

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Returns all pages whose links and workflows are checked.
fn pages() -> Vec<PathBuf> {
    let root = repository();
    let mut found = Vec::new();
    for name in ["AGENTS.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"] {
        found.push(root.join(name));
    }
    for folder in ["docs", "skills"] {
        collect(&root.join(folder), &mut found);
    }
    found.sort();
    found
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|e| e == "md") {
            found.push(path);
        }
    }
}

/// Returns the lines outside of fenced blocks.
fn outside_fences(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside {
            lines.push(line);
        }
    }
    lines
}

/// Returns the fenced YAML blocks of a page with the numbers of their first lines, without those after a comment
/// `NOT_CHECKED`.
fn yaml_blocks(text: &str) -> Vec<(usize, String)> {
    let mut blocks = Vec::new();
    let mut before = "";
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let fence = line.trim_start();
        if !fence.starts_with("```") {
            if !line.trim().is_empty() {
                before = line.trim_start();
            }
            continue;
        }
        let indent = line.len() - fence.len();
        let mut block = String::new();
        for (_, inner) in lines.by_ref() {
            if inner.trim() == "```" {
                break;
            }
            block.push_str(inner.get(indent..).unwrap_or(""));
            block.push('\n');
        }
        if fence.trim_end() == "```yaml" && !before.starts_with(NOT_CHECKED) && !before.starts_with(TESTED) {
            blocks.push((number + 2, block));
        }
        before = "";
    }
    blocks
}

/// Returns the anchors of a page's headings, as GitHub makes them.
fn anchors(text: &str) -> Vec<String> {
    let headings = outside_fences(text).into_iter().filter(|line| line.starts_with('#'));
    headings.map(|heading| anchor(heading.trim_start_matches('#').trim())).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>().to_lowercase()
}

/// Returns the targets of a page's links to files and headings of the repository.
fn targets(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in outside_fences(text) {
        for rest in line.split("](").skip(1) {
            let target = rest.split(')').next().unwrap_or("");
            if !target.contains("://") {
                found.push(target.to_string());
            }
        }
    }
    found
}

#[test]
fn every_link_of_a_page_leads_to_a_file_and_a_heading() {
    let mut dead = Vec::new();
    let mut links = 0;
    for page in pages() {
        for target in targets(&read(&page)) {
            links += 1;
            let (name, heading) = target.split_once('#').unwrap_or((target.as_str(), ""));
            let file = if name.is_empty() { page.clone() } else { page.parent().unwrap().join(name) };
            let found = file.exists() && (heading.is_empty() || anchors(&read(&file)).iter().any(|a| a == heading));
            if !found {
                dead.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(links > 100, "{links} links");
    assert!(dead.is_empty(), "dead links:\n{}", dead.join("\n"));
}

#[test]
fn the_readme_is_short() {
    let lines = read(&repository().join("README.md")).lines().count();
    assert!(lines <= README_LINES, "{lines} lines; move details to a page of docs");
}

#[test]
fn every_stage_kind_in_the_readme_exists() {
    let kinds = Sandbox::new().run(&["stages", "--format", "json"]).code(0).json();
    let kinds = kinds.as_array().unwrap();
    let mut named = 0;
    for (_, block) in yaml_blocks(&read(&repository().join("README.md"))) {
        for rest in block.split("uses: ").skip(1) {
            let kind = rest.split([',', '}', '\n', ' ']).next().unwrap_or("");
            assert!(kinds.iter().any(|known| known["name"] == kind), "README.md names the unknown stage kind `{kind}`");
            named += 1;
        }
    }
    assert!(named >= 4, "{named} stage kinds");
}

#[test]
fn every_complete_workflow_in_a_page_passes_check() {
    let mut wrong = Vec::new();
    let mut workflows = 0;
    for page in pages() {
        for (number, block) in yaml_blocks(&read(&page)) {
            let has = |wanted: &str| block.lines().any(|line| line.trim_end() == wanted);
            if !has("version: 1") || !has("stages:") {
                continue;
            }
            workflows += 1;
            let s = Sandbox::new();
            s.write("problems.jsonl", PROBLEMS);
            for folder in SHIPPED {
                for entry in std::fs::read_dir(repository().join(folder)).unwrap() {
                    let path = entry.unwrap().path();
                    if path.is_file() {
                        s.write(&path.file_name().unwrap().to_string_lossy(), std::fs::read(&path).unwrap());
                    }
                }
            }
            s.write("example.yaml", &block);
            let ran = s.run(&["check", "example.yaml"]);
            if ran.code != 0 {
                wrong.push(format!("{}:{number}\n{}{}", page.display(), ran.stdout, ran.stderr));
            }
        }
    }
    assert!(workflows >= 12, "{workflows} workflows");
    let remedy = format!("correct them, or write `{NOT_CHECKED}REASON -->` before one that cannot be checked");
    assert!(wrong.is_empty(), "workflows that do not pass check; {remedy}:\n{}", wrong.join("\n"));
}

#[test]
fn a_block_after_the_comment_is_not_checked() {
    let plain = "text\n\n```yaml\na: 1\n```\n\n";
    let allowed = "<!-- not checked: needs a server -->\n\n```yaml\nb: 1\n```\n\n";
    let indented = "- item\n\n  ```yaml\n  c: 1\n  ```\n";
    let blocks = yaml_blocks(&[plain, allowed, indented].concat());
    assert_eq!(blocks, [(4, "a: 1\n".to_string()), (16, "c: 1\n".to_string())]);
}

#[test]
fn headings_become_anchors() {
    let page = "# Over HTTP\n```sh\n# no heading\n```\n## `rl`: a step, in order\n";
    assert_eq!(anchors(page), ["over-http", "rl-a-step-in-order"]);
}
