//! Implements the environment `grid-world`: the agent walks to a goal through a grid, past a locked door if there is
//! one, and sees only neighboring cells.
//!
//! The agent must remember what it saw over a long episode. The environment itself produces the answer at the goal, so
//! the agent cannot claim it in words.

pub mod generator;
pub mod layout;

use crate::environments::dialogue::Dialogue;
use crate::environments::{
    AfterTurn, Demonstration, DialogueOptions, Episode, EpisodeState, ExtraOptions, ProblemWorld, ScriptedTurn,
};
use crate::tools::tool::text_argument;
use crate::tools::{PendingToolResult, ToolCall, ToolResult, ToolSpec};
use crate::verifiers::Extraction;
use generator::{GeneratedGrid, REACHED};
use layout::{GridAction, GridLayout, GridState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use trainyard_core::error::Context as _;
use trainyard_core::{Chance, Error, Result};
use trainyard_tables::Problem;

const TOOL: &str = "act";

/// The environment `grid-world`, without options besides those of a dialogue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GridWorld {}

impl ExtraOptions for GridWorld {
    const KIND: &'static str = "grid-world";
    const SUMMARY: &'static str = "walk to a goal in a grid that is only partly visible";
    const DOC: &'static str = "Text tasks like those of MiniGrid (2306.13831) and BabyAI (1810.08272), with long\n\
        episodes. The one tool `act` takes an action (`north`, `east`, `south`, `west`, `pick up`, `open`, `look`)\n\
        and returns what the agent sees afterwards. An impossible action is an error of the call and changes nothing.\n\
        The problem says where things are; walls are found by walking. The layout is in the verifier's data. The\n\
        episode ends with a right answer when the agent reaches the goal; a turn without a call gives up. In format\n\
        `code` a call is the bare action. Generates its own problems.";
    /// The one tool belongs to the environment and runs no programs; the answer is a state and no text of the agent.
    const HIDDEN: &'static [&'static str] = &["extract", "limits", "tools"];
    fn dialogue() -> DialogueOptions {
        DialogueOptions {
            tools: Vec::new(),
            max_turns: 64,
            max_tool_calls: 64,
            extract: Extraction::None,
            ..DialogueOptions::default()
        }
    }
    fn tools() -> Vec<ToolSpec> {
        vec![spec()]
    }
}

fn spec() -> ToolSpec {
    let actions: Vec<&str> = GridAction::ALL.iter().map(|action| action.name()).collect();
    ToolSpec {
        name: TOOL.to_string(),
        description: "Does one thing in a grid and returns what is then next to you. Walk north, east, south or west; \
                      pick up the key where it lies; open a locked door next to you if you have the key; or look. \
                      Walls and locked doors are in the way."
            .to_string(),
        parameters: json!({
            "type": "object",
            "properties": {"action": {"type": "string", "enum": actions}},
            "required": ["action"],
        }),
    }
}

fn call(action: GridAction) -> ToolCall {
    ToolCall { name: TOOL.to_string(), arguments: json!({"action": action.name()}) }
}

/// Returns the layout in a problem's verifier data.
fn layout(problem: &Problem) -> Result<GridLayout> {
    let place = || format!("problem `{}`", problem.id);
    let data =
        serde_json::from_str(&problem.verifier).map_err(|e| Error::data(format!("its verifier is not JSON: {e}")));
    let data: Value = data.at(place())?;
    let text = data.get("layout").and_then(Value::as_str);
    let text = text.ok_or_else(|| {
        Error::data("its verifier contains no `layout`").help("use problems generated for `grid-world`")
    });
    GridLayout::parse(text.at(place())?).at(place())
}

/// The state of one walk.
struct GridEpisodeState {
    layout: Arc<GridLayout>,
    state: GridState,
}

impl GridEpisodeState {
    fn arrived(&self) -> bool {
        self.state.position == self.layout.goal
    }
    fn act(&mut self, text: &str) -> ToolResult {
        if self.arrived() {
            return ToolResult::error("error: you are at the goal already");
        }
        let Some(action) = GridAction::read(text) else {
            let known: Vec<&str> = GridAction::ALL.iter().map(|action| action.name()).collect();
            return ToolResult::error(format!("error: no such action; use one of: {}", known.join(", ")));
        };
        match self.layout.act(self.state, action) {
            Ok(state) => {
                self.state = state;
                ToolResult::ok(self.layout.view(state))
            }
            Err(reason) => ToolResult::error(format!("error: {reason}; {}", self.layout.view(self.state))),
        }
    }
}

impl EpisodeState for GridEpisodeState {
    fn submit(&mut self, call: &ToolCall) -> PendingToolResult {
        let action = text_argument(TOOL, "action", &call.arguments);
        PendingToolResult::ready(action.map_or_else(|error| error, |text| self.act(text)))
    }
    fn after_calls(&mut self, _results: &[ToolResult]) -> AfterTurn {
        if self.arrived() { AfterTurn::End(Some(REACHED.to_string())) } else { AfterTurn::Continue(Vec::new()) }
    }
    fn after_text(&mut self, _text: &str) -> Option<AfterTurn> {
        Some(AfterTurn::End(None))
    }
    fn fork(&self) -> Result<Box<dyn EpisodeState>> {
        Ok(Box::new(Self { layout: Arc::clone(&self.layout), state: self.state }))
    }
}

/// Demonstrations walk the shortest path, one call per turn; a mistake is one extra, impossible action.
impl ProblemWorld for GridWorld {
    type Options = Self;
    const MAX_LEVEL: u32 = generator::MAX_LEVEL;
    const PLURAL: &'static str = "grids";
    fn new(options: Self) -> Self {
        options
    }
    fn read_answer(_turn: &str) -> Option<String> {
        None
    }
    fn open(&self, dialogue: &Arc<Dialogue>, problem: &Problem, seed: u64) -> Result<Box<dyn Episode>> {
        let layout = layout(problem)?;
        let state = layout.initial_state();
        dialogue.start_in(Box::new(GridEpisodeState { layout: Arc::new(layout), state }), seed)
    }
    fn problem(&self, level: u32, index: u64, chance: &Chance) -> Problem {
        GeneratedGrid::at(level, index, chance).problem(level.clamp(1, generator::MAX_LEVEL))
    }
    fn demonstration(
        &self,
        _dialogue: &Dialogue,
        level: u32,
        index: u64,
        chance: &Chance,
        mistakes: f64,
        mistake_chance: &Chance,
    ) -> Demonstration {
        let grid = GeneratedGrid::at(level, index, chance);
        let mut draws = mistake_chance.at("mistake", &[]);
        let mistaken = draws.uniform() < mistakes;
        let actions = if mistaken { grid.path_with_mistake(&mut draws) } else { grid.shortest_path };
        Demonstration { turns: actions.into_iter().map(|action| ScriptedTurn::Call(call(action))).collect(), mistaken }
    }
}
