//! Generates solvable grids by level.
//!
//! | level | size | walls | key and door | fewest actions |
//! |---|---|---|---|---|
//! | 1 | 5 × 5 | 4 | no | 2 to 4 |
//! | 2 | 6 × 6 | 6 | no | 5 to 9 |
//! | 3 | 6 × 6 | 4 | yes | 6 to 11 |
//! | 4 | 8 × 8 | 8 | yes | 12 to 20 |
//! | 5 | 10 × 10 | 14 | yes | 18 to 40 |
//!
//! The generator places single walls at random. With a door, a wall from edge to edge divides the grid, with start and
//! key on one side and the goal on the other. The canonical form is the layout; levels differ in size or parts, so no
//! grid belongs to two. The problem's text states the positions of objects but not of walls.

use super::layout::{GridAction, GridLayout, GridPosition, shown};
use serde_json::json;
use trainyard_core::chance::PhiloxRng;
use trainyard_core::{Chance, Digest};
use trainyard_tables::{Message, Problem};

/// Highest level; the lowest is 1.
pub const MAX_LEVEL: u32 = 5;
/// The answer of an episode that reached the goal.
pub const REACHED: &str = "reached";

/// A grid with the shortest way through it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratedGrid {
    /// The layout as text.
    pub text: String,
    /// The layout.
    pub layout: GridLayout,
    /// The shortest path from start to goal.
    pub shortest_path: Vec<GridAction>,
}

/// The parameters of a level.
struct GridLevel {
    size: usize,
    walls: usize,
    door: bool,
    /// Bounds on the length of the shortest path in actions.
    actions: (usize, usize),
}

impl GridLevel {
    fn of(level: u32) -> Self {
        let grid_level = |size, walls, door, actions| Self { size, walls, door, actions };
        match level {
            1 => grid_level(5, 4, false, (2, 4)),
            2 => grid_level(6, 6, false, (5, 9)),
            3 => grid_level(6, 4, true, (6, 11)),
            4 => grid_level(8, 8, true, (12, 20)),
            _ => grid_level(10, 14, true, (18, 40)),
        }
    }
}

impl GeneratedGrid {
    /// Returns grid number `index` of a level under the seed of `chance`. `level` is clamped to 1..=[`MAX_LEVEL`].
    pub fn at(level: u32, index: u64, chance: &Chance) -> Self {
        let level = level.clamp(1, MAX_LEVEL);
        let (shape, mut draws) = (GridLevel::of(level), chance.at("grid-world", &[u64::from(level), index]));
        loop {
            let text = draw(&shape, &mut draws);
            if let Ok(layout) = GridLayout::parse(&text)
                && let Some(path) = layout.shortest()
                && (shape.actions.0..=shape.actions.1).contains(&path.len())
            {
                return Self { text, layout, shortest_path: path };
            }
        }
    }
    /// Returns the grid as a problem of `level`.
    pub fn problem(&self, level: u32) -> Problem {
        let canonical = self.text.replace('\n', "/");
        Problem {
            id: format!("gw{level}-{}", Digest::of(canonical.as_bytes()).short()),
            messages: vec![Message::new("user", question(&self.layout))],
            answer: REACHED.to_string(),
            verifier: json!({"kind": "text", "layout": self.text}).to_string(),
            environment: "grid-world".to_string(),
            level,
            source: "grid-world".to_string(),
            split: String::new(),
            canonical,
            reference: Some(self.shortest_path.iter().map(|action| action.name()).collect::<Vec<_>>().join("\n")),
            meta: None,
            parents: Vec::new(),
        }
    }
    /// Returns the shortest path with one extra, impossible action at a random position. The extra action changes only
    /// the number of turns.
    pub fn path_with_mistake(&self, draws: &mut PhiloxRng) -> Vec<GridAction> {
        let at = draws.below(self.shortest_path.len() as u64) as usize;
        let taken = &self.shortest_path[..at];
        let state = taken.iter().try_fold(self.layout.initial_state(), |state, action| self.layout.act(state, *action));
        // `open` fails without the key and `pick up` with it, so some action always fails.
        let is_impossible = |action: &GridAction| state.is_ok_and(|state| self.layout.act(state, *action).is_err());
        let impossible: Vec<GridAction> = GridAction::ALL.into_iter().filter(is_impossible).collect();
        let mistake = if impossible.is_empty() { GridAction::Look } else { *draws.choose(&impossible) };
        taken.iter().copied().chain([mistake]).chain(self.shortest_path[at..].iter().copied()).collect()
    }
}

/// Returns the problem's text: the positions of objects, but not of walls.
fn question(layout: &GridLayout) -> String {
    let (columns, rows) = layout.size();
    let object = |name: &str, position: Option<GridPosition>| {
        position.map_or_else(String::new, |position| format!(" {name} at {}.", shown(position)))
    };
    format!(
        "Walk to the goal. Grid {columns} by {rows}, 1,1 is northwest. You are at {}.{}{} Goal at {}.",
        shown(layout.start),
        object("Key", layout.key),
        object("Locked door", layout.door),
        shown(layout.goal)
    )
}

/// Returns the text of a random grid, possibly unsolvable.
fn draw(shape: &GridLevel, draws: &mut PhiloxRng) -> String {
    let size = shape.size;
    let mut rows = vec![vec!['.'; size]; size];
    // Column of the dividing wall; without one, all columns are on its near side.
    let mut divider = size;
    if shape.door {
        divider = draws.between(1, size as i64 - 2) as usize;
        let gap = draws.below(size as u64) as usize;
        for (y, row) in rows.iter_mut().enumerate() {
            row[divider] = if y == gap { 'D' } else { '#' };
        }
    }
    let all = move || (0..size).flat_map(move |y| (0..size).map(move |x| (x, y)));
    let mut near: Vec<GridPosition> = all().filter(|(x, _)| *x < divider).collect();
    let mut far: Vec<GridPosition> = all().filter(|(x, _)| *x > divider).collect();
    draws.shuffle(&mut near);
    draws.shuffle(&mut far);
    let mut free = near;
    let mut put = |objects: &[char], free: &mut Vec<GridPosition>| {
        for (object, (x, y)) in objects.iter().zip(free.drain(..objects.len())) {
            rows[y][x] = *object;
        }
    };
    if shape.door {
        put(&['A', 'K'], &mut free);
        put(&['G'], &mut far);
        free.append(&mut far);
        draws.shuffle(&mut free);
    } else {
        put(&['A', 'G'], &mut free);
    }
    put(&vec!['#'; shape.walls], &mut free);
    if shape.door && draws.below(2) == 0 {
        rows = (0..size).map(|x| rows.iter().map(|row| row[x]).collect()).collect();
    }
    rows.iter().map(|row| row.iter().collect::<String>()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
#[path = "generator_tests.rs"]
mod tests;
