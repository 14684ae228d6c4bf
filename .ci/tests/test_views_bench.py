"""Tests of `benches/views`: stores, checks of output, the terminal, and the series of results."""
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
import unittest
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from unittest import mock

BENCHES = Path(__file__).resolve().parent.parent.parent / "benches"
sys.path[:0] = [str(BENCHES / "views"), str(BENCHES / "measuring")]
import cases  # noqa: E402
import chats  # noqa: E402
import screen  # noqa: E402
import series  # noqa: E402
import stores  # noqa: E402
from figure import Figure  # noqa: E402
from program import Failed, Program  # noqa: E402

# benches/data_plane has a module of this name, too.
SPEC = importlib.util.spec_from_file_location("measure_views", BENCHES / "views/measure.py")
measure_views = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(measure_views)

# Prints what the tests need, and counts its runs.
PROGRAM = """#!/usr/bin/env python3
import pathlib, sys
words = sys.argv[1:]
if words == ["--version"]:
    print("trainyard 0.1.0 (1a2b3c4d5e, features: kubernetes)")
elif words[0] == "run":
    with open("runs.txt", "a") as runs:
        runs.write("run\\n")
    sys.exit(0 if pathlib.Path("right").exists() else 1)
elif words[0] == "show":
    print("row 7 of 10")
else:
    sys.exit("no such command")
"""
# Runs until it is interrupted if the file `long` is there, and has 270 stages that are over.
LIVE = """#!/usr/bin/env python3
import json, pathlib, signal, sys, time
if sys.argv[1] == "--version":
    print("trainyard 0.1.0")
elif sys.argv[1] == "run":
    # A job in the background of a shell inherits that interrupts are ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        pathlib.Path("started").touch()
        while pathlib.Path("../long").exists(): time.sleep(0.05)
        time.sleep(2)
    except KeyboardInterrupt:
        pathlib.Path("interrupted").touch()
elif sys.argv[1:] == ["runs", "list", "--format", "json"]:
    print(json.dumps([{"run": "r", "status": "running", "done": 270}]))
"""
# Draws a text, computes for a tenth of the time, and ends at the key q.
DRAWING = """
import os, select, sys, termios, time, tty
tty.setraw(0)
size = os.get_terminal_size(0)
os.write(1, b"\\x1b[2Jsize %dx%d" % (size.columns, size.lines))
held = bytearray(60 << 20)
while True:
    end = time.monotonic() + 0.01
    while time.monotonic() < end: pass
    os.write(1, b".")
    if select.select([0], [], [], 0.09)[0] and os.read(0, 1) == b"q": sys.exit(int(sys.argv[1]))
"""
FACTS = {
    "date": "2026-11-28", "commit": "1a2b3c4d", "machine": "2 cores, idle", "n": "medians of 9 runs",
    "command": "benches/views/measure.py PROGRAM --folder FOLDER", "made_by": [],
}


class Folder(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.enterContext(redirect_stdout(StringIO()))
        self.folder = Path(holder.name)
        path = self.folder / "trainyard"
        path.write_text(PROGRAM)
        path.chmod(0o755)
        self.program = Program(path, self.folder)


class Stores(Folder):
    def references(self, stages):
        """The stages that each stage reads or needs."""
        for name, stage in stages.items():
            yield name, set(re.findall(r"stages\.(\w+)\.", json.dumps(stage))) | set(stage.get("needs", []))

    def make(self, name, maker, *sizes):
        (self.folder / name).mkdir(exist_ok=True)
        with self.assertRaises(Failed):
            maker(self.program, self.folder, *sizes)
        file = json.loads((self.folder / name / "workflow.yaml").read_text())
        return file["stages"]

    def test_runs_have_as_many_stages_as_asked_and_read_earlier_ones(self):
        chain = self.make("chain", stores.linked_rows, "chain", 1, 999)
        lanes = self.make("lanes", stores.linked_rows, "lanes", 111, 9)
        many = self.make("top-finished", stores.many_stages, 1_000)
        self.assertEqual([len(chain), len(lanes), len(many)], [1_000, 1_000, 1_000])
        place = stores.live_stages(self.folder, 1_000, 100)
        live = json.loads((place / "workflow.yaml").read_text())["stages"]
        self.assertEqual(len(live), 1_000)
        for stages in (chain, lanes, many, live):
            earlier = set()
            for name, before in self.references(stages):
                self.assertLessEqual(before, earlier, name)
                earlier.add(name)
        self.assertEqual(dict(self.references(chain))["lane000_link0998"], {"lane000_link0997"})
        self.assertEqual(dict(self.references(live))["s00950"], {"s00850"})

    def test_the_slow_stages_take_as_long_as_asked(self):
        for count, seconds in ((10_000, 170), (300, 70)):
            place = stores.live_stages(self.folder, count, seconds)
            stages = json.loads((place / "workflow.yaml").read_text())["stages"].values()
            sleeps = [float(stage["run"][1]) for stage in stages if "run" in stage]
            self.assertEqual(len(sleeps), count // 10)
            self.assertGreaterEqual(sum(sleeps) / stores.LIVE_CPUS, seconds)

    def test_the_pairs_of_two_tables_are_the_rows_of_the_large_one(self):
        stages = self.make("preview", stores.large_table, 20_000)
        files = [self.folder / "preview" / name for name in ("left.jsonl", "right.jsonl")]
        left, right = (file.read_text().splitlines() for file in files)
        self.assertEqual(len(left) * len(right), 20_000)
        self.assertEqual(stages["table"]["with"]["max_rows"], 20_000)
        self.assertEqual(json.loads(right[7]), {"id": "right-00007", "question": "Which is right 7?", "answer": "7"})

    def test_a_store_is_made_once_and_resumed_until_it_is_whole(self):
        place = self.folder / "chain"
        make = lambda width: stores.linked_rows(self.program, self.folder, "chain", width, 2)
        runs = lambda: (place / "runs.txt").read_text().count("run")
        for _ in range(2):
            with self.assertRaises(Failed):
                make(1)
        self.assertEqual(runs(), 2)
        (place / "right").touch()
        self.assertEqual(make(1), place)
        self.assertEqual(make(1), place)
        self.assertEqual(runs(), 3)
        with self.assertRaises(Failed):
            make(2)
        self.assertEqual(runs(), 1, "another workflow has a new folder")


class Chats(unittest.TestCase):
    def test_matches_are_counted_by_message(self):
        texts = [text for row in range(3_000) for text in chats.messages(row)]
        asked = cases.searches(3_000)
        found = chats.matching(3_000, {name: expression for name, _, _, expression in asked})
        rare, common = asked[0][2], asked[1][2]
        self.assertEqual(found["rare text"], sum(rare.lower() in text.lower() for text in texts))
        self.assertEqual(found["common text"], sum(common in text.lower() for text in texts))
        self.assertTrue(all(count > 0 for count in found.values()), found)
        self.assertTrue(1 <= found["rare text"] <= 5 and 10 <= found["common text"] <= 60, found)


class Cases(Folder):
    def test_a_command_is_timed_after_its_output_is_checked(self):
        bench = cases.Measurement(self.program, self.folder, cases.SMALL)
        figure = bench.timed("a row", self.folder, "show", goal=0.001, check=cases.lacks("row 7"))
        self.assertEqual((len(figure.values), figure.unit, figure.is_missed), (cases.SMALL.rounds, "ms", True))
        with self.assertRaisesRegex(Failed, "it lacks 'row 8'"):
            bench.timed("a row", self.folder, "show", check=cases.lacks("row 8"))
        with self.assertRaisesRegex(Failed, "no command `top`"):
            self.program.require(self.folder, "top")
        self.assertEqual(self.program.commit, "1a2b3c4d5e")

    def test_lineages_end_at_the_file_or_at_the_limit(self):
        self.assertIsNone(cases.leads_back("r/s/table row 3\n└─ read from items.jsonl:4"))
        self.assertIsNone(cases.leads_back("r/s/table row 3 (the lineage is longer)"))
        self.assertIsNotNone(cases.leads_back("read from items.jsonl:5"))
        self.assertIsNone(cases.leads_to("a\nb", 2))
        self.assertEqual(cases.leads_to("a\nb", 3), "it names 2 tables, not 3")


def wait_for_file(path, seconds=60):
    end = time.monotonic() + seconds
    while not path.exists():
        if time.monotonic() > end:
            raise AssertionError(f"{path} was not written in {seconds} s")
        time.sleep(0.01)


class Live(Folder):
    def bench(self):
        self.program.path.write_text(LIVE)
        return cases.Measurement(self.program, self.folder, cases.SMALL)

    def test_a_live_run_is_interrupted_after_the_measurement(self):
        (self.folder / "long").touch()
        with cases.LiveRun(self.bench()) as place:
            run = place / "interrupted"
            self.assertFalse(run.exists())
            wait_for_file(place / "started")
        self.assertTrue(run.exists())

    def test_a_run_that_ended_during_the_measurement_is_no_live_run(self):
        live = cases.LiveRun(self.bench())
        with self.assertRaisesRegex(Failed, "ended with 0 before the measurement"):
            with live:
                live.run.wait(20)


class Resumed(Folder):
    def setUp(self):
        super().setUp()
        self.asked = []
        self.bench = cases.Measurement(self.program, self.folder, cases.Sizes())

    def open(self, bench):
        self.asked.append(bench.sizes)
        yield Figure("a row", "ms", [3.0, 1.0, 2.0], 100, 40)
        if len(self.asked) == 1:
            raise Failed("the first one")

    def measured(self, bench):
        """Measures with the results of the folder, as a new call does."""
        with mock.patch.dict(measure_views.CASES, {"open": self.open}), mock.patch("sys.stderr", StringIO()):
            return measure_views.SESSION.measure("open", bench, measure_views.Results(self.folder / "results.json"))

    def test_what_was_measured_is_kept_and_what_failed_is_measured_again(self):
        self.assertEqual([self.measured(self.bench) for _ in range(4)], [False, True, True, True])
        self.assertEqual(len(self.asked), 2)
        larger = cases.Measurement(self.program, self.folder, cases.Sizes(bytes=1))
        self.assertTrue(self.measured(larger))
        self.assertEqual([sizes.bytes for sizes in self.asked], [200_000_000, 200_000_000, 1])

    def test_a_record_has_all_results_of_one_day(self):
        results = measure_views.Results(self.folder / "results.json")
        records = self.folder / "records"
        records.mkdir()
        facts = measure_views.facts(self.bench) | {"state": "idle"}
        record = lambda: measure_views.SESSION.record("Two cores", facts, self.bench, results)
        append = series.append
        with mock.patch.object(series, "append", lambda *given: append(*given, records)):
            with self.assertRaisesRegex(Failed, "results of 0 days"):
                record()
            self.measured(self.bench)
            self.measured(self.bench)
            results = measure_views.Results(self.folder / "results.json")
            record()
            results.all.append(results.all[0] | measure_views.SESSION.key("top", self.bench))
            results.all[-1]["date"] = "2026-01-01"
            with self.assertRaisesRegex(Failed, "results of 2 days"):
                record()
        written = tomllib.loads((records / "views.toml").read_text())["series"][0]
        self.assertEqual((written["commit"], written["name"]), ("1a2b3c4d", "Two cores"))
        self.assertTrue(written["machine"].endswith(", idle"), written["machine"])
        median = {"row": "a row", "column": "median", "value": 2.0, "unit": "ms"}
        self.assertEqual(written["records"][0], median)


class Screens(unittest.TestCase):
    def watch(self, code, text=b"size 120x40", first=screen.FIRST):
        command = [sys.executable, "-c", DRAWING, str(code)]
        with mock.patch.multiple(screen, FIRST=first, SETTLE=0.2):
            return screen.watch(command, "/", dict(os.environ), 1, text)

    def test_cpu_and_memory_of_a_program_on_a_terminal(self):
        watched = self.watch(0)
        self.assertTrue(0.5 < watched.cpu_percent < 40, watched)
        self.assertTrue(60 < watched.max_rss_mib < 150, watched)
        self.assertTrue(0 < watched.first_ms < 20_000, watched)

    def test_a_program_that_fails_or_draws_something_else_is_no_measurement(self):
        with self.assertRaisesRegex(Failed, "exited with 3"):
            self.watch(3)
        with self.assertRaisesRegex(Failed, "has not drawn 'stages'"):
            self.watch(0, b"stages", 2)


class Series(unittest.TestCase):
    FIGURES = [
        Figure("preview of 10,000,000 rows", "ms", [31.5, 30.25, 40.0], 100, 41),
        Figure("index of 1,000,000 messages: size", "MiB", [180.4]),
        Figure("`top`, live run of 10,000 stages: CPU", "%", [6.5, 5.25, 4.0], 5, 210),
    ]

    def test_the_report_shows_a_series_and_refuses_none(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "index.toml").write_text('title = "Results"\ntext = "All."\nsubjects = ["views"]\n')
            series.append(measure_views.SUBJECT, "Two cores", FACTS, self.FIGURES, folder)
            again = FACTS | {"made_by": ["trainyard 0.1.0 (5e6f7a8b)"]}
            series.append(measure_views.SUBJECT, "Two cores again", again, self.FIGURES[:2], folder)
            with self.assertRaisesRegex(Failed, "choose another"):
                series.append(measure_views.SUBJECT, "Two cores", FACTS, self.FIGURES, folder)
            command = [BENCHES / "report", "--records", folder, "--page", folder / "page.md"]
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
            page = (folder / "page.md").read_text()
            whole = tomllib.loads((folder / "views.toml").read_text())
        self.assertEqual(len(whole["series"]), 2)
        self.assertLessEqual(max(map(len, page.splitlines())), 120)
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("|")]
        self.assertIn(["preview of 10,000,000 rows", "31.5 ms", "40.0 ms", "100 ms", "41 MiB"], rows)
        self.assertIn(["index of 1,000,000 messages: size", "180 MiB", "", "", ""], rows)
        self.assertIn(["`top`, live run of 10,000 stages: CPU", "5.25%", "6.50%", "5%", "210 MiB"], rows)
        self.assertIn("Goals that are missed: `top`, live run of 10,000 stages: CPU.", page)
        self.assertIn("All goals are met. Stores were made by `trainyard 0.1.0 (5e6f7a8b)`.", page)


if __name__ == "__main__":
    unittest.main()
