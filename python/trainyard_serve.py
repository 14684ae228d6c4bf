"""The server of `trainyard_bridge.serve`: the functions of a program over HTTP.

It lies beside `trainyard_bridge.py`, of the same version. A request is what a program reads as a line, with the `hello`
of the part that asks; what a session asked twice is done once (`docs/custom-code.md`).
"""

from __future__ import annotations

import hmac
import json
import socketserver
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Optional

import trainyard_bridge as bridge

bridge._own_files.add(__file__)

# Bytes of a request.
MOST = 64 << 20
# Parts whose operations are kept; those of a part that was dropped are made again when it asks.
PARTS = 1000
# Names of this machine in `Host` and `Origin`.
LOCAL = ("localhost", "127.0.0.1", "[::1]")


def is_local(host: str) -> bool:
    """Whether a host, with or without a port, is a name of this machine."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host) in LOCAL


class Refusal(Exception):
    """A request that no operation answers: a status and words."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class Session:
    """A session of somebody who asks a server, with the last answer: what was asked twice is done once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.last: Any = None
        self.answer = b""
        self.used = 0.0


class Server:
    """What a server knows: the operations of each part that asks, and their sessions."""

    def __init__(self, parallel: bool, keep: float) -> None:
        self.lock, self.turn = threading.Lock(), threading.Lock()
        self.parallel, self.keep = parallel, keep
        self.parts: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {}
        self.sessions: dict[tuple[str, Any], Session] = {}

    def part(self, told: dict[str, Any]) -> str:
        """The key of what `hello` says, whose operations are known from then on."""
        given = {"name": told.get("name", ""), "options": told.get("options"), "seed": told.get("seed", 0)}
        key = json.dumps([told.get("role", ""), given], sort_keys=True)
        with self.lock:
            known = self.parts.pop(key, None)
            if known is None:
                before = bridge._served.set(given)
                try:
                    known = (given, *bridge._operations(told.get("role", "")))
                finally:
                    bridge._served.reset(before)
            # The last one of the map is the one that was used last.
            self.parts[key] = known
            if len(self.parts) > PARTS:
                self.forget()
        return key

    def forget(self) -> None:
        """Drops the part that has asked nothing for the longest time and has no session."""
        busy = {key for key, _ in self.sessions}
        idle = next((key for key in list(self.parts)[:-1] if key not in busy), None)
        if idle is None:
            raise Refusal(503, f"more than {PARTS} parts have sessions")
        del self.parts[idle]

    def answer(self, line: Any) -> bytes:
        """The line that answers a line. Raises `Refusal` for what is no request, or of a session that is gone."""
        if not isinstance(line, dict):
            raise Refusal(400, "a request is a map")
        if line.get("type") == "hello":
            return self.greet(line)
        if not isinstance(line.get("hello"), dict) or "id" not in line or "op" not in line:
            raise Refusal(400, "a request has `id`, `op` and `hello`")
        try:
            key = self.part(line["hello"])
        except Refusal:
            raise
        except Exception as error:
            return bridge._encoded({"id": line["id"], "error": bridge._raised(error)})
        if "session" in line:
            return self.in_session(key, line)
        return self.run(key, line)

    def greet(self, line: dict[str, Any]) -> bytes:
        try:
            if line.get("protocol") != bridge.PROTOCOL:
                version = line.get("protocol")
                raise RuntimeError(f"this bridge speaks version {bridge.PROTOCOL} of the protocol, not {version}")
            more = self.parts[self.part(line)][2]
        except Refusal:
            raise
        except Exception as error:
            return bridge._encoded({"type": "error", "error": {"type": type(error).__name__, "message": str(error)}})
        return bridge._encoded({"type": "ready", "protocol": bridge.PROTOCOL, "repeats": True, **more})

    def run(self, key: str, line: dict[str, Any]) -> bytes:
        given, operations, _ = self.parts[key]
        before = bridge._served.set(given)
        try:
            operation = operations.get(line["op"])
            if operation is None:
                raise NotImplementedError(f"no operation `{line['op']}`")
            if self.parallel:
                result = operation(line)
            else:
                with self.turn:
                    result = operation(line)
            return bridge._encoded({"id": line["id"], "result": result})
        except Exception as error:
            return bridge._encoded({"id": line["id"], "error": bridge._raised(error)})
        finally:
            bridge._served.reset(before)

    def in_session(self, key: str, line: dict[str, Any]) -> bytes:
        place, op = (key, line["session"]), line["op"]
        begins = op in ("start", "fork")
        if begins:
            self.sweep()
        with self.lock:
            if op == "fork" and (key, line.get("from")) not in self.sessions:
                raise Refusal(410, "the session to copy is not known")
            if begins:
                self.sessions.setdefault(place, Session())
            session = self.sessions.pop(place, None) if op == "close" else self.sessions.get(place)
        if session is None:
            if op == "close":
                return bridge._encoded({"id": line["id"], "result": None})
            raise Refusal(410, "the session is not known")
        with session.lock:
            if session.last != line["id"]:
                session.answer, session.last = self.run(key, line), line["id"]
            session.used = time.monotonic()
            return session.answer

    def sweep(self) -> None:
        """Ends sessions whose asker is gone."""
        with self.lock:
            old = [place for place, known in self.sessions.items() if 0 < known.used < time.monotonic() - self.keep]
            for place in old:
                del self.sessions[place]
        for key, session in old:
            if key not in self.parts:
                continue
            self.run(key, {"id": 0, "op": "close", "session": session})


def handler(known: Server, token: Optional[str]) -> Any:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version = "trainyard_bridge"
        disable_nagle_algorithm = True
        wbufsize = -1
        # Longer than askers keep a connection that they do not use.
        timeout = 300

        def do_GET(self) -> None:
            self.say(200, b'"requests of Trainyard are answered here, by POST"')

        def do_POST(self) -> None:
            try:
                self.say(200, known.answer(self.line()))
            except Refusal as refusal:
                # What was not read must not be taken for the next request.
                self.close_connection = refusal.status in (401, 403, 411, 413, 415)
                self.say(refusal.status, bridge._encoded({"error": str(refusal)}))
            except (LookupError, TypeError, ValueError, RecursionError) as error:
                self.say(400, bridge._encoded({"error": f"this is no request: {error!r}"}))

        def admit(self) -> None:
            """Refuses requests without the token. Without one, a web page must not use the server: neither one whose
            domain leads to this machine, which its browser names in `Host`, nor one of another origin."""
            if token is not None:
                shown = self.headers.get("Authorization", "")
                if not hmac.compare_digest(shown.encode(), f"Bearer {token}".encode()):
                    raise Refusal(401, "the key is not the one of this server")
            else:
                origin = self.headers.get("Origin")
                if not is_local(self.headers.get("Host", "")):
                    raise Refusal(403, "the request names another host: use http://127.0.0.1, or give a token")
                if origin is not None and not is_local(origin.partition("://")[2]):
                    raise Refusal(403, "the request comes from a page of another origin")
            # Pages send this type to another origin only if the server permits it first, which this one does not.
            if self.headers.get_content_type() != "application/json":
                raise Refusal(415, "a request has the content type application/json")

        def line(self) -> Any:
            """The request."""
            self.admit()
            length = self.headers.get("Content-Length", "")
            if not (length.isascii() and length.isdigit()):
                raise Refusal(411, "a request says how long it is")
            if int(length) > MOST:
                raise Refusal(413, f"a request has at most {MOST} bytes")
            body = self.rfile.read(int(length))
            try:
                return json.loads(body)
            except ValueError:
                raise Refusal(400, "the request is no JSON") from None

        def say(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Every request would be a line."""

    return Handler


def listen(port: int, host: str, token: Optional[str], known: Server) -> None:
    """Answers requests until it is interrupted."""

    class Listener(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def server_bind(self) -> None:
            # The name of the host, which the class above looks up, is for nobody.
            socketserver.TCPServer.server_bind(self)
            self.server_name, self.server_port = host, self.server_address[1]

    if not token and not (host.startswith("127.") or host in ("localhost", "::1")):
        raise ValueError(f"{host} is reachable from the network: give a token, or listen on 127.0.0.1")
    with Listener((host, port), handler(known, token)) as server:
        print(f"listening for Trainyard at http://{host}:{server.server_address[1]}/", file=sys.stderr, flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass
