//! Tests the screens' responses to keys and data.

use super::model::ReadRequest;
use super::samples::{run_line, run_model, waiting_detail};
use super::state::{Key, Popup, TopAction, TopEvent, TopState};
use trainyard_core::{RunId, StageKey};

fn keys(state: &mut TopState, text: &str) -> Option<TopAction> {
    text.chars().fold(None, |_, c| state.update(TopEvent::Key(Key::Char(c))))
}

fn open_run() -> TopState {
    let mut state = TopState::new(Some(RunId("20261128-101700-0000001".into())));
    state.update(TopEvent::Run(Box::new(run_model())));
    state
}

fn stage(state: &TopState) -> Option<String> {
    state.request().stage.map(|key| key.0)
}

#[test]
fn live_runs_precede_newer_ones_and_the_selection_stays_on_its_run() {
    let mut state = TopState::new(None);
    state.update(TopEvent::Runs(vec![run_line("a", "failed"), run_line("b", "running"), run_line("c", "succeeded")]));
    let order = |state: &TopState| state.runs.iter().flatten().map(|line| line.run.0.clone()).collect::<String>();
    assert_eq!(order(&state), "bca");
    keys(&mut state, "j");
    assert_eq!((state.run_position(), state.selected_run.clone()), (1, Some(RunId("c".into()))));
    state.update(TopEvent::Runs(vec![run_line("c", "succeeded"), run_line("d", "succeeded")]));
    assert_eq!((order(&state).as_str(), state.run_position()), ("dc", 1));
    state.update(TopEvent::Runs(vec![run_line("d", "succeeded")]));
    assert_eq!(state.run_position(), 0, "the selected run was removed");
}

#[test]
fn enter_opens_a_run_and_esc_returns() {
    let mut state = TopState::new(None);
    assert_eq!(state.update(TopEvent::Key(Key::Enter)), None, "no runs were read yet");
    state.update(TopEvent::Runs(vec![run_line("a", "running")]));
    assert_eq!(state.request(), ReadRequest::default());
    state.update(TopEvent::Key(Key::Enter));
    assert_eq!(state.request(), ReadRequest { run: Some(RunId("a".into())), stage: None });
    state.update(TopEvent::Run(Box::new(run_model())));
    assert!(state.open.as_ref().unwrap().model.is_none(), "data of another run");
    state.update(TopEvent::Key(Key::Esc));
    assert!(state.open.is_none());
    assert_eq!(keys(&mut state, "q"), Some(TopAction::Quit));
}

#[test]
fn damaged_run_says_why_and_does_not_open() {
    let mut damaged = run_line("a", "damaged");
    damaged.why = Some("batch 3 is not JSON".into());
    let mut state = TopState::new(None);
    state.update(TopEvent::Runs(vec![damaged]));
    state.update(TopEvent::Key(Key::Enter));
    assert!(state.open.is_none());
    assert_eq!(state.note.as_deref(), Some("run a cannot be read: batch 3 is not JSON"));
}

#[test]
fn space_expands_and_collapses_a_fan_out() {
    let mut state = open_run();
    keys(&mut state, "jj");
    assert_eq!(stage(&state).as_deref(), Some("rl[seed=1]"), "the first instance of the fan-out");
    keys(&mut state, " jjj");
    assert_eq!(stage(&state).as_deref(), Some("rl[seed=3]"));
    keys(&mut state, " ");
    assert_eq!((state.open.as_ref().unwrap().rows().len(), stage(&state).as_deref()), (4, Some("rl[seed=1]")));
    keys(&mut state, "j ");
    assert_eq!(stage(&state).as_deref(), Some("evaluate"), "a stage has nothing to expand");
}

#[test]
fn selection_stops_at_both_ends() {
    let mut state = open_run();
    keys(&mut state, "k");
    assert_eq!(stage(&state).as_deref(), Some("data"));
    keys(&mut state, "Gj");
    assert_eq!(stage(&state).as_deref(), Some("evaluate"));
    state.update(TopEvent::Key(Key::PageUp));
    assert_eq!(stage(&state).as_deref(), Some("data"));
}

#[test]
fn filter_takes_every_character_until_enter() {
    let mut state = open_run();
    assert_eq!(keys(&mut state, "/qx"), None, "q is text of the filter");
    state.update(TopEvent::Key(Key::Backspace));
    state.update(TopEvent::Key(Key::Backspace));
    keys(&mut state, "seed=2");
    state.update(TopEvent::Key(Key::Enter));
    assert_eq!(stage(&state).as_deref(), Some("rl[seed=2]"));
    state.update(TopEvent::Key(Key::Esc));
    assert_eq!(state.open.as_ref().unwrap().filter, "", "the first Esc clears the filter");
    assert!(state.open.is_some());
}

#[test]
fn cancelling_needs_a_yes() {
    let mut state = open_run();
    assert_eq!(keys(&mut state, "cxn"), None);
    assert_eq!(state.popup, None);
    assert_eq!(keys(&mut state, "cy"), Some(TopAction::Cancel(RunId("20261128-101700-0000001".into()))));
    let mut over = run_model();
    over.line.status = "succeeded";
    state.update(TopEvent::Run(Box::new(over)));
    assert_eq!(keys(&mut state, "cy"), None);
    assert_eq!(state.popup, None);
}

#[test]
fn log_scrolls_within_its_lines_and_follows_again_at_the_end() {
    let mut state = open_run();
    let mut model = run_model();
    model.detail = Some(waiting_detail());
    state.update(TopEvent::Run(Box::new(model)));
    keys(&mut state, "lg");
    assert_eq!(state.open.as_ref().unwrap().log_scroll, Some(30));
    keys(&mut state, "kjG");
    assert_eq!(state.open.as_ref().unwrap().log_scroll, Some(0));
    state.update(TopEvent::Key(Key::Esc));
    assert_eq!(state.open.as_ref().unwrap().log_scroll, None);
}

#[test]
fn failed_reads_keep_the_data_and_the_next_read_clears_them() {
    let mut state = open_run();
    state.update(TopEvent::ReadFailed("cannot read the store: gone".into()));
    assert!(state.failure.is_some() && state.open.as_ref().unwrap().model.is_some());
    state.update(TopEvent::Run(Box::new(run_model())));
    assert_eq!(state.failure, None);
}

#[test]
fn any_key_closes_help_and_arrows_scroll_explanations() {
    let mut state = open_run();
    keys(&mut state, "?q");
    assert_eq!(state.popup, None);
    keys(&mut state, "ejjk");
    assert_eq!(state.popup, Some(Popup::Explain(1)));
    keys(&mut state, "e");
    assert_eq!(state.popup, None);
    assert_eq!(state.request().stage, Some(StageKey("data".into())));
}
