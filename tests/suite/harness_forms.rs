//! Agents that give their model's turns a form: JSON of a schema, and forced calls.

use crate::harness::{agent_sandbox, bwrap, sum};
use crate::kit::Sandbox;
use crate::python_programs::python_with;

const WORKFLOW: &str = r#"
version: 1
name: forms
stages:
  problems:
    uses: data/import
    with: {source: problems.jsonl, format: gsm8k}
  base:
    uses: model/init
    with:
      {problems: ["${{ stages.problems.problems }}"], hidden_size: 32, layers: 2, heads: 2, intermediate_size: 64,
          seed: 1}
  measured:
    uses: evaluate
    with:
      models: ["${{ stages.base.model }}"]
      problems: ${{ stages.problems.problems }}
      environment: ENVIRONMENT
      names: [base]
      samples: 1
      sampling: {max_turn_tokens: 300, max_running: 4}
    checks: [{metric: refused_calls_base, max: 0}]
  practice:
    uses: rl
    with:
      model: ${{ stages.base.model }}
      problems: ${{ stages.problems.problems }}
      environment: ENVIRONMENT
      rewards: [{kind: verdict}]
      filters: []
      steps: STEPS
      problems_per_step: 2
      rollout: {group_size: 4, max_turn_tokens: 300, max_running: 4 MORE}
    checks: [{metric: refused_calls, max: 0}, {metric: trained_tokens, min: 1}, {metric: empty_steps, max: 0}]
"#;

/// An agent that forces a call, then an answer of a schema, over each API, and asserts that it gets them.
const AGENT: &str = r##"
import json, os, urllib.request

PROBLEM = json.load(open(os.environ["TRAINYARD_PROBLEM"]))
QUESTION = os.environ["TRAINYARD_QUESTION"]
SIDES = ["left", "right"]
ARGUMENTS = {"type": "object", "properties": {"side": {"enum": SIDES}}, "required": ["side"],
             "additionalProperties": False}
ANSWER = {"type": "object", "properties": {"found": {"type": "boolean"}, "side": {"enum": SIDES}},
          "required": ["found", "side"], "additionalProperties": False}

def post(base, path, body):
    key = os.environ["OPENAI_API_KEY"]
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + key, "x-api-key": key}
    request = urllib.request.Request(os.environ[base] + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)

def chat(**more):
    body = {"model": "policy", "messages": [{"role": "user", "content": QUESTION}], **more}
    return post("OPENAI_BASE_URL", "/chat/completions", body)["choices"][0]["message"]

def by_chat():
    function = {"name": "look", "parameters": ARGUMENTS}
    call = chat(tools=[{"type": "function", "function": function}], tool_choice="required", parallel_tool_calls=False)
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": ANSWER, "strict": True}}
    [call] = call["tool_calls"]
    return call["function"]["name"], call["function"]["arguments"], chat(response_format=form)["content"]

def by_responses():
    def ask(**more):
        return post("OPENAI_BASE_URL", "/responses", {"model": "policy", "input": QUESTION, **more})["output"]
    tool = {"type": "function", "name": "look", "parameters": ARGUMENTS}
    output = ask(tools=[tool], tool_choice={"type": "function", "name": "look"})
    [call] = [item for item in output if item["type"] == "function_call"]
    form = {"format": {"type": "json_schema", "name": "answer", "schema": ANSWER, "strict": True}}
    [message] = [item for item in ask(text=form) if item["type"] == "message"]
    return call["name"], call["arguments"], message["content"][0]["text"]

def by_messages():
    def ask(**more):
        body = {"model": "policy", "max_tokens": 1000, "messages": [{"role": "user", "content": QUESTION}], **more}
        return post("ANTHROPIC_BASE_URL", "/v1/messages", body)["content"]
    tool = {"name": "look", "input_schema": ARGUMENTS}
    forced = ask(tools=[tool], tool_choice={"type": "any", "disable_parallel_tool_use": True})
    [call] = [part for part in forced if part["type"] == "tool_use"]
    form = {"format": {"type": "json_schema", "schema": ANSWER}}
    [text] = [part for part in ask(output_config=form) if part["type"] == "text"]
    return call["name"], json.dumps(call["input"]), text["text"]

for api in by_chat, by_responses, by_messages:
    name, arguments, answer = api()
    assert name == "look" and json.loads(arguments)["side"] in SIDES, (api, name, arguments)
    answer = json.loads(answer)
    assert set(answer) == {"found", "side"} and answer["side"] in SIDES and answer["found"] in (True, False), answer
print(json.dumps({"answer": answer["side"], "correct": True, "reward": float(answer["found"])}))
"##;

fn write_workflow(s: &Sandbox, environment: &str, steps: u32, more: &str) {
    let text = WORKFLOW.replace("ENVIRONMENT", environment).replace("STEPS", &steps.to_string());
    s.write("forms.yaml", text.replace(" MORE", more));
}

const ENVIRONMENT: &str =
    "{kind: harness, command: [python3, agent.py], format: hermes, describe_tools: false, on_failure: fail}";

#[test]
fn forms_are_kept_in_every_stage_and_api() {
    let Some(s) = agent_sandbox(AGENT, sum) else { return };
    write_workflow(&s, ENVIRONMENT, 2, "");
    s.run(&["run", "forms.yaml"]).code(0);
    s.run(&["try", "forms.yaml", "--stage", "practice", "-n", "2"]).code(0).prints("2 episodes of practice");
    let asynchronous = ", asynchronous: {max_staleness: 1}}\n      loss: {correction: {kind: truncated}";
    write_workflow(&s, ENVIRONMENT, 2, asynchronous);
    s.run(&["run", "forms.yaml"]).code(0);
}

#[test]
fn a_form_that_no_turn_can_have_is_refused_by_its_field() {
    let pattern = r#"{"side": {"type": "string", "pattern": "a"}}"#;
    let agent = AGENT.replacen(r#"{"side": {"enum": SIDES}}"#, pattern, 1);
    let Some(s) = agent_sandbox(&agent, sum) else { return };
    write_workflow(&s, ENVIRONMENT, 1, "");
    let failed = s.run(&["run", "forms.yaml"]).code(1);
    let all = failed.output();
    assert!(all.contains("its request was refused: tool `look`: ") && all.contains("pattern"), "{all}");
    // Calls of other formats are no JSON.
    let Some(s) = agent_sandbox(AGENT, sum) else { return };
    write_workflow(&s, &ENVIRONMENT.replace("hermes", "qwen"), 1, "");
    let failed = s.run(&["run", "forms.yaml"]).code(1);
    let all = failed.output();
    assert!(all.contains("calls of the format `qwen` are no JSON") && all.contains("`format: hermes`"), "{all}");
}

/// An agent of the package `openai-agents` whose first turn must be a call and whose answer is a class.
const PACKAGE_AGENT: &str = r#"
import json, os
from typing import Literal
from agents import Agent, ModelSettings, Runner, function_tool
from pydantic import BaseModel

class Verdict(BaseModel):
    found: bool
    side: Literal["left", "right"]

@function_tool
def look(side: Literal["left", "right"]) -> str:
    """Looks to a side."""
    return "nothing"

agent = Agent(name="finder", model="gpt-5-mini", tools=[look], output_type=Verdict,
              model_settings=ModelSettings(tool_choice="required", parallel_tool_calls=False))
verdict = Runner.run_sync(agent, os.environ["TRAINYARD_QUESTION"], max_turns=20).final_output
assert isinstance(verdict, Verdict)
print(json.dumps({"answer": verdict.side, "correct": True, "reward": float(verdict.found)}))
"#;

#[test]
fn an_agent_of_openai_with_an_output_type_is_trained_in_a_sandbox() {
    let Some(python) = python_with("`openai-agents`", "TRAINYARD_TEST_HARNESSES") else { return };
    if !bwrap() {
        return;
    }
    let Some(s) = agent_sandbox(PACKAGE_AGENT, sum) else { return };
    let prefix = r#"[bwrap, --ro-bind, /, /, --dev, /dev, --bind, "{folder}", "{folder}", --die-with-parent]"#;
    let environment = ENVIRONMENT.replace("python3", &python).replace(
        "on_failure: fail",
        &format!("on_failure: fail, max_turns: 8, sandbox: {{kind: command, prefix: {prefix}}}"),
    );
    write_workflow(&s, &environment, 5, "");
    s.run(&["run", "forms.yaml"]).code(0);
}
