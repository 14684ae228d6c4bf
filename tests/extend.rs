//! The example runs as a reader would run it, and uses all five extensions.

use std::path::Path;
use std::process::{Command, Output};

fn extend(folder: &Path, arguments: &[&str]) -> String {
    let example = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_extend"));
    command.args(arguments).arg("--site").arg(example.join("trainyard.yaml")).arg("--store").arg(folder.join("store"));
    command.current_dir(example).env("TRAINYARD_HOME", folder.join("home"));
    printed(command.output().unwrap())
}

fn printed(output: Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_stage_a_loss_a_reward_an_environment_and_an_executor_are_used() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    extend(folder, &["run", "workflow.yaml"]);
    let rows = extend(folder, &["artifacts", "query", "latest/problems/problems", "select count(*) as n from self"]);
    assert!(rows.contains('8'), "stage `numbers`: {rows}");
    let run = extend(folder, &["runs", "show", "latest", "--format", "json"]);
    assert!(run.contains("\"plain.tokens\": 1.0"), "loss `plain`: {run}");
    assert!(run.contains("\"rewards.brief\""), "reward `brief`: {run}");
    let rows =
        extend(folder, &["artifacts", "query", "latest/rl/trajectories", "select distinct environment from self"]);
    assert!(rows.contains("parity"), "environment `parity`: {rows}");
    let logged = extend(folder, &["logs", "latest", "problems"]);
    assert!(logged.contains("niceness 10"), "executor `nice`: {logged}");
}

#[test]
fn what_it_adds_has_pages_and_is_checked_like_the_rest() {
    let own = |arguments: &[&str]| Command::new(env!("CARGO_BIN_EXE_extend")).args(arguments).output().unwrap();
    for (name, says) in [
        ("numbers", "Number of problems."),
        ("losses/plain", "REINFORCE"),
        ("brief", "1 / tokens"),
        ("environments/parity", "The whole turn is the answer"),
        ("executors/nice", "low priority"),
    ] {
        let page = printed(own(&["stages", name]));
        assert!(page.contains(says), "{name}: {page}");
    }
    let schema = printed(own(&["schema"]));
    assert!(["plain", "brief", "parity", "numbers"].iter().all(|name| schema.contains(&format!("\"{name}\""))));
}
