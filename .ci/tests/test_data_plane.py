"""Tests of `benches/data_plane`: the chats, their copies, and the measurement of a command."""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent.parent / "benches/data_plane"
sys.path.insert(0, str(FOLDER))
import make  # noqa: E402
import measure  # noqa: E402

ROWS = 4000
# Counts, and leaves a process that holds 200 MiB.
HEAVY = """
import os, subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; held = bytearray(200 << 20); time.sleep(9)"])
for _ in range(3_000_000): pass
__import__("time").sleep(0.5)
"""


def measured(code, *arguments):
    """What a new process measures: the kernel counts the memory of the process that starts a command as its own."""
    script = (
        "import json, sys, measured\n"
        f"used = measured.measure([sys.executable, '-c', {code!r}], {', '.join(arguments)})\n"
        "print(json.dumps(used.figures() | {'code': used.code}))"
    )
    ran = subprocess.run([sys.executable, "-B", "-c", script], cwd=FOLDER, capture_output=True, check=True)
    return json.loads(ran.stdout)


class Made(unittest.TestCase):
    def rows(self):
        return [make.made(row) for row in range(ROWS)]

    def test_copies_are_of_earlier_originals_and_nothing_else_repeats(self):
        rows, seen = self.rows(), set()
        for row, (kind, at, question, answer) in enumerate(rows):
            text = make.line(question, answer)
            if kind == "original":
                self.assertEqual(at, row)
            else:
                self.assertLess(at, row)
                self.assertEqual(rows[at][0], "original")
            self.assertEqual(text in seen, kind == "exact", row)
            seen.add(text)
            self.assertEqual(len(json.loads(text)["messages"]), 2)

    def test_near_copies_differ_in_one_word_of_twenty(self):
        near = 0
        for kind, at, question, answer in self.rows():
            if kind == "near":
                near += 1
                words = [*make.original(at)[0], *make.original(at)[1]]
                changed = sum(a != b for a, b in zip(words, question + answer, strict=True))
                self.assertEqual(changed, max(1, round(len(words) * 0.05)))
        self.assertGreater(near, ROWS * 0.03)

    def test_rows_are_of_the_size_and_shares_that_the_page_names(self):
        with tempfile.TemporaryDirectory() as folder:
            facts = make.make(Path(folder), ROWS, 100)
            self.assertEqual(make.make(Path(folder), ROWS, 100), facts)
            kinds = [line.split("\t")[1] for line in (Path(folder) / "truth.tsv").read_text().splitlines()]
            planted = (Path(folder) / "planted.tsv").read_text().splitlines()
            items = (Path(folder) / "items.jsonl").read_text().splitlines()
        self.assertTrue(430 < facts["bytes"] / ROWS < 490, facts)
        for kind in ("exact", "near"):
            self.assertTrue(0.04 < kinds.count(kind) / ROWS < 0.06, kind)
        self.assertEqual(len(items), 100)
        for line in planted:
            item, row = map(int, line.split("\t"))
            self.assertEqual(json.loads(items[item])["question"], " ".join(make.original(row)[0]) + "?")
        self.assertGreater(len(planted), 5)

    def test_a_longer_file_begins_with_a_shorter_one(self):
        with tempfile.TemporaryDirectory() as folder:
            short, long = Path(folder) / "short", Path(folder) / "long"
            make.make(short, 50, 10)
            make.make(long, 90, 10)
            self.assertTrue((long / "chats.jsonl").read_text().startswith((short / "chats.jsonl").read_text()))


class Scored(unittest.TestCase):
    def test_recall_counts_copies_and_precision_counts_removed_rows(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "truth.tsv").write_text("3\texact\t0\n5\tnear\t1\n6\tnear\t1\n")
            found = measure.scores(Path(folder), {3, 5, 9, 10})
            self.assertEqual(found, {"recall_near": 0.5, "recall_all": 0.6667, "precision": 0.5})
            self.assertIsNone(measure.scores(Path(folder), set())["precision"])

    def test_goals_that_are_missed_are_named(self):
        result = {"line": "exact", "who": "trainyard", "rows_per_cpu_second": 90_000, "max_rss_mib": 900}
        self.assertEqual(measure.missed(result), ["max_rss_mib 900, goal 800"])
        self.assertEqual(measure.missed(result | {"who": "polars"}), [])


class Measured(unittest.TestCase):
    def test_processes_that_outlive_their_parent_are_measured_and_ended(self):
        used = measured(HEAVY)
        self.assertEqual(used["code"], 0)
        self.assertGreater(used["max_rss_mib"], 200)
        self.assertGreater(used["cpu"], 0.05)
        self.assertLess(used["wall"], 8)

    def test_a_command_is_killed_after_its_time(self):
        used = measured("__import__('time').sleep(60)", "kill_after=0.3")
        self.assertEqual(used["code"], -9)
        self.assertTrue(0.3 < used["wall"] < 10, used)


if __name__ == "__main__":
    unittest.main()
