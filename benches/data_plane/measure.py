#!/usr/bin/env python3
"""Measures the data plane as whole commands of trainyard, and its peers on the same files. Standard library only.

usage: measure.py PROGRAM --folder FOLDER [--rows 1000000] [--items 10000] [--table-rows 10000000]
                  [--peers PYTHON] [--datatrove PYTHON] [--gopher-rows 20000] [--only LINE,…] [--cores 2] [--report]

`--peers` names a Python with polars, duckdb, rensa and pyarrow, `--datatrove` one with `datatrove[io,processing]`;
without them their rows are left out. The table of the group-by needs `--peers`. datatrove reads the first
`--gopher-rows` rows. Results are appended to FOLDER/results.json as they come; those that are there, with the same
program, files and sizes, are not measured again. `--report` prints FOLDER/results.json and measures nothing.

A smoke run: measure.py PROGRAM --folder /tmp/smoke --rows 2000 --items 100 --table-rows 20000
"""
import argparse
import csv
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

PEERS = Path(__file__).resolve().parent.parent / "peers/data_plane.py"
# By default one thread for each core, as the peers.
THREADS = ("POLARS_MAX_THREADS", "RAYON_NUM_THREADS", "OMP_NUM_THREADS")
# 5% replaced words leave a similarity of 0.57 of sets of 5 words and of 0.72 of sets of 3.
NEAR = {"bands": 14, "rows": 8, "ngram": 5, "threshold": 0.5}
NEAR_NAMED = {"bands": 20, "rows": 5, "ngram": 3, "threshold": 0.5}
RULES = {
    "exact": ["exact_duplicates"],
    "seven": [
        {"kind": "expression", "keep": "turns <= 1"},
        {"kind": "expression", "keep": "length(answer) > 0"},
        {"kind": "expression", "keep": "length(answer) < 4000"},
        {"kind": "pattern", "of": "answer", "pattern": r"\w+(?:\W+\w+){5}"},
        {"kind": "pattern", "of": "conversation", "pattern": "(?i)as an ai language model", "reject": True},
        {"kind": "pattern", "of": "conversation", "pattern": "https?://", "reject": True},
        "exact_duplicates",
    ],
    "gopher": ["symbols", "repetition"],
    "near": [{"kind": "near_duplicates"} | NEAR],
    "near_named": [{"kind": "near_duplicates"} | NEAR_NAMED],
    "decontaminate": ["decontaminate"],
}
LINES = ("import", *RULES, "group_by")
SQL = (
    "select source, level, count(*) as n, avg(reward) as reward, max(tokens) as tokens from self "
    "group by source, level order by source, level"
)
# Rows per CPU second at least; MiB and seconds of wall time at most.
GOALS = {
    "exact": {"rows_per_cpu_second": 90_000, "max_rss_mib": 800},
    "seven": {"rows_per_cpu_second": 65_000, "max_rss_mib": 600},
    "gopher": {"rows_per_cpu_second": 30_000},
    "near": {"rows_per_cpu_second": 30_000},
    "near_named": {"recall_near": 0.95, "precision": 0.99},
    "decontaminate": {"wall": 60},
    "group_by": {"wall": 2},
}
AT_MOST = {"max_rss_mib", "wall"}


class Failed(Exception):
    """A command that failed, with its last words."""


class Bench:
    """A folder of files, a program and the results so far."""

    def __init__(self, args):
        self.folder = args.folder.resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path = self.folder / "results.json"
        self.results = json.loads(self.path.read_text()) if self.path.exists() else []
        self.program, self.args = args.program.resolve(), args
        self.digest = hashlib.sha256(self.program.read_bytes()).hexdigest()[:12]
        self.made, self.failed = {}, False
        self.env = os.environ | {name: str(args.cores) for name in THREADS}

    def execute(self, command):
        """Runs a command in the folder; returns its usage and its output."""
        with open(self.folder / "output.txt", "w+") as out:
            usage = measure(list(map(str, command)), cwd=self.folder, env=self.env, stdout=out, stderr=out)
            out.seek(0)
            output = out.read()
        if usage.code != 0:
            raise Failed(f"{' '.join(map(str, command[:4]))} … exited with {usage.code}:\n{output[-2000:]}")
        return usage, output

    def trainyard(self, *words):
        return self.execute([self.program, *words, "--store", self.folder / "store"])

    def told(self, *words):
        """The JSON that an unmeasured command prints."""
        command = [self.program, *words, "--store", self.folder / "store", "--format", "json"]
        ran = subprocess.run(list(map(str, command)), cwd=self.folder, env=self.env, capture_output=True, check=False)
        if ran.returncode != 0:
            raise Failed(f"{' '.join(words)}:\n{ran.stderr.decode()[-2000:]}")
        return json.loads(ran.stdout)

    def record(self, line, who, rows, operation):
        """Measures an operation unless its result is there, and stores what it returns."""
        peers = hashlib.sha256(PEERS.read_bytes()).hexdigest()[:12]
        of = self.digest if who == "trainyard" else peers
        files = peers if line == "group_by" else self.made["sha256"][:12]
        key = {"line": line, "who": who, "rows": rows, "of": of, "files": files}
        if any(all(result.get(name) == value for name, value in key.items()) for result in self.results):
            return
        try:
            usage, more = operation()
        except Failed as failed:
            print(f"{line}, {who}: {failed}", file=sys.stderr, flush=True)
            self.failed = True
            return
        result = key | usage.figures() | {"rows_per_cpu_second": round(rows / usage.cpu), "cores": self.args.cores}
        self.results.append(result | more)
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.results, indent=1) + "\n")
        os.replace(part, self.path)
        print(shown(self.results[-1]), flush=True)


def workflow(bench, name):
    """Writes the workflow of a line as JSON, which is YAML."""
    stages = {"chats": {"uses": "data/import", "with": {"source": "chats.jsonl"}}}
    if name in RULES:
        options = {"trajectories": ["${{ stages.chats.trajectories }}"], "rules": RULES[name]}
        stages["kept"] = {"uses": "data/filter", "with": options}
    if name == "decontaminate":
        stages["items"] = {"uses": "data/import", "with": {"source": "items.jsonl", "format": "jsonl"}}
        stages["kept"]["with"]["evaluation"] = ["${{ stages.items.problems }}"]
    if name == "group_by":
        copy = ["cp", str(bench.folder / "table.parquet"), "${{ outputs.rows }}/data.parquet"]
        # The command runs again if the table is another.
        env = {"TABLE": (bench.folder / "table.json").read_text()}
        stages = {"table": {"run": copy, "env": env, "outputs": {"rows": {"kind": "table"}}}}
    path = bench.folder / f"{name}.yaml"
    path.write_text(json.dumps({"version": 1, "name": name.replace("_", "-"), "stages": stages}, indent=1) + "\n")
    return path.name


def ran(bench, file, stage):
    """Computes a stage again, of inputs that are in the cache."""
    usage, _ = bench.trainyard("run", file, "--only", stage, "--rerun", stage)
    stages = bench.told("runs", "show", "latest")["stages"]
    (metrics,) = (one["metrics"] for one in stages if one["stage"] == stage)
    return usage, {"metrics": {name: int(value) for name, value in metrics.items()}}


def rejected(bench):
    """The rows that the latest stage `kept` rejected: an id has the number of its line."""
    target = bench.folder / "rejected.csv"
    bench.trainyard("artifacts", "export", "latest/kept/rejected", target, "--columns", "id", "--force")
    with open(target, newline="") as file:
        return {int(row["id"].split("-")[1]) - 1 for row in csv.DictReader(file)}


def scores(folder, removed):
    """How many of the copies were removed, and how many of the removed rows are copies."""
    kinds = {"exact": set(), "near": set()}
    for line in folder.joinpath("truth.tsv").read_text().splitlines():
        row, kind, _ = line.split("\t")
        kinds[kind].add(int(row))
    copies = kinds["exact"] | kinds["near"]
    return {
        "recall_near": share(removed & kinds["near"], kinds["near"]),
        "recall_all": share(removed & copies, copies),
        "precision": share(removed & copies, removed),
    }


def share(part, whole):
    return round(len(part) / len(whole), 4) if whole else None


def filtered(bench, name):
    file = workflow(bench, name)
    for stage in ["chats", "items"] if name == "decontaminate" else ["chats"]:
        bench.trainyard("run", file, "--until", stage)
    usage, more = ran(bench, file, "kept")
    if name.startswith("near"):
        more |= scores(bench.folder, rejected(bench))
    if name == "decontaminate":
        planted = {int(line.split("\t")[1]) for line in (bench.folder / "planted.tsv").read_text().splitlines()}
        more |= {"recall_planted": share(rejected(bench) & planted, planted)}
    return usage, more


def imported(bench):
    return ran(bench, workflow(bench, "import"), "chats")


def peer(bench, python, *words):
    usage, output = bench.execute([python, PEERS, *words])
    return usage, json.loads(output.splitlines()[-1])


def rensa(bench, setting):
    values = [setting[name] for name in ("bands", "rows", "ngram")]
    usage, more = peer(bench, bench.args.peers, "near", "chats.jsonl", "removed.txt", *values)
    removed = set(map(int, (bench.folder / "removed.txt").read_text().split()))
    return usage, more | scores(bench.folder, removed)


def datatrove(bench, rows):
    with open(bench.folder / "chats.jsonl") as file, open(bench.folder / "few.jsonl", "w") as few:
        few.writelines(line for line, _ in zip(file, range(rows)))
    shutil.rmtree(bench.folder / "datatrove", ignore_errors=True)
    return peer(bench, bench.args.datatrove, "gopher", bench.folder / "few.jsonl", bench.folder / "datatrove")


def polars(bench, operation):
    if not (bench.folder / "raw.parquet").exists() or operation == "parquet":
        done = peer(bench, bench.args.peers, "parquet", "chats.jsonl", "raw.parquet")
        if operation == "parquet":
            return done
    return peer(bench, bench.args.peers, operation, "raw.parquet", "kept.parquet")


def summary(rows):
    """The number of rows of a group-by, and a checksum of them with means of nine digits."""
    texts = [[f"{value:.9f}" if isinstance(value, float) else value for value in row] for row in rows]
    return {"groups": len(rows), "result": hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:12]}


def grouped(bench):
    file = workflow(bench, "group_by")
    bench.trainyard("run", file)
    usage, output = bench.trainyard("artifacts", "query", "latest/table/rows", SQL, "--format", "json")
    return usage, summary(json.loads(output)["rows"])


def grouped_by(bench, program):
    usage, more = peer(bench, bench.args.peers, f"group_{program}", "table.parquet", SQL)
    return usage, summary(more["result"]) | {"packages": more["packages"]}


def table(bench, rows):
    """Writes the table of the group-by unless it is there with as many rows."""
    mark = bench.folder / "table.json"
    wanted = [rows, hashlib.sha256(PEERS.read_bytes()).hexdigest()]
    if not mark.exists() or json.loads(mark.read_text()) != wanted:
        mark.unlink(missing_ok=True)
        peer(bench, bench.args.peers, "table", "table.parquet", rows)
        mark.write_text(json.dumps(wanted))


def measure_line(bench, line):
    args, rows = bench.args, bench.args.rows
    if line == "import":
        bench.record(line, "trainyard", rows, lambda: imported(bench))
    elif line != "group_by":
        bench.record(line, "trainyard", rows, lambda: filtered(bench, line))
    if line == "gopher" and args.datatrove:
        few = min(rows, args.gopher_rows)
        bench.record(line, "datatrove", few, lambda: datatrove(bench, few))
    if not args.peers:
        return
    if line in ("import", "exact", "seven"):
        bench.record(line, "polars", rows, lambda: polars(bench, "parquet" if line == "import" else line))
    if line in ("near", "near_named"):
        bench.record(line, "rensa", rows, lambda: rensa(bench, NEAR if line == "near" else NEAR_NAMED))
    if line == "group_by":
        table(bench, args.table_rows)
        bench.record(line, "trainyard", args.table_rows, lambda: grouped(bench))
        for program in ("duckdb", "polars"):
            bench.record(line, program, args.table_rows, lambda program=program: grouped_by(bench, program))


def missed(result):
    """The goals that a result misses."""
    goals = GOALS.get(result["line"], {}) if result["who"] == "trainyard" else {}
    met = {name: (result[name] <= goal if name in AT_MOST else result[name] >= goal) for name, goal in goals.items()}
    return [f"{name} {result[name]}, goal {goal}" for name, goal in goals.items() if not met[name]]


def shown(result):
    text = (
        f"{result['line']:<14} {result['who']:<10} {result['rows']:>10,} rows  {result['wall']:>8.2f} s  "
        f"{result['cpu']:>8.2f} CPU s  {result['rows_per_cpu_second']:>9,} rows/CPU-s  "
        f"{math.ceil(result['max_rss_mib']):>6,} MiB"
    )
    for name in ("recall_near", "recall_all", "precision", "recall_planted"):
        text += f"  {name} {result[name]}" if name in result else ""
    kept = result.get("kept", result.get("metrics", {}).get("kept"))
    text += f"  kept {kept:,}" if kept is not None else ""
    return text + "".join(f"\n  missed: {goal}" for goal in missed(result))


def disagreements(results):
    """Lines of which the program and a peer that does the same gave different results."""
    for line, name in (("exact", "kept"), ("seven", "kept"), ("group_by", "result")):
        found = {}
        for result in results:
            if result["line"] == line:
                value = result.get(name, result.get("metrics", {}).get(name))
                found.setdefault((result["rows"], result["files"]), {})[result["who"]] = value
        for (rows, _), values in found.items():
            if len(set(values.values())) > 1:
                yield f"{line}, {rows:,} rows: {name} differs: {values}"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--table-rows", type=int, default=10_000_000)
    parser.add_argument("--peers", help="a Python with polars, duckdb, rensa and pyarrow")
    parser.add_argument("--datatrove", help="a Python with datatrove[io,processing]")
    parser.add_argument("--gopher-rows", type=int, default=20_000)
    parser.add_argument("--only", type=lambda text: text.split(","), default=LINES)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    unknown = set(args.only) - set(LINES)
    if unknown:
        parser.error(f"unknown lines {', '.join(sorted(unknown))}; there are {', '.join(LINES)}")
    return args


def main():
    args = arguments()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:args.cores])
    bench = Bench(args)
    if not args.report:
        bench.made = make.make(bench.folder, args.rows, args.items)
        raw = bench.folder / "raw.parquet"
        if raw.exists() and raw.stat().st_mtime < (bench.folder / "made.json").stat().st_mtime:
            raw.unlink()
        for line in args.only:
            measure_line(bench, line)
    else:
        print("\n".join(map(shown, bench.results)))
    wrong = list(disagreements(bench.results))
    for line in wrong:
        print(line)
    return 1 if wrong or bench.failed else 0


if __name__ == "__main__":
    sys.exit(main())
