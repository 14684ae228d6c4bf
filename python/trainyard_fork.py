"""Forks the processes of a Python program from one process that has imported its packages.

    python3 trainyard_fork.py agent.py

Trainyard starts it in a folder with the files of the program; nobody else needs it. It imports what the program imports
from outside of that folder, and says whether forking is safe. Then each request, with two pipes for output, starts the
program in a fork: with the folder, arguments and variables of the request, in a process group of its own.
"""

from __future__ import annotations

import ast
import builtins
import ctypes
import gc
import importlib
import json
import os
import random
import select
import signal
import socket
import sys
import traceback
import types
from importlib.machinery import SourceFileLoader
from typing import Any, Optional


def imported(path: str, seen: set[str]) -> list[str]:
    """The modules outside of its folder that a file imports at once, and those that its own modules import."""
    if path in seen:
        return []
    seen.add(path)
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return []
    found: list[str] = []
    for name in named(tree.body):
        own = own_files(os.path.dirname(path), name)
        if own:
            found.extend(module for file_ in own for module in imported(file_, seen))
        else:
            found.append(name)
    return found


def named(body: list[ast.stmt]) -> list[str]:
    """The modules that statements import, without those of functions and classes."""
    found: list[str] = []
    for statement in body:
        if isinstance(statement, ast.Import):
            found.extend(alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            found.append(statement.module)
        elif isinstance(statement, ast.Try):
            found.extend(named(statement.body))
    return found


def own_files(folder: str, module: str) -> list[str]:
    """The files of the folder that an import of a module may run; none if it is a module from elsewhere."""
    top = os.path.join(folder, module.split(".")[0])
    if os.path.isfile(top + ".py"):
        return [top + ".py"]
    if not os.path.isdir(top):
        return []
    return [os.path.join(at, name) for at, _, names in os.walk(top) for name in sorted(names) if name.endswith(".py")]


def preload(script: str) -> None:
    """Imports the packages of a program. An import that fails does so again in the program, which says it."""
    folder = os.path.dirname(script)
    for name in imported(script, set()):
        try:
            importlib.import_module(name)
        except (Exception, SystemExit):
            pass
    # A module of the program is imported by each process itself: it may read its variables then.
    for name, module in list(sys.modules.items()):
        if name != "__main__" and (getattr(module, "__file__", None) or "").startswith(folder + os.sep):
            del sys.modules[name]


def danger() -> str:
    """Why a fork of this process is not safe; empty if it is."""
    if not sys.platform.startswith("linux"):
        return f"processes of {sys.platform} are not forked"
    threads = len(os.listdir("/proc/self/task"))
    return f"its imports started {threads - 1} threads" if threads > 1 else ""


class Server:
    """The process with the imported packages."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.running: dict[int, int] = {}
        self.woken, self.wakes = os.pipe()
        for end in (self.woken, self.wakes):
            os.set_blocking(end, False)

    def say(self, message: dict[str, Any]) -> None:
        try:
            self.control.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            # Nobody listens any more, which `receive` notices.
            pass

    def serve(self) -> Optional[dict[str, Any]]:
        """Forks until the control closes; returns the request in a forked process, and None at the end."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wakes, warn_on_full_buffer=False)
        watched: list[Any] = [self.control, self.woken]
        while True:
            ready, _, _ = select.select(watched, [], [])
            if self.woken in ready:
                self.reap()
            if self.control in ready:
                received = self.receive()
                if received is None:
                    self.end()
                    return None
                request, pipes = received
                if self.fork(request, pipes):
                    return request

    def receive(self) -> Optional[tuple[dict[str, Any], list[int]]]:
        """The next request with its two pipes: its length in four bytes, which bring the pipes, and JSON."""
        try:
            head, pipes, _, _ = socket.recv_fds(self.control, 4, 2)
        except OSError:
            return None
        if len(head) < 4:
            return None
        left, parts = int.from_bytes(head, "big"), []
        while left:
            part = self.control.recv(left)
            if not part:
                return None
            parts.append(part)
            left -= len(part)
        return json.loads(b"".join(parts)), pipes

    def fork(self, request: dict[str, Any], pipes: list[int]) -> bool:
        """Starts a process; whether this is the new one."""
        sys.stdout.flush()
        sys.stderr.flush()
        server = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            self.say({"id": request["id"], "failed": str(error)})
            pid = -1
        if pid == 0:
            self.become(request, pipes, server)
            return True
        for pipe in pipes:
            os.close(pipe)
        if pid > 0:
            self.running[pid] = request["id"]
            try:
                os.setpgid(pid, pid)
            except OSError:
                # The process has done it already, or has ended.
                pass
            self.say({"id": request["id"], "pid": pid})
        return False

    def become(self, request: dict[str, Any], pipes: list[int], server: int) -> None:
        """Gives the new process what a started one would have, and takes what belongs to the server."""
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if LIBC is not None:
            LIBC.prctl(1, signal.SIGKILL)
        if os.getppid() != server:
            os._exit(1)
        self.control.close()
        os.close(self.woken)
        os.close(self.wakes)
        os.dup2(pipes[0], 1)
        os.dup2(pipes[1], 2)
        for pipe in pipes:
            os.close(pipe)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["variables"])
        random.seed()
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed()

    def reap(self) -> None:
        """Tells of the processes that have ended."""
        try:
            while os.read(self.woken, 4096):
                pass
        except BlockingIOError:
            pass
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self.running:
                self.say({"id": self.running.pop(pid), "status": status})

    def end(self) -> None:
        for pid in self.running:
            try:
                os.killpg(pid, signal.SIGKILL)
            except OSError:
                pass


def load_libc() -> Any:
    try:
        return ctypes.CDLL(None)
    except OSError:
        return None


LIBC = load_libc()


def shown(kind: type[BaseException], error: BaseException, trace: Optional[types.TracebackType]) -> None:
    """Prints an exception of the program without the frames of this file."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    traceback.print_exception(kind, error, trace)


def execute(request: dict[str, Any]) -> None:
    """Runs the program as the interpreter runs a script."""
    path = os.path.join(request["folder"], request["arguments"][0])
    sys.argv = list(request["arguments"])
    sys.path[0] = os.path.dirname(path)
    sys.path_importer_cache.clear()
    importlib.invalidate_caches()
    sys.excepthook = shown
    module: Any = types.ModuleType("__main__")
    module.__file__, module.__builtins__ = path, builtins
    module.__loader__ = SourceFileLoader("__main__", path)
    # The functions of this module are still in use.
    module.__dict__["__trainyard_fork__"] = sys.modules["__main__"]
    sys.modules["__main__"] = module
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    exec(code, module.__dict__)


def main() -> None:
    control = socket.socket(fileno=os.dup(0))
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    script = os.path.abspath(sys.argv[1])
    preload(script)
    server = Server(control)
    unsafe = danger()
    server.say({"unsafe": unsafe} if unsafe else {"ready": True})
    if unsafe:
        return
    # Memory of the packages stays shared.
    gc.collect()
    gc.freeze()
    request = server.serve()
    if request is not None:
        execute(request)


if __name__ == "__main__":
    main()
