"""Tests of `.ci/circles` on small crates: `python3 -m unittest discover .ci/tests`."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CIRCLES = Path(__file__).resolve().parent.parent / "circles"

# A `mod.rs` that declares and re-exports its children, a child that uses its parent's items and its sibling's through
# the re-export, and a module that uses both by the parent's name.
SOUND = {
    "lib.rs": "pub mod filter;\npub mod run;\npub use filter::Rule;\n",
    "filter/mod.rs": "pub mod length;\nmod rule;\npub use rule::Rule;\npub const MOST: usize = 8;\n",
    "filter/rule.rs": "pub trait Rule {}\n",
    "filter/length.rs": "use super::{MOST, Rule};\npub struct Length([u8; MOST]);\nimpl Rule for Length {}\n",
    "run.rs": "use crate::Rule;\npub fn run(_: &dyn Rule) -> crate::filter::length::Length { loop {} }\n",
}


def circles(files):
    """Exit status and output of the check on a crate of these files."""
    with tempfile.TemporaryDirectory() as house:
        crate = Path(house) / "crate"
        for name, text in files.items():
            path = crate / "src" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (crate / "Cargo.toml").write_text("")
        done = subprocess.run([sys.executable, "-B", CIRCLES, house], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.splitlines()


class Circles(unittest.TestCase):
    def test_parents_with_their_children_are_no_circles(self):
        self.assertEqual(circles(SOUND), (0, ["no circles"]))

    def test_a_circle_of_files_within_a_module(self):
        files = {**SOUND, "filter/rule.rs": "use super::length::Length;\npub trait Rule { fn of() -> Length; }\n"}
        self.assertEqual(circles(files), (1, [
            "circle of files in crate:",
            "  crate/src/filter/length.rs uses filter::rule (super::Rule)",
            "  crate/src/filter/rule.rs uses filter::length (super::length::Length)",
            "circle of modules in crate: filter::length, filter::rule",
            "  crate/src/filter/length.rs uses filter::rule (super::Rule)",
            "  crate/src/filter/rule.rs uses filter::length (super::length::Length)",
        ]))

    def test_a_circle_of_a_parent_and_its_child(self):
        files = {**SOUND, "filter/mod.rs": SOUND["filter/mod.rs"] + "pub fn all() -> length::Length { loop {} }\n"}
        status, lines = circles(files)
        self.assertEqual((status, lines[0], len(lines)), (1, "circle of files in crate:", 3))

    def test_a_circle_of_modules_by_re_exports(self):
        # No file uses another in a circle: `run` uses `filter/rule.rs`, and only `filter/length.rs` uses `run`.
        files = {**SOUND, "run.rs": "use crate::filter::Rule;\npub type Run = Box<dyn Rule>;\n"}
        files["filter/length.rs"] += "pub fn start(_: crate::run::Run) {}\n"
        self.assertEqual(circles(files), (1, [
            "circle of modules in crate: filter, run",
            "  crate/src/filter/length.rs uses run (crate::run::Run)",
            "  crate/src/run.rs uses filter (crate::filter::Rule)",
        ]))

    def test_a_re_export_of_a_sibling_is_a_use(self):
        files = {**SOUND, "filter/mod.rs": SOUND["filter/mod.rs"] + "pub use crate::run::run;\n"}
        status, lines = circles(files)
        self.assertEqual((status, lines[0]), (1, "circle of modules in crate: filter, run"))
        self.assertIn("  crate/src/filter/mod.rs uses run (crate::run::run)", lines)

    def test_tests_do_not_count(self):
        tests = "#[cfg(test)]\nmod tests { use crate::run::run; }\n"
        self.assertEqual(circles({**SOUND, "filter/rule.rs": SOUND["filter/rule.rs"] + tests}), (0, ["no circles"]))


if __name__ == "__main__":
    unittest.main()
