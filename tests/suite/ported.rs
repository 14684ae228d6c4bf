//! Environments of other packages through the adapters, checked against the rules; tools for other clients.
//!
//! `TRAINYARD_TEST_ENVIRONMENTS=PYTHON` names a Python with any of `gymnasium`, `textworld`, `openenv-core` and
//! `verifiers`; tests of missing packages are skipped with a message. `TRAINYARD_TEST_MCP=FOLDER` has a client
//! (`mcp/bin/python`).

use crate::kit::{Sandbox, skipped};
use crate::processes::Killed;
use crate::python_programs::python_with;
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Returns the Python with this module; without one it reports a skip and returns `None`.
#[track_caller]
fn python(module: &str) -> Option<String> {
    let python = python_with("environments", "TRAINYARD_TEST_ENVIRONMENTS")?;
    let has = Command::new(&python).args(["-c", &format!("import {module}")]).stderr(Stdio::null()).status().unwrap();
    if !has.success() {
        skipped(&format!("{python} has no `{module}`"));
        return None;
    }
    Some(python)
}

/// Creates a sandbox with an adapter and a script for it.
fn sandbox(adapter: &str, script: &str, python: &str) -> Sandbox {
    let s = Sandbox::new();
    s.run(&["init", "--python", "--with", adapter, "."]).code(0).prints(&format!("wrote ./{adapter}_environment.py"));
    s.write("script.yaml", script.replace("PYTHON", python));
    s
}

fn conforms(s: &Sandbox) {
    let mut held = s.run(&["conformance", "environment", "script.yaml"]).code(0);
    for property in
        ["the answer is accepted and counts add up", "resets repeat", "forks are independent", "limits hold"]
    {
        held = held.prints(&format!("ok       {property}"));
    }
}

const LAKE: &str = r#"
environment:
  kind: process
  command: [PYTHON, gymnasium_environment.py]
  max_turns: 12
  timeout: 2m
  options: {id: FrozenLake-v1, arguments: {is_slippery: false}, actions: [left, down, right, up]}
problem: {prompt: Walk from S to G.}
turns:
  - {call: act, arguments: {action: up}}
  - [{call: act, arguments: {action: down}}, {call: act, arguments: {action: down}}]
  - right
  - {call: act, arguments: {action: down}}
  - {call: act, arguments: {action: right}}
  - {call: act, arguments: {action: right}}
disturbance: {call: act, arguments: {action: right}}
"#;

#[test]
fn a_gymnasium_environment_keeps_the_rules() {
    let Some(python) = python("gymnasium") else { return };
    let s = sandbox("gymnasium", LAKE, &python);
    conforms(&s);
    s.write("script.yaml", LAKE.replace("PYTHON", &python).replace("FrozenLake-v1", "FrozenPond-v1"));
    s.run(&["conformance", "environment", "script.yaml"]).code(1).prints("FrozenPond");
}

const GAME: &str = r#"
environment:
  kind: process
  command: [PYTHON, textworld_environment.py]
  files: [games]
  timeout: 2m
  options: {games: "games/*.z8"}
problem: {prompt: Play.}
turns:
  - {call: command, arguments: {command: look}}
TURNS
disturbance: {call: command, arguments: {command: go west}}
"#;

/// Makes a game and prints the commands that win it.
const MAKE: &str = r#"
import sys, textworld
from textworld.generator import compile_game
options = textworld.GameOptions()
options.seeds, options.nb_rooms, options.nb_objects, options.quest_length = 7, 3, 5, 3
options.path = sys.argv[1]
path = compile_game(textworld.generator.make_game(options), options)
env = textworld.start(path, request_infos=textworld.EnvInfos(policy_commands=True))
print("\n".join(env.reset().policy_commands))
"#;

#[test]
fn a_textworld_game_keeps_the_rules() {
    let Some(python) = python("textworld") else { return };
    let s = sandbox("textworld", "", &python);
    std::fs::create_dir(s.path("games")).unwrap();
    let game = s.path("games/7.z8");
    let made = Command::new(&python).args(["-c", MAKE, game.to_str().unwrap()]).output().unwrap();
    let commands = String::from_utf8(made.stdout).unwrap();
    assert!(made.status.success() && commands.lines().count() > 1, "{}", String::from_utf8_lossy(&made.stderr));
    let turn = |command: &str| format!("  - {}\n", json!({"call": "command", "arguments": {"command": command}}));
    let turns: String = commands.lines().filter(|line| !line.starts_with("Global seed")).map(turn).collect();
    s.write("script.yaml", GAME.replace("PYTHON", &python).replace("TURNS\n", &turns));
    conforms(&s);
}

const SUMS: &str = r#"
import verifiers.v1 as vf

__all__ = ["Sums"]

class SumData(vf.TaskData):
    answer: str

class SumTask(vf.Task[SumData]):
    @vf.reward
    async def right(self, task, trace) -> float:
        return 1.0 if (trace.nodes[-1].message.content or "").strip() == task.answer else 0.0

    @vf.reward(weight=0.5)
    async def called(self, task, trace) -> float:
        return float(any(node.message.role == "tool" for node in trace.nodes))

    @classmethod
    def toolsets(cls, config):
        return [Adder(vf.ToolsetConfig())]

class Adder(vf.Toolset):
    @vf.tool
    def add(self, a: int, b: int) -> str:
        """Adds two numbers."""
        return str(a + b)

class Sums(vf.Taskset[SumTask]):
    def load(self):
        for n in range(5):
            yield SumTask(SumData(prompt=f"What is {n} + {n}?", answer=str(2 * n)))
"#;

const SUM: &str = r#"
environment:
  kind: process
  command: [PYTHON, verifiers_environment.py]
  files: [sums.py]
  timeout: 2m
  options: {taskset: sums, success: 1.5}
problem: {prompt: What is 2 + 2?, verifier: {idx: 2}}
turns:
  - {call: adder_add, arguments: {a: 2, b: 2}}
  - "4"
disturbance: {call: adder_add, arguments: {a: 1, b: 2}}
"#;

#[test]
fn a_taskset_of_verifiers_keeps_the_rules() {
    let Some(python) = python("verifiers.v1") else { return };
    let s = sandbox("verifiers", SUM, &python);
    s.write("sums.py", SUMS);
    conforms(&s);
    let mut written = Command::new(&python);
    let written = written.current_dir(s.path(".")).args(["verifiers_environment.py", "sums", "3"]).output().unwrap();
    let rows: Vec<Value> = String::from_utf8(written.stdout).unwrap().lines().map(|l| l.parse().unwrap()).collect();
    assert_eq!(
        (rows.len(), &rows[2]["question"], &rows[2]["verifier"]["idx"]),
        (3, &json!("What is 2 + 2?"), &json!(2))
    );
}

const SERVER: &str = r#"
import socket, sys
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

class Guess(Action):
    number: int

class Hint(Observation):
    hint: str = ""

class Guessing(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self.secret, self.steps = 0, 0

    def reset(self, seed=None, episode_id=None, **kwargs):
        self.secret, self.steps = (seed or 0) % 10, 0
        return Hint(hint="Guess a number below 10.", done=False, reward=0.0)

    def step(self, action, timeout_s=None, **kwargs):
        self.steps += 1
        if action.number == self.secret:
            return Hint(hint="right", done=True, reward=1.0)
        word = "more" if action.number < self.secret else "less"
        return Hint(hint=f"guess {self.steps}: {word}", done=False, reward=0.0)

    @property
    def state(self):
        return State(step_count=self.steps)

import uvicorn
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
app = create_fastapi_app(Guessing, Guess, Hint, max_concurrent_envs=16)
uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
"#;

const GUESS: &str = r#"
environment:
  kind: process
  command: [PYTHON, openenv_environment.py]
  timeout: 2m
  options: {url: "http://127.0.0.1:PORT"}
problem: {prompt: Guess., verifier: {seed: 7}}
turns:
  - {call: act, arguments: {number: 3}}
  - "9"
  - {call: act, arguments: {number: 7}}
disturbance: {call: act, arguments: {number: 8}}
"#;

#[test]
fn an_openenv_server_keeps_the_rules() {
    let Some(python) = python("openenv.core.generic_client") else { return };
    let s = sandbox("openenv", "", &python);
    let log = std::fs::File::create(s.path("server.log")).unwrap();
    let server = Command::new(&python).args(["-c", SERVER]).stdout(log).stderr(Stdio::null()).spawn().unwrap();
    let _server = Killed(server);
    let port = (0..1200).find_map(|_| {
        std::thread::sleep(Duration::from_millis(100));
        let said = std::fs::read_to_string(s.path("server.log")).unwrap();
        said.contains('\n').then(|| said.trim().to_string())
    });
    let port = port.expect("the server says where it listens");
    // The socket accepts from the start; the first request waits until the server responds.
    s.write("script.yaml", GUESS.replace("PYTHON", &python).replace("PORT", &port));
    conforms(&s);
}

#[test]
fn adapters_are_written_beside_the_bridge_alone() {
    let s = Sandbox::new();
    s.run(&["init", "--with", "gymnasium", "."]).code(2).says("--python");
    s.run(&["init", "--python", "--with", "chess", "."]).code(2).says("gymnasium");
    let wrote = s.run(&["init", "--python", "--with", "gymnasium", "--with", "textworld", "."]).code(0);
    wrote.prints("trainyard_bridge.py").prints("textworld_environment.py").prints("next: read the first lines");
    // A second adapter finds the bridge, and leaves it as it is.
    let second = s.run(&["init", "--python", "--with", "openenv", "."]).code(0);
    let second =
        second.prints("wrote ./openenv_environment.py").prints("read the first lines of openenv_environment.py");
    assert!(!second.stdout.contains("trainyard_bridge.py"), "{}", second.stdout);
    s.write("trainyard_bridge.py", "# changed\n");
    s.run(&["init", "--python", "--with", "verifiers", "."]).code(2).says("with another content");
    assert!(!s.path("verifiers_environment.py").exists() && s.read("trainyard_bridge.py") == "# changed\n");
}

/// Tools of this program, called by raw lines.
#[test]
fn tools_are_served_to_other_clients() {
    let s = Sandbox::new();
    let mut server = Command::new(env!("CARGO_BIN_EXE_trainyard"))
        .args(["serve-tools", "calculator", "{kind: python}"])
        .current_dir(s.path("."))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let call = |id: u32, name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    let begin =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}});
    let lines = [
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": begin}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
        call(2, "calculator", json!({"expression": "32 * 32"})),
        call(3, "python", json!({"code": "x = 20"})),
        call(4, "python", json!({"code": "print(x + 1)"})),
    ];
    let mut input = server.stdin.take().unwrap();
    lines.iter().for_each(|line| writeln!(input, "{line}").unwrap());
    drop(input);
    let out = server.wait_with_output().unwrap();
    let answers: Vec<Value> = String::from_utf8(out.stdout).unwrap().lines().map(|l| l.parse().unwrap()).collect();
    assert!(out.status.success() && answers.len() == 5, "{answers:?}");
    assert_eq!(answers[0]["result"]["serverInfo"]["name"], "trainyard");
    let names: Vec<&Value> = answers[1]["result"]["tools"].as_array().unwrap().iter().map(|t| &t["name"]).collect();
    assert_eq!(names, ["calculator", "python"]);
    let text = |at: usize| answers[at]["result"]["content"][0]["text"].as_str().unwrap().trim().to_string();
    assert_eq!((text(2), text(4)), ("1024".to_string(), "21".to_string()), "variables stay");
    s.run(&["serve-tools", "abacus"]).code(2).says("abacus").says("calculator");
    s.run(&["serve-tools", "{kind: python"]).code(2).says("write a name, or a map");
}

const CLIENT: &str = r#"
import asyncio, sys
from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.session import ClientSession

async def main():
    parameters = StdioServerParameters(command=sys.argv[1], args=["serve-tools", "calculator"])
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        begun = await session.initialize()
        tools = await session.list_tools()
        result = await session.call_tool("calculator", {"expression": "6*7"})
        print([tool.name for tool in tools.tools], result.content[0].text)

asyncio.run(main())
"#;

#[test]
fn the_official_client_calls_our_tools() {
    let Some(folder) = std::env::var("TRAINYARD_TEST_MCP").ok().filter(|folder| !folder.is_empty()) else {
        return skipped("TRAINYARD_TEST_MCP names no folder with a client");
    };
    let mut client = Command::new(format!("{folder}/mcp/bin/python"));
    let out = client.args(["-c", CLIENT, env!("CARGO_BIN_EXE_trainyard")]).output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert_eq!(said.trim(), "['calculator'] 42", "{errors}");
}
