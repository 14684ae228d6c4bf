"""Runs commands of a trainyard program in a folder with a store. Standard library only, Linux."""
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "data_plane"))
from measured import measure  # noqa: E402


class Failed(Exception):
    """A command that failed, or a result that is wrong."""


class Program:
    """A trainyard program, with a home of its own below the folder of the measurement."""

    def __init__(self, path, folder):
        self.path = path.resolve()
        if not self.path.is_file():
            raise Failed(f"{path}: there is no such program; build one with `cargo build --release --workspace`")
        self.digest = hashlib.sha256(self.path.read_bytes()).hexdigest()[:12]
        self.env = os.environ | {"TRAINYARD_HOME": str(folder / "home"), "TERM": "xterm-256color"}
        self.version = self.printed(folder, "--version").strip()

    @property
    def commit(self):
        """The commit that the program was built from; `None` if it does not name one."""
        found = re.search(r"\(([0-9a-f]{8,40})\b", self.version)
        return found and found[1]

    def printed(self, place, *words):
        """The output of an unmeasured command."""
        ran = subprocess.run([self.path, *words], cwd=place, env=self.env, capture_output=True, check=False)
        if ran.returncode != 0:
            raise Failed(f"`{' '.join(words)}` exited with {ran.returncode}:\n{ran.stderr.decode()[-2000:]}")
        return ran.stdout.decode()

    def told(self, place, *words):
        """The JSON that an unmeasured command prints."""
        return json.loads(self.printed(place, *words, "--format", "json"))

    def require(self, place, command):
        try:
            self.printed(place, command, "--help")
        except Failed:
            raise Failed(f"{self.path} has no command `{command}`; measure a program of a later commit") from None

    def measured(self, place, *words):
        """Runs a command; returns its usage and its output. Processes that this one started are ended."""
        with open(place / "output.txt", "w+") as out:
            usage = measure([str(self.path), *words], cwd=place, env=self.env, stdout=out, stderr=out)
            out.seek(0)
            output = out.read()
        if usage.code != 0:
            raise Failed(f"`{' '.join(words)}` in {place} exited with {usage.code}:\n{output[-2000:]}")
        return usage, output
