"""Tests of `trainyard_fork.py` by itself: `python3 -m unittest discover python/tests`."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(FOLDER))

import trainyard_fork as fork  # noqa: E402

AGENT = """
import json, os, random, sys
import helper
from slow_package import LOADED

if __name__ == "__main__":
    print("printed", flush=True)
    said = {
        "folder": os.getcwd(), "arguments": sys.argv, "variables": dict(os.environ), "file": __file__,
        "path": sys.path[0], "loaded": LOADED, "helper": helper.KEY, "group": os.getpgid(0) == os.getpid(),
        "random": random.random(), "files": len(os.listdir("/proc/self/fd")), "input": sys.stdin.read(),
        "main": sys.modules["__main__"].__file__, "pid": os.getpid(),
    }
    print(json.dumps(said))
    if "fails" in sys.argv:
        raise ValueError("no such luck")
    if "waits" in sys.argv:
        sys.stdout.flush()
        import time
        time.sleep(600)
"""


class Started:
    """A fork server, as Trainyard starts it."""

    def __init__(self, agent: str = AGENT, package: str = "import os\nLOADED = os.getpid()\n") -> None:
        self.home = tempfile.mkdtemp()
        self.outputs = []
        self.packages = Path(self.home) / "packages"
        self.packages.mkdir()
        (self.packages / "slow_package.py").write_text(package)
        self.server_folder = self.folder(agent)
        shutil.copy(FOLDER / "trainyard_fork.py", self.server_folder)
        self.control, other = socket.socketpair()
        self.control.settimeout(60)
        variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(self.packages), "PYTHONDONTWRITEBYTECODE": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "trainyard_fork.py", "agent.py"], cwd=self.server_folder, stdin=other, env=variables,
            stdout=subprocess.DEVNULL,
        )
        other.close()
        self.lines = self.control.makefile("r")

    def folder(self, agent: str = AGENT) -> str:
        made = tempfile.mkdtemp(dir=self.home)
        (Path(made) / "agent.py").write_text(textwrap.dedent(agent))
        (Path(made) / "helper.py").write_text("import os\nKEY = os.environ.get('KEY')\n")
        return made

    def start(self, number: int, *arguments: str, folder: str = "", **variables: str):
        """Starts a process; its standard output and error, open until `end`."""
        pipes = [os.pipe(), os.pipe()]
        variables = {"PATH": os.environ["PATH"], **variables}
        request = {"id": number, "folder": folder or self.folder(), "arguments": ["agent.py", *arguments]}
        body = json.dumps({**request, "variables": variables}).encode()
        socket.send_fds(self.control, [len(body).to_bytes(4, "big")], [write for _, write in pipes])
        self.control.sendall(body)
        for _, write in pipes:
            os.close(write)
        outputs = [os.fdopen(read) for read, _ in pipes]
        self.outputs += outputs
        return outputs

    def message(self):
        return json.loads(self.lines.readline())

    def end(self) -> int:
        self.lines.close()
        self.control.close()
        code = self.process.wait(60)
        for output in self.outputs:
            output.close()
        shutil.rmtree(self.home)
        return code


@unittest.skipUnless(sys.platform.startswith("linux"), "processes are forked on Linux only")
class Forks(unittest.TestCase):
    def test_a_process_has_what_a_started_one_would_have(self):
        server = Started()
        self.assertEqual(server.message(), {"ready": True})
        seen = []
        for number in (1, 2):
            folder = server.folder()
            output, errors = server.start(number, "--fast", folder=folder, KEY=f"key-{number}")
            pid = server.message()
            self.assertEqual(pid["id"], number)
            first, said = output.read().splitlines()
            self.assertEqual((first, errors.read()), ("printed", ""))
            said = json.loads(said)
            self.assertEqual((said["folder"], said["path"], said["file"]), (folder, folder, f"{folder}/agent.py"))
            self.assertEqual(said["main"], f"{folder}/agent.py")
            self.assertEqual(said["arguments"], ["agent.py", "--fast"])
            self.assertEqual(said["variables"], {"PATH": os.environ["PATH"], "KEY": f"key-{number}"})
            self.assertEqual(said["helper"], f"key-{number}", "own modules are imported by each process")
            self.assertEqual(said["loaded"], server.process.pid, "packages are imported once")
            self.assertEqual((said["group"], said["input"], said["pid"]), (True, "", pid["pid"]))
            # Standard input, output and errors, and the list of the files itself.
            self.assertEqual(said["files"], 4)
            self.assertEqual(server.message(), {"id": number, "status": 0})
            seen.append(said["random"])
        self.assertNotEqual(seen[0], seen[1])
        self.assertEqual(server.end(), 0)

    def test_an_exception_is_shown_without_the_frames_of_the_server(self):
        server = Started()
        self.assertEqual(server.message(), {"ready": True})
        _, errors = server.start(1, "fails")
        server.message()
        text = errors.read()
        self.assertTrue(text.startswith("Traceback (most recent call last):\n  File "), text)
        self.assertTrue(text.endswith("ValueError: no such luck\n") and "trainyard_fork" not in text, text)
        self.assertEqual(server.message(), {"id": 1, "status": 1 << 8})
        server.end()

    def test_killed_processes_are_reported_and_all_end_with_the_server(self):
        server = Started()
        self.assertEqual(server.message(), {"ready": True})
        pids = []
        for number in (1, 2):
            output, _ = server.start(number, "waits")
            pids.append(server.message()["pid"])
            output.readline()
        os.killpg(pids[0], signal.SIGKILL)
        self.assertEqual(server.message(), {"id": 1, "status": 9})
        self.assertEqual(server.end(), 0)
        for _ in range(1000):
            if not os.path.exists(f"/proc/{pids[1]}"):
                break
            time.sleep(0.01)
        self.assertFalse(os.path.exists(f"/proc/{pids[1]}"))

    def test_a_package_that_starts_threads_is_not_forked(self):
        threads = "import threading, time\nLOADED = 1\n"
        threads += "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
        server = Started(package=threads)
        self.assertIn("its imports started 1 threads", server.message()["unsafe"])
        self.assertEqual(server.end(), 0)

    def test_a_failed_import_is_that_of_the_program(self):
        server = Started(package="raise RuntimeError('no license')\n")
        self.assertEqual(server.message(), {"ready": True})
        _, errors = server.start(1)
        server.message()
        # The path of packages is a variable of the server, which forks keep.
        self.assertIn("no license", errors.read())
        server.end()


class Imports(unittest.TestCase):
    def test_packages_of_own_modules_count_and_own_modules_do_not(self):
        with tempfile.TemporaryDirectory() as folder:
            files = {
                "agent.py": "import a.b, own\nfrom c import d\nfrom . import no\n"
                "try:\n import e\nexcept OSError:\n pass\ndef f():\n import late\n",
                "own.py": "import g, agent\nfrom deep.inner import x\n",
                "deep/inner.py": "import h\n",
            }
            for name, text in files.items():
                path = Path(folder) / name
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
            found = fork.imported(f"{folder}/agent.py", set())
            self.assertEqual(found, ["a.b", "g", "h", "c", "e"])

    def test_no_file_imports_nothing(self):
        self.assertEqual(fork.imported(f"/no/such/{random.random()}.py", set()), [])


if __name__ == "__main__":
    unittest.main()
