"""Tests of `trainyard_bridge.py` by itself: `python3 -m unittest discover python/tests`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(FOLDER))

import trainyard_bridge as ty  # noqa: E402

EPISODE = {
    "messages": [
        {"role": "user", "content": "2+2?"},
        {"role": "assistant", "content": "let me see", "tool_calls": [{"name": "calculator", "arguments": {}}]},
        {"role": "tool", "content": "4"},
        {"role": "assistant", "content": "It is 4."},
    ],
    "answer": "4",
    "correct": True,
    "tool_calls": 1,
    "tool_errors": 0,
    "turns": 2,
    "stop_reason": "answer",
    "rewards": {"format": 1.0},
    "problem": {
        "id": "p",
        "prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "2+2?"}],
        "answer": "4",
        "level": 1,
        "verifier": {"kind": "numeric"},
    },
}


def talk(program: str, lines: list[object]) -> tuple[list[dict], str]:
    """Runs a program with these lines as its input; what it answers, and its standard error."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.py"
        path.write_text(textwrap.dedent(program))
        told = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
        environment = dict(os.environ, TRAINYARD_PROTOCOL="1", PYTHONPATH=str(FOLDER))
        done = subprocess.run(
            [sys.executable, str(path)], input=told, env=environment, capture_output=True, text=True, timeout=60
        )
        return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def hello(role: str, name: str = "", protocol: int = 1, options: object = None) -> dict:
    return {"type": "hello", "protocol": protocol, "role": role, "name": name, "options": options, "seed": 5}


class Views(unittest.TestCase):
    def test_an_episode_has_what_the_line_says(self) -> None:
        episode = ty.Episode(EPISODE)
        self.assertEqual(episode.text, "It is 4.")
        self.assertEqual([message.role for message in episode.messages], ["user", "assistant", "tool", "assistant"])
        self.assertEqual(episode.messages[1].tool_calls[0]["name"], "calculator")
        self.assertEqual(episode.messages[0].tool_calls, [])
        self.assertEqual((episode.answer, episode.correct, episode.turns), ("4", True, 2))
        self.assertEqual((episode.tool_calls, episode.tool_errors, episode.stop_reason), (1, 0, "answer"))
        self.assertEqual(episode.rewards, {"format": 1.0})
        problem = episode.problem
        self.assertEqual((problem.id, problem.question, problem.answer, problem.level), ("p", "2+2?", "4", 1))
        self.assertEqual((problem.verifier, problem.reference), ({"kind": "numeric"}, None))
        self.assertEqual(str(problem.prompt[0].data["content"]), "s")

    def test_an_episode_without_words_has_none(self) -> None:
        silent = ty.Episode(dict(EPISODE, messages=[], answer=None))
        self.assertEqual((silent.text, silent.answer), ("", None))

    def test_a_number_is_read_and_anything_else_is_none(self) -> None:
        self.assertEqual([ty.number(text) for text in ("2", " -0.5 ", 3)], [2.0, -0.5, 3.0])
        self.assertEqual([ty.number(text) for text in ("two", "", None, "inf", "nan")], [None] * 5)


class Programs(unittest.TestCase):
    def test_a_program_answers_until_its_input_ends(self) -> None:
        program = """
            import trainyard_bridge as ty
            print("imported")

            @ty.reward
            def known(episode):
                return ty.seed() + ty.options()["more"] + episode.tool_calls

            ty.run()
        """
        requests = [{"id": n, "op": "score", "items": [EPISODE] * n} for n in (1, 2)]
        said, errors = talk(program, [hello("reward", options={"more": 0.5}), *requests])
        self.assertEqual(said[0], {"type": "ready", "protocol": 1})
        self.assertEqual(said[1], {"id": 1, "result": [{"value": 6.5}]})
        self.assertEqual(said[2]["result"], [{"value": 6.5}] * 2)
        self.assertIn("imported", errors)

    def test_what_does_not_fit_is_an_error_before_ready(self) -> None:
        program = """
            import trainyard_bridge as ty

            @ty.reward
            def one(episode): return 1

            @ty.reward
            def two(episode): return 2

            ty.run()
        """
        for line, words in [
            (hello("reward"), "choose one by the option `name`: one, two"),
            (hello("rule"), "no function with @rule"),
            (hello("dancer"), "no role `dancer`"),
            (hello("reward", protocol=2), "version 1"),
        ]:
            said, _ = talk(program, [line])
            self.assertEqual(said[0]["type"], "error")
            self.assertIn(words, said[0]["error"]["message"])
        said, _ = talk(program, [hello("reward", name="two"), {"id": 1, "op": "score", "items": [EPISODE]}])
        self.assertEqual(said[1]["result"], [{"value": 2.0}])

    def test_an_exception_is_one_items_own(self) -> None:
        program = """
            import trainyard_bridge as ty

            @ty.verifier
            def judged(problem, answer):
                if answer == "no":
                    raise ValueError("cannot")
                if answer == "odd":
                    return 1
                return problem.answer == answer

            ty.run()
        """
        items = [{"problem": EPISODE["problem"], "answer": answer} for answer in ("4", "5", "no", "odd")]
        said, _ = talk(program, [hello("verifier"), {"id": 9, "op": "verify", "items": items}, {"id": 10, "op": "x"}])
        right, wrong, raised, odd = said[1]["result"]
        self.assertEqual((right, wrong), ({"right": True}, {"right": False}))
        self.assertEqual((raised["error"]["type"], raised["error"]["message"]), ("ValueError", "cannot"))
        self.assertIn("in judged", raised["error"]["traceback"])
        self.assertIn("True or False, not int", odd["error"]["message"])
        self.assertEqual(said[2]["error"]["type"], "NotImplementedError")

    def test_rules_give_reasons(self) -> None:
        program = """
            import trainyard_bridge as ty

            @ty.rule(batch=True)
            def short(episodes):
                return [True, False, "too long", ty.Verdict(False, "dull"), None][: len(episodes)]

            ty.run()
        """
        said, _ = talk(program, [hello("rule"), {"id": 1, "op": "judge", "items": [EPISODE] * 5}])
        kept, left, long, dull, none = said[1]["result"]
        self.assertEqual((kept, left), ({"keep": True}, {"keep": False}))
        self.assertEqual(long, {"keep": False, "reason": "too long"})
        self.assertEqual(dull, {"keep": False, "reason": "dull"})
        self.assertIn("not NoneType", none["error"]["message"])

    def test_problems_are_generated_from_level_and_seed(self) -> None:
        program = """
            import trainyard_bridge as ty

            @ty.generator
            def sums(wanted):
                if wanted.index == 2:
                    return None
                if wanted.index == 3:
                    return "a sum"
                numbers = [wanted.random.randrange(9) for _ in range(wanted.level)]
                turns = [ty.call("calculator", expression="1"), [ty.call("add")], "done"]
                return ty.Generated(f"{wanted.split}: {numbers}", sum(numbers), turns, reference="so",
                                    verifier={"a": 1})

            ty.run()
        """
        wanted = [{"split": "rl", "level": 2, "index": at, "seed": 5} for at in (0, 0, 2, 3)]
        said, _ = talk(program, [hello("generator"), {"id": 1, "op": "generate", "items": wanted}])
        first, again, none, odd = said[1]["result"]
        problem = first["problem"]
        self.assertEqual(first, again)
        self.assertEqual((problem["reference"], problem["verifier"]), ("so", {"a": 1}))
        self.assertTrue(problem["question"].startswith("rl: ["))
        self.assertNotIn("canonical", problem)
        one = {"call": "calculator", "arguments": {"expression": "1"}}
        self.assertEqual(problem["turns"], [one, [{"call": "add", "arguments": {}}], "done"])
        self.assertEqual(none, {"problem": None})
        self.assertIn("returns a Generated or None, not str", odd["error"]["message"])
        messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
        self.assertEqual(ty.Generated(messages, 1).data, {"prompt": messages, "answer": 1, "turns": []})
        self.assertEqual(ty.Generated("q", 1, parents=("a.csv:7",)).data["parents"], ["a.csv:7"])

    def test_steps_are_labeled(self) -> None:
        program = """
            import trainyard_bridge as ty

            @ty.step_scorer
            def short(episode):
                said = [message.content for message in episode.messages if message.role == "assistant"]
                return {"none": None, "text": "1", "nan": [float("nan")]}.get(episode.answer, [None, len(said)])

            ty.run()
        """
        items = [EPISODE, *(dict(EPISODE, answer=answer) for answer in ("none", "text", "nan"))]
        said, _ = talk(program, [hello("step_scorer"), {"id": 1, "op": "label", "items": items}])
        good, *bad = said[1]["result"]
        self.assertEqual(good, {"labels": [None, 2.0]})
        for row, words in zip(bad, ["not NoneType", "not str", "no finite number"]):
            self.assertIn(words, row["error"]["message"])

    def test_an_environment_may_know_its_tools_only_when_it_runs(self) -> None:
        program = """
            import trainyard_bridge as ty

            def add(a: int, b: int = 1) -> str:
                \"\"\"Adds.\"\"\"
                return str(a + b)

            class Sums(ty.Environment):
                @classmethod
                def tools(cls):
                    return [{**ty.described(add), "name": ty.options()["name"]}]

                def call(self, tool, arguments):
                    if arguments.get("end"):
                        return ty.Done(tool)
                    return add(**arguments)

            ty.run()
        """
        problem = EPISODE["problem"]
        asked = [{"a": 2}, {"end": True}, {"c": 1}]
        calls = [
            {"id": 2 + at, "op": "call", "session": 0, "tool": "plus", "arguments": arguments}
            for at, arguments in enumerate(asked)
        ]
        start = {"id": 1, "op": "start", "session": 0, "problem": problem, "seed": 0}
        said, _ = talk(program, [hello("environment", options={"name": "plus"}), start, *calls])
        tool = said[0]["tools"][0]
        self.assertEqual((tool["name"], tool["description"], tool["parameters"]["required"]), ("plus", "Adds.", ["a"]))
        self.assertEqual(said[2]["result"], "3")
        self.assertEqual(said[3]["result"], {"text": "", "done": True, "answer": "plus"})
        self.assertEqual(said[4]["error"]["type"], "TypeError")

    def test_started_by_hand_it_says_what_it_is_for(self) -> None:
        done = subprocess.run(
            [sys.executable, "-c", "import trainyard_bridge as ty; print('out'); ty.run()"],
            env={key: value for key, value in os.environ.items() if key != "TRAINYARD_PROTOCOL"},
            cwd=FOLDER, capture_output=True, text=True, timeout=60,
        )
        self.assertEqual(done.stdout, "out\n")
        self.assertIn("This program answers Trainyard", done.stderr)


class Answers(unittest.TestCase):
    PROGRAM = """
        import trainyard_bridge as ty

        @ty.tool
        def name(kind: str):
            if kind == "lone":
                return "a\\ud800b"
            if kind == "raised":
                raise ValueError("no \\udcff")
            if kind == "number":
                return ty.Done(answer="1", text="x\\udc80")
            return "\\U0001f600 and \\u00e9"

        @ty.generator
        def made(wanted):
            return ty.Generated("?", float("nan") if wanted.index else {1, 2})

        ty.run()
    """

    def test_a_lone_surrogate_is_an_error_of_its_answer(self):
        calls = [{"id": at, "op": "call", "tool": "name", "session": 1, "arguments": {"kind": kind}}
                 for at, kind in enumerate(["lone", "fine", "raised", "number", "fine"], 2)]
        lines = [hello("tool"), {"id": 1, "op": "start", "session": 1}, *calls]
        said, _ = talk(self.PROGRAM, lines)
        self.assertEqual([line.get("id") for line in said], [None, 1, 2, 3, 4, 5, 6])
        lone, fine, raised, done, last = said[2:]
        self.assertEqual(lone["error"]["type"], "UnicodeEncodeError")
        self.assertIn("a\\ud800b", lone["error"]["message"])
        self.assertIn("decode texts with `errors=", lone["error"]["message"])
        self.assertEqual((fine["result"], last["result"]), ("\U0001f600 and \u00e9",) * 2)
        self.assertEqual((raised["error"]["type"], raised["error"]["message"]), ("ValueError", "no \\udcff"))
        self.assertEqual(done["error"]["type"], "UnicodeEncodeError")

    def test_an_answer_without_json_form_is_an_error_too(self):
        items = [{"level": 1, "index": index, "split": "s", "seed": 1} for index in (0, 1)]
        lines = [hello("generator"), *({"id": at, "op": "generate", "items": [item]} for at, item in enumerate(items))]
        said, _ = talk(self.PROGRAM, lines)
        self.assertEqual([line["error"]["type"] for line in said[1:]], ["TypeError", "ValueError"])
        self.assertTrue(all("has no JSON form" in line["error"]["message"] for line in said[1:]))


if __name__ == "__main__":
    unittest.main()
