//! `run:` stages: any command line, with declared inputs, outputs and metrics.

use crate::kit::Sandbox;
use crate::processes::matching;

const TWO: &str = r#"
version: 1
name: two
params:
  word: {type: string, default: "it's; $(touch evil)"}
stages:
  make:
    run:
      - sh
      - "-c"
      - "printf '%s' \"$1\" > \"$2/word.txt\"; printf '{\"name\":\"size\",\"value\":3}\\n' >> \"$TRAINYARD_METRICS\""
      - sh
      - "${{ params.word }}"
      - "${{ outputs.text }}"
    outputs: {text: {kind: files}}
    checks: [{metric: size, min: 1}]
  copy:
    with: {text: "${{ stages.make.text }}"}
    run: |
      cp ${{ inputs.text }}/word.txt ${{ outputs.copied }}/copy.txt
      printf %s ${{ params.word }} >> ${{ outputs.copied }}/copy.txt
    outputs: {copied: {kind: files}}
"#;

#[test]
fn values_reach_commands_unparsed_by_any_shell() {
    let s = Sandbox::new();
    s.write("two.yaml", TWO);
    s.run(&["run", "two.yaml"]).code(0);
    s.run(&["artifacts", "export", "latest/copy/copied", "out"]).code(0);
    assert_eq!(s.read("out/copy.txt"), "it's; $(touch evil)it's; $(touch evil)");
    assert!(!s.path("evil").exists());
}

#[test]
fn a_failing_command_fails_its_stage_and_blocks_what_needs_it() {
    let s = Sandbox::new();
    s.write(
        "fail.yaml",
        "version: 1\nname: fail\nstages:\n  bad:\n    run: echo about to fail >&2; exit 7\n    \
         outputs: {x: {kind: files}}\n  after:\n    needs: [bad]\n    uses: noop\n  other:\n    uses: noop\n",
    );
    let ran = s.run(&["run", "fail.yaml"]).code(1);
    assert!(
        ran.stderr.contains("bad") && (ran.stderr.contains("exit code 7") || ran.stdout.contains("exit code 7")),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    let status = |stage: &str| s.stage(stage)["status"].take();
    assert_eq!((status("bad"), status("after"), status("other")), ("failed".into(), "blocked".into(), "done".into()));
    s.run(&["logs", "latest", "bad"]).code(0).prints("about to fail");
}

#[test]
fn a_timeout_kills_the_whole_tree_of_processes() {
    let s = Sandbox::new();
    s.write(
        "slow.yaml",
        "version: 1\nname: slow\nstages:\n  slow:\n    \
         run: (sleep 31.4159; touch survived) & setsid sleep 31.4159; sleep 31.4159\n    timeout: 500ms\n",
    );
    s.run(&["run", "slow.yaml"]).code(1);
    let left = matching("sleep 31.4159");
    assert!(left.is_empty(), "processes survived: {left:?}");
}

#[test]
fn what_a_command_leaves_in_the_background_ends_with_it() {
    let s = Sandbox::new();
    let survived = s.path("survived");
    s.write(
        "left.yaml",
        format!(
            "version: 1\nname: left\nstages:\n  left:\n    \
             run: (sleep 20; touch {}) & (sleep 0.3; echo last words) & echo first words\n",
            survived.display()
        ),
    );
    s.run(&["run", "left.yaml"]).code(0);
    assert!(!survived.exists(), "the stage waited for a process that holds its pipes");
    s.run(&["logs", "latest", "left"]).code(0).prints("first words").prints("last words");
}

#[test]
fn the_last_lines_of_a_failed_command_are_kept() {
    let s = Sandbox::new();
    s.write(
        "fail.yaml",
        "version: 1\nname: fail\nstages:\n  bad:\n    run: (sleep 0.3; echo last words >&2) & exit 3\n",
    );
    s.run(&["run", "fail.yaml"]).code(1).says("exit code 3");
    s.run(&["logs", "latest", "bad"]).code(0).prints("last words");
}

#[test]
fn a_line_without_an_end_is_cut() {
    let s = Sandbox::new();
    s.write("wide.yaml", "version: 1\nname: wide\nstages:\n  wide:\n    run: head -c 3000000 /dev/zero | tr '\\0' x\n");
    s.run(&["run", "wide.yaml"]).code(0);
    let log = s.run(&["logs", "latest", "wide"]).code(0).stdout;
    let (head, line) = log.split_once('\n').unwrap();
    assert_eq!(head, "== wide attempt 1");
    assert_eq!(line.split_once(" info  ").unwrap().1, "x".repeat(128 << 10) + "\n");
}

#[test]
fn outputs_that_could_not_be_fetched_again_are_refused_by_name() {
    let cases = [
        (r"printf x > 'a\..\..\b'", r#""a\\..\\..\\b" is not a name"#),
        (r#"f=$(printf 'f\377'); printf x > "$f""#, r#""f\xFF" is not a name"#),
        ("mkfifo p; printf x > x", r#""p" is a named pipe"#),
        ("ln -s /usr/share u; printf x > x", r#""u" is a link to a place outside of the output"#),
    ];
    for (command, words) in cases {
        let s = Sandbox::new();
        s.write(
            "left.yaml",
            format!(
                "version: 1\nname: left\nstages:\n  left:\n    run: |\n      cd ${{{{ outputs.o }}}}\n      \
                 {command}\n    outputs: {{o: files}}\n    timeout: 60s\n    retry: {{attempts: 1}}\n"
            ),
        );
        s.run(&["run", "left.yaml"]).code(1).says("output `o` of stage `left`").says(words);
        assert!(s.files(".trainyard/artifacts").is_empty(), "{command}: something was published");
    }
}

#[test]
fn a_link_within_an_output_is_stored_as_what_it_points_to() {
    let s = Sandbox::new();
    s.write(
        "links.yaml",
        "version: 1\nname: links\nstages:\n  links:\n    run: |\n      cd ${{ outputs.o }}\n      mkdir step-10\n      \
         printf x > step-10/w\n      ln -s step-10 latest\n      ln -s step-10/w best\n    outputs: {o: files}\n",
    );
    s.run(&["run", "links.yaml"]).code(0);
    s.run(&["artifacts", "export", "latest/links/o", "out"]).code(0);
    assert_eq!(s.files("out"), ["best", "latest/w", "step-10/w"]);
    assert_eq!((s.read("out/best"), s.read("out/latest/w")), ("x".into(), "x".into()));
}

#[test]
fn metrics_that_are_no_text_fail_the_stage() {
    let s = Sandbox::new();
    s.write(
        "bytes.yaml",
        "version: 1\nname: bytes\nstages:\n  bytes:\n    run: printf '\\377' > \"$TRAINYARD_METRICS\"\n",
    );
    s.run(&["run", "bytes.yaml"]).code(1).says("$TRAINYARD_METRICS is not UTF-8 text");
}

#[test]
fn only_commands_take_an_environment() {
    let s = Sandbox::new();
    s.write(
        "kind.yaml",
        "version: 1\nname: kind\nstages:\n  gate: {uses: noop, env: {LOG: info}, secrets: [HF_TOKEN]}\n",
    );
    let checked = s.run(&["check", "kind.yaml", "--format", "json"]).code(2);
    for key in ["env", "secrets"] {
        assert!(
            checked.stdout.contains(&format!("`{key}` cannot be set on a stage with `uses`")),
            "{}",
            checked.stdout
        );
    }
}
