"""A taskset of `verifiers` (0.4, `verifiers.v1`) as an environment of Trainyard: `pip install verifiers`.

    environment:
      kind: process
      command: [python3, verifiers_environment.py]
      files: [my_taskset.py]
      options: {taskset: my_taskset, config: {}}

| option | what |
|---|---|
| `taskset` | the module that exports the taskset, as `verifiers` finds it: installed, or among `files` |
| `config` | the taskset's configuration |
| `success` | the reward from which on an answer is right; 1 without it |

`python3 verifiers_environment.py my_taskset 100 > problems.jsonl` writes a problem for each of the first 100 tasks, to
be imported with `{source: problems.jsonl, format: jsonl, environment: process}`.

Trainyard samples the model and calls the tools, so harnesses and runtimes of `verifiers` are not used: tools of the
taskset and of its tasks run in this process, and tasks that need a container, and signals that need a runtime, are
refused. A turn without a call is the answer. The conversation is then scored by the task's own rewards and judges;
their weighted sum is what the episode's answer says.

Graded rewards: `rewards: [{kind: process, command: [python3, verifiers_environment.py], name: score}]`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from typing import Any

import trainyard_bridge as ty
import verifiers.v1 as vf
from verifiers.v1.trace import AgentInfo, TraceTask
from verifiers.v1.types import AssistantMessage, SystemMessage, ToolCall, ToolMessage, UserMessage
from verifiers.v1.utils.decorators import discover_decorated
from verifiers.v1.utils.loaders import load_taskset, taskset_config_type

_loop = asyncio.new_event_loop()
_taskset: Any = None
_tasks: list[Any] = []


def finished(value: Any) -> Any:
    """What a function returned, once it has."""
    return _loop.run_until_complete(value) if inspect.isawaitable(value) else value


def load(name: str, config: dict[str, Any]) -> Any:
    """The taskset of a module."""
    return load_taskset(taskset_config_type(name)(id=name, **config))


def taskset() -> Any:
    """The taskset that the options name."""
    global _taskset
    if _taskset is None:
        given = ty.options() or {}
        _taskset = load(given["taskset"], given.get("config", {}))
    return _taskset


def task_of(problem: ty.Problem) -> Any:
    """The task that a problem names by `{"idx": 7}`."""
    data = problem.verifier
    if not isinstance(data, dict) or "idx" not in data:
        raise LookupError(f"problem `{problem.id}` names no task; write problems by this program: see its first lines")
    wanted = int(data["idx"])
    if len(_tasks) <= wanted:
        _tasks[:] = list(taskset().take(wanted + 1))
    if len(_tasks) <= wanted:
        raise LookupError(f"problem `{problem.id}` names task {wanted}, and the taskset has {len(_tasks)}")
    task = _tasks[wanted]
    if task.NEEDS_CONTAINER:
        raise NotImplementedError(f"task {wanted} needs a container, which this environment does not give it")
    for function in [*task.hooks("reward"), *task.hooks("metric")]:
        parameter = inspect.signature(function).parameters.get("runtime")
        if parameter is not None and parameter.default is inspect.Parameter.empty:
            raise NotImplementedError(f"`{function.__name__}` needs a runtime, which this environment does not give it")
    return task


def opening(task: Any) -> list[Any]:
    """The messages that a task begins with."""
    prompt = task.data.prompt
    messages = [UserMessage(content=prompt)] if isinstance(prompt, str) else list(prompt or [])
    system = task.data.system_prompt
    return [SystemMessage(content=system), *messages] if system else messages


def text_of(message: Any) -> str:
    content = message.content
    if isinstance(content, list):
        return "".join(getattr(part, "text", "") for part in content)
    return content or ""


def toolsets() -> list[Any]:
    """New tool servers of the taskset and its tasks."""
    loaded = taskset()
    kind, config = loaded.task_type(), getattr(loaded.config, "task", None)
    of_task = kind.toolsets(config if config is not None else kind.config_type()())
    return [*type(loaded).toolsets(loaded.config), *of_task]


def functions(servers: list[Any]) -> dict[str, Any]:
    """The tools of servers under the names that `verifiers` gives them."""
    found = {}
    for server in servers:
        for function in discover_decorated(server, "tool"):
            name = getattr(function, "tool_name", None) or function.__name__
            found[f"{server.server_name}_{name}" if server.server_name else name] = function
    return found


class Verifiers(ty.Environment):
    def reset(self, problem: ty.Problem, seed: int) -> None:
        self.task = task_of(problem)
        self.messages = opening(self.task)
        servers = toolsets()
        for server in servers:
            finished(server.setup())
            finished(server.setup_task(self.task))
        self.functions = functions(servers)

    @classmethod
    def tools(cls) -> list[dict[str, Any]]:
        return [{**ty.described(function), "name": name} for name, function in functions(toolsets()).items()]

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        ident = f"call-{len(self.messages)}"
        asked = ToolCall(id=ident, name=tool, arguments=json.dumps(arguments))
        self.messages.append(AssistantMessage(content="", tool_calls=[asked]))
        try:
            value = finished(self.functions[tool](**arguments))
        except Exception as error:
            self.messages.append(ToolMessage(tool_call_id=ident, content=f"{type(error).__name__}: {error}"))
            raise
        text = value if isinstance(value, str) else json.dumps(value, default=str)
        self.messages.append(ToolMessage(tool_call_id=ident, content=text))
        return text

    def step(self, text: str) -> Any:
        self.messages.append(AssistantMessage(content=text))
        return ty.Done(f"{self.scored():g}")

    def scored(self) -> float:
        """The weighted sum of the task's rewards for the conversation."""
        task = self.task
        about = TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
        trace = vf.Trace(task=about, agent=AgentInfo(config=vf.AgentConfig()))
        for message in self.messages:
            said = isinstance(message, AssistantMessage)
            before = len(trace.nodes) - 1 if trace.nodes else None
            trace.nodes.append(vf.MessageNode(message=message, parent=before, sampled=said))
        finished(task.score(trace, None))
        return float(trace.reward)

    @classmethod
    def prompt(cls, problem: ty.Problem) -> list[dict[str, str]]:
        return [{"role": message.role, "content": text_of(message)} for message in opening(task_of(problem))]

    @classmethod
    def verify(cls, problem: ty.Problem, answer: str) -> bool:
        value = ty.number(answer)
        return value is not None and value >= float((ty.options() or {}).get("success", 1))


@ty.reward
def score(episode: ty.Episode) -> float:
    """The reward of the task; 0 for an episode that did not come to its end."""
    return ty.number(episode.answer) or 0.0


def problems(name: str, count: int) -> None:
    """Writes the first tasks of a taskset as problems."""
    for task in load(name, {}).take(count):
        question = "\n\n".join(text_of(message) for message in opening(task))
        row = {"id": f"{name}-{task.data.idx}", "question": question, "answer": "", "verifier": {"idx": task.data.idx}}
        print(json.dumps(row, ensure_ascii=False))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        problems(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100)
    else:
        ty.run()
