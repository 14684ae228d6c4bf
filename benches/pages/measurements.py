"""The measurements of pages: each makes its store, starts a server, and requests pages."""
import datetime
import re
import shutil
import statistics
import subprocess
import time
from dataclasses import dataclass

import browser
import made
import stores
from figure import Figure
from measured import measure
from outline import Outline
from program import Failed
from server import PageServer, Watchers, events_of, messages

FIRST_GOAL = 200  # Milliseconds until the first byte of a page.
SIZE_GOAL = 200  # Compressed kilobytes of a page.
GRAPH_GOAL = 1_000
ELEMENTS_GOAL = 3_000
FRAME_GOAL = 50
EVENT_GOAL = 500
WATCHED_GOAL = 2  # Percent of CPU seconds that the watchers add.
MEMORY_GOAL = 300
SLACK = 20  # Requests of a warm page.


@dataclass
class PageSizes:
    """Sizes of the stores, and lengths of the measurements."""

    rows: int = 10_000_000
    stages: int = 10_000
    nodes: int = 5_000
    messages: int = 33_000
    runs: int = 10_000
    watchers: int = 200
    steps: int = made.LONG_STEPS
    pairs: int = 5
    rounds: int = 9


SMALL = PageSizes(
    rows=20_000, stages=300, nodes=200, messages=2_000, runs=20, watchers=10, steps=4, pairs=2, rounds=3
)


class Bench:
    """A program, a folder for stores, sizes."""

    def __init__(self, program, folder, sizes):
        self.program, self.folder, self.sizes = program, folder, sizes

    def page(self, view, place, path, goal=FIRST_GOAL):
        """Figures of one page: the first request of a new server, later requests, and the compressed size."""
        cold, warm, sizes, memory = [], [], [], 0
        for _ in range(self.sizes.rounds):
            with PageServer(self.program, place) as server:
                first = server.get(path)
                cold.append(round(1000 * first.first, 2))
                later = [server.get(path) for _ in range(SLACK)]
                warm.append(round(1000 * statistics.median(response.first for response in later), 2))
                sizes.append(round(max(response.size for response in [first, *later]) / 1000, 1))
                memory = max(memory, server.memory())
        yield Figure(f"{view}, new server", "ms", cold, goal, round(memory))
        yield Figure(f"{view}, again", "ms", warm, goal)
        yield Figure(f"{view}, compressed", "kB", sizes, SIZE_GOAL)


def latest(program, place):
    return program.told(place, "runs", "list")[0]["run"]


def artifact_path(program, place, stage, output):
    """The path of the page of an artifact of the latest run."""
    rows = program.told(place, "runs", "show", "latest")["stages"]
    digests = [row["digest"] for row in rows if row["stage"] == stage]
    if not digests:
        raise Failed(f"the latest run of {place} has no stage {stage}; remove the folder")
    return f"/artifacts/{digests[0]}/{output}"


def artifact(bench):
    """A table of 10,000,000 rows: its page, its first rows, and rows in its middle."""
    place = stores.large_table(bench.program, bench.folder, bench.sizes.rows)
    rows = bench.sizes.rows // stores.LEFT * stores.LEFT
    path = artifact_path(bench.program, place, "table", "table")
    yield from bench.page(f"artifact of {rows:,} rows", place, path)
    yield from bench.page(f"rows of the {rows:,}", place, f"{path}/rows")
    yield from bench.page("row in their middle", place, f"{path}/rows/{rows // 2}")


def stages(bench):
    """The page of a run of 10,000 stages."""
    place = stores.many_stages(bench.program, bench.folder, bench.sizes.stages)
    yield from bench.page(f"run of {bench.sizes.stages:,} stages", place, f"/runs/{latest(bench.program, place)}")


def graph(bench):
    """The graph of a run of 5,000 stages in fan-outs."""
    place = made.graph(bench.program, bench.folder, bench.sizes.nodes)
    run = latest(bench.program, place)
    with PageServer(bench.program, place) as server:
        drawn = server.text(f"/runs/{run}?part=graph")
        if (nodes := len(re.findall(r"<svg[^>]*class=\"dag\"", drawn))) != 1:
            raise Failed(f"the graph of {place} has {nodes} drawings")
    view = f"graph of {bench.sizes.nodes:,} stages in {made.FAN_OUTS} fan-outs"
    yield from bench.page(view, place, f"/runs/{run}?part=graph", GRAPH_GOAL)


def parts_of_rollout(server, row):
    """The paths of parts of a long rollout, by their names: those at its ends behind the links of its page."""
    def last(path, text):
        return Outline(path, server.text(path)).link(text)

    return {
        "first messages": row,
        "last messages": last(row, "Last messages"),
        "messages with a text": f"{row}?find=contents",
        "last tokens": last(f"{row}?tokens=logprob", "Last tokens"),
    }


def rollout(bench):
    """Parts of a rollout of 33,000 messages: time, size, elements, and the longest frame and task in a browser."""
    place = made.long_rollout(bench.program, bench.folder, bench.sizes.messages)
    row = f"{artifact_path(bench.program, place, 'long', 'trajectories')}/rows/0"
    with PageServer(bench.program, place) as server:
        parts = parts_of_rollout(server, row)
        elements = {name: Outline(path, server.text(path)).elements for name, path in parts.items()}
    for name, path in parts.items():
        view = f"{name} of {bench.sizes.messages:,}" if name.endswith("messages") else f"{name}"
        yield from bench.page(view, place, path)
        yield Figure(f"{view}, elements", "elements", [elements[name]], ELEMENTS_GOAL)
    if browser.is_here():
        with PageServer(bench.program, place) as server, browser.Browser() as chromium:
            chromium.open(server.address.url(row, with_token=True))
            for name, path in parts.items():
                yield from scrolled(bench, chromium, name, server.address.url(path))
    else:
        print(f"rollout: the path has no `{browser.NAME}`, so no frames are measured", flush=True)


def scrolled(bench, chromium, name, url):
    """Figures of a page in a browser, which loads and scrolls it several times."""
    frames, tasks = [], []
    for _ in range(bench.sizes.rounds):
        chromium.open(url)
        frame, task = chromium.scrolled()
        frames.append(round(frame, 1))
        tasks.append(round(task, 1))
    yield Figure(f"{name}, longest frame", "ms", frames, FRAME_GOAL)
    yield Figure(f"{name}, longest task over 50 ms", "ms", tasks, FRAME_GOAL)


def watched_seconds(bench, place, watchers):
    """CPU seconds of a run from the start to the end, with this number of open pages."""
    shutil.rmtree(place, ignore_errors=True)
    made.trained(place, bench.sizes.steps)
    errors = place / "errors.txt"
    errors.write_text("")
    thread = Watchers(errors, lambda address: address.path.split("/")[2], watchers)
    if watchers:
        thread.start()
    command = [str(bench.program.path), "run", "workflow.yaml", "--pages-bind", "127.0.0.1:0"]
    with open(errors, "w") as out:
        usage = measure(command, cwd=place, env=bench.program.env, stdout=subprocess.DEVNULL, stderr=out)
    if watchers:
        thread.done.set()
        thread.join(timeout=10)
        if thread.failure or thread.opened != watchers or not thread.received:
            raise Failed(f"{thread.opened} of {watchers} pages were open: {thread.failure}")
    if usage.code != 0:
        raise Failed(f"the run in {place} exited with {usage.code}:\n{errors.read_text()[-2000:]}")
    return usage.cpu


def watchers(bench):
    """CPU seconds that 200 open pages add to a run: pairs, in turn with and without them first, after a run before."""
    place, added, alone = bench.folder / "watched", [], []
    watched_seconds(bench, place, 0)
    for pair in range(bench.sizes.pairs):
        order = (0, bench.sizes.watchers) if pair % 2 == 0 else (bench.sizes.watchers, 0)
        seconds = {count: watched_seconds(bench, place, count) for count in order}
        added.append(round(100 * (seconds[bench.sizes.watchers] / seconds[0] - 1), 2))
        alone.append(round(seconds[0], 2))
    yield Figure(f"CPU seconds that {bench.sizes.watchers} watchers add to a run", "%", added, WATCHED_GOAL)
    yield Figure("CPU seconds of that run without watchers", "s", alone)


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def events(bench):
    """The time from an event of the journal to its message on an open page."""
    place = bench.folder / "events"
    shutil.rmtree(place, ignore_errors=True)
    made.beating(place)
    errors = place / "errors.txt"
    with open(errors, "w") as out:
        command = [str(bench.program.path), "run", "workflow.yaml", "--no-pages"]
        run = subprocess.Popen(command, cwd=place, env=bench.program.env, stdout=out, stderr=out)
    try:
        arrived = arrivals(bench, place)
    finally:
        run.terminate()
        run.wait()
    rows = bench.program.told(place, "runs", "show", "latest")["stages"]
    started = {row["stage"]: moment(row["attempts"][0]["started"]) for row in rows if row["attempts"]}
    late = [round(1000 * (arrived[stage] - at), 1) for stage, at in sorted(started.items()) if stage in arrived]
    if len(late) < made.BEATS // 2:
        raise Failed(f"only {len(late)} of {made.BEATS} stages were seen to start")
    late = late[1:]
    yield Figure("event to its message", "ms", late, EVENT_GOAL)
    yield Figure("event to its message, slowest", "ms", [max(late)], EVENT_GOAL)


def arrivals(bench, place):
    """The times at which an open page learned that a stage runs, until the run is over."""
    arrived = {}
    end = time.monotonic() + 60
    while "started" not in (place / "errors.txt").read_text():
        if time.monotonic() > end:
            raise Failed(f"no run begins in {place}")
        time.sleep(0.02)
    with PageServer(bench.program, place) as server:
        connection = events_of(server.address, latest(bench.program, place))
        for at, message in messages(connection):
            for stage in message["stages"]:
                if stage["status"] == "running":
                    arrived.setdefault(stage["stage"], at)
            if message["over"]:
                break
        connection.close()
    return arrived


def runs(bench):
    """The memory of `serve` with 10,000 runs after its pages were read."""
    place = made.many_runs(bench.program, bench.folder, bench.sizes.runs)
    (place / "workflows").mkdir(exist_ok=True)
    run = latest(bench.program, place)
    memory, first = [], []
    for _ in range(min(bench.sizes.rounds, 3)):
        words = ("serve", "--workflows", "workflows", "--bind", "127.0.0.1:0", "--no-token")
        with PageServer(bench.program, place, *words) as server:
            first.append(round(1000 * server.get("/").first, 2))
            for path in ("/", f"/?before={run}", f"/runs/{run}", "/schedules", "/?tag=none") * 4:
                server.get(path)
            memory.append(round(server.memory(), 1))
    yield Figure(f"memory of `serve` with {bench.sizes.runs:,} runs", "MiB", memory, MEMORY_GOAL)
    yield Figure("its list of runs, new server", "ms", first, FIRST_GOAL)


MEASUREMENTS = {
    "artifact": artifact, "stages": stages, "graph": graph, "rollout": rollout, "watchers": watchers, "events": events,
    "runs": runs,
}
OF = {
    "artifact": ("rows", "rounds"), "stages": ("stages", "rounds"), "graph": ("nodes", "rounds"),
    "rollout": ("messages", "rounds"), "watchers": ("watchers", "steps", "pairs"), "events": (),
    "runs": ("runs", "rounds"),
}
