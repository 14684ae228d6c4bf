"""A Dagster job of commands in one process, with an instance in memory: dagster_flow.py FOLDER many|chain COUNT."""

import subprocess
import sys

from dagster import DagsterInstance, In, Nothing, graph, op

shape, count = sys.argv[2], int(sys.argv[3])


@op(ins={"before": In(Nothing)})
def command():
    subprocess.run(["true"], check=True)


@op
def first():
    subprocess.run(["true"], check=True)


@graph
def commands():
    last = None
    for number in range(count):
        if shape == "chain" and last is not None:
            last = command.alias(f"command_{number}")(last)
        else:
            last = first.alias(f"command_{number}")()


result = commands.execute_in_process(instance=DagsterInstance.ephemeral())
sys.exit(0 if result.success else 1)
