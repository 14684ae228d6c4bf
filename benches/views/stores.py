"""Stores for the measurements: workflows that the program runs once. A store stays in the folder for later calls."""
import hashlib
import json
import math
import shutil

import chats

LEFT = 1_000  # Rows of the first of the two tables whose pairs are the rows of the large table.
LANES = 100  # Stages of a layer of a run of many stages.
PROBED = 20_000  # Chats by which the size of a row is measured.
ITEM = 3  # Row whose lineage is measured.
ITEMS = 10
LIVE_CPUS = 2
LARGE = (
    "select concat(id, '-', right_id) as id, id as problem_id, right_answer as answer, right_level as level, "
    "random(id, right_id) as reward "
    "from a cross join (select id as right_id, answer as right_answer, level as right_level from b) r"
)


def workflow(name, stages):
    """The text of a workflow file: JSON, which is YAML."""
    return json.dumps({"version": 1, "name": name, "stages": stages}, indent=1) + "\n"


def problems(prefix, count):
    """Lines of problems for `data/import`."""
    rows = ({"id": f"{prefix}-{n:05}", "question": f"Which is {prefix} {n}?", "answer": str(n)} for n in range(count))
    return "".join(json.dumps(row) + "\n" for row in rows)


def written(place, text, pools=None):
    """Writes the workflow file and a site file, so that no other site file is found."""
    place.mkdir(parents=True, exist_ok=True)
    site = {"version": 1, "store": "store"} | ({"pools": pools} if pools else {})
    (place / "trainyard.yaml").write_text(json.dumps(site) + "\n")
    (place / "workflow.yaml").write_text(text)


def made(program, place, text, facts, write):
    """Runs a workflow in a folder unless it was done; `write` puts the files there that `facts` describe.

    A run that was interrupted is resumed. With another workflow or other facts, the folder is made anew.
    """
    spec = {"workflow": hashlib.sha256(text.encode()).hexdigest(), "facts": facts}
    begun, done = place / "begun.json", place / "made.json"
    if done.exists() and json.loads(done.read_text())["spec"] == spec:
        return place
    if not begun.exists() or json.loads(begun.read_text()) != spec:
        shutil.rmtree(place, ignore_errors=True)
    written(place, text)
    begun.write_text(json.dumps(spec) + "\n")
    write(place)
    print(f"making the store of {place.name} …", flush=True)
    usage, _ = program.measured(place, "run", "workflow.yaml")
    print(f"  {usage.wall:.0f} s, {usage.max_rss_mib:,.0f} MiB", flush=True)
    done.write_text(json.dumps({"spec": spec, "seconds": round(usage.wall, 1), "by": program.version}) + "\n")
    return place


def makers(folder):
    """The versions of the programs that made the stores of a folder."""
    return {json.loads(path.read_text())["by"] for path in folder.glob("*/made.json")}


def imported(source):
    return {"uses": "data/import", "with": {"source": source}}


def large_table(program, folder, rows):
    """A store with a table of many rows, `latest/table/table`: all pairs of the rows of two tables."""
    right = rows // LEFT
    inputs = {"a": "${{ stages.left.problems }}", "b": "${{ stages.right.problems }}"}
    table = {"uses": "data/frame", "with": inputs | {"sql": LARGE, "max_rows": right * LEFT}}
    stages = {"left": imported("left.jsonl"), "right": imported("right.jsonl"), "table": table}

    def write(place):
        (place / "left.jsonl").write_text(problems("left", LEFT))
        (place / "right.jsonl").write_text(problems("right", right))

    return made(program, folder / "preview", workflow("preview", stages), {"rows": right * LEFT}, write)


def conversations(program, folder, name, rows):
    """A store with imported chats, `latest/chats/trajectories`."""
    text = workflow(name, {"chats": imported("chats.jsonl")})
    return made(program, folder / name, text, {"rows": rows}, lambda place: chats.write(place, rows))


def table_size(program, place):
    """The rows and bytes of the chats of a store."""
    output = program.told(place, "artifacts", "show", "latest/chats/trajectories")["output"]
    return output["table"]["rows"], sum(file["size"] for file in output["files"])


def conversations_of_size(program, folder, size):
    """A store with chats whose table has at least this size in bytes."""
    place = conversations(program, folder, "probe", PROBED)
    rows, reached = table_size(program, place)
    while reached < size:
        wanted = math.ceil(1.03 * size * rows / reached / 1_000) * 1_000
        place = conversations(program, folder, f"open-{wanted}", wanted)
        rows, reached = table_size(program, place)
    return place


def link(lane, at):
    return f"lane{lane:03}_link{at:04}"


def linked_rows(program, folder, name, lanes, links):
    """A store with a run in which each of some lanes is a chain of tables made from one import.

    Each row of a table has an id of its own and names in `parents` the row that it was made from.
    """
    stages = {"source": imported("items.jsonl")}
    for lane in range(lanes):
        before = "${{ stages.source.problems }}"
        for at in range(links):
            key = link(lane, at)
            sql = f"select concat('{key}-', answer) as id, answer from given"
            stages[key] = {"uses": "data/frame", "with": {"given": before, "sql": sql}}
            before = f"${{{{ stages.{key}.table }}}}"

    def write(place):
        (place / "items.jsonl").write_text(problems("item", ITEMS))

    return made(program, folder / name, workflow(name, stages), {"items": ITEMS}, write)


def quick_stages(count):
    """Stages that do nothing, in layers: each needs the one of its lane in the layer before."""
    stages = {}
    for n in range(count):
        stages[f"s{n:05}"] = {"uses": "noop", "with": {"value": n}} | needs(n)
    return stages


def needs(n):
    return {"needs": [f"s{n - LANES:05}"]} if n >= LANES else {}


def slow_stages(first, count, seconds):
    """Commands that sleep, of which `LIVE_CPUS` run at a time, each after the last quick stage of its lane."""
    stages = {}
    for n in range(first, first + count):
        command = {"run": ["sleep", str(seconds)], "env": {"NUMBER": str(n)}, "resources": {"cpus": 1}}
        stages[f"s{n:05}"] = command | needs(first + n % LANES)
    return stages


def many_stages(program, folder, count):
    """A store with a finished run of many stages."""
    text = workflow("finished", quick_stages(count))
    return made(program, folder / "top-finished", text, {}, lambda place: None)


def slow_count(count):
    return max(count // 10, 1)


def live_stages(folder, count, seconds):
    """A new folder with a workflow of which nine tenths end at once, and the rest takes at least some seconds."""
    place, slow = folder / "top-live", slow_count(count)
    shutil.rmtree(place, ignore_errors=True)
    each = math.ceil(10 * LIVE_CPUS * seconds / slow) / 10
    stages = quick_stages(count - slow) | slow_stages(count - slow, slow, each)
    written(place, workflow("live", stages), [{"name": "here", "cpus": LIVE_CPUS}])
    return place
