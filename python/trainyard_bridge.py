"""Rewards, filter rules, verifiers, tools and environments for Trainyard in Python.

    import trainyard_bridge as ty

    @ty.reward
    def short(episode: ty.Episode) -> float:
        return 1.0 if len(episode.answer or "") < 100 else 0.0

    ty.run()

A workflow names the program: `rewards: [{kind: process, command: [python3, my_reward.py]}]`. Trainyard starts it, sends
episodes as lines of JSON and reads what the functions return. What a function prints goes to the log of the stage. An
exception is shown there with its traceback; whether the stage goes on, its options say (`on_error`).

With `ty.serve(9000)` in place of `ty.run()`, the same functions answer over HTTP, and a workflow names the address:
`rewards: [{kind: http, url: "http://127.0.0.1:9000/"}]`.

A program may have several functions of one sort: the option `name` of the part chooses one. Nothing here needs a
package. This file belongs to one version of the protocol (`docs/custom-code.md`) and may be changed.
"""

from __future__ import annotations

import contextvars
import inspect
import json
import math
import os
import random
import sys
import traceback
import typing
from typing import Any, Callable, Iterable, Optional, TypeVar, cast, overload

PROTOCOL = 1

# A function that a decorator returns unchanged.
_F = TypeVar("_F", bound=Callable[..., Any])

__all__ = [
    "Done", "Environment", "Episode", "Generated", "Message", "Problem", "Score", "State", "Verdict", "Wanted", "call",
    "described", "generator", "name", "number", "options", "reward", "rule", "run", "seed", "serve", "step_scorer",
    "tool", "verifier",
]


class Message:
    """One message of a conversation."""

    __slots__ = ("data",)

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    @property
    def role(self) -> str:
        """`system`, `user`, `assistant` or `tool`."""
        return cast(str, self.data["role"])

    @property
    def content(self) -> str:
        """Its text."""
        return cast(str, self.data["content"])

    @property
    def tool_calls(self) -> list[dict[str, Any]]:
        """The calls that could be read in it: `{"name": …, "arguments": {…}}`."""
        return self.data.get("tool_calls") or []

    def __repr__(self) -> str:
        return f"{self.role}: {self.content}"


class Problem:
    """What was to be solved."""

    __slots__ = ("data",)

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    @property
    def id(self) -> str:
        """Names it in its data set."""
        return cast(str, self.data["id"])

    @property
    def prompt(self) -> list[Message]:
        """Its own messages, without what the environment adds."""
        return [Message(message) for message in self.data["prompt"]]

    @property
    def question(self) -> str:
        """The last message of the user in the prompt; empty if there is none."""
        texts = [message["content"] for message in self.data["prompt"] if message["role"] == "user"]
        return texts[-1] if texts else ""

    @property
    def answer(self) -> str:
        """The right answer, if the data set has one."""
        return cast(str, self.data["answer"])

    @property
    def reference(self) -> Optional[str]:
        """A worked solution, if the data set has one."""
        return self.data.get("reference")

    @property
    def level(self) -> int:
        """Difficulty, from 1; 0 if nobody knows it."""
        return cast(int, self.data["level"])

    @property
    def verifier(self) -> Any:
        """What the data set gives to verifiers, as JSON."""
        return self.data.get("verifier")


class Episode:
    """A finished conversation of the model with its environment."""

    __slots__ = ("data",)

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    @property
    def messages(self) -> list[Message]:
        """All of them, with the prompt and the results of tools."""
        return [Message(message) for message in self.data["messages"]]

    @property
    def text(self) -> str:
        """What the model said last; empty if it said nothing."""
        texts = [message["content"] for message in self.data["messages"] if message["role"] == "assistant"]
        return texts[-1] if texts else ""

    @property
    def problem(self) -> Problem:
        """What was to be solved."""
        return Problem(self.data["problem"])

    @property
    def answer(self) -> Optional[str]:
        """The final answer as the environment read it; None if there is none."""
        return self.data.get("answer")

    @property
    def correct(self) -> bool:
        """Whether the answer is right, as the environment or its verifier says."""
        return cast(bool, self.data["correct"])

    @property
    def tool_calls(self) -> int:
        """Tool calls made, with those that could not be read."""
        return cast(int, self.data["tool_calls"])

    @property
    def tool_errors(self) -> int:
        """How many of them failed."""
        return cast(int, self.data["tool_errors"])

    @property
    def turns(self) -> int:
        """Turns that the model took."""
        return cast(int, self.data["turns"])

    @property
    def stop_reason(self) -> str:
        """Why it ended: `answer`, `length`, `max_turns`, …"""
        return cast(str, self.data["stop_reason"])

    @property
    def rewards(self) -> dict[str, float]:
        """The rewards that stand before this one in the list, by name."""
        return cast(dict[str, float], self.data["rewards"])


class Score:
    """A reward with one value per turn of the model beside the value of the whole episode."""

    __slots__ = ("value", "per_turn")

    def __init__(self, value: Optional[float], per_turn: Iterable[float] = ()) -> None:
        self.value = value
        self.per_turn = list(per_turn)


class Verdict:
    """A rule's word on an episode: whether it stays, and why not."""

    __slots__ = ("keep", "reason")

    def __init__(self, keep: bool, reason: str = "") -> None:
        self.keep = keep
        self.reason = reason


class Wanted:
    """A problem that a generator is to make: which one, and the chance that it may use."""

    __slots__ = ("data",)

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    @property
    def level(self) -> int:
        """Difficulty, from 1."""
        return cast(int, self.data["level"])

    @property
    def index(self) -> int:
        """Its number among those of its split and level, from 0. Some numbers are never used."""
        return cast(int, self.data["index"])

    @property
    def split(self) -> str:
        """`demonstrations`, `rl`, `test`, …"""
        return cast(str, self.data["split"])

    @property
    def seed(self) -> int:
        """Another one for each problem."""
        return cast(int, self.data["seed"])

    @property
    def random(self) -> random.Random:
        """A source of random numbers that follows from the seed; each use of this property begins it anew."""
        return random.Random(self.seed)


class Generated:
    """A problem, and what the agent writes to solve it: texts, `call(…)`s or lists of them, turn by turn.

    Two problems are the same if their `canonical` texts are; without one, the words of the question count. `parents`
    names its sources, such as `"questions.csv:7"` or ids of rows.
    """

    def __init__(
        self, question: Any, answer: Any, turns: Iterable[Any] = (), *, reference: Optional[str] = None,
        verifier: Optional[dict[str, Any]] = None, canonical: Optional[str] = None, parents: Iterable[str] = (),
    ) -> None:
        asked = {"question": question} if isinstance(question, str) else {"prompt": _messages(question)}
        told = {"reference": reference, "verifier": verifier, "canonical": canonical, "parents": list(parents) or None}
        given = {key: value for key, value in told.items() if value is not None}
        self.data = {**asked, "answer": answer, "turns": list(turns), **given}


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    """A turn of a generated solution that calls a tool."""
    return {"call": tool, "arguments": arguments}


class State(dict[str, Any]):
    """What a tool keeps for one episode: a dictionary that is empty at first.

    A tool that has a parameter of this type gets it beside what the model gives.
    """


class Done:
    """The end of an episode, with the model's final answer or without one."""

    __slots__ = ("answer", "text")

    def __init__(self, answer: Any = None, text: str = "") -> None:
        self.answer = answer
        self.text = text


class Environment:
    """An environment: a class with `reset`, and with `step` or tools.

    Every episode has an object of its own. Methods with `@tool` are tools of the environment. What the methods return
    depends on the problem, the seed and what was called before, and on nothing else: an episode may be played again.
    """

    def reset(self, problem: Problem, seed: int) -> None:
        """Begins an episode. The model has read the problem; what else it reads first is said by `prompt`."""

    def step(self, text: str) -> Any:
        """Answers a turn of the model without a call of a tool.

        A text is what the model reads next, as a message of the user; so is a list of `{"role": …, "content": …}`.
        `Done(answer)` ends the episode. None: the turn is the final answer.
        """

    @classmethod
    def prompt(cls, problem: Problem) -> Any:
        """What the model reads first: a text, or a list of `{"role": …, "content": …}`.

        It depends on the problem alone.
        """

    @classmethod
    def tools(cls) -> list[dict[str, Any]]:
        """Tools that only a running program knows, beside the methods with `@tool`; asked for once.

        Each is `{"name": …, "description": …, "parameters": a JSON Schema}`; `described(function)` makes one.
        """
        return []

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """Answers a call of one of `tools()`, as a method with `@tool` would."""
        raise NotImplementedError

    @classmethod
    def verify(cls, problem: Problem, answer: str) -> bool:
        """Whether an answer is right. Without this method, the verifier decides that the problem names."""
        raise NotImplementedError

    def fork(self) -> Environment:
        """A copy that goes on by itself. Without this method, the episode is played again."""
        raise NotImplementedError


_given: dict[str, Any] = {"name": "", "options": None, "seed": 0}
# Of the request that a server works on: it may answer several parts at a time.
_served: contextvars.ContextVar[Optional[dict[str, Any]]] = contextvars.ContextVar("served", default=None)
# Files whose frames say nothing to the user.
_own_files = {__file__}


def _told(key: str) -> Any:
    return (_served.get() or _given)[key]


def name() -> str:
    """The name that the workflow gives this part; empty if it gives none."""
    return cast(str, _told("name"))


def options() -> Any:
    """The `options` that the workflow gives this program."""
    return _told("options")


def seed() -> int:
    """The seed of everything random here."""
    return cast(int, _told("seed"))


def number(text: Any) -> Optional[float]:
    """The number that an answer says; None for text that is no number, for an infinite one and for no answer."""
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


class _Function:
    """A function of the user, with whether it takes a list."""

    def __init__(self, call: Callable[..., Any], batch: bool) -> None:
        self.call = call
        self.batch = batch


_functions: dict[str, dict[str, _Function]] = {
    "generator": {}, "reward": {}, "rule": {}, "step_scorer": {}, "tool": {}, "verifier": {},
}


def _decorator(role: str, function: Optional[Callable[..., Any]], batch: bool) -> Any:
    def register(given: Callable[..., Any]) -> Callable[..., Any]:
        _functions[role][given.__name__] = _Function(given, batch)
        return given

    return register if function is None else register(function)


@overload
def reward(function: _F, *, batch: bool = False) -> _F: ...
@overload
def reward(function: None = None, *, batch: bool = False) -> Callable[[_F], _F]: ...
def reward(function: Optional[Callable[..., Any]] = None, *, batch: bool = False) -> Any:
    """Makes a function a reward: it takes an `Episode` and returns a number or a `Score`, or None: does not apply.

    With `@reward(batch=True)`, it takes a list of episodes and returns a list of the same length.
    """
    return _decorator("reward", function, batch)


@overload
def rule(function: _F, *, batch: bool = False) -> _F: ...
@overload
def rule(function: None = None, *, batch: bool = False) -> Callable[[_F], _F]: ...
def rule(function: Optional[Callable[..., Any]] = None, *, batch: bool = False) -> Any:
    """Makes a function a filter rule: it takes an `Episode` and returns whether it stays.

    A text instead of False says why it does not; so does `Verdict(False, "too long")`.
    """
    return _decorator("rule", function, batch)


@overload
def verifier(function: _F, *, batch: bool = False) -> _F: ...
@overload
def verifier(function: None = None, *, batch: bool = False) -> Callable[[_F], _F]: ...
def verifier(function: Optional[Callable[..., Any]] = None, *, batch: bool = False) -> Any:
    """Makes a function a verifier: it takes a `Problem` and an answer and returns whether the answer is right.

    With `@verifier(batch=True)`, it takes a list of pairs.
    """
    return _decorator("verifier", function, batch)


@overload
def generator(function: _F, *, batch: bool = False) -> _F: ...
@overload
def generator(function: None = None, *, batch: bool = False) -> Callable[[_F], _F]: ...
def generator(function: Optional[Callable[..., Any]] = None, *, batch: bool = False) -> Any:
    """Makes a function a generator of problems: it takes a `Wanted` and returns a `Generated`, or None: there is none.

    Equal seeds and levels must give equal problems.
    """
    return _decorator("generator", function, batch)


@overload
def step_scorer(function: _F, *, batch: bool = False) -> _F: ...
@overload
def step_scorer(function: None = None, *, batch: bool = False) -> Callable[[_F], _F]: ...
def step_scorer(function: Optional[Callable[..., Any]] = None, *, batch: bool = False) -> Any:
    """Makes a function a scorer of steps: it takes an `Episode` and returns a label for each turn of the agent.

    A label is a number from 0 (wrong) to 1 (right), or None where the step stays without one.
    """
    return _decorator("step_scorer", function, batch)


def tool(function: _F) -> _F:
    """Makes a function, or a method of an environment, a tool of the model.

    Its name, its docstring and its signature are what the model is told: a parameter without a default is required, and
    what the docstring says of it under `Args:` is its description. What it returns is turned into text. An exception is
    an error that the model sees. In an environment, `Done` ends the episode.
    """
    function._is_tool = True  # type: ignore[attr-defined]
    # Methods belong to their environments.
    if "." not in function.__qualname__.rpartition(">.")[2]:
        _functions["tool"][function.__name__] = _Function(function, False)
    return function


_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


def _schema(hint: Any) -> dict[str, Any]:
    """The JSON Schema of a type."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint in _TYPES:
        return {"type": _TYPES[hint]}
    if origin is typing.Literal:
        return {"type": _TYPES.get(type(inner[0]), "string"), "enum": list(inner)}
    if origin in (list, tuple, set):
        items = _schema(inner[0]) if inner else {}
        return {"type": "array", **({"items": items} if items else {})}
    if origin is dict:
        return {"type": "object"}
    kinds = [_schema(kind) for kind in inner if kind is not type(None)]
    if len(kinds) == 1:
        return kinds[0]
    return {"anyOf": kinds} if kinds else {}


def _documented(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The first part of a docstring, and what it says of each parameter under `Args:`."""
    text, told, name = inspect.cleandoc(function.__doc__ or ""), {}, ""
    head, _, below = text.partition("Args:\n")
    for line in below.splitlines():
        if line and not line[0].isspace():
            break
        word, colon, rest = line.strip().partition(":")
        if colon and word.split(" ")[0].isidentifier() and not line.startswith(" " * 8):
            name = word.split(" ")[0]
            told[name] = rest.strip()
        elif name:
            told[name] = f"{told[name]} {line.strip()}".strip()
    return " ".join(head.split("\n\n")[0].split()), told


def _described(function: Callable[..., Any], own: bool) -> dict[str, Any]:
    """A tool as the model is told of it; `own`: it is a method."""
    hints = typing.get_type_hints(function)
    summary, told = _documented(function)
    properties: dict[str, Any] = {}
    required = []
    for at, parameter in enumerate(inspect.signature(function).parameters.values()):
        hint = hints.get(parameter.name, str)
        if (own and at == 0) or hint is State:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"tool `{function.__name__}`: parameter `{parameter.name}` has no name of its own")
        schema = _schema(hint)
        if parameter.name in told:
            schema["description"] = told[parameter.name]
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        elif parameter.default is not None:
            schema["default"] = parameter.default
        properties[parameter.name] = schema
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"name": function.__name__, "description": summary, "parameters": parameters}


def described(function: Callable[..., Any]) -> dict[str, Any]:
    """A function or a bound method as the model is told of a tool: its name, docstring and signature."""
    return _described(function, False)


def _called(function: Callable[..., Any], arguments: Any, given: dict[str, Any]) -> Any:
    """Calls a tool; `given` are parameters that are not the model's."""
    name = getattr(function, "__name__", "")
    if not isinstance(arguments, dict):
        raise TypeError(f"the arguments of `{name}` must be an object")
    try:
        inspect.signature(function).bind(**arguments, **given)
    except TypeError as error:
        return {"text": f"error: tool `{name}`: {error}", "error": True}
    return _called_back(function(**arguments, **given))


def _called_back(value: Any) -> Any:
    if isinstance(value, Done):
        return {"text": value.text, "done": True, "answer": None if value.answer is None else str(value.answer)}
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list, bool)) else str(value)


def _messages(value: Any) -> list[dict[str, str]]:
    """A text as a message of the user, or messages as they are."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    return [message.data if isinstance(message, Message) else message for message in value]


def _stepped(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, Done):
        return {"done": True, "answer": None if value.answer is None else str(value.answer)}
    return {"messages": _messages(value)}


def _tools() -> tuple[dict[str, Any], dict[str, Any]]:
    """The operations of functions that are tools."""
    functions = {name: made.call for name, made in _functions["tool"].items()}
    states: dict[int, State] = {}
    wants = {
        name: [key for key, hint in typing.get_type_hints(function).items() if hint is State]
        for name, function in functions.items()
    }

    def call(request: dict[str, Any]) -> Any:
        name = request["tool"]
        state = states[request["session"]]
        return _called(functions[name], request["arguments"], {key: state for key in wants[name]})

    operations = {
        "start": lambda request: states.__setitem__(request["session"], State()),
        "call": call,
        "close": lambda request: states.pop(request["session"], None) and None,
    }
    return operations, {"tools": [_described(function, False) for function in functions.values()]}


def _environments() -> dict[str, type[Environment]]:
    """The classes of the program that are environments, without those that others are made from."""
    found: list[type[Environment]] = []
    left: list[type[Environment]] = [Environment]
    while left:
        children = left.pop().__subclasses__()
        found.extend(child for child in children if not child.__subclasses__())
        left.extend(children)
    return {kind.__name__: kind for kind in found}


def _environment() -> tuple[dict[str, Any], dict[str, Any]]:
    """The operations of an environment."""
    known, wanted = _environments(), name()
    if wanted not in known and (wanted or len(known) != 1):
        names = ", ".join(sorted(known)) or "none"
        raise LookupError(f"this program has {len(known)} environments; choose one by the option `name`: {names}")
    kind = cast(Any, known.get(wanted) or next(iter(known.values())))

    def own(method: str) -> bool:
        return getattr(kind, method) is not getattr(Environment, method)

    has = {method: getattr(kind, method).__qualname__ != f"Environment.{method}" for method in ("prompt", "verify")}
    tools = {n: f for n, f in inspect.getmembers(kind, inspect.isfunction) if getattr(f, "_is_tool", False)}
    playing: dict[int, Any] = {}

    def start(request: dict[str, Any]) -> None:
        episode = kind()
        if episode.reset(Problem(request["problem"]), request["seed"]) is not None:
            raise TypeError("`reset` returns nothing: what the model reads first is returned by `prompt`")
        playing[request["session"]] = episode

    def call(request: dict[str, Any]) -> Any:
        episode, name = playing[request["session"]], request["tool"]
        if name in tools:
            return _called(getattr(episode, tools[name].__name__), request["arguments"], {})
        return _called_back(episode.call(name, request["arguments"]))

    operations = {
        "start": start,
        "call": call,
        "step": lambda request: _stepped(playing[request["session"]].step(request["text"])),
        "fork": lambda request: playing.__setitem__(request["session"], playing[request["from"]].fork()),
        "close": lambda request: playing.pop(request["session"], None) and None,
        "prompt": lambda request: _messages(kind.prompt(Problem(request["problem"]))),
        "verify": lambda request: [
            _guarded(_right, kind.verify(Problem(item["problem"]), item["answer"])) for item in request["items"]
        ],
    }
    offers = {"forks": own("fork"), "steps": own("step"), "prompts": has["prompt"], "verifies": has["verify"]}
    listed = [_described(function, True) for function in tools.values()] + kind.tools()
    return operations, {"tools": listed, **offers}


def _number(value: Any, what: str) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{what} is {number}, which is no finite number")
    return number


def _score(value: Any) -> dict[str, Any]:
    if isinstance(value, Score):
        turns = [_number(turn, "the value of a turn") for turn in value.per_turn]
        whole = None if value.value is None else _number(value.value, "the score")
        return {"value": whole, "per_turn": turns}
    if value is None:
        return {"value": None}
    if not isinstance(value, (int, float)) and not hasattr(value, "__float__"):
        raise TypeError(f"a reward returns a number, None or a Score, not {type(value).__name__}")
    return {"value": _number(value, "the score")}


def _verdict(value: Any) -> dict[str, Any]:
    if isinstance(value, Verdict):
        return {"keep": bool(value.keep), "reason": str(value.reason)}
    if isinstance(value, str):
        return {"keep": False, "reason": value}
    return {"keep": _truth(value, "a rule returns True, False, a text or a Verdict")}


def _made(value: Any) -> dict[str, Any]:
    if value is None or isinstance(value, Generated):
        return {"problem": None if value is None else value.data}
    raise TypeError(f"a generator returns a Generated or None, not {type(value).__name__}")


def _labels(value: Any) -> dict[str, Any]:
    if value is None or isinstance(value, (str, dict)):
        raise TypeError(f"a step scorer returns one label for each turn, not {type(value).__name__}")
    return {"labels": [None if label is None else _number(label, "the label of a step") for label in value]}


def _right(value: Any) -> dict[str, Any]:
    return {"right": _truth(value, "a verifier returns True or False")}


def _truth(value: Any, want: str) -> bool:
    if isinstance(value, bool):
        return value
    # Libraries for arrays have truth values of their own.
    if type(value).__name__ in ("bool_", "bool"):
        return bool(value)
    raise TypeError(f"{want}, not {type(value).__name__}")


def _raised(error: BaseException) -> dict[str, str]:
    """An exception as the user is told of it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in _own_files:
        trace = trace.tb_next
    lines = traceback.format_exception(type(error), error, trace)
    return {"type": type(error).__name__, "message": _readable(str(error)), "traceback": _readable("".join(lines))}


# Of each role: its operation, how an item becomes the arguments, and what a returned value becomes.
_ROLES: dict[str, tuple[str, Callable[[Any], tuple[Any, ...]], Callable[[Any], dict[str, Any]]]] = {
    "generator": ("generate", lambda item: (Wanted(item),), _made),
    "reward": ("score", lambda item: (Episode(item),), _score),
    "rule": ("judge", lambda item: (Episode(item),), _verdict),
    "step_scorer": ("label", lambda item: (Episode(item),), _labels),
    "verifier": ("verify", lambda item: (Problem(item["problem"]), item["answer"]), _right),
}


def _chosen(role: str) -> _Function:
    """The function that the workflow means: the one of that name, or the only one."""
    known = _functions[role]
    wanted = name()
    if wanted in known:
        return known[wanted]
    if len(known) == 1:
        return next(iter(known.values()))
    if not known:
        raise LookupError(f"this program has no function with @{role}")
    names = ", ".join(sorted(known))
    raise LookupError(f"this program has several functions with @{role}; choose one by the option `name`: {names}")


def _items(role: str) -> Callable[[dict[str, Any]], list[dict[str, Any]]]:
    """The operation of a role: one result or error for each item of a request."""
    _, arguments, returned = _ROLES[role]
    function = _chosen(role)

    def one(item: Any) -> dict[str, Any]:
        return _guarded(lambda given: returned(function.call(*arguments(given))), item)

    def several(items: list[Any]) -> list[dict[str, Any]]:
        try:
            given = [arguments(item) for item in items]
            lists = [pair[0] if len(pair) == 1 else pair for pair in given]
            values = list(function.call(lists))
            if len(values) != len(items):
                raise ValueError(f"{len(items)} items were given and {len(values)} values came back")
        except Exception as error:
            return [{"error": _raised(error)} for _ in items]
        return [_guarded(returned, value) for value in values]

    def answer(request: dict[str, Any]) -> list[dict[str, Any]]:
        items = request["items"]
        return several(items) if function.batch else [one(item) for item in items]

    return answer


def _guarded(returned: Callable[[Any], dict[str, Any]], value: Any) -> dict[str, Any]:
    try:
        return returned(value)
    except Exception as error:
        return {"error": _raised(error)}


def _operations(role: str) -> tuple[dict[str, Callable[[dict[str, Any]], Any]], dict[str, Any]]:
    """The operations of a role by name, and what `ready` says besides."""
    if role in _ROLES:
        return {_ROLES[role][0]: _items(role)}, {}
    if role == "tool":
        return _tools()
    if role == "environment":
        return _environment()
    raise LookupError(f"this bridge knows no role `{role}`")


def _die_with_parent() -> None:
    """Where Linux offers it, the process ends with the one that started it, whatever it does then."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(1, 9)
    except (ImportError, OSError, AttributeError):
        pass


def _own_output() -> Any:
    """Keeps the standard output for the protocol; what anybody prints goes to the log."""
    kept = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return kept


# Printing while a program is imported must not reach the protocol either.
_output: Any = _own_output() if os.environ.get("TRAINYARD_PROTOCOL") else None


def _readable(text: str) -> str:
    """A text without lone surrogates, which no JSON text may have: they become `\\udcff`."""
    return text.encode("utf-8", "backslashreplace").decode()


def _encoded(answer: dict[str, Any]) -> bytes:
    """An answer as JSON. One that has no JSON form, or a text that is not Unicode, is an error of its request."""
    try:
        return json.dumps(answer, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError as error:
        place = _readable(error.object[max(error.start - 20, 0) : error.end + 20])
        words = f"a returned text has a lone surrogate, at `{place}`; decode texts with `errors=\"replace\"`"
        raised = {"type": "UnicodeEncodeError", "message": words, "traceback": ""}
    except (TypeError, ValueError, RecursionError) as error:
        raised = {"type": type(error).__name__, "message": f"the answer has no JSON form: {error}", "traceback": ""}
    if "id" not in answer:
        return json.dumps({"type": "error", "error": raised}, separators=(",", ":")).encode()
    return json.dumps({"id": answer["id"], "error": raised}, separators=(",", ":")).encode()


def _say(value: dict[str, Any]) -> None:
    _output.write(_encoded(value))
    _output.write(b"\n")
    _output.flush()


def run() -> None:
    """Answers requests until Trainyard ends them. Call it at the end of the program."""
    if _output is None:
        print("This program answers Trainyard: name it in a workflow, as `command: [python3, …]`.", file=sys.stderr)
        return
    _die_with_parent()
    lines = sys.stdin.buffer
    hello = json.loads(lines.readline() or b"{}")
    try:
        if hello.get("protocol") != PROTOCOL:
            raise RuntimeError(f"this bridge speaks version {PROTOCOL} of the protocol, not {hello.get('protocol')}")
        _given.update(name=hello.get("name", ""), options=hello.get("options"), seed=hello.get("seed", 0))
        operations, more = _operations(hello.get("role", ""))
    except Exception as error:
        _say({"type": "error", "error": {"type": type(error).__name__, "message": _readable(str(error))}})
        sys.exit(1)
    _say({"type": "ready", "protocol": PROTOCOL, **more})
    for line in lines:
        request = json.loads(line)
        try:
            operation = operations.get(request["op"])
            if operation is None:
                raise NotImplementedError(f"no operation `{request['op']}`")
            answer = {"id": request["id"], "result": operation(request)}
        except Exception as error:
            answer = {"id": request["id"], "error": _raised(error)}
        _say(answer)
        sys.stderr.flush()


def serve(
    port: int, host: str = "127.0.0.1", *, token: Optional[str] = None, parallel: bool = False, keep: float = 3600.0
) -> None:
    """Answers requests over HTTP until it is interrupted: `{kind: http, url: "http://127.0.0.1:PORT/"}`.

    The port 0 takes a free one; the first line of the standard error says which. Other machines reach the server only
    if `host` says so (`0.0.0.0`), which needs a `token`; they send it as `api_key`. Without a token, requests must name
    this machine in `Host` and come from no page of another origin. Functions run one at a time, as in a program, unless
    `parallel` says that they may run together. A session that nobody asks anything for `keep` seconds
    is forgotten. Started by Trainyard as a program, it does what `run()` does. Otherwise it needs `trainyard_serve.py`.
    """
    if _output is not None:
        return run()
    import trainyard_serve

    trainyard_serve.listen(port, host, token, trainyard_serve.Server(parallel, keep))
