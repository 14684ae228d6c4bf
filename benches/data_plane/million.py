#!/usr/bin/env python3
"""Import, seven rules, near duplicates and export of many chats: unkilled, then with kills, with equal digests.

usage: million.py PROGRAM --folder FOLDER [--rows 1000000] [--kills 3] [--delays SECONDS,…] [--limit 1536] [--cores 2]

Runs benches/workflows/million.yaml and `artifacts export --as openai` in a new store. Then does the same in another
store, kills the program and all its processes by SIGKILL `--kills` times, each time after a longer delay (by default
20%, 30%, 40%, … of the time without kills), and resumes by the same commands. Fails if a digest of an output or of the
exported file differs, if fewer kills hit a running program, or if a process used more than `--limit` MiB. Standard
library only.

A smoke run: million.py PROGRAM --folder /tmp/smoke --rows 2000
"""
import argparse
import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import make
from measured import measure

WORKFLOW = Path(__file__).resolve().parent.parent / "workflows/million.yaml"
STORED = ("chats/trajectories", "rules/kept", "rules/rejected", "near/kept", "near/rejected")


class Failed(Exception):
    """A command that failed, or a promise that was not kept."""


class Chain:
    """The commands of the chain on one store, and what their processes used."""

    def __init__(self, args, name):
        self.program, self.folder = args.program.resolve(), args.folder.resolve() / name
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.source = args.folder.resolve() / "chats.jsonl"
        self.largest, self.wall, self.kills = 0.0, 0.0, 0

    def commands(self):
        store = ["--store", str(self.folder / "store")]
        run = [str(self.program), "run", str(WORKFLOW), "-p", f"source={self.source}", "--take-over", *store]
        target = self.folder / "exported"
        export = [str(self.program), "artifacts", "export", "latest/near/kept", str(target)]
        return run, [*export, "--as", "openai", "--force", *store]

    def run(self, delays=()):
        """Runs the commands to their ends, each again after a kill."""
        delays = list(delays)
        for command in self.commands():
            while self.killed(command, delays.pop(0) if delays else None):
                pass

    def killed(self, command, delay):
        with open(self.folder / "output.txt", "a+") as out:
            usage = measure(command, kill_after=delay, cwd=self.folder, stdout=out, stderr=out)
            out.seek(0)
            output = out.read()
        self.largest, self.wall = max(self.largest, usage.max_rss_mib), self.wall + usage.wall
        name = " ".join(command[1:3])
        if usage.code == -9 and delay is not None:
            self.kills += 1
            print(f"  {name}: killed after {usage.wall:.1f} s", flush=True)
            return True
        if usage.code != 0:
            raise Failed(f"{name} exited with {usage.code}:\n{output[-3000:]}")
        print(f"  {name}: done in {usage.wall:.1f} s, {usage.cpu:.1f} CPU s, {usage.max_rss_mib:,.0f} MiB", flush=True)
        return False

    def digests(self):
        """Digests of all artifacts of the run and of the exported rows."""
        command = [str(self.program), "artifacts", "list", "latest", "--format", "json"]
        listed = subprocess.run(
            [*command, "--store", str(self.folder / "store")], capture_output=True, check=True, cwd=self.folder
        )
        found = {one["artifact"].partition("/")[2]: one["digest"] for one in json.loads(listed.stdout)}
        missing = [name for name in STORED if name not in found]
        if missing:
            raise Failed(f"the run has no output {', '.join(missing)}")
        with open(self.folder / "exported/train.jsonl", "rb") as file:
            return found | {"exported": hashlib.file_digest(file, "sha256").hexdigest()}


def differences(calm, stormy):
    names = sorted(calm.keys() | stormy.keys())
    return [f"{name}: {calm.get(name)} and {stormy.get(name)}" for name in names if calm.get(name) != stormy.get(name)]


def compare(args):
    print(f"{args.rows:,} rows, without kills")
    calm = Chain(args, "calm")
    calm.run()
    delays = args.delays or [calm.wall * (0.2 + 0.1 * at) for at in range(args.kills)]
    print(f"killed after {', '.join(f'{delay:.1f}' for delay in delays)} s")
    stormy = Chain(args, "stormy")
    stormy.run(delays)
    wrong = differences(calm.digests(), stormy.digests())
    largest = max(calm.largest, stormy.largest)
    outputs, size = len(calm.digests()), math.ceil(largest)
    print(f"kills {stormy.kills}, outputs {outputs}, differ {len(wrong)}, largest process {size:,} MiB")
    if stormy.kills < len(delays):
        wrong.append(f"only {stormy.kills} of {len(delays)} kills hit a running program; set shorter --delays")
    if largest > args.limit:
        wrong.append(f"a process used {largest:,.0f} MiB, the limit is {args.limit:,} MiB")
    return wrong


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--delays", type=lambda text: [float(delay) for delay in text.split(",")])
    parser.add_argument("--limit", type=int, default=1536)
    parser.add_argument("--cores", type=int, default=2)
    return parser.parse_args()


def main():
    args = arguments()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:args.cores])
    make.make(args.folder, args.rows, min(args.rows, 10_000))
    try:
        wrong = compare(args)
    except Failed as failed:
        wrong = [str(failed)]
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
