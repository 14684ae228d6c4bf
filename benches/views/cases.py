"""The measurements: each makes its store, measures commands on it, and checks what they print."""
import json
import os
import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass

import chats
import screen
import stores
from figure import Figure
from program import Failed

LEAST = 3  # Runs of a command, however long they take.
LONG = 30  # Seconds after which a command is not run again.
SAMPLED = 200  # Milliseconds of a command from which on its largest size is known.
MIB = 2**20
BEGIN = 300  # Maximum seconds until the quick stages of a live run have ended.
STOP = 60  # Maximum seconds until an interrupted run has ended.
TOP_GOALS = {"%": 5, "MiB": 300}


@dataclass
class Sizes:
    """Sizes of the stores, and lengths of the measurements."""

    rows: int = 10_000_000
    bytes: int = 200_000_000
    messages: int = 1_000_000
    stages: int = 10_000
    links: int = 1_000
    seconds: int = 30
    rounds: int = 9


SMALL = Sizes(rows=20_000, bytes=4_000_000, messages=4_000, stages=300, links=45, seconds=2, rounds=3)


class Measurement:
    """A program, a folder for stores, sizes."""

    def __init__(self, program, folder, sizes):
        self.program, self.folder, self.sizes = program, folder, sizes

    def timed(self, view, place, *words, goal=None, check=None):
        """Measures a command after a run that is not counted, whose output `check` judges: it returns a mistake."""
        _, output = self.program.measured(place, *words)
        if check and (mistake := check(output)):
            raise Failed(f"`{' '.join(words)}` in {place}: {mistake}; it printed:\n{output[-2000:]}")
        walls, largest, began = [], 0, time.monotonic()
        while len(walls) < self.sizes.rounds and (len(walls) < LEAST or time.monotonic() - began < LONG):
            usage, _ = self.program.measured(place, *words)
            walls.append(round(1000 * usage.wall, 2))
            largest = max(largest, usage.max_rss_mib)
        # The size is read every 50 ms, so that a short command has none.
        return Figure(view, "ms", walls, goal, round(largest) if min(walls) > SAMPLED else None)

    def row(self, place, artifact, row):
        return self.program.told(place, "artifacts", "show", artifact, "--row", str(row))


def lacks(text):
    """A check that an output contains a text."""
    return lambda output: None if text in output else f"it lacks {text!r}"


def preview(bench):
    place = stores.large_table(bench.program, bench.folder, bench.sizes.rows)
    artifact, rows = "latest/table/table", bench.sizes.rows // stores.LEFT * stores.LEFT
    stored = bench.program.told(place, "artifacts", "show", artifact)["output"]["table"]["rows"]
    if stored != rows:
        raise Failed(f"the table of {place} has {stored} rows, not {rows}; remove the folder")
    last = bench.row(place, artifact, rows - 1)["id"]
    show = ("artifacts", "show", artifact)
    yield bench.timed(f"preview of {rows:,} rows", place, *show, "--rows", "5", goal=100, check=lacks(f"{rows} rows"))
    yield bench.timed("last row of them by number", place, *show, "--row", str(rows - 1), check=lacks(last))
    yield bench.timed("last row of them by id", place, *show, "--id", last, check=lacks(last))


def open_table(bench):
    place = stores.conversations_of_size(bench.program, bench.folder, bench.sizes.bytes)
    artifact = "latest/chats/trajectories"
    rows, size = stores.table_size(bench.program, place)
    for name, row in (("first", 0), ("middle", rows // 2), ("last", rows - 1)):
        question = chats.messages(row)[0]
        if question not in json.dumps(bench.row(place, artifact, row)):
            raise Failed(f"row {row} of {place} is not the chat of that number")
        view = f"{name} row of {rows:,} chats, {size / 1e6:,.0f} MB"
        words = ("artifacts", "show", artifact, "--row", str(row))
        yield bench.timed(view, place, *words, goal=500, check=lacks(question.split()[0]))


def searches(rows):
    """Name, options, pattern, and the same as a regular expression of Python."""
    rare, refusal = chats.unlike_others(rows), "as an ai language model"
    link, word = r"https?://example\.org/b\w+", r"\b\w{8}\b"
    return [
        ("rare text", [], rare, f"(?i){re.escape(rare)}"),
        ("common text", [], refusal, f"(?i){refusal}"),
        ("expression with literals", ["--regex"], link, link),
        ("expression without literals", ["--regex"], word, word),
    ]


def search(bench):
    bench.program.require(bench.folder, "search")
    rows = bench.sizes.messages // chats.MESSAGES
    place = stores.conversations(bench.program, bench.folder, "search", rows)
    asked = searches(rows)
    yield from built_index(bench, place, asked[0][2])
    expected = chats.matching(rows, {name: expression for name, _, _, expression in asked})
    for name, options, pattern, _ in asked:
        words = ("search", "latest", pattern, *options)
        found = bench.program.told(place, *words)
        counted = (found["messages"], found["matching_messages"])
        if counted != (chats.MESSAGES * rows, expected[name]):
            raise Failed(f"`{' '.join(words)}` in {place} found {counted[1]:,} of {counted[0]:,} messages; {rows:,} "
                         f"chats have {expected[name]:,} with a match")
        yield bench.timed(f"search, {name} ({expected[name]:,} hits)", place, *words, goal=1000)


def built_index(bench, place, text):
    """Measures the first search, which builds the index, and the size of the index."""
    index, walls, largest = place / "store/indexes", [], 0
    for _ in range(min(LEAST, bench.sizes.rounds)):
        shutil.rmtree(index, ignore_errors=True)
        usage, _ = bench.program.measured(place, "search", "latest", text)
        walls.append(round(usage.wall, 3))
        largest = max(largest, usage.max_rss_mib)
    size = sum(path.stat().st_size for path in index.rglob("*") if path.is_file())
    if size == 0:
        raise Failed(f"a search has left no index in {index}")
    _, table = stores.table_size(bench.program, place)
    yield Figure(f"index of {bench.sizes.messages:,} messages: first search", "s", walls, None, round(largest))
    yield Figure(f"index of {bench.sizes.messages:,} messages: size", "MiB", [round(size / MIB, 1)])
    yield Figure("table of these messages: size", "MiB", [round(table / MIB, 1)])


def lineage(bench):
    """One item through a chain of all stages, and through lanes of ten stages."""
    stages = bench.sizes.links - 1
    lanes = max(stages // 9, 1)
    for name, width, length in (("chain", 1, stages), ("lanes", lanes, stages // lanes)):
        place = stores.linked_rows(bench.program, bench.folder, name, width, length)
        row, all_stages = str(stores.ITEM), width * length
        back = ("artifacts", "lineage", f"latest/{stores.link(width - 1, length - 1)}/table", "--row", row)
        nodes = len(bench.program.printed(place, *back).splitlines())
        view = f"lineage in {all_stages + 1:,} stages, {name}: back, {nodes} nodes"
        yield bench.timed(view, place, *back, goal=200, check=leads_back)
        forward = ("artifacts", "lineage", "latest/source/problems", "--row", row, "--forward")
        view = f"lineage in {all_stages + 1:,} stages, {name}: forward"
        yield bench.timed(view, place, *forward, goal=200, check=lambda text, count=all_stages: leads_to(text, count))


def leads_back(output):
    """Checks that the lineage ends in the line of the file, or at the limit of its nodes."""
    ends = (f"items.jsonl:{stores.ITEM + 1}", "the lineage is longer")
    return None if any(end in output for end in ends) else f"it lacks {ends[0]!r}"


def leads_to(output, count):
    found = len(output.splitlines())
    return None if found == count else f"it names {found} tables, not {count}"


def top(bench):
    bench.program.require(bench.folder, "top")
    place = stores.many_stages(bench.program, bench.folder, bench.sizes.stages)
    yield from watched(bench, place, "finished")
    with LiveRun(bench) as place:
        yield from watched(bench, place, "live")


def watched(bench, place, state):
    """Measures `top` on the newest run of a store."""
    command = [str(bench.program.path), "top", "latest"]
    seen = [
        screen.watch(command, place, bench.program.env, bench.sizes.seconds, b"s00000")
        for _ in range(min(LEAST, bench.sizes.rounds))
    ]
    run = f"`top`, {state} run of {bench.sizes.stages:,} stages"
    largest = round(max(one.max_rss_mib for one in seen))
    yield Figure(f"{run}: CPU", "%", [round(one.cpu_percent, 2) for one in seen], TOP_GOALS["%"], largest)
    yield Figure(f"{run}: memory", "MiB", [round(one.max_rss_mib, 1) for one in seen], TOP_GOALS["MiB"])
    yield Figure(f"{run}: first screen", "ms", [round(one.first_ms, 1) for one in seen])


class LiveRun:
    """A run whose stages end during the measurement: nine tenths are over, the others sleep, two at a time."""

    def __init__(self, bench):
        rounds = min(LEAST, bench.sizes.rounds)
        needed = rounds * (bench.sizes.seconds + 2 * screen.SETTLE) + 60
        self.bench, self.place = bench, stores.live_stages(bench.folder, bench.sizes.stages, needed)
        self.quick = bench.sizes.stages - stores.slow_count(bench.sizes.stages)

    def __enter__(self):
        with open(self.place / "run.txt", "w") as out:
            command, env = [self.bench.program.path, "run", "workflow.yaml"], self.bench.program.env
            # A session of its own, which `stop` can end as a whole.
            self.run = subprocess.Popen(
                command, cwd=self.place, env=env, stdout=out, stderr=out, start_new_session=True
            )
        try:
            self.wait()
        except BaseException:
            self.stop()
            raise
        return self.place

    def wait(self):
        end = time.monotonic() + BEGIN
        while time.monotonic() < end:
            if self.run.poll() is not None:
                break
            if self.done() >= self.quick:
                return
            time.sleep(1)
        raise Failed(f"the live run has not begun: {(self.place / 'run.txt').read_text()[-2000:]}")

    def done(self):
        """How many stages are over; none before the store has the run."""
        try:
            listed = self.bench.program.told(self.place, "runs", "list")
        except Failed:
            return 0
        return listed[0].get("done", 0) if listed else 0

    def __exit__(self, kind, error, trace):
        ended = self.run.poll()
        self.stop()
        if kind is None and ended is not None:
            raise Failed(f"the live run ended with {ended} before the measurement; see {self.place / 'run.txt'}")

    def stop(self):
        """Interrupts the run, and kills it and its stages if it does not end."""
        if self.run.poll() is None:
            self.run.send_signal(signal.SIGINT)
        try:
            self.run.wait(STOP)
        except subprocess.TimeoutExpired:
            os.killpg(self.run.pid, signal.SIGKILL)
            self.run.wait()


CASES = {"preview": preview, "open": open_table, "search": search, "top": top, "lineage": lineage}
# Sizes on which a measurement depends, besides the number of rounds.
OF = {
    "preview": ["rows"], "open": ["bytes"], "search": ["messages"], "top": ["stages", "seconds"], "lineage": ["links"],
}
