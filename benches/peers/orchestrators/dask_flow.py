"""Two Dask workers of one thread each, and commands on them: dask_flow.py FOLDER many|chain COUNT."""

import subprocess
import sys

from dask.distributed import Client, LocalCluster


def command(*_):
    subprocess.run(["true"], check=True)


if __name__ == "__main__":
    shape, count = sys.argv[2], int(sys.argv[3])
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        if shape == "chain":
            last = None
            for number in range(count):
                last = client.submit(command, last, number)
            last.result()
        else:
            client.gather(client.map(command, range(count)))
