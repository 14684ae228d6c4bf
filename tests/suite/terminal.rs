//! The terminal interprets no control codes in a stage's output, names and artifacts.

use crate::kit::{Ran, Sandbox};
use crate::python_programs::{call_through, python_sandbox};

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

/// Runs a command on a terminal of as many columns as the first argument says, and prints what the terminal receives.
const TERMINAL: &str = r#"
import fcntl, os, pty, struct, sys, termios

child, screen = pty.fork()
if child == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, int(sys.argv[1]), 0, 0))
    os.execv(sys.argv[2], sys.argv[2:])
shown = b""
while True:
    try:
        part = os.read(screen, 65536)
    except OSError:
        break
    if not part:
        break
    shown += part
_, status = os.waitpid(child, 0)
sys.stdout.buffer.write(shown)
sys.exit(os.waitstatus_to_exitcode(status))
"#;

/// Stages with long names, and a report with a table.
const LONG: &str = r#"
version: 1
name: long
stages:
  demonstrations_with_mistakes:
    uses: data/synthesize
    with: {method: procedural, splits: {demonstrations: {levels: {1: 4}}, validation: {levels: {1: 4}}}}
  labels_of_the_steps_of_a_long_name:
    uses: data/select
    with: {problems: ["${{ stages.demonstrations_with_mistakes.problems }}"], splits: [validation]}
  report: {uses: report, with: {title: Long, reports: ["${{ stages.demonstrations_with_mistakes.report }}"]}}
"#;

/// Returns the lines of a terminal of so many columns, without control sequences: long lines are wrapped. Fails if
/// the wrap splits a word, except in lines with a command to copy.
fn lines_of(screen: &str, columns: usize) -> Vec<String> {
    let mut text = String::new();
    let mut rest = screen.chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => drop(rest.by_ref().skip(1).find(char::is_ascii_alphabetic)),
            '\r' => {}
            c => text.push(c),
        }
    }
    let mut lines = Vec::new();
    for line in text.lines() {
        let characters: Vec<char> = line.chars().collect();
        let is_command = line.starts_with("next: ") || line.starts_with("  trainyard ");
        let breaks_a_word = (columns..characters.len())
            .step_by(columns)
            .any(|at| !characters[at].is_whitespace() && !characters[at - 1].is_whitespace());
        assert!(is_command || !breaks_a_word, "{columns} columns: {line}");
        let parts = characters.chunks(columns).map(|part| part.iter().collect::<String>().trim_end().to_string());
        lines.extend(parts);
        lines.extend(line.is_empty().then(String::new));
    }
    lines
}

/// Runs the program on a terminal, and returns the lines that it shows.
pub fn on_a_terminal(s: &Sandbox, columns: u16, args: &[&str]) -> Vec<String> {
    s.write("terminal.py", TERMINAL);
    let screen = call_through(s, &["terminal.py", &columns.to_string()], args).stdout;
    lines_of(&screen, usize::from(columns))
}

#[test]
fn lines_of_a_terminal_are_at_most_as_long_and_break_no_word() {
    let Some(s) = python_sandbox() else { return };
    s.write("long.yaml", LONG);
    let piped = s.run(&["run", "long.yaml"]).code(0);
    let page = on_a_terminal(&s, 80, &["runs", "show", "latest"]);
    for name in ["demonstrations_with_mistakes ", "labels_of_the_steps_of_a_long_name "] {
        assert!(page.iter().any(|line| line.starts_with(name)), "{page:#?}");
    }
    assert!(page.iter().any(|line| line.starts_with("    main metric: demonstrations 4")), "{page:#?}");
    // The address of the pages is one word, which is longer than a line.
    let again = on_a_terminal(&s, 80, &["run", "--no-pages", "long.yaml"]);
    assert!(again.iter().any(|line| line.contains("labels_of_the_steps_of_a_long_name: hit ")), "{again:#?}");
    for line in page.iter().chain(&again) {
        assert!(!line.starts_with('|'), "the table is drawn: {again:#?}");
    }
    assert!(!piped.stdout.contains("| ---") && piped.stdout.contains("Long"), "{}", piped.stdout);
    let rows = |text: &[String]| text.iter().any(|line| line.split_whitespace().next() == Some("demonstrations"));
    let plain: Vec<String> = piped.stdout.lines().map(str::to_string).collect();
    assert!(rows(&plain) && rows(&again), "the same table: {plain:#?}\n{again:#?}");
}
