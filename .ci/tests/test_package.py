"""Tests of `.ci/package`: `python3 -m unittest discover .ci/tests`."""
import argparse
import unittest
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path


def load_script():
    path = Path(__file__).resolve().parent.parent / "package"
    loader = SourceFileLoader("package", str(path))
    module = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


package = load_script()


class NewestGlibc(unittest.TestCase):
    def test_a_version_is_read_as_its_minor_number(self):
        self.assertEqual(package.glibc("2.28"), 28)

    def test_another_text_is_refused(self):
        for text in ("", "28", "2.28.1", "3.1"):
            with self.assertRaisesRegex(argparse.ArgumentTypeError, "no version of glibc"):
                package.glibc(text)

    def test_a_program_of_the_same_or_an_older_glibc_is_accepted(self):
        for platform, newest in (("manylinux_2_28_x86_64", 28), ("manylinux_2_17_aarch64", 28), ("linux_x86_64", None)):
            package.allow_glibc(platform, newest)

    def test_a_program_of_a_newer_glibc_or_of_one_machine_is_refused(self):
        for platform in ("manylinux_2_35_x86_64", "linux_x86_64"):
            with self.assertRaisesRegex(SystemExit, rf"is for {platform}, and --glibc allows 2\.28"):
                package.allow_glibc(platform, 28)


if __name__ == "__main__":
    unittest.main()
