//! Tests exact screens on a terminal in memory. `INSTA_UPDATE=always` writes changed snapshots.

use super::{Theme, draw};
use crate::top::model::{RunLine, StageLine};
use crate::top::samples::{run_line, run_model, waiting_detail};
use crate::top::state::{Key, Popup, TopEvent, TopState};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use std::sync::Arc;
use trainyard_core::{RunId, StageKey};
use trainyard_views::graph::{GraphNode, GraphView};

const SIZES: [(u16, u16); 2] = [(80, 24), (120, 40)];
const PLAIN: Theme = Theme { has_colors: false };

fn drawn(state: &TopState, theme: Theme, (width, height): (u16, u16)) -> ratatui::buffer::Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(state, theme, frame)).unwrap();
    terminal.backend().buffer().clone()
}

fn text(state: &TopState, size: (u16, u16)) -> String {
    let buffer = drawn(state, PLAIN, size);
    let row = |y: u16| (0..size.0).map(|x| buffer[(x, y)].symbol().to_string()).collect::<String>();
    (0..size.1).map(|y| row(y).trim_end().to_string()).collect::<Vec<_>>().join("\n")
}

fn snapshot(name: &str, state: &TopState) {
    for size in SIZES {
        insta::assert_snapshot!(format!("{name}_{}x{}", size.0, size.1), text(state, size));
    }
}

fn list() -> TopState {
    let mut damaged = run_line("20261127-080000-0000003", "damaged");
    (damaged.workflow, damaged.elapsed, damaged.total) = (String::new(), None, 0);
    damaged.why = Some("batch 3 of the journal is not JSON".into());
    let mut state = TopState::new(None);
    state.update(TopEvent::Runs(vec![
        damaged,
        run_line("20261128-101700-0000001", "running"),
        run_line("20261128-110000-0000002", "succeeded"),
    ]));
    state
}

/// Returns the screen of a run whose waiting instance of the expanded fan-out is selected.
fn run() -> TopState {
    let mut state = TopState::new(Some(RunId("20261128-101700-0000001".into())));
    let mut model = run_model();
    model.detail = Some(waiting_detail());
    state.update(TopEvent::Run(Box::new(model)));
    for key in "jj jjj".chars() {
        state.update(TopEvent::Key(Key::Char(key)));
    }
    state
}

fn with_popup(popup: Popup) -> TopState {
    TopState { popup: Some(popup), ..run() }
}

fn with_log(by: usize) -> TopState {
    let mut state = run();
    state.open.as_mut().unwrap().log_scroll = Some(by);
    state
}

#[test]
fn list_of_runs() {
    snapshot("list", &list());
    let screen = text(&list(), (120, 40));
    let rows: Vec<&str> = screen.lines().collect();
    assert_eq!(rows[0], "trainyard top  3 runs, 1 live");
    assert!(rows[2].starts_with("> 20261128-101700-0000001 agent       > running     2m05s"), "{screen}");
    assert!(rows[2].contains("3/6") && rows[2].contains("120/400  [##......]  22.4s left  12.5/s"), "{screen}");
    assert!(rows[4].contains("✗ damaged") && rows[4].contains("batch 3 of the journal is not JSON"), "{screen}");
}

#[test]
fn stages_and_the_selected_one() {
    snapshot("run", &run());
    let screen = text(&run(), (80, 24));
    for part in [
        "run 20261128-101700-0000001 of agent: > running  2m05s  3/6 stages",
        "= hit",
        "- rl x3",
        "[seed=2]",
        "~ waiting, rl",
        "waits for: slots of this machine,",
        "kl 10 at 20, 0.500 to 10 (1/2)",
        r"line 30 red \u{1b}[2J",
    ] {
        assert!(screen.contains(part), "`{part}` is missing\n{screen}");
    }
    let collapsed = {
        let mut state = run();
        state.update(TopEvent::Key(Key::Char(' ')));
        text(&state, (120, 40))
    };
    assert!(
        collapsed.contains("+ rl x3") && collapsed.contains("[##......] 1 done, 1 running, 1 waiting"),
        "{collapsed}"
    );
}

#[test]
fn values_and_counts_are_never_cut() {
    let lines = |size| -> Vec<String> { text(&run(), size).lines().map(str::to_string).collect() };
    let narrow = lines((80, 24));
    assert!(narrow[2].contains("✓ done        1m01s ") && !narrow[2].contains("loss"), "{}", narrow[2]);
    assert!(narrow[3].contains("[##......] 1 done, 1 running waits for"), "{}", narrow[3]);
    assert!(lines((76, 24))[3].contains("[##......] 1 done  "), "{}", lines((76, 24))[3]);
    let middle = lines((84, 24));
    assert!(middle[2].contains("1m01s  lo… 0.132"), "{}", middle[2]);
    assert!(lines((120, 40))[2].contains("1m01s  loss 0.132"));
}

#[test]
fn names_of_workflows_use_the_free_width_of_the_line() {
    let long = |run: &str, status| RunLine { workflow: "gsm8k-grpo-lr-sweep".into(), ..run_line(run, status) };
    let list = |lines: Vec<RunLine>| {
        let mut state = TopState::new(None);
        state.update(TopEvent::Runs(lines));
        state
    };
    let running = list(vec![long("20261128-101700-0000001", "running")]);
    let wide = text(&running, (120, 10));
    assert!(wide.contains("workflow            status"), "the heads move with the column\n{wide}");
    assert!(wide.contains("gsm8k-grpo-lr-sweep > running"), "{wide}");
    assert!(wide.contains("120/400  [##......]  22.4s left  12.5/s"), "the progress keeps its width\n{wide}");
    let narrow = text(&running, (80, 10));
    assert!(narrow.contains("gsm8k-grpo… > running"), "{narrow}");
    let ended = text(&list(vec![long("20261128-110000-0000002", "succeeded")]), (80, 10));
    assert!(ended.contains("gsm8k-grpo-lr-sweep ✓ succeeded"), "runs without progress leave it free\n{ended}");
    let longest = RunLine { workflow: "w".repeat(200), ..run_line("20261128-110000-0000002", "succeeded") };
    let cut = text(&list(vec![longest]), (120, 10));
    assert!(cut.contains("www… ✓ succeeded   2m05s   3/6"), "the other columns stay\n{cut}");
}

#[test]
fn the_curve_of_the_main_metric_is_first() {
    let screen = |main: &str, next: usize| {
        let mut state = TopState::new(Some(RunId("20261128-101700-0000001".into())));
        let mut model = run_model();
        let mut detail = waiting_detail();
        detail.stage.main_metric = Some(main.into());
        model.detail = Some(detail);
        state.update(TopEvent::Run(Box::new(model)));
        state.open.as_mut().unwrap().curve = next;
        text(&state, (120, 40))
    };
    assert!(screen("reward", 0).contains("reward 40 at 20, 2 to 40 (1/2)"), "{}", screen("reward", 0));
    assert!(screen("reward", 1).contains("kl 10 at 20"), "{}", screen("reward", 1));
    assert!(screen("accuracy", 0).contains("kl 10 at 20"), "a metric without a curve changes nothing");
}

#[test]
fn windows_over_the_screen() {
    snapshot("help", &with_popup(Popup::Help));
    snapshot("explain", &with_popup(Popup::Explain(0)));
    snapshot("cancel", &with_popup(Popup::Cancel));
    let asked = text(&with_popup(Popup::Cancel), (80, 24));
    assert!(asked.contains("cancel run 20261128-101700-0000001? y/n"), "{asked}");
    let explained = text(&with_popup(Popup::Explain(99)), (80, 24));
    assert!(explained.contains("rl[seed=3] is waiting"), "a short text does not scroll\n{explained}");
}

#[test]
fn log_on_the_full_screen() {
    snapshot("log", &with_log(0));
    let at = |by| text(&with_log(by), (80, 24));
    assert!(at(0).contains("follows") && at(0).contains("line 30") && !at(0).contains("line 9 "), "{}", at(0));
    assert!(at(30).contains("line 1 ") && !at(30).contains("line 30"), "{}", at(30));
}

#[test]
fn failures_are_in_the_status_line_and_the_data_stays() {
    let mut state = run();
    state.update(TopEvent::ReadFailed("cannot read the store: the folder x is missing".into()));
    let screen = text(&state, (80, 24));
    assert_eq!(screen.lines().nth(22), Some("cannot read the store: the folder x is missing"));
    assert!(screen.contains("[seed=2]"), "{screen}");
    let mut removed = run_model();
    removed.is_removed = true;
    state.update(TopEvent::Run(Box::new(removed)));
    assert!(text(&state, (80, 24)).contains("this run was removed from the store"));
}

#[test]
fn small_terminals_do_not_panic() {
    let states =
        [list(), run(), with_popup(Popup::Help), with_popup(Popup::Explain(3)), with_log(5), TopState::new(None)];
    for state in &states {
        for size in [(40, 10), (20, 5), (64, 6), (3, 3), (1, 1), (200, 2)] {
            drawn(state, PLAIN, size);
        }
    }
    assert!(text(&run(), (40, 10)).contains("[seed=3]"), "the selected stage is visible");
}

#[test]
fn colors_add_nothing_to_the_text() {
    for state in [list(), run()] {
        let (plain, colored) = (drawn(&state, PLAIN, SIZES[0]), drawn(&state, Theme { has_colors: true }, SIZES[0]));
        assert!(plain.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
        assert!(colored.content.iter().any(|cell| cell.fg == Color::Yellow));
        assert!(plain.content.iter().zip(&colored.content).all(|(a, b)| a.symbol() == b.symbol()));
    }
}

#[test]
fn text_of_the_store_moves_nothing() {
    let mut model = run_model();
    model.line.workflow = "w\u{1b}]0;title\u{7}\u{202e}".into();
    let mut stages = (*model.stages).clone();
    stages[1].key = StageKey("s\u{1b}[2J\u{9b}1m".into());
    stages[1].metric = Some("m\u{8}\u{2066} 1".into());
    let mut graph = (*model.graph).clone();
    graph.nodes[1].name.clone_from(&stages[1].key.0);
    (model.stages, model.graph) = (Arc::new(stages), Arc::new(graph));
    model.detail = Some(waiting_detail());
    let mut state = TopState::new(Some(model.line.run.clone()));
    state.update(TopEvent::Run(Box::new(model)));
    let screen = text(&state, (120, 40));
    let obeyed = screen.chars().find(|c| (c.is_control() && *c != '\n') || matches!(c, '\u{202e}' | '\u{2066}'));
    assert_eq!(obeyed, None, "{screen}");
    assert!(screen.contains(r"s\u{1b}[2J"), "{screen}");
}

#[test]
fn rows_of_a_run_of_many_stages_follow_the_selection() {
    let name = |at: usize| format!("stage-{at:05}");
    let stage = |at| StageLine { key: StageKey(name(at)), status: "pending", took: None, metric: None };
    let node = |at| GraphNode { name: name(at), instances: vec![at], ..GraphNode::default() };
    let mut model = run_model();
    model.stages = Arc::new((0..10_000).map(stage).collect());
    model.graph = Arc::new(GraphView { nodes: (0..10_000).map(node).collect() });
    let mut state = TopState::new(Some(model.line.run.clone()));
    state.update(TopEvent::Run(Box::new(model)));
    state.update(TopEvent::Key(Key::End));
    let screen = text(&state, (80, 24));
    assert!(screen.contains("> stage-09999") && screen.contains("stage-09979") && !screen.contains("stage-09978"));
}
