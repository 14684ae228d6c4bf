//! The terminal interprets no control codes in a stage's output, names and artifacts.

use crate::kit::{Ran, Sandbox};

/// Output that sets a window title, clears the screen, reverses a line, and sets colors.
const SAYS: &str = r#"
version: 1
name: says
stages:
  says:
    run: |
      printf '\033]0;title\007\033[2J\033[31mred\033[0m turned \342\200\256round\n' >&2
      printf '{"name": "m\\u001b[2J", "value": 1}\n' >> "$TRAINYARD_METRICS"
      printf x > "${{ outputs.o }}/x"
      exit 3
    outputs: {o: files}
    retry: {attempts: 1}
  named:
    run: 'printf ok > "${{ outputs.o }}/$(printf "f\033]0;title\007\342\200\256")"'
    outputs: {o: files}
"#;

/// Asserts that the output contains no active control codes.
#[track_caller]
fn tame(ran: Ran) -> Ran {
    for text in [&ran.stdout, &ran.stderr] {
        let obeyed = text.chars().find(|c| (c.is_control() && !"\n\t".contains(*c)) || *c == '\u{202e}');
        assert_eq!(obeyed, None, "{text:?}");
    }
    ran
}

#[test]
fn what_is_printed_for_people_holds_no_terminal_codes() {
    let s = Sandbox::new();
    s.write("says.yaml", SAYS);
    tame(s.run(&["run", "says.yaml"])).code(1).says("red turned");
    let logs = tame(s.run(&["logs", "latest", "says"])).code(0);
    assert!(logs.stdout.contains(r"\u{1b}]0;title\u{7}\u{1b}[2Jred turned \u{202e}round"), "{}", logs.stdout);
    let commands: &[&[&str]] = &[
        &["runs", "show", "latest"],
        &["explain", "latest", "says"],
        &["explain", "latest", "named"],
        &["artifacts", "list"],
        &["artifacts", "show", "latest/named/o"],
        &["artifacts", "export", "latest/named/o", "out"],
    ];
    for &command in commands {
        tame(s.run(command));
    }
}

#[test]
fn logs_are_raw_if_asked_and_exact_for_programs() {
    let s = Sandbox::new();
    s.write("says.yaml", SAYS);
    s.run(&["run", "says.yaml"]).code(1);
    let text = "\u{1b}]0;title\u{7}\u{1b}[2J\u{1b}[31mred\u{1b}[0m turned \u{202e}round";
    s.run(&["logs", "latest", "says", "--raw"]).code(0).prints(text);
    let lines = s.run(&["logs", "latest", "says", "--format", "json"]).code(0).stdout;
    let mut records = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    assert!(records.any(|record| record["text"] == text), "{lines}");
}
