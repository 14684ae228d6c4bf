"""A page server of a trainyard program, and requests to it. Standard library only, Linux."""
import http.client
import json
import re
import selectors
import socket
import subprocess
import threading
import time
import urllib.parse
from dataclasses import dataclass

from program import Failed

BEGIN = 60  # Maximum seconds until a server prints its address.
ADDRESS = re.compile(r"(http://\S+)")


@dataclass
class Response:
    """Status, seconds until the first byte and until the last one, compressed bytes."""

    status: int
    first: float
    whole: float
    size: int


@dataclass
class Address:
    """Host, port and token of a printed address."""

    host: str
    port: int
    token: str
    path: str

    @classmethod
    def of(cls, url):
        parts = urllib.parse.urlsplit(url)
        token = urllib.parse.parse_qs(parts.query).get("token", [""])[0]
        return cls(parts.hostname, parts.port, token, parts.path)

    def url(self, path, with_token=False):
        """The address of a path; with the token, which becomes a cookie, for the first page of a browser."""
        separator = "&" if "?" in path else "?"
        return f"http://{self.host}:{self.port}{path}{f'{separator}token={self.token}' if with_token else ''}"

    @property
    def headers(self):
        return {"Cookie": f"trainyard_{self.port}={self.token}", "Accept-Encoding": "gzip"}


def printed_address(path, process):
    """Waits for the address in the file that has a program's standard error."""
    end = time.monotonic() + BEGIN
    while time.monotonic() < end:
        if found := ADDRESS.search(path.read_text(errors="replace")):
            return Address.of(found[1])
        if process is not None and process.poll() is not None:
            break
        time.sleep(0.02)
    raise Failed(f"no address in {path}:\n{path.read_text(errors='replace')[-2000:]}")


class PageServer:
    """`trainyard pages`, or another command that serves pages, in a folder with a store."""

    def __init__(self, program, place, *words):
        words = words or ("pages", "--pages-bind", "127.0.0.1:0")
        self.errors = place / "server.txt"
        self.out = open(self.errors, "w")
        command = [str(program.path), *words]
        self.process = subprocess.Popen(command, cwd=place, env=program.env, stdout=self.out, stderr=self.out)
        try:
            self.address = printed_address(self.errors, self.process)
        except Failed:
            self.stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.out.close()

    def memory(self):
        """The largest resident size so far in MiB."""
        with open(f"/proc/{self.process.pid}/status") as status:
            lines = [line for line in status if line.startswith("VmHWM:")]
        return int(lines[0].split()[1]) / 1024

    def get(self, path):
        """Requests a page, compressed."""
        return get(self.address, path)

    def text(self, path):
        """The text of a page, with another status than 200 as a failure."""
        connection = http.client.HTTPConnection(self.address.host, self.address.port, timeout=60)
        headers = self.address.headers | {"Accept-Encoding": "identity"}
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        body = response.read().decode()
        connection.close()
        if response.status != 200:
            raise Failed(f"{path} has status {response.status}:\n{body[-2000:]}")
        return body


def get(address, path):
    connection = http.client.HTTPConnection(address.host, address.port, timeout=60)
    connection.connect()
    began = time.monotonic()
    connection.request("GET", path, headers=address.headers)
    response = connection.getresponse()
    first = time.monotonic() - began
    body = response.read()
    whole = time.monotonic() - began
    connection.close()
    if response.status != 200:
        raise Failed(f"{path} has status {response.status}")
    if response.getheader("content-encoding") != "gzip":
        raise Failed(f"{path} is not compressed")
    return Response(response.status, first, whole, len(body))


def events_of(address, run):
    """An open connection to the events of a run, after its head."""
    connection = socket.create_connection((address.host, address.port), timeout=60)
    head = "".join(f"{name}: {value}\r\n" for name, value in address.headers.items() if name == "Cookie")
    request = f"GET /runs/{run}/events HTTP/1.1\r\nHost: {address.host}:{address.port}\r\n{head}\r\n"
    connection.sendall(request.encode())
    return connection


class Watchers(threading.Thread):
    """Open pages of a run: each keeps a connection for events and drops what arrives."""

    def __init__(self, errors, run_of, count):
        super().__init__(daemon=True)
        self.errors, self.run_of, self.count = errors, run_of, count
        self.received, self.opened, self.failure = 0, 0, None
        self.done = threading.Event()

    def run(self):
        try:
            self.watch()
        except (Failed, OSError) as failure:
            self.failure = failure

    def watch(self):
        address = printed_address(self.errors, None)
        run = self.run_of(address)
        chooser = selectors.DefaultSelector()
        for _ in range(self.count):
            connection = events_of(address, run)
            connection.setblocking(False)
            chooser.register(connection, selectors.EVENT_READ)
            self.opened += 1
        while chooser.get_map() and not self.done.is_set():
            for key, _ in chooser.select(timeout=0.2):
                self.read(chooser, key.fileobj)
        for key in list(chooser.get_map().values()):
            key.fileobj.close()

    def read(self, chooser, connection):
        try:
            received = connection.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        self.received += len(received)
        if not received:
            chooser.unregister(connection)
            connection.close()


def messages(connection):
    """The messages of a stream of events: time of arrival, and the object. Ends with the connection."""
    kept, is_begun = b"", False
    while received := connection.recv(65536):
        at = time.time()
        kept += received
        if not is_begun and not kept.startswith(b"HTTP/1.1 200 "):
            raise Failed(f"the events of a run are refused:\n{kept.decode(errors='replace')[:2000]}")
        is_begun = True
        *lines, kept = kept.split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                try:
                    yield at, json.loads(line[5:])
                except json.JSONDecodeError:
                    continue
