"""Runs commands on a local HyperQueue cluster with two cores. Usage: hyperqueue_flow.py FOLDER many|chain COUNT."""

import sys
from pathlib import Path

from hyperqueue import Job
from hyperqueue.cluster import LocalCluster, WorkerConfig

folder, shape, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
# Its default keeps stdout and stderr of each task in files, as Trainyard keeps them in its store.
job, last = Job(default_workdir=folder, max_fails=None), []
for _ in range(count):
    last = [job.program(["true"], deps=last if shape == "chain" else [])]
with LocalCluster(str(folder / "server"), WorkerConfig(cores=2)) as cluster:
    client = cluster.client()
    client.wait_for_jobs([client.submit(job)])
