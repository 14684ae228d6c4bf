"""Tests of `trainyard_bridge.serve`: the functions of a program over HTTP."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from pathlib import Path
from typing import Any, Optional
from unittest import mock

FOLDER = Path(__file__).resolve().parent.parent

PROBLEM = {"id": "p", "prompt": [{"role": "user", "content": "2+2?"}], "answer": "4", "level": 1, "verifier": {}}
EPISODE = {
    "messages": [{"role": "assistant", "content": "4"}], "answer": "4", "correct": True, "tool_calls": 1,
    "tool_errors": 0, "turns": 1, "stop_reason": "answer", "rewards": {}, "problem": PROBLEM,
}


class Serving:
    """A program that serves, with what it says on its standard error after its address."""

    def __init__(self, program: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "program.py"
        path.write_text("import trainyard_bridge as ty\n" + textwrap.dedent(program))
        environment = {key: value for key, value in os.environ.items() if key != "TRAINYARD_PROTOCOL"}
        self.process = subprocess.Popen(
            [sys.executable, str(path)], env=dict(environment, PYTHONPATH=str(FOLDER)), stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL, text=True,
        )
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        self.port = int(line.rstrip("/\n").rpartition(":")[2])

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()
        self.folder.cleanup()

    def send(self, body: bytes, headers: Optional[dict[str, str]] = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("POST", "/", body, {"Content-Type": "application/json", **(headers or {})})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def ask(self, line: object, headers: Optional[dict[str, str]] = None) -> tuple[int, Any]:
        return self.send(json.dumps(line).encode(), headers)


def about(role: str, name: str = "", options: object = None) -> dict[str, Any]:
    return {"role": role, "name": name, "options": options, "seed": 5}


def hello(role: str, name: str = "", options: object = None, protocol: int = 1) -> dict[str, Any]:
    return {"type": "hello", "protocol": protocol, **about(role, name, options)}


REWARDS = """
@ty.reward
def known(episode):
    if episode.answer == "crash":
        raise ValueError("no grade")
    return ty.seed() + (ty.options() or {}).get("more", 0) + episode.tool_calls

@ty.rule
def kept(episode):
    return "not kept"

ty.serve(0)
"""

COUNTER = """
import time

class Counter(ty.Environment):
    def reset(self, problem, seed):
        self.count = 0

    def step(self, text):
        self.count += 1
        return str(self.count) if text != "end" else ty.Done(str(self.count))

    def fork(self):
        copy = Counter()
        copy.count = self.count
        return copy

ty.serve(0, keep=0.5)
"""


class Requests(unittest.TestCase):
    def test_functions_of_several_roles_are_served_with_their_own_options(self) -> None:
        with Serving(REWARDS) as server:
            self.assertEqual(server.ask(hello("reward"))[1], {"type": "ready", "protocol": 1, "repeats": True})
            for more, value in [(None, 6.0), ({"more": 0.5}, 6.5)]:
                line = {"id": 3, "hello": about("reward", options=more), "op": "score", "items": [EPISODE] * 2}
                self.assertEqual(server.ask(line), (200, {"id": 3, "result": [{"value": value}] * 2}))
            line = {"id": 4, "hello": about("rule"), "op": "judge", "items": [EPISODE]}
            self.assertEqual(server.ask(line)[1]["result"], [{"keep": False, "reason": "not kept"}])

    def test_what_does_not_fit_is_an_error(self) -> None:
        with Serving(REWARDS) as server:
            for line, words in [
                (hello("verifier"), "no function with @verifier"),
                (hello("reward", protocol=2), "version 1"),
            ]:
                said = server.ask(line)[1]
                self.assertEqual(said["type"], "error")
                self.assertIn(words, said["error"]["message"])
            items = [dict(EPISODE, answer="crash")]
            said = server.ask({"id": 1, "hello": about("reward"), "op": "score", "items": items})[1]
            self.assertEqual(said["result"][0]["error"]["message"], "no grade")
            self.assertIn("in known", said["result"][0]["error"]["traceback"])
            said = server.ask({"id": 2, "hello": about("reward"), "op": "dance"})[1]
            self.assertEqual((said["id"], said["error"]["type"]), (2, "NotImplementedError"))
            said = server.ask({"id": 2, "hello": about("verifier"), "op": "x"})[1]
            self.assertIn("no function", said["error"]["message"])

    def test_what_is_no_request_is_refused(self) -> None:
        with Serving(REWARDS) as server:
            wrong = b'{"id":1,"op":"score","hello":3}'
            for body in [b"", b"hello", b"[1]", b'{"id": 1}', b"\xff", wrong, b"[" * 100_000]:
                status, said = server.send(body)
                self.assertEqual((status, list(said)), (400, ["error"]), body[:20])
            broken = {"id": 1, "hello": about("reward"), "op": "score", "session": [1]}
            self.assertEqual(server.ask(broken)[0], 400)
            head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            with socket.create_connection(("127.0.0.1", server.port), timeout=60) as raw:
                raw.sendall(head + b"Content-Length: 99999999999\r\n\r\n")
                self.assertTrue(raw.recv(1000).startswith(b"HTTP/1.1 413"))
            with socket.create_connection(("127.0.0.1", server.port), timeout=60) as raw:
                raw.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
                self.assertTrue(raw.recv(1000).startswith(b"HTTP/1.1 411"))
            self.assertEqual(server.ask(hello("reward"))[0], 200, "it goes on")

    def test_a_token_is_asked_for(self) -> None:
        with Serving(REWARDS.replace("ty.serve(0)", "ty.serve(0, token='sesame')")) as server:
            self.assertEqual(server.ask(hello("reward"))[0], 401)
            self.assertEqual(server.ask(hello("reward"), {"Authorization": "Bearer tahini"})[0], 401)
            self.assertEqual(server.ask(hello("reward"), {"Authorization": "Bearer sesame"})[0], 200)

    def test_pages_of_the_web_are_refused(self) -> None:
        with Serving(REWARDS) as server:
            for headers, status in [
                ({"Host": "evil.example"}, 403),
                ({"Host": "127.0.0.1.evil.example:80"}, 403),
                ({"Origin": "https://evil.example"}, 403),
                ({"Origin": "null"}, 403),
                ({"Content-Type": "text/plain"}, 415),
                ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
                ({"Content-Type": "application/json; charset=utf-8"}, 200),
                ({"Origin": "http://localhost:3000"}, 200),
                ({"Host": "[::1]:80"}, 200),
            ]:
                self.assertEqual(server.ask(hello("reward"), headers)[0], status, headers)

    def test_a_network_needs_a_token(self) -> None:
        program = "import trainyard_bridge as ty\nty.serve(0, host='0.0.0.0')\n"
        done = subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(FOLDER)}, capture_output=True,
            text=True, timeout=60,
        )
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("give a token", done.stderr)

    def test_parts_without_sessions_are_forgotten(self) -> None:
        sys.path.insert(0, str(FOLDER))
        import trainyard_serve

        known = trainyard_serve.Server(False, 1.0)
        with (
            mock.patch.object(trainyard_serve.bridge, "_operations", return_value=({}, {})),
            mock.patch.object(trainyard_serve, "PARTS", 3),
        ):
            kept = known.part(about("environment"))
            known.sessions[(kept, "a-1")] = trainyard_serve.Session()
            for number in range(20):
                last = known.part(about("reward", options=number))
            self.assertEqual(len(known.parts), 3)
            self.assertTrue(kept in known.parts and last in known.parts)

    def test_only_this_machine_reaches_it_unless_it_says_so(self) -> None:
        with Serving(REWARDS) as server:
            listening = Path("/proc/net/tcp").read_text() if Path("/proc/net/tcp").exists() else None
            if listening is None:
                self.skipTest("there is no /proc/net/tcp")
            bound = [line.split()[1] for line in listening.splitlines()[1:]]
            self.assertIn(f"0100007F:{server.port:04X}", bound)

    def test_functions_run_one_at_a_time_unless_they_may_run_together(self) -> None:
        program = """
            import time, threading
            running, most = [], [0]

            @ty.reward
            def slow(episode):
                running.append(1)
                most[0] = max(most[0], len(running))
                time.sleep(0.2)
                running.pop()
                return most[0]

            ty.serve(0, parallel=PARALLEL)
        """
        for parallel, most in [("False", [1.0]), ("True", [2.0, 3.0, 4.0])]:
            with Serving(program.replace("PARALLEL", parallel)) as server:
                line = {"id": 1, "hello": about("reward"), "op": "score", "items": [EPISODE]}
                threads = [threading.Thread(target=server.ask, args=(line,)) for _ in range(4)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                self.assertIn(server.ask(line)[1]["result"][0]["value"], most)


class Sessions(unittest.TestCase):
    def start(self, server: Serving, session: str, number: int = 1) -> None:
        line = {"id": number, "hello": about("environment"), "op": "start", "problem": PROBLEM, "seed": 0}
        self.assertEqual(server.ask({**line, "session": session}), (200, {"id": number, "result": None}))

    def step(self, server: Serving, session: str, number: int, text: str = "go") -> tuple[int, Any]:
        line = {"id": number, "hello": about("environment"), "op": "step", "session": session, "text": text}
        return server.ask(line)

    def other(self, server: Serving, op: str, number: int, **more: str) -> tuple[int, Any]:
        return server.ask({"id": number, "hello": about("environment"), "op": op, **more})

    def test_episodes_live_beside_each_other(self) -> None:
        with Serving(COUNTER) as server:
            offers = server.ask(hello("environment"))[1]
            self.assertEqual((offers["steps"], offers["forks"], offers["repeats"]), (True, True, True))
            self.start(server, "a-1")
            self.start(server, "b-1")
            said = [self.step(server, session, 2 + at)[1]["result"] for at, session in enumerate(["a-1", "a-1", "b-1"])]
            self.assertEqual([one["messages"][0]["content"] for one in said], ["1", "2", "1"])
            self.assertEqual(self.other(server, "fork", 9, session="c-1", **{"from": "a-1"})[0], 200)
            self.assertEqual(self.step(server, "c-1", 10, "end")[1]["result"], {"done": True, "answer": "3"})
            self.assertEqual(self.step(server, "a-1", 11, "end")[1]["result"], {"done": True, "answer": "3"})

    def test_a_request_that_comes_again_is_worked_on_once(self) -> None:
        with Serving(COUNTER) as server:
            self.start(server, "a-1")
            first = self.step(server, "a-1", 2)
            self.assertEqual(self.step(server, "a-1", 2), first)
            self.assertEqual(self.step(server, "a-1", 3)[1]["result"]["messages"][0]["content"], "2")

    def test_a_session_that_is_not_known_is_gone(self) -> None:
        with Serving(COUNTER) as server:
            self.assertEqual(self.step(server, "a-1", 1)[0], 410)
            self.assertEqual(self.other(server, "fork", 2, session="b-1", **{"from": "a-1"})[0], 410)
            self.assertEqual(self.step(server, "b-1", 3)[0], 410, "nor was the copy begun")
            self.assertEqual(self.other(server, "close", 4, session="a-1"), (200, {"id": 4, "result": None}))
            self.start(server, "a-1")
            self.assertEqual(self.other(server, "close", 5, session="a-1")[0], 200)
            self.assertEqual(self.step(server, "a-1", 6)[0], 410)

    def test_a_session_that_nobody_asks_for_is_forgotten(self) -> None:
        with Serving(COUNTER) as server:
            self.start(server, "a-1")
            time.sleep(0.7)
            self.start(server, "b-1")
            self.assertEqual(self.step(server, "a-1", 2)[0], 410)
            self.assertEqual(self.step(server, "b-1", 2)[0], 200)


class AsAProgram(unittest.TestCase):
    def test_started_by_trainyard_it_runs(self) -> None:
        done = subprocess.run(
            [sys.executable, "-c", "import trainyard_bridge as ty\n" + REWARDS],
            input=json.dumps(hello("reward")) + "\n",
            env=dict(os.environ, TRAINYARD_PROTOCOL="1"), cwd=FOLDER, capture_output=True, text=True, timeout=60,
        )
        self.assertEqual(json.loads(done.stdout), {"type": "ready", "protocol": 1})


if __name__ == "__main__":
    unittest.main()
