//! Grid: cells, effects of actions, the agent's view, and the shortest path.
//!
//! A layout is text with one character per cell: `.` floor, `#` wall, `A` start, `G` goal, `K` key, `D` locked door,
//! with exactly one start and goal and at most one key and door. Walls surround it. The agent sees the current cell and
//! the four adjacent ones. It picks up a key in the key's cell and opens a door from an adjacent cell; the door then
//! stays open.

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};
use trainyard_core::{Error, Result};

/// The largest number of cells in one direction.
const MOST: usize = 64;

/// (column, row) from the northwest corner, starting at 0.
pub type Place = (usize, usize);

/// An action, one per call.
#[expect(missing_docs, reason = "named like the actions")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    North,
    East,
    South,
    West,
    PickUp,
    Open,
    Look,
}

impl Action {
    /// All actions, in the order of their description to the agent.
    pub const ALL: [Self; 7] = [Self::North, Self::East, Self::South, Self::West, Self::PickUp, Self::Open, Self::Look];
    /// The four moves.
    pub const DIRECTIONS: [Self; 4] = [Self::North, Self::East, Self::South, Self::West];

    /// Returns the name that the agent writes.
    pub fn name(self) -> &'static str {
        match self {
            Self::North => "north",
            Self::East => "east",
            Self::South => "south",
            Self::West => "west",
            Self::PickUp => "pick up",
            Self::Open => "open",
            Self::Look => "look",
        }
    }
    /// Parses an action's name, ignoring case, surrounding space, `_`, and a leading `move ` or `go `.
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim().to_lowercase().replace('_', " ");
        let name = text.strip_prefix("move ").or_else(|| text.strip_prefix("go ")).unwrap_or(&text);
        Self::ALL.into_iter().find(|action| action.name() == name)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    Floor,
    Wall,
    Key,
    Door,
    Goal,
}

/// Mutable state of an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct State {
    /// Where the agent is.
    pub at: Place,
    /// Whether it carries the key.
    pub has_key: bool,
    /// Whether the door is open.
    pub open: bool,
}

/// A grid, fixed during an episode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    rows: Vec<Vec<Cell>>,
    /// Start of the agent.
    pub start: Place,
    pub goal: Place,
    /// Initial place of the key, if any.
    pub key: Option<Place>,
    /// Place of the door, if any.
    pub door: Option<Place>,
}

impl Layout {
    /// Parses a layout. The error is of kind `data` and names the problem.
    pub fn parse(text: &str) -> Result<Self> {
        let mut rows = Vec::new();
        let (mut starts, mut goals, mut keys, mut doors) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (y, line) in text.lines().enumerate() {
            let mut row = Vec::new();
            for (x, c) in line.chars().enumerate() {
                let cell = match c {
                    '.' | 'A' => Cell::Floor,
                    '#' => Cell::Wall,
                    'K' => Cell::Key,
                    'D' => Cell::Door,
                    'G' => Cell::Goal,
                    _ => return Err(bad(format!("row {} has `{c}`", y + 1))),
                };
                match c {
                    'A' => starts.push((x, y)),
                    'K' => keys.push((x, y)),
                    'D' => doors.push((x, y)),
                    'G' => goals.push((x, y)),
                    _ => {}
                }
                row.push(cell);
            }
            rows.push(row);
        }
        let width = rows.first().map_or(0, Vec::len);
        if rows.len() > MOST || width > MOST || rows.iter().any(|row| row.len() != width) {
            return Err(bad(format!(
                "rows must have equal length and at most {MOST} cells, and there may be at most {MOST} rows"
            )));
        }
        match (starts.as_slice(), goals.as_slice(), keys.as_slice(), doors.as_slice()) {
            ([start], [goal], [] | [_], [] | [_]) => {
                Ok(Self { rows, start: *start, goal: *goal, key: keys.first().copied(), door: doors.first().copied() })
            }
            _ => Err(bad("it needs one `A` and one `G`, and at most one `K` and one `D`".to_string())),
        }
    }
    /// Returns the numbers of columns and rows.
    pub fn size(&self) -> (usize, usize) {
        (self.rows.first().map_or(0, Vec::len), self.rows.len())
    }
    /// Returns the state at the start of an episode.
    pub fn first(&self) -> State {
        State { at: self.start, has_key: false, open: false }
    }
    /// Returns the neighboring cell in a direction; `None` beyond the edge and for actions that are not moves.
    fn ahead(&self, (x, y): Place, direction: Action) -> Option<(Place, Cell)> {
        let place = match direction {
            Action::North => (x, y.checked_sub(1)?),
            Action::East => (x + 1, y),
            Action::South => (x, y + 1),
            Action::West => (x.checked_sub(1)?, y),
            Action::PickUp | Action::Open | Action::Look => return None,
        };
        Some((place, *self.rows.get(place.1)?.get(place.0)?))
    }
    /// Returns the state after an action, or why the action is impossible.
    pub fn act(&self, state: State, action: Action) -> Result<State, &'static str> {
        match action {
            Action::Look => Ok(state),
            Action::PickUp if self.key == Some(state.at) && !state.has_key => Ok(State { has_key: true, ..state }),
            Action::PickUp => Err("there is nothing to pick up here"),
            Action::Open => {
                let next_to = Action::DIRECTIONS
                    .iter()
                    .any(|d| self.ahead(state.at, *d).is_some_and(|(_, cell)| cell == Cell::Door));
                match (next_to && !state.open, state.has_key) {
                    (true, true) => Ok(State { open: true, ..state }),
                    (true, false) => Err("the door is locked and you have no key"),
                    (false, _) => Err("there is no locked door next to you"),
                }
            }
            Action::North | Action::East | Action::South | Action::West => match self.ahead(state.at, action) {
                None | Some((_, Cell::Wall)) => Err("a wall is in the way"),
                Some((_, Cell::Door)) if !state.open => Err("a locked door is in the way"),
                Some((at, _)) => Ok(State { at, ..state }),
            },
        }
    }
    /// Returns the agent's view: `at 2,3: north floor, east wall, south key, west locked door`. Coordinates start at 1.
    pub fn view(&self, state: State) -> String {
        let sees = |d: &Action| {
            format!("{} {}", d.name(), self.look(state, self.ahead(state.at, *d).map_or(Cell::Wall, |(_, cell)| cell)))
        };
        let around: Vec<String> = Action::DIRECTIONS.iter().map(sees).collect();
        let here = if self.key == Some(state.at) && !state.has_key { "; a key is here" } else { "" };
        let held = if state.has_key { "; you have the key" } else { "" };
        format!("at {}: {}{here}{held}", shown(state.at), around.join(", "))
    }
    fn look(&self, state: State, cell: Cell) -> &'static str {
        match cell {
            Cell::Wall => "wall",
            Cell::Goal => "goal",
            Cell::Door if state.open => "open door",
            Cell::Door => "locked door",
            Cell::Key if !state.has_key => "key",
            Cell::Key | Cell::Floor => "floor",
        }
    }
    /// Returns the shortest path to the goal by breadth-first search; ties go to the first action in [`Action::ALL`].
    /// `None` if the goal cannot be reached.
    pub fn shortest(&self) -> Option<Vec<Action>> {
        let first = self.first();
        let mut came_by: BTreeMap<State, Option<(State, Action)>> = BTreeMap::from([(first, None)]);
        let mut next = VecDeque::from([first]);
        while let Some(state) = next.pop_front() {
            if state.at == self.goal {
                return Some(way(&came_by, state));
            }
            for action in Action::ALL {
                if let Ok(then) = self.act(state, action)
                    && let Entry::Vacant(unseen) = came_by.entry(then)
                {
                    unseen.insert(Some((state, action)));
                    next.push_back(then);
                }
            }
        }
        None
    }
}

/// Returns the actions that led to a state.
fn way(came_by: &BTreeMap<State, Option<(State, Action)>>, mut state: State) -> Vec<Action> {
    let mut actions = Vec::new();
    while let Some(Some((before, action))) = came_by.get(&state) {
        actions.push(*action);
        state = *before;
    }
    actions.reverse();
    actions
}

/// Returns a place as shown to the agent: `2,3`, starting at 1.
pub fn shown((x, y): Place) -> String {
    format!("{},{}", x + 1, y + 1)
}

fn bad(why: String) -> Error {
    Error::data(format!("invalid layout: {why}")).help("write lines of `.#AGKD`, one character per cell")
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
