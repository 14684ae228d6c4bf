"""A Gymnasium environment as an environment of Trainyard: `pip install gymnasium`.

    environment:
      kind: process
      command: [python3, gymnasium_environment.py]
      options:
        id: FrozenLake-v1
        arguments: {is_slippery: false}
        actions: [left, down, right, up]
        task: Walk from S to G without falling into a hole H.

| option | what |
|---|---|
| `id` | the environment's name, as `gymnasium.make` takes it |
| `arguments` | further arguments of `gymnasium.make` |
| `imports` | modules that register environments, imported first |
| `actions` | names of the actions of a discrete space, in order; numbers without them |
| `task` | what the model is told first |
| `success` | the return from which on an episode is solved; the environment's own threshold, or anything above 0 |

The model acts by the tool `act`, or by writing the action alone. It reads what the environment draws as text, else the
observation. An episode ends when the environment does; its answer is the return, the sum of all rewards. How it begins
depends on the problem alone (`verifier: {"seed": 7}`, else the problem's id), so that a group plays one game.

Graded rewards: `rewards: [{kind: process, command: [python3, gymnasium_environment.py], name: score}]`.
"""

from __future__ import annotations

import importlib
import json
import re
import zlib
from typing import Any

import gymnasium
import trainyard_bridge as ty


def made() -> gymnasium.Env:
    """The environment that the options name."""
    given = ty.options() or {}
    for module in given.get("imports", []):
        importlib.import_module(module)
    arguments = dict(given.get("arguments", {}))
    entry = gymnasium.spec(given["id"])
    if "render_mode" not in arguments and draws_text(entry):
        arguments["render_mode"] = "ansi"
    return gymnasium.make(given["id"], **arguments)


def draws_text(entry: Any) -> bool:
    """Whether an environment can draw itself as text."""
    point = entry.entry_point
    if isinstance(point, str):
        module, _, name = point.partition(":")
        point = getattr(importlib.import_module(module), name)
    return "ansi" in getattr(point, "metadata", {}).get("render_modes", [])


def plain(value: Any) -> Any:
    """An observation as JSON."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(inner) for inner in value]
    return value.tolist() if hasattr(value, "tolist") else value


def start_of(problem: ty.Problem) -> int:
    """The seed of a problem's game."""
    data = problem.verifier
    if isinstance(data, dict) and "seed" in data:
        return int(data["seed"])
    return zlib.crc32(problem.id.encode())


class Gymnasium(ty.Environment):
    def begin(self, problem: ty.Problem) -> str:
        self.env = made()
        self.total, self.over = 0.0, False
        observation, _ = self.env.reset(seed=start_of(problem))
        return self.seen(observation)

    def reset(self, problem: ty.Problem, seed: int) -> None:
        self.begin(problem)

    def seen(self, observation: Any) -> str:
        """What the model reads of a state."""
        drawn = self.env.render() if self.env.render_mode == "ansi" else None
        if isinstance(drawn, str):
            # The place of the agent is drawn by colors alone.
            marked = re.sub(r"\x1b\[(?:3[0-7]|4[0-7]|7)m(.*?)\x1b\[0m", r"[\1]", drawn)
            return re.sub(r"\x1b\[[0-9;]*m", "", marked).strip("\n")
        return observation if isinstance(observation, str) else json.dumps(plain(observation))

    def names(self) -> list[str]:
        return [str(name) for name in (ty.options() or {}).get("actions", [])]

    def read(self, text: str) -> Any:
        """An action as the space has it. Raises ValueError."""
        space, word, names = self.env.action_space, text.strip(), self.names()
        if word in names:
            return names.index(word) + int(getattr(space, "start", 0))
        if isinstance(space, gymnasium.spaces.Text):
            return word
        if names:
            raise ValueError(f"`{word}` is no action; actions are {', '.join(names)}")
        try:
            value = json.loads(word)
        except ValueError:
            raise ValueError(f"`{word}` is no action; write an element of {space} as JSON") from None
        for action in (value, space.from_jsonable([value])[0] if not isinstance(value, int) else value):
            if space.contains(action):
                return action
        raise ValueError(f"`{word}` is no action; actions are those of {space}")

    def played(self, text: str) -> Any:
        try:
            action = self.read(text)
        except ValueError as error:
            return str(error)
        observation, reward, ended, cut, _ = self.env.step(action)
        self.total += float(reward)
        if ended or cut:
            self.env.close()
            return ty.Done(f"{self.total:g}", self.seen(observation))
        return self.seen(observation)

    @ty.tool
    def act(self, action: str) -> Any:
        """Takes an action and shows what follows.

        Args:
            action: the action
        """
        return self.played(action)

    def step(self, text: str) -> Any:
        return self.played(text)

    @classmethod
    def prompt(cls, problem: ty.Problem) -> str:
        game = cls()
        first = game.begin(problem)
        names = game.names()
        told = [(ty.options() or {}).get("task") or problem.question]
        told.append(f"Actions: {', '.join(names)}" if names else f"Actions: {game.env.action_space}")
        game.env.close()
        return "\n\n".join([*filter(None, told), first])

    @classmethod
    def verify(cls, problem: ty.Problem, answer: str) -> bool:
        given = ty.options() or {}
        least = given.get("success", gymnasium.spec(given["id"]).reward_threshold)
        value = ty.number(answer)
        return value is not None and (value > 0 if least is None else value >= float(least))


@ty.reward
def score(episode: ty.Episode) -> float:
    """The return of the episode; 0 for one that did not come to its end."""
    return ty.number(episode.answer) or 0.0


if __name__ == "__main__":
    ty.run()
