//! Tools and environments that are custom programs: checked against the rules, tried, and played in a run.

use crate::kit::Sandbox;
use crate::python_programs::python_sandbox;
use serde_json::{Value, json};
use trainyard_testkit::chat::{MockChatServer, MockResponse, calls, says};

const SHOP: &str = r#"
import trainyard_bridge as ty
from prices import PRICES

class Shop(ty.Environment):
    """A shop that sells fruit."""

    def reset(self, problem, seed):
        self.cart = []

    @ty.tool
    def add(self, item: str) -> str:
        """Puts an item into the cart."""
        self.cart.append(item)
        return f"{sum(PRICES[name] for name in self.cart)} cents"

    def step(self, text):
        return ty.Done(text) if self.cart else "Your cart is empty."

ty.run()
"#;

const SCRIPT: &str = r#"
environment: {kind: process, command: [python3, shop.py], files: [prices.py]}
problem: {prompt: What do two pears cost?, answer: 10}
turns:
  - {call: add, arguments: {item: pear}}
  - [{call: add, arguments: {item: pear}}]
  - "10"
disturbance: {call: add, arguments: {item: apple}}
"#;

const TOOLS: &str = r#"
import trainyard_bridge as ty

@ty.tool
def price(item: str) -> str:
    """Looks up what something costs."""
    return "5"

ty.run()
"#;

const WORKFLOW: &str = r#"
version: 1
name: own
stages:
  problems:
    uses: data/import
    with: {source: problems.jsonl, format: jsonl, environment: process}
  sums:
    uses: data/import
    with: {source: problems.jsonl, format: jsonl, environment: math-problems}
  base:
    uses: model/init
    with: {problems: ["${{ stages.problems.problems }}"], hidden_size: 32, layers: 2, heads: 2, intermediate_size: 64}
  shop:
    uses: rl
    with:
      model: ${{ stages.base.model }}
      problems: ${{ stages.problems.problems }}
      environment: {kind: process, command: [python3, shop.py], files: [prices.py], max_turns: 3, describe_tools: false}
      rewards: [{kind: length, max_tokens: 8, buffer_tokens: 8}]
      filters: []
      steps: 1
      problems_per_step: 2
      rollout: {group_size: 2, max_turn_tokens: 8}
  tools:
    uses: evaluate
    with:
      models: ["${{ stages.base.model }}"]
      problems: ${{ stages.sums.problems }}
      environment: {kind: math-problems, tools: [{kind: process, command: [python3, tools.py]}], format: hermes}
      samples: 0
      sampling: {max_turn_tokens: 8}
"#;

/// Writes four problems about the price of pears as `problems.jsonl`.
pub fn write_problems(s: &Sandbox) {
    let row = |n: u32| json!({"id": format!("p{n}"), "question": format!("{n} pears?"), "answer": (5 * n).to_string()});
    s.write_rows("problems.jsonl", (1..=4).map(row));
}

/// Creates a sandbox; without Python it reports a skip and returns `None`.
#[track_caller]
fn shop() -> Option<Sandbox> {
    let s = python_sandbox()?;
    s.write("shop.py", SHOP);
    s.write("prices.py", "PRICES = {'pear': 5, 'apple': 3}\n");
    s.write("tools.py", TOOLS);
    s.write("script.yaml", SCRIPT);
    s.write("own.yaml", WORKFLOW);
    write_problems(&s);
    Some(s)
}

#[test]
fn an_environment_is_held_to_the_rules() {
    let Some(s) = shop() else { return };
    let held = s.run(&["conformance", "environment", "script.yaml"]).code(0);
    held.prints("ok       resets repeat").prints("ok       forks are independent").prints("ok       limits hold");
    s.write(
        "shop.py",
        SHOP.replace("self.cart = []", "self.cart = CART").replace("class Shop", "CART = []\n\nclass Shop"),
    );
    let broken = s.run(&["conformance", "environment", "script.yaml", "--format", "json"]).code(1).json();
    let finding = |name: &str| broken["findings"].as_array().unwrap().iter().find(|f| f["property"] == name).cloned();
    assert_eq!(finding("resets repeat").unwrap()["outcome"], "failed", "{broken}");
    s.write("shop.py", SHOP.replace("self.cart.append(item)", "raise OSError('no stock')"));
    let told = s.run(&["conformance", "environment", "script.yaml"]).code(1);
    told.says("in add").says("OSError: no stock");
    s.write("shop.py", SHOP.replace("ty.run()", "1 / 0"));
    s.run(&["conformance", "environment", "script.yaml"]).code(2).says("ZeroDivisionError");
}

#[test]
fn what_is_wrong_with_a_script_is_told() {
    let Some(s) = shop() else { return };
    let told = |text: &str| {
        s.write("wrong.yaml", text);
        s.run(&["conformance", "environment", "wrong.yaml"])
    };
    told("environment: {kind: chess}\nproblem: {}\nturns: []\n").code(2).says("chess");
    told("environment: {kind: process}\nproblem: {}\nturns: []\n").code(2).says("the command is empty");
    told("environment: [\n").code(2).says("wrong.yaml");
    told("problem: {}\nturns: []\n").code(2).says("missing field `environment`");
    told(&SCRIPT.replace("shop.py", "nowhere.py")).code(2).says("nowhere.py");
    told(&SCRIPT.replace("  - \"10\"\n", "  - \"11\"\n")).code(1).prints("failed   the answer is accepted");
    s.run(&["conformance", "environment", "nowhere.yaml"]).code(2).says("nowhere.yaml");
    // Environments of this build are checked against the same rules.
    told(
        "environment: {kind: word-problems, tools: [calculator]}\nproblem: {answer: 5}\n\
          turns: [<tool_call>2+3</tool_call>, \"5\"]\n",
    )
    .code(0);
}

#[test]
fn custom_tools_and_environments_are_tried_and_played() {
    let Some(s) = shop() else { return };
    s.run(&["check", "own.yaml"]).code(0);
    s.run(&["run", "own.yaml", "--until", "base", "--until", "sums"]).code(0);
    s.run(&["try", "own.yaml", "--stage", "shop", "-n", "2"]).code(0).prints("2 episodes of shop");
    s.run(&["try", "own.yaml", "--stage", "tools", "-n", "1"]).code(0).prints("1 episode of tools");
    s.run(&["run", "own.yaml"]).code(0);
    // The program is part of the stage digest.
    s.run(&["plan", "own.yaml"]).code(0).prints("0 to run");
    s.write("prices.py", "PRICES = {'pear': 6, 'apple': 3}\n");
    s.run(&["plan", "own.yaml"]).code(0).prints("1 to run");
    // A model with random weights may never end a turn, so the failure is at the start of every episode.
    let closed =
        "    @classmethod\n    def prompt(cls, problem):\n        raise RuntimeError('closed')\n\n    def step(";
    s.write("shop.py", SHOP.replace("    def step(", closed));
    let failed = s.run(&["run", "own.yaml"]).code(1);
    assert!(failed.output().contains("RuntimeError: closed"), "{failed:?}");
}

const BOOKS: &str = r#"
import trainyard_bridge as ty

@ty.tool
def book(room: str) -> str:
    """Books a room."""
    if room != "blue":
        raise ValueError(f"no room {room}")
    return "booked"

@ty.tool
def look(room: str) -> str:
    """Looks at a room."""
    return {"blue": "free"}[room]

ty.run()
"#;

const BOOKING: &str = r#"
version: 1
name: booking
stages:
  test: {uses: data/import, with: {source: rooms.jsonl}}
  evaluate:
    uses: evaluate
    with:
      problems: ${{ stages.test.problems }}
      environment: {kind: math-problems, format: hermes, tools: [{kind: process, command: [python3, book.py]}]}
      samples: 0
      endpoints: {talker: {model: {endpoint: "URL", model: m, attempts: 1}}}
"#;

/// Requests a room that is not there with a tool of the question's name, and gives up.
fn guest(body: &Value, _: usize) -> MockResponse {
    let messages = body["messages"].as_array().unwrap();
    if messages.iter().any(|message| message["role"] == "tool") {
        return says(body, "5");
    }
    let tool = if body["messages"].to_string().contains("Look") { "look" } else { "book" };
    calls(body, "c1", tool, &json!({"room": "red"}))
}

#[test]
fn wrong_arguments_of_the_model_are_one_line_of_the_run() {
    let Some(s) = python_sandbox() else { return };
    let served = MockChatServer::start(guest);
    s.write("book.py", BOOKS);
    s.write("booking.yaml", BOOKING.replace("URL", served.url()));
    let asks = ["Book room 1.", "Book room 2.", "Book room 3.", "Look at room 4.", "Look at room 5."];
    let row = |text: &str| json!({"prompt": [{"role": "user", "content": text}], "answer": "5"});
    s.write_rows("rooms.jsonl", asks.map(row));
    let told = s.run(&["run", "booking.yaml"]).code(0);
    let told = told.says("evaluate: tool book: 3 calls raised ValueError, first: no room red\n");
    let told = told.says("evaluate: tool look: 2 calls raised KeyError, first: 'red'\n");
    assert_eq!(told.stderr.matches("Traceback").count(), 1, "the first one of an unexpected type: {}", told.stderr);
    let logs = s.run(&["logs", "latest", "evaluate"]).code(0).prints("ValueError: no room red").stdout;
    assert_eq!(logs.matches("Traceback").count(), 5, "{logs}");
}
