"""A Prefect flow of commands, with its results kept by their inputs: prefect_flow.py FOLDER many|chain COUNT."""

import subprocess
import sys

from prefect import flow, task
from prefect.cache_policies import INPUTS
from prefect.task_runners import ThreadPoolTaskRunner


@task(cache_policy=INPUTS, persist_result=True)
def command(number, before=None):
    subprocess.run(["true"], check=True)
    return number


@flow(task_runner=ThreadPoolTaskRunner(max_workers=2))
def commands(shape, count):
    if shape == "chain":
        last = None
        for number in range(count):
            last = command(number, last)
    else:
        for future in [command.submit(number) for number in range(count)]:
            future.result()


commands(sys.argv[2], int(sys.argv[3]))
