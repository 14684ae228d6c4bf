"""TextWorld games as an environment of Trainyard: `pip install textworld`.

    environment:
      kind: process
      command: [python3, textworld_environment.py]
      files: [games]
      options: {games: "games/*.z8", commands: true}

| option | what |
|---|---|
| `games` | pattern of the games (`.z8`, `.ulx`), below the program's folder; `files` names them, with their `.json` |
| `commands` | also tell the model which commands are possible; false without it |
| `task` | what the model is told before the game's own words |
| `success` | the share of the score from which on an episode is solved; 1 without it |

`tw-make custom --world-size 3 --nb-objects 5 --quest-length 3 --seed 7 --output games/7.z8` makes a game. A problem
names its game by `verifier: {"game": "7.z8"}`, else its id chooses one. The model plays by the tool `command`, or by
writing the command alone. The answer of an episode is the share of the score that it reached.

Graded rewards: `rewards: [{kind: process, command: [python3, textworld_environment.py], name: score}]`.
"""

from __future__ import annotations

import glob
import os
import re
import zlib
from typing import Any

import textworld
import trainyard_bridge as ty


def game_of(problem: ty.Problem) -> str:
    """The file of a problem's game."""
    pattern = (ty.options() or {}).get("games", "*.z8")
    games = sorted(glob.glob(pattern, recursive=True))
    if not games:
        raise FileNotFoundError(f"no game matches `{pattern}`; name the games by the option `files`")
    data = problem.verifier
    if isinstance(data, dict) and "game" in data:
        wanted = str(data["game"])
        named = [game for game in games if game == wanted or os.path.basename(game) == wanted]
        if not named:
            raise FileNotFoundError(f"problem `{problem.id}` names the game `{wanted}`, which is not there")
        return named[0]
    return games[zlib.crc32(problem.id.encode()) % len(games)]


class TextWorld(ty.Environment):
    def begin(self, problem: ty.Problem) -> Any:
        infos = textworld.EnvInfos(
            admissible_commands=True, won=True, lost=True, score=True, max_score=True, objective=True
        )
        self.env = textworld.start(game_of(problem), request_infos=infos)
        self.env.seed(1)
        return self.env.reset()

    def reset(self, problem: ty.Problem, seed: int) -> None:
        self.begin(problem)

    @staticmethod
    def seen(state: Any) -> str:
        # The last line repeats the room and the score, for a screen.
        text = re.sub(r"\s*>?\s*-= [^\n]* =-\s*-?\d+/\d+\s*$", "", state.feedback or "")
        text = re.sub(r"\s*\n\s*\n\s*", "\n\n", text).rstrip("> \n")
        if (ty.options() or {}).get("commands"):
            text += "\n\nPossible: " + ", ".join(sorted(state.admissible_commands or []))
        return text.strip()

    @staticmethod
    def share(state: Any) -> float:
        if state.won:
            return 1.0
        return float(state.score or 0) / float(state.max_score) if state.max_score else 0.0

    def played(self, text: str) -> Any:
        state, _, done = self.env.step(" ".join(text.split())[:200] or "look")
        if done or state.won or state.lost:
            self.env.close()
            return ty.Done(f"{self.share(state):g}", self.seen(state))
        return self.seen(state)

    @ty.tool
    def command(self, command: str) -> Any:
        """Does something in the game and tells what happens.

        Args:
            command: such as `go north`, `open chest`, `take key from chest`
        """
        return self.played(command)

    def step(self, text: str) -> Any:
        return self.played(text)

    @classmethod
    def prompt(cls, problem: ty.Problem) -> str:
        game = cls()
        state = game.begin(problem)
        task = (ty.options() or {}).get("task") or problem.question
        told = [task, state.objective, cls.seen(game.env.step("look")[0])]
        game.env.close()
        return "\n\n".join(filter(None, told))

    @classmethod
    def verify(cls, problem: ty.Problem, answer: str) -> bool:
        value = ty.number(answer)
        return value is not None and value >= float((ty.options() or {}).get("success", 1))


@ty.reward
def score(episode: ty.Episode) -> float:
    """The share of the score; 0 for an episode that did not come to its end."""
    return ty.number(episode.answer) or 0.0


if __name__ == "__main__":
    ty.run()
