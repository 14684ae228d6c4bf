"""Runs a command and measures it with all its processes. Standard library only, Linux."""
import ctypes
import os
import resource
import select
import signal
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
INTERVAL = 0.05


@dataclass
class Usage:
    """Seconds of a command and of all its processes, and the largest resident size of one of them."""

    code: int
    wall: float
    user: float
    system: float
    max_rss_mib: float

    @property
    def cpu(self):
        return self.user + self.system

    def figures(self):
        return {key: round(value, 3) for key, value in asdict(self).items() if key != "code"} | {
            "cpu": round(self.cpu, 3)
        }


def adopt():
    """Makes this process the parent of processes whose own parent has ended, so that they are measured too."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def children():
    """The processes of this machine by parent."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int(entry.joinpath("stat").read_bytes().rpartition(b")")[2].split()[1])
            except OSError:
                continue
            found.setdefault(parent, []).append(int(entry.name))
    return found


def descendants(pid):
    by_parent, found, queue = children(), [], [pid]
    while queue:
        below = by_parent.get(queue.pop(), [])
        found += below
        queue += below
    return found


def high_water(pid):
    """The largest resident size that a process had, in KiB; 0 if it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    lines = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(lines[0].split()[1]) if lines else 0


def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def measure(command, kill_after=None, **how):
    """Runs a command to its end, or kills it and all its processes by SIGKILL after some seconds.

    Returns its usage. The code of a killed command is -9. A size is sampled where the kernel does not keep it: of
    processes without a parent that waits, and below the size of this process.
    """
    adopt()
    began = time.monotonic()
    process = subprocess.Popen(command, **how)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # The kernel counts the memory of this process, from before the start of the command, as the command's.
    inherited = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    largest, ended = 0, select.poll()
    handle = os.pidfd_open(process.pid)
    ended.register(handle, select.POLLIN)
    while not ended.poll(INTERVAL * 1000):
        pids = [process.pid, *descendants(process.pid)]
        largest = max([largest, *map(high_water, pids)])
        if kill_after is not None and time.monotonic() - began > kill_after:
            kill(pids)
    os.close(handle)
    _, status, usage = os.wait4(process.pid, 0)
    largest = max(largest, usage.ru_maxrss if usage.ru_maxrss > inherited else 0)
    code = process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - began
    reap()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    return Usage(code, wall, user, system, largest / 1024)


def reap():
    """Waits for the processes that the command left. Those that still run are killed."""
    kill(descendants(os.getpid()))
    while True:
        try:
            os.wait4(-1, 0)
        except ChildProcessError:
            return
