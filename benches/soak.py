#!/usr/bin/env python3
"""Ten minutes of two daemons on one store, among kills, a bucket that does not respond, and half-open connections.

usage: benches/soak.py PROGRAM [--seconds 600] [--schedules 1000] [--sockets 2000] [--seed 1] [--folder FOLDER]

A thousand schedules fire two ticks a second in all. Twenty more watch a bucket whose server accepts no connection. Two
thousand clients send half of a request's head and are replaced when the server closes them. Every 15 to 30 seconds one
of the daemons is killed by SIGKILL and started again. At the end each tick of the time that was watched has one run,
which began once, and was fired at most five seconds late.

With --folder, a soak that was interrupted goes on where it was when the same command is given again; ticks that came
due in between are caught up and not judged by their time. Needs only the standard library.
"""
import argparse
import collections
import contextlib
import datetime
import json
import os
import pathlib
import random
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time

LATE = 5.0
# After its start a daemon reads its files; ticks of this time are not judged.
SETTLE = 10.0
WATCHERS = 20
HALF = b"GET /api/v1/runs HTTP/1.1\r\nhost: local"
TICKING = """version: 1
name: {name}
params: {{tick: {{type: string, default: ""}}}}
schedule: {{cron: "{cron}", catchup: all, overlap: queue}}
stages:
  one: {{uses: noop, description: "${{{{ params.tick }}}}"}}
"""
WATCHING = """version: 1
name: {name}
schedule: {{on: {{files: "s3://{name}/incoming"}}}}
stages:
  one: {{uses: noop}}
"""


class Pattern:
    """A second of each minute, or of every tenth minute."""

    def __init__(self, number, schedules):
        # A schedule of each minute has a sixtieth, one of every tenth minute a six-hundredth of a tick a second.
        self.each_minute = number < max(0, round((2 * 600 - schedules) / 9))
        self.second = number % 60
        self.minute = number // 60 % 10

    def cron(self):
        minutes = "*" if self.each_minute else ",".join(str(minute) for minute in range(self.minute, 60, 10))
        return f"{self.second} {minutes} * * * *"

    def due(self, begin, end):
        """Returns the Unix times in milliseconds of the ticks from begin to end."""
        seconds = range(int(begin) + 1, int(end) + 1)
        fits = lambda at: at % 60 == self.second and (self.each_minute or at // 60 % 10 == self.minute)
        return [at * 1000 for at in seconds if fits(at)]


class Clients:
    """Half-open connections to the daemons."""

    def __init__(self, ports, count):
        self.ports, self.count, self.open, self.made = ports, count, [], 0

    def refresh(self):
        """Drops the connections that the servers closed, and opens others, at most 200 a call."""
        self.open = [client for client in self.open if is_open(client)]
        for _ in range(min(200, self.count - len(self.open))):
            client = socket.socket()
            client.settimeout(0.2)
            try:
                client.connect(("127.0.0.1", self.ports[self.made % len(self.ports)]))
                client.sendall(HALF)
            except OSError:
                client.close()
            else:
                client.setblocking(False)
                self.open.append(client)
            self.made += 1

    def close(self):
        for client in self.open:
            client.close()


def is_open(client):
    try:
        if client.recv(4096):
            return True
    except BlockingIOError:
        return True
    except OSError:
        pass
    client.close()
    return False


class Daemons:
    """Two daemons on one store."""

    def __init__(self, program, folder, ports, bucket):
        self.program, self.folder, self.ports = program, folder, ports
        # Not inherited: secrets of the user, and settings of another site.
        self.environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        self.environment |= {
            "TRAINYARD_HOME": str(folder / "home"), "AWS_ENDPOINT_URL": bucket, "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key-of-a-dead-bucket",
        }
        self.processes = [None, None]

    def start(self, which):
        command = [
            self.program, "serve", "--workflows", "workflows", "--store", str(self.folder / "store"), "--no-token",
            "--bind", f"127.0.0.1:{self.ports[which]}",
        ]
        with open(self.folder / f"daemon{which}.log", "ab") as log:
            self.processes[which] = subprocess.Popen(
                command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )

    def kill(self, which):
        self.processes[which].kill()
        self.processes[which].wait()

    def expect_alive(self):
        for which, process in enumerate(self.processes):
            if process.poll() is not None:
                sys.exit(f"daemon {which} ended with {process.returncode}; see {self.folder}/daemon{which}.log")

    def stop(self):
        for process in self.processes:
            if process and process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            if process:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(60)
                process.kill()
                process.wait()


def objects(folder):
    # A put that was killed leaves its bytes under a name with `#`, which no reader opens.
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.is_file() and "#" not in path.name)


def records(folder):
    return [json.loads(path.read_text()) for path in objects(folder / "log")]


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def write_workflows(folder, patterns):
    (folder / "workflows").mkdir(parents=True, exist_ok=True)
    for name, pattern in patterns.items():
        (folder / "workflows" / f"{name}.yaml").write_text(TICKING.format(name=name, cron=pattern.cron()))
    for number in range(WATCHERS):
        (folder / "workflows" / f"dead-{number}.yaml").write_text(WATCHING.format(name=f"dead-{number}"))


def wait_until_defined(folder, patterns, daemons):
    for _ in range(300):
        daemons.expect_alive()
        if all(objects(folder / "store" / "schedules" / name / "log") for name in patterns):
            return
        time.sleep(1)
    sys.exit("not every schedule was defined within five minutes")


class Periods:
    """Times that were watched, in a file, so that an interrupted soak goes on."""

    def __init__(self, folder):
        self.path = folder / "periods.json"
        self.all = json.loads(self.path.read_text()) if self.path.exists() else []

    def begin(self, now):
        self.all.append({"begin": now, "end": now, "kills": 0, "clients": 0})

    def update(self, **values):
        self.all[-1].update(values)
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(self.all))
        partial.replace(self.path)

    def seconds(self):
        return sum(period["end"] - period["begin"] for period in self.all)

    def total(self, name):
        return sum(period[name] for period in self.all)


def watch(daemons, clients, periods, seconds, draw):
    """Kills daemons and keeps clients until the watched time is over."""
    periods.begin(time.time())
    kills, restart, next_kill = 0, None, time.time() + draw.uniform(15, 30)
    while periods.seconds() < seconds:
        now = time.time()
        if restart and now >= restart[0]:
            daemons.start(restart[1])
            restart, next_kill = None, now + draw.uniform(15, 30)
        elif restart is None and now >= next_kill:
            which = draw.randrange(2)
            daemons.kill(which)
            kills, restart = kills + 1, (now + draw.uniform(0, 3), which)
        elif restart is None:
            daemons.expect_alive()
        clients.refresh()
        periods.update(end=time.time(), kills=kills, clients=clients.made)
        time.sleep(0.5)
    if restart:
        daemons.start(restart[1])


def settle(folder, patterns):
    """Waits until no run of a fired tick is open."""
    for _ in range(300):
        open_runs = 0
        for name in patterns:
            log = records(folder / "store" / "schedules" / name)
            ended = {record["run"] for record in log if record["type"] == "ended"}
            open_runs += sum(record["type"] == "fired" and record["run"] not in ended for record in log)
        # Schedules of each minute always have a young run.
        if open_runs <= 5:
            return
        time.sleep(1)


def judge(folder, patterns, periods):
    """Returns the numbers of the soak, and what was wrong."""
    wrong, late, fired, claimed = [], [], 0, set()
    runs = {path.name: path for path in folder.glob("store/runs/*/*") if path.is_dir()}
    for name, pattern in patterns.items():
        log = records(folder / "store" / "schedules" / name)
        ticks = collections.defaultdict(list)
        for record in (record for record in log if record["type"] == "fired"):
            fired += 1
            ticks[record["tick"]["at"]].append(record)
            if record.get("passed_over"):
                wrong.append(f"{name}: {record['passed_over']} ticks were passed over")
            if record["run"] in claimed:
                wrong.append(f"run {record['run']} has two ticks")
            claimed.add(record["run"])
        wrong += [f"{name}: tick {at} fired {len(many)} times" for at, many in ticks.items() if len(many) > 1]
        for period in periods.all:
            for at in pattern.due(period["begin"] + SETTLE, period["end"] - LATE):
                when = datetime.datetime.fromtimestamp(at / 1000, datetime.timezone.utc).isoformat()
                if at not in ticks:
                    wrong.append(f"{name}: no tick at {when}")
                    continue
                late.append((ticks[at][0]["at"] - at) / 1000)
                if late[-1] > LATE:
                    wrong.append(f"{name}: the tick at {when} fired {late[-1]:.1f} s late")
    for run in claimed & runs.keys():
        begins = sum(
            json.loads(line).get("type") == "run_created"
            for batch in objects(runs[run] / "journal") for line in batch.read_text().splitlines()
        )
        if begins != 1:
            wrong.append(f"run {run} began {begins} times")
    wrong += [f"run {run} belongs to no tick" for run in runs.keys() - claimed]
    return fired, sorted(late), wrong


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--schedules", type=int, default=1000)
    parser.add_argument("--sockets", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=pathlib.Path)
    return parser.parse_args()


def main():
    given = arguments()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and hard < given.sockets + 200:
        sys.exit(f"{given.sockets} sockets need more open files than {hard}: raise `ulimit -Hn`, or give --sockets")
    with contextlib.ExitStack() as stack:
        folder = given.folder or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
        folder = folder.resolve()
        patterns = {f"s{number}": Pattern(number, given.schedules) for number in range(given.schedules)}
        write_workflows(folder, patterns)
        # The kernel completes connections, which nothing accepts.
        bucket = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        ports = free_ports(2)
        daemons = Daemons(given.program.resolve(), folder, ports, f"http://127.0.0.1:{bucket.getsockname()[1]}")
        stack.callback(daemons.stop)
        clients = Clients(ports, given.sockets)
        stack.callback(clients.close)
        periods = Periods(folder)
        for which in range(2):
            daemons.start(which)
        wait_until_defined(folder, patterns, daemons)
        watch(daemons, clients, periods, given.seconds, random.Random(f"{given.seed} {len(periods.all)}"))
        clients.close()
        settle(folder, patterns)
        daemons.stop()
        fired, late, wrong = judge(folder, patterns, periods)
    worst = late[-1] if late else 0.0
    common = late[len(late) * 99 // 100] if late else 0.0
    print(
        f"{given.schedules} schedules, {periods.seconds():.0f} s: {fired} ticks, {len(late)} judged by their time, "
        f"99% within {common:.2f} s, all within {worst:.2f} s; {periods.total('kills')} kills, "
        f"{periods.total('clients')} half-open clients; wrong: {len(wrong)}"
    )
    print("\n".join(wrong[:20]))
    sys.exit(bool(wrong) or not late)


if __name__ == "__main__":
    main()
