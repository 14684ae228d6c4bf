"""Tests of `benches/report` on small records: `python3 -m unittest discover .ci/tests`."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

REPORT = Path(__file__).resolve().parent.parent.parent / "benches/report"
INDEX = 'title = "Results"\ntext = "All figures."\nsubjects = ["speed"]\n'
SPEED = '''title = "Speed"
summary = "how fast it is"

[[series]]
name = "A step"
date = 2026-11-21
commit = "5cf84068"
machine = "two cores, idle"
n = "3 runs"
command = "bench 6"
text = "Tokens per second."
what = "shape"
columns = ["ours", "theirs"]
records = [
    { row = "small", column = "ours", value = 36712 },
    { row = "small", column = "theirs", values = [0.10, 1_200.0], unit = "s" },
    { row = "gain", column = "ours", value = +0.110, interval = [-0.002, 0.152], note = "paired" },
    { row = "gain", column = "theirs", range = [2.0, 2.7], unit = "%" },
]
notes = "Bound by memory."
'''
AGAIN = '''
[[series]]
name = "A step again"
date = 2026-11-24
recorded_by = "1b38e4d7"
machine = "not recorded"
n = "1 run"
command = ["bench 6", "bench 7"]
records = [{ row = "whole run", value = "2m23s" }]
'''
PAGE = '''# Results

All figures.

- [Speed](#speed): how fast it is; 2026-11-21 to 2026-11-24

## Speed

### A step

2026-11-21, commit `5cf84068`. Machine: two cores, idle. n: 3 runs. Command: `bench 6`

Tokens per second.

| shape | ours                            | theirs          |
| ----- | ------------------------------- | --------------- |
| small | 36,712                          | 0.10, 1,200.0 s |
| gain  | +0.110 [−0.002, 0.152] (paired) | 2.0 to 2.7%     |

Bound by memory.

### A step again

2026-11-24, recorded by `1b38e4d7`. Machine: not recorded. n: 1 run. Command: `bench 6`, `bench 7`

|           | figure |
| --------- | ------ |
| whole run | 2m23s  |
'''


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.page = self.folder / "results.md"
        self.write(SPEED + AGAIN)

    def write(self, speed):
        (self.folder / "index.toml").write_text(INDEX)
        (self.folder / "speed.toml").write_text(speed)

    def report(self, *args):
        """Exit status and output."""
        places = ["--records", self.folder, "--page", self.page]
        done = subprocess.run(
            [sys.executable, "-B", REPORT, *args, *places], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout

    def refused(self, old, new, *wanted):
        """The report refuses the records in which `new` replaces `old`, and names each of `wanted`."""
        self.assertIn(old, SPEED)
        self.write(SPEED.replace(old, new, 1))
        code, out = self.report()
        self.assertEqual(code, 1, out)
        for word in wanted:
            self.assertIn(word, out)
        self.assertFalse(self.page.exists())

    def test_a_page_has_a_table_for_each_series(self):
        self.assertEqual(self.report(), (0, ""))
        self.assertEqual(self.page.read_text(), PAGE)

    def test_check_fails_on_a_missing_and_on_a_stale_page_and_writes_nothing(self):
        self.assertEqual(self.report("--check")[0], 1)
        self.assertFalse(self.page.exists())
        self.report()
        self.assertEqual(self.report("--check"), (0, "results are up to date\n"))
        self.write(SPEED.replace("36712", "36713") + AGAIN)
        code, out = self.report("--check")
        self.assertEqual(code, 1)
        self.assertIn("just report", out)
        self.assertEqual(self.page.read_text(), PAGE)

    def test_a_series_needs_its_provenance(self):
        self.refused('machine = "two cores, idle"\n', "", "series 1 (A step)", "`machine` is missing")
        self.refused('commit = "5cf84068"\n', "", "write `commit`, or `recorded_by`")
        self.refused('commit = "5cf84068"', 'commit = "5cf84068"\nrecorded_by = "1b38e4d7"', "write `commit`, or")
        self.refused('"5cf84068"', '"main"', "at least eight digits")
        self.refused("2026-11-21", '"yesterday"', "`date` is not a date")

    def test_a_value_lies_within_its_interval(self):
        self.refused("[-0.002, 0.152]", "[-0.002, 0.1]", "record 3", "outside its interval")
        self.refused("[-0.002, 0.152]", "[0.152, -0.002]", "record 3", "the wrong way round")

    def test_a_cell_has_one_figure(self):
        self.refused('row = "gain", column = "ours"', 'row = "small", column = "ours"', "record 3", "two values")
        self.refused("value = 36712", "value = 36712, range = [1, 2]", "record 1", "one of `value`")
        self.refused("value = 36712", "value = true", "record 1", "not a number or a text")

    def test_unknown_names_are_refused(self):
        self.refused('column = "theirs"', 'column = "their"', "record 2", "`their` is not in `columns`")
        self.refused('unit = "s"', 'units = "s"', "record 2", "unknown key `units`")
        self.refused('"small"', '"small, ' + "very " * 20 + '"', "characters wide")

    def test_headings_are_unique_and_every_file_is_listed(self):
        self.write(SPEED + AGAIN.replace("A step again", "A Step"))
        self.assertIn("a second heading", self.report()[1])
        self.write(SPEED)
        (self.folder / "memory.toml").write_text(SPEED)
        self.assertIn("lacks memory", self.report()[1])

    def test_an_added_series_must_be_filled(self):
        self.assertEqual(self.report("--add", "speed")[0], 0)
        added = (self.folder / "speed.toml").read_text()
        self.assertTrue(added.startswith(SPEED + AGAIN))
        self.assertRegex(added, r'\ncommit = "[0-9a-f]{8,}"\n')
        self.assertIn("a FILL is left", self.report()[1])
        self.write(added.replace("FILL", "filled"))
        self.assertEqual(self.report(), (0, ""))
        self.assertIn("\n### filled\n", self.page.read_text())
        self.assertEqual(self.report("--add", "unknown")[0], 1)


if __name__ == "__main__":
    unittest.main()
