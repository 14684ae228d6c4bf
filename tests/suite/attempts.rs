//! Attempts follow their plan and the store: planned sources, durability, and published files left unchanged.

use crate::kit::{Sandbox, ran, wait_for};

/// Writes `first`, then `second`, whose source is `script.sh`; the stage `waits` waits for a file `go`.
fn sources(s: &Sandbox, waits: &str) {
    let (started, go) = (s.path("started"), s.path("go"));
    let wait = format!("touch {}; while [ ! -e {} ]; do sleep 0.05; done", started.display(), go.display());
    let (first, second) = if waits == "first" { (wait.as_str(), "true") } else { ("true", wait.as_str()) };
    s.write(
        "sources.yaml",
        format!(
            "version: 1\nname: sources\nstages:\n  first:\n    run: {first}\n  second:\n    needs: [first]\n    \
             files: [script.sh]\n    run: {second}; sh script.sh > ${{{{ outputs.o }}}}/x\n    \
             outputs: {{o: {{kind: files}}}}\n"
        ),
    );
    s.write("script.sh", "printf old");
}

fn changed_source_fails_the_attempt_and_enters_the_next_plan(waits: &str) {
    let s = Sandbox::new();
    sources(&s, waits);
    let child = s.spawn(&["run", "sources.yaml"]);
    wait_for("the stage that waits", 60, || s.path("started").exists());
    s.write("script.sh", "printf new");
    s.write("go", "");
    ran(child.wait_with_output().unwrap())
        .code(1)
        .says("script.sh changed since the plan was made")
        .says("run the command again");
    s.run(&["run", "sources.yaml"]).code(0);
    s.run(&["artifacts", "export", "latest/second/o", "out"]).code(0);
    assert_eq!(s.read("out/x"), "new");
    s.write("script.sh", "printf old");
    s.run(&["run", "sources.yaml"]).code(0);
    s.run(&["artifacts", "export", "latest/second/o", "old"]).code(0);
    assert_eq!(s.read("old/x"), "old", "nothing was published under the digest of the earlier content");
}

#[test]
fn source_that_changes_before_its_stage_fails_the_attempt() {
    changed_source_fails_the_attempt_and_enters_the_next_plan("first");
}

#[test]
fn source_that_changes_during_its_stage_fails_the_attempt() {
    changed_source_fails_the_attempt_and_enters_the_next_plan("second");
}

#[test]
fn python_byte_code_in_a_source_folder_is_ignored() {
    let s = Sandbox::new();
    s.write("lib/a.py", "x = 1");
    s.write(
        "imports.yaml",
        "version: 1\nname: imports\nstages:\n  imports:\n    files: [lib]\n    \
         run: mkdir -p lib/__pycache__; touch lib/__pycache__/a.pyc; cp lib/a.py ${{ outputs.o }}/x\n    \
         outputs: {o: {kind: files}}\n",
    );
    s.run(&["run", "imports.yaml"]).code(0);
    assert!(s.path("lib/__pycache__/a.pyc").exists(), "`files` are links");
    let plan = s.run(&["plan", "imports.yaml", "--format", "json"]).code(0).json();
    assert_eq!(plan["stages"][0]["decision"], "hit");
}

const ONE: &str =
    "version: 1\nname: one\nstages:\n  one:\n    run: printf 1 > ${{ outputs.o }}/x\n    outputs: {o: {kind: files}}\n";

#[test]
fn attempts_flush_stored_files_and_wait_for_the_store_as_the_site_says() {
    let cases = [
        ("version: 1\n", false, 600_000),
        ("version: 1\ndurability: fsync\n", true, 600_000),
        ("version: 1\nstore_outage: 90s\n", false, 90_000),
    ];
    for (site, expected, outage) in cases {
        let s = Sandbox::new();
        s.write("trainyard.yaml", site);
        s.write("one.yaml", ONE);
        s.run(&["run", "one.yaml"]).code(0);
        let spec = s.files(".trainyard").into_iter().find(|f| f.ends_with("spec.json")).unwrap();
        let spec: serde_json::Value = serde_json::from_str(&s.read(&format!(".trainyard/{spec}"))).unwrap();
        assert_eq!(spec["fsync"].as_bool().unwrap_or(false), expected, "{spec}");
        assert_eq!(spec["store_outage_millis"], outage, "{spec}");
    }
}

#[test]
fn store_paths_may_contain_a_hash() {
    let s = Sandbox::new();
    s.write("one.yaml", ONE);
    s.run(&["run", "one.yaml", "--store", "c#/st#1"]).code(0);
    s.run(&["artifacts", "export", "latest/one/o", "out", "--store", "c#/st#1"]).code(0);
    assert_eq!(s.read("out/x"), "1");
}

/// Stored files are write-protected, which does not stop root; run as root, this test fails if inputs are links.
#[test]
fn commands_cannot_change_published_inputs() {
    let s = Sandbox::new();
    s.write(
        "scribble.yaml",
        "version: 1\nname: scribble\nstages:\n  first:\n    run: printf one > ${{ outputs.o }}/x\n    \
         outputs: {o: {kind: files}}\n  second:\n    with: {i: \"${{ stages.first.o }}\"}\n    \
         run: printf two >> ${{ inputs.i }}/x || true; printf done > ${{ outputs.o }}/y\n    \
         outputs: {o: {kind: files}}\n",
    );
    s.run(&["run", "scribble.yaml"]).code(0);
    s.run(&["artifacts", "export", "latest/first/o", "out"]).code(0);
    assert_eq!(s.read("out/x"), "one");
}
