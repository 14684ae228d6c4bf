//! Holds the state of the screens of `trainyard top`, and changes it by events. No function here reads the store or the
//! terminal.

use super::model::{ReadRequest, RunLine, RunModel};
use super::tree::{self, RowId, RowKind, TreeRow};
use std::collections::BTreeSet;
use trainyard_core::RunId;

/// Rows that Page Up and Page Down move.
const PAGE: isize = 10;

/// Event to which the screens respond.
#[derive(Debug, Clone, PartialEq)]
pub enum TopEvent {
    Key(Key),
    /// The list of runs was read.
    Runs(Vec<RunLine>),
    /// The open run was read.
    Run(Box<RunModel>),
    /// The store could not be read.
    ReadFailed(String),
    /// Message about a user request.
    Note(String),
}

/// Key of the keyboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Esc,
    Backspace,
    Char(char),
}

/// Effect that an event requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopAction {
    Quit,
    Cancel(RunId),
}

/// Window over a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Popup {
    Help,
    /// Explanation of the selected stage, scrolled down by some lines.
    Explain(usize),
    /// Question whether to cancel the run.
    Cancel,
}

/// Screens, selections and the last data.
#[derive(Debug, Clone, Default)]
pub struct TopState {
    /// Runs of the store, live ones first; `None` before they were read.
    pub runs: Option<Vec<RunLine>>,
    pub selected_run: Option<RunId>,
    /// Open run; the list of runs if `None`.
    pub open: Option<OpenRun>,
    pub popup: Option<Popup>,
    /// Why the store cannot be read now.
    pub failure: Option<String>,
    /// Last message.
    pub note: Option<String>,
}

/// Screen of a run.
#[derive(Debug, Clone)]
pub struct OpenRun {
    pub run: RunId,
    /// Last data; `None` before the first.
    pub model: Option<Box<RunModel>>,
    pub selected: Option<RowId>,
    /// Names of expanded fan-outs.
    pub expanded: BTreeSet<String>,
    pub filter: String,
    /// Whether keys are added to the filter.
    pub is_filtering: bool,
    /// Number of the shown curve, counted modulo the number of curves.
    pub curve: usize,
    /// Lines of the log below the screen; 0 follows the log. `None` if the log is not on the full screen.
    pub log_scroll: Option<usize>,
}

impl OpenRun {
    pub fn new(run: RunId) -> Self {
        Self {
            run,
            model: None,
            selected: None,
            expanded: BTreeSet::new(),
            filter: String::new(),
            is_filtering: false,
            curve: 0,
            log_scroll: None,
        }
    }
    /// Returns the rows of the list of stages.
    pub fn rows(&self) -> Vec<TreeRow> {
        self.model.as_ref().map(|model| tree::rows(model, &self.expanded, &self.filter)).unwrap_or_default()
    }
    /// Returns the position of the selected row; the first row if the selected one is gone.
    pub fn position(&self, rows: &[TreeRow]) -> usize {
        let Some(model) = &self.model else { return 0 };
        let is_selected = |row: &TreeRow| self.selected.is_some() && tree::id_of(model, row) == self.selected;
        rows.iter().position(is_selected).unwrap_or(0)
    }
    /// Returns the selected row.
    pub fn row(&self) -> Option<TreeRow> {
        let rows = self.rows();
        rows.get(self.position(&rows)).cloned()
    }

    fn select(&mut self, to: impl Fn(usize, usize) -> usize) {
        let rows = self.rows();
        let Some(last) = rows.len().checked_sub(1) else { return };
        let at = to(self.position(&rows), last).min(last);
        self.selected = self.model.as_ref().and_then(|model| tree::id_of(model, &rows[at]));
        self.curve = 0;
    }
    fn toggle(&mut self) {
        let (Some(row), Some(model)) = (self.row(), &self.model) else { return };
        let Some(node) = model.graph.nodes.get(row.node) else { return };
        if row.kind == RowKind::Stage && model.stages.get(row.stage).is_some_and(|s| s.key.0 == node.name) {
            return;
        }
        let name = node.name.clone();
        if !self.expanded.remove(&name) {
            self.expanded.insert(name.clone());
        }
        // An instance that is hidden now leaves the selection to its fan-out.
        self.selected = Some(RowId::FanOut(name));
    }
}

impl TopState {
    /// Creates the state of the command's first screen.
    pub fn new(run: Option<RunId>) -> Self {
        Self { selected_run: run.clone(), open: run.map(OpenRun::new), ..Self::default() }
    }

    /// Returns what the reader must read for the present screen.
    pub fn request(&self) -> ReadRequest {
        let Some(open) = &self.open else { return ReadRequest::default() };
        let row = open.row();
        let stage = row.as_ref().zip(open.model.as_ref()).and_then(|(row, model)| tree::stage_of(model, row));
        ReadRequest { run: Some(open.run.clone()), stage: stage.map(|stage| stage.key.clone()) }
    }

    /// Returns the position of the selected run in the list.
    pub fn run_position(&self) -> usize {
        let runs = self.runs.as_deref().unwrap_or_default();
        self.selected_run.as_ref().and_then(|run| runs.iter().position(|line| line.run == *run)).unwrap_or(0)
    }

    /// Applies an event, and returns the effect that it requests.
    pub fn update(&mut self, event: TopEvent) -> Option<TopAction> {
        match event {
            TopEvent::Key(key) => return self.key(key),
            TopEvent::Runs(mut runs) => {
                runs.sort_by(|a, b| (b.is_live(), &b.run).cmp(&(a.is_live(), &a.run)));
                self.runs = Some(runs);
                self.failure = None;
            }
            TopEvent::Run(model) => {
                // Data of a run that was left meanwhile is outdated.
                if let Some(open) = self.open.as_mut().filter(|open| open.run == model.line.run) {
                    open.model = Some(model);
                    self.failure = None;
                }
            }
            TopEvent::ReadFailed(why) => self.failure = Some(why),
            TopEvent::Note(text) => self.note = Some(text),
        }
        None
    }

    fn key(&mut self, key: Key) -> Option<TopAction> {
        self.note = None;
        if let Some(popup) = self.popup {
            return self.popup_key(popup, key);
        }
        if self.open.as_ref().is_some_and(|open| open.is_filtering) {
            self.filter_key(key);
            return None;
        }
        match key {
            Key::Char('q') => return Some(TopAction::Quit),
            Key::Char('?') => self.popup = Some(Popup::Help),
            _ if self.open.as_ref().is_some_and(|open| open.log_scroll.is_some()) => self.log_key(key),
            _ if self.open.is_some() => self.run_key(key),
            _ => self.list_key(key),
        }
        None
    }

    fn popup_key(&mut self, popup: Popup, key: Key) -> Option<TopAction> {
        match (popup, key) {
            (Popup::Cancel, Key::Char('y')) => {
                self.popup = None;
                let run = self.open.as_ref().map(|open| open.run.clone())?;
                self.note = Some(format!("requesting run {run} to stop"));
                return Some(TopAction::Cancel(run));
            }
            (Popup::Cancel, Key::Char('n') | Key::Esc | Key::Char('q')) => self.popup = None,
            // Other keys neither confirm nor dismiss the question.
            (Popup::Cancel, _) => {}
            (Popup::Explain(by), Key::Down | Key::Char('j')) => self.popup = Some(Popup::Explain(by + 1)),
            (Popup::Explain(by), Key::Up | Key::Char('k')) => {
                self.popup = Some(Popup::Explain(by.saturating_sub(1)));
            }
            (Popup::Help | Popup::Explain(_), _) => self.popup = None,
        }
        None
    }

    fn filter_key(&mut self, key: Key) {
        let Some(open) = &mut self.open else { return };
        match key {
            Key::Char(c) => open.filter.push(c),
            Key::Backspace => drop(open.filter.pop()),
            Key::Enter => open.is_filtering = false,
            Key::Esc => {
                open.filter.clear();
                open.is_filtering = false;
            }
            _ => {}
        }
    }

    fn log_key(&mut self, key: Key) {
        let Some(open) = &mut self.open else { return };
        let lines = open.model.as_ref().and_then(|m| m.detail.as_ref()).map_or(0, |detail| detail.log.len());
        let Some(by) = open.log_scroll else { return };
        let page = PAGE.unsigned_abs();
        open.log_scroll = match key {
            Key::Up | Key::Char('k') => Some((by + 1).min(lines)),
            Key::Down | Key::Char('j') => Some(by.saturating_sub(1)),
            Key::PageUp => Some((by + page).min(lines)),
            Key::PageDown => Some(by.saturating_sub(page)),
            Key::Home | Key::Char('g') => Some(lines),
            Key::End | Key::Char('G') => Some(0),
            Key::Esc | Key::Char('l') => None,
            _ => Some(by),
        };
    }

    fn run_key(&mut self, key: Key) {
        let Some(open) = &mut self.open else { return };
        match key {
            Key::Char('/') => open.is_filtering = true,
            Key::Char(' ') | Key::Enter => open.toggle(),
            Key::Char('m') => open.curve = open.curve.wrapping_add(1),
            Key::Char('l') => open.log_scroll = Some(0),
            Key::Char('e') => self.popup = Some(Popup::Explain(0)),
            Key::Char('c') => self.ask_cancel(),
            Key::Esc if !open.filter.is_empty() => open.filter.clear(),
            Key::Esc => {
                self.selected_run = Some(open.run.clone());
                self.open = None;
            }
            key => {
                if let Some(to) = step(key) {
                    open.select(to);
                }
            }
        }
    }

    fn ask_cancel(&mut self) {
        let model = self.open.as_ref().and_then(|open| open.model.as_ref());
        match model.map(|model| model.line.status) {
            Some("running" | "unfinished") => self.popup = Some(Popup::Cancel),
            Some(status) => self.note = Some(format!("nothing to cancel: the run is {status}")),
            None => {}
        }
    }

    fn list_key(&mut self, key: Key) {
        let runs = self.runs.as_deref().unwrap_or_default();
        let Some(last) = runs.len().checked_sub(1) else { return };
        let at = self.run_position();
        if key == Key::Enter {
            let line = &runs[at];
            match &line.why {
                Some(why) => self.note = Some(format!("run {} cannot be read: {why}", line.run)),
                None => self.open = Some(OpenRun::new(line.run.clone())),
            }
            self.selected_run = Some(runs[at].run.clone());
        } else if let Some(to) = step(key) {
            self.selected_run = Some(runs[to(at, last).min(last)].run.clone());
        }
    }
}

/// Returns how a key moves a selection, from its position and the last position.
fn step(key: Key) -> Option<impl Fn(usize, usize) -> usize> {
    let by = match key {
        Key::Up | Key::Char('k') => -1,
        Key::Down | Key::Char('j') => 1,
        Key::PageUp => -PAGE,
        Key::PageDown => PAGE,
        Key::Home | Key::Char('g') => isize::MIN,
        Key::End | Key::Char('G') => isize::MAX,
        _ => return None,
    };
    Some(move |at: usize, last: usize| at.saturating_add_signed(by).min(last))
}
