//! Compares whole texts of the program with those in `tests/suite/snapshots`: help, the page of a stage kind, and a
//! plan and a run on terminals of 80 and 120 columns.
//!
//! After an intended change, `INSTA_UPDATE=always cargo test -p trainyard --test suite snapshots::` writes them anew;
//! review them like code.

use crate::kit::Sandbox;
use crate::python_programs::python;
use crate::terminal::on_a_terminal;

/// A workflow without a model, so that no figure depends on the machine.
const WORKFLOW: &str = r#"
version: 1
name: shown
stages:
  demonstrations_with_mistakes:
    description: Problems of two levels, and demonstrations of the first.
    uses: data/synthesize
    with:
      method: procedural
      splits: {demonstrations: {levels: {1: 20}}, test: {levels: {1: 6, 2: 6}}}
  filter:
    uses: data/filter
    with:
      trajectories: ["${{ stages.demonstrations_with_mistakes.demonstrations }}"]
      problems: ["${{ stages.demonstrations_with_mistakes.problems }}"]
      evaluation: ["${{ stages.demonstrations_with_mistakes.problems_test }}"]
  report: {uses: report, with: {title: Shown, reports: ["${{ stages.filter.report }}"]}}
"#;

/// Patterns of text that differs between runs and versions of stage kinds, each with its replacement.
const MASKS: [(&str, &str); 4] = [
    (r"\S+/trainyard-suite-[^\s/]+/", "FOLDER/"),
    (r"\b\d{8}-\d{6}-[0-9a-f]{7}\b", "RUN"),
    (r"\b[0-9a-f]{12}\b", "DIGEST"),
    (r"\b\d+(\.\d+)?(ms|s|m\d\ds)\b", "TIME"),
];

fn compare(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    for (pattern, replacement) in MASKS {
        settings.add_filter(pattern, replacement);
    }
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

#[test]
fn help_of_all_commands() {
    let s = Sandbox::new();
    let help = |command: &[&str]| s.run(&[command, &["--help"]].concat()).code(0).stdout;
    let mut text = help(&[]);
    let commands = text.lines().skip_while(|line| *line != "Commands:").skip(1).map_while(|line| {
        line.strip_prefix("  ").filter(|line| !line.is_empty()).map(|line| line.split(' ').next().unwrap_or_default())
    });
    let commands: Vec<String> = commands.filter(|name| !name.is_empty() && *name != "help").map(String::from).collect();
    assert!(commands.len() > 10, "{commands:?}");
    for command in &commands {
        text.push_str(&format!("\n\n===== {command}\n\n{}", help(&[command])));
    }
    compare("help", &text);
}

#[test]
fn page_of_a_stage_kind() {
    compare("stages_sft", &Sandbox::new().run(&["stages", "sft"]).code(0).stdout);
}

#[test]
fn plans_and_runs_on_narrow_and_wide_terminals() {
    if !python() {
        return;
    }
    for columns in [80, 120] {
        let s = Sandbox::new();
        s.write("shown.yaml", WORKFLOW);
        let screen = |args: &[&str]| on_a_terminal(&s, columns, args).join("\n");
        compare(&format!("plan_{columns}"), &screen(&["plan", "shown.yaml"]));
        s.run(&["run", "shown.yaml"]).code(0);
        compare(&format!("run_{columns}"), &screen(&["run", "--no-pages", "shown.yaml"]));
        compare(&format!("runs_show_{columns}"), &screen(&["runs", "show", "latest"]));
    }
}
