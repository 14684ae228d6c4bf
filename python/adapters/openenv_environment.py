"""An OpenEnv server as an environment of Trainyard: `pip install openenv-core`.

    environment:
      kind: process
      command: [python3, openenv_environment.py]
      options: {url: "http://127.0.0.1:8000", task: Echo what you read., show: [echoed_message]}

| option | what |
|---|---|
| `url` | where the server listens |
| `task` | what the model is told before the first observation |
| `show` | keys of an observation that the model reads; all without it |
| `text` | the key of an action that a turn without a call fills; else the only required one |
| `steps` | actions after which an episode ends although the server goes on |
| `success` | the return from which on an episode is solved; anything above 0 without it |

The model acts by the tool `act`, whose parameters are the server's own schema of an action. An episode is a session of
the server, and its answer is the return, the sum of all rewards. It begins with a seed that depends on the problem
alone (`verifier: {"seed": 7}`, else its id). The server must allow as many sessions as episodes run at a time, and must
itself be deterministic: an episode that loses its process is played again.

Graded rewards: `rewards: [{kind: process, command: [python3, openenv_environment.py], name: score}]`.
"""

from __future__ import annotations

import json
import sys
import urllib.request
import zlib
from typing import Any

import trainyard_bridge as ty
from openenv.core.generic_client import GenericEnvClient


def given() -> dict[str, Any]:
    return ty.options() or {}


def schema() -> dict[str, Any]:
    """The server's schema of an action, without what clients fill in themselves."""
    # A proxy is of no use on the way to a machine of one's own.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(given()["url"].rstrip("/") + "/schema", timeout=30) as answer:
        action = json.load(answer)["action"]
    action["properties"] = {key: value for key, value in action.get("properties", {}).items() if key != "metadata"}
    kept = {key: value for key, value in action.items() if key not in ("title", "description")}
    return {"type": "object", "required": [], **kept}


def start_of(problem: ty.Problem) -> int:
    """The seed of a problem's episodes."""
    data = problem.verifier
    if isinstance(data, dict) and "seed" in data:
        return int(data["seed"])
    return zlib.crc32(problem.id.encode())


class OpenEnv(ty.Environment):
    client: Any = None
    parameters: dict[str, Any] = {}

    def begin(self, problem: ty.Problem) -> str:
        self.client = GenericEnvClient(base_url=given()["url"]).sync()
        self.total, self.taken = 0.0, 0
        return self.seen(self.client.reset(seed=start_of(problem)).observation)

    def reset(self, problem: ty.Problem, seed: int) -> None:
        self.begin(problem)

    def end(self) -> None:
        """Gives the server's session back."""
        client, self.client = self.client, None
        if client is not None and not sys.is_finalizing():
            client.close()

    def __del__(self) -> None:
        self.end()

    @staticmethod
    def seen(observation: Any) -> str:
        """What the model reads of an observation."""
        if not isinstance(observation, dict):
            return str(observation)
        hidden = ("done", "reward", "metadata")
        keys = given().get("show") or [key for key in observation if key not in hidden]
        if len(keys) == 1 and isinstance(observation.get(keys[0]), str):
            return observation[keys[0]]
        return json.dumps({key: observation.get(key) for key in keys}, ensure_ascii=False)

    def played(self, action: dict[str, Any]) -> Any:
        result = self.client.step(action)
        self.total += float(result.reward or 0)
        self.taken += 1
        text = self.seen(result.observation)
        if result.done or self.taken >= given().get("steps", float("inf")):
            self.end()
            return ty.Done(f"{self.total:g}", text)
        return text

    @classmethod
    def tools(cls) -> list[dict[str, Any]]:
        cls.parameters = schema()
        return [{"name": "act", "description": "Takes an action and shows what follows.", "parameters": cls.parameters}]

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        return self.played(arguments)

    def step(self, text: str) -> Any:
        required = self.parameters.get("required", [])
        key = given().get("text") or (required[0] if len(required) == 1 else None)
        if key is None:
            return "Act by the tool `act`."
        return self.played({key: text})

    @classmethod
    def prompt(cls, problem: ty.Problem) -> str:
        episode = cls()
        first = episode.begin(problem)
        episode.end()
        return "\n\n".join(filter(None, [given().get("task"), problem.question, first]))

    @classmethod
    def verify(cls, problem: ty.Problem, answer: str) -> bool:
        value, least = ty.number(answer), given().get("success")
        return value is not None and (value > 0 if least is None else value >= float(least))


@ty.reward
def score(episode: ty.Episode) -> float:
    """The return of the episode; 0 for one that did not come to its end."""
    return ty.number(episode.answer) or 0.0


if __name__ == "__main__":
    ty.run()
