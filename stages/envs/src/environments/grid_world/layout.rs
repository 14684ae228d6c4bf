//! Defines a grid: its cells, the effects of actions, the agent's view, and the shortest path.
//!
//! A layout is text with one character per cell: `.` floor, `#` wall, `A` start, `G` goal, `K` key, `D` locked door,
//! with exactly one start and goal and at most one key and door. Walls surround the layout. The agent sees the current
//! cell and the four adjacent ones. It picks up a key in the key's cell and opens a door from an adjacent cell; the
//! door then stays open.

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};
use trainyard_core::{Error, Result};

/// Largest number of cells in one direction.
const MAX_SIDE: usize = 64;

/// (column, row) from the northwest corner, starting at 0.
pub type GridPosition = (usize, usize);

/// An action, one per call.
#[expect(missing_docs, reason = "named like the actions")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GridAction {
    North,
    East,
    South,
    West,
    PickUp,
    Open,
    Look,
}

impl GridAction {
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
    /// Parses an action's name, ignoring case, surrounding space and a leading `move ` or `go `; `_` counts as a space.
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim().to_lowercase().replace('_', " ");
        let name = text.strip_prefix("move ").or_else(|| text.strip_prefix("go ")).unwrap_or(&text);
        Self::ALL.into_iter().find(|action| action.name() == name)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GridCell {
    Floor,
    Wall,
    Key,
    Door,
    Goal,
}

/// Mutable state of an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GridState {
    /// Position of the agent.
    pub position: GridPosition,
    /// Whether the agent carries the key.
    pub has_key: bool,
    /// Whether the door is open.
    pub open: bool,
}

/// A grid, fixed during an episode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GridLayout {
    rows: Vec<Vec<GridCell>>,
    /// Start of the agent.
    pub start: GridPosition,
    pub goal: GridPosition,
    /// Initial position of the key, if any.
    pub key: Option<GridPosition>,
    /// Position of the door, if any.
    pub door: Option<GridPosition>,
}

impl GridLayout {
    /// Parses a layout. The error is of kind `data` and names the problem.
    pub fn parse(text: &str) -> Result<Self> {
        let mut rows = Vec::new();
        let (mut starts, mut goals, mut keys, mut doors) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (y, line) in text.lines().enumerate() {
            let mut row = Vec::new();
            for (x, c) in line.chars().enumerate() {
                let cell = match c {
                    '.' | 'A' => GridCell::Floor,
                    '#' => GridCell::Wall,
                    'K' => GridCell::Key,
                    'D' => GridCell::Door,
                    'G' => GridCell::Goal,
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
        if rows.len() > MAX_SIDE || width > MAX_SIDE || rows.iter().any(|row| row.len() != width) {
            return Err(bad(format!(
                "rows must have equal length and at most {MAX_SIDE} cells, and there may be at most {MAX_SIDE} rows"
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
    pub fn initial_state(&self) -> GridState {
        GridState { position: self.start, has_key: false, open: false }
    }
    /// Returns the neighboring cell in a direction; `None` past the edge and for actions that are not moves.
    fn neighbor(&self, (x, y): GridPosition, direction: GridAction) -> Option<(GridPosition, GridCell)> {
        let position = match direction {
            GridAction::North => (x, y.checked_sub(1)?),
            GridAction::East => (x + 1, y),
            GridAction::South => (x, y + 1),
            GridAction::West => (x.checked_sub(1)?, y),
            GridAction::PickUp | GridAction::Open | GridAction::Look => return None,
        };
        Some((position, *self.rows.get(position.1)?.get(position.0)?))
    }
    /// Returns the state after an action, or the reason why the action is impossible.
    pub fn act(&self, state: GridState, action: GridAction) -> Result<GridState, &'static str> {
        match action {
            GridAction::Look => Ok(state),
            GridAction::PickUp if self.key == Some(state.position) && !state.has_key => {
                Ok(GridState { has_key: true, ..state })
            }
            GridAction::PickUp => Err("there is nothing to pick up here"),
            GridAction::Open => {
                let beside_door = GridAction::DIRECTIONS
                    .iter()
                    .any(|d| self.neighbor(state.position, *d).is_some_and(|(_, cell)| cell == GridCell::Door));
                match (beside_door && !state.open, state.has_key) {
                    (true, true) => Ok(GridState { open: true, ..state }),
                    (true, false) => Err("the door is locked and you have no key"),
                    (false, _) => Err("there is no locked door next to you"),
                }
            }
            GridAction::North | GridAction::East | GridAction::South | GridAction::West => {
                match self.neighbor(state.position, action) {
                    None | Some((_, GridCell::Wall)) => Err("a wall is in the way"),
                    Some((_, GridCell::Door)) if !state.open => Err("a locked door is in the way"),
                    Some((position, _)) => Ok(GridState { position, ..state }),
                }
            }
        }
    }
    /// Returns the agent's view: `at 2,3: north floor, east wall, south key, west locked door`. Coordinates start at 1.
    pub fn view(&self, state: GridState) -> String {
        let describe = |d: &GridAction| {
            format!(
                "{} {}",
                d.name(),
                self.look(state, self.neighbor(state.position, *d).map_or(GridCell::Wall, |(_, cell)| cell))
            )
        };
        let neighbors: Vec<String> = GridAction::DIRECTIONS.iter().map(describe).collect();
        let here = if self.key == Some(state.position) && !state.has_key { "; a key is here" } else { "" };
        let carried = if state.has_key { "; you have the key" } else { "" };
        format!("at {}: {}{here}{carried}", shown(state.position), neighbors.join(", "))
    }
    fn look(&self, state: GridState, cell: GridCell) -> &'static str {
        match cell {
            GridCell::Wall => "wall",
            GridCell::Goal => "goal",
            GridCell::Door if state.open => "open door",
            GridCell::Door => "locked door",
            GridCell::Key if !state.has_key => "key",
            GridCell::Key | GridCell::Floor => "floor",
        }
    }
    /// Returns the shortest path to the goal by breadth-first search; ties go to the first action in
    /// [`GridAction::ALL`]. `None` if the goal cannot be reached.
    pub fn shortest(&self) -> Option<Vec<GridAction>> {
        let first = self.initial_state();
        let mut reached_by: BTreeMap<GridState, Option<(GridState, GridAction)>> = BTreeMap::from([(first, None)]);
        let mut next = VecDeque::from([first]);
        while let Some(state) = next.pop_front() {
            if state.position == self.goal {
                return Some(path_to(&reached_by, state));
            }
            for action in GridAction::ALL {
                if let Ok(next_state) = self.act(state, action)
                    && let Entry::Vacant(unseen) = reached_by.entry(next_state)
                {
                    unseen.insert(Some((state, action)));
                    next.push_back(next_state);
                }
            }
        }
        None
    }
}

/// Returns the actions that led to a state.
fn path_to(reached_by: &BTreeMap<GridState, Option<(GridState, GridAction)>>, mut state: GridState) -> Vec<GridAction> {
    let mut actions = Vec::new();
    while let Some(Some((previous, action))) = reached_by.get(&state) {
        actions.push(*action);
        state = *previous;
    }
    actions.reverse();
    actions
}

/// Returns a position as shown to the agent: `2,3`, starting at 1.
pub fn shown((x, y): GridPosition) -> String {
    format!("{},{}", x + 1, y + 1)
}

fn bad(problem: String) -> Error {
    Error::data(format!("invalid layout: {problem}")).help("write lines of `.#AGKD`, one character per cell")
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
