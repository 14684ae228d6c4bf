"""Luigi tasks that run a command and leave a file: luigi_flow.py FOLDER many|chain COUNT."""

import subprocess
import sys
from pathlib import Path

import luigi

folder, shape, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])


class Command(luigi.Task):
    number = luigi.IntParameter()

    def requires(self):
        return [Command(number=self.number - 1)] if shape == "chain" and self.number > 0 else []

    def output(self):
        return luigi.LocalTarget(folder / f"{self.number}")

    def run(self):
        subprocess.run(["true"], check=True)
        (folder / f"{self.number}").touch()


sys.setrecursionlimit(100_000)
tasks = [Command(number=count - 1)] if shape == "chain" else [Command(number=number) for number in range(count)]
# With more than one worker Luigi forks a process for each task.
workers = 1 if shape == "chain" else 2
sys.exit(0 if luigi.build(tasks, local_scheduler=True, workers=workers, log_level="WARNING") else 1)
