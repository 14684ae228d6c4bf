"""Runs the programs of one session inside the sandbox.

A request is a line `{"call": n, "code": text, "output_bytes": limit}` on standard input; its answer is a line
`{"call": n, "failed": bool, "text": text}` on what was standard output. Programs get neither: both streams move to
other descriptors before the first program, and 0, 1 and 2 become /dev/null.
"""

from __future__ import annotations

import ast
import builtins
import io
import json
import os
import random
import sys
import types

MAX_ERROR_BYTES = 400
FILE = "<python>"


class OutputLimit(RuntimeError):
    """A program printed more than it may."""


class Output(io.TextIOBase):
    """What programs see as sys.stdout and sys.stderr: keeps text up to a limit in bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.start(0)

    def start(self, limit: int) -> None:
        """Forgets the last program's output."""
        self.kept: list[bytes] = []
        self.room = limit
        self.overflow = False

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        data = text.encode("utf-8", "backslashreplace")
        self.kept.append(data[: self.room])
        if len(data) > self.room:
            self.room = 0
            self.overflow = True
            raise OutputLimit("output limit")
        self.room -= len(data)
        return len(text)

    def text(self) -> str:
        """All that was kept; a character cut in two is left out."""
        return b"".join(self.kept).decode("utf-8", "ignore")


def evaluate(code: str, scope: dict[str, object]) -> object:
    """Runs a program; returns the value of its last statement if that is an expression."""
    tree = ast.parse(code, FILE)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, FILE, "exec", dont_inherit=True), scope)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), FILE, "eval", dont_inherit=True), scope)


def summary(error: BaseException) -> str:
    """An exception as the last line of a traceback."""
    kind = type(error).__qualname__
    if type(error).__module__ not in ("builtins", "__main__"):
        kind = f"{type(error).__module__}.{kind}"
    try:
        message = str(error.msg) if isinstance(error, SyntaxError) else str(error)
    except BaseException:
        message = "<its text cannot be shown>"
    line = f"{kind}: {message}" if message else kind
    return line.encode("utf-8", "backslashreplace")[:MAX_ERROR_BYTES].decode("utf-8", "ignore")


def run(code: str, scope: dict[str, object], output: Output, limit: int) -> tuple[bool, str]:
    """Runs a program: whether it failed, and its output with its value or error."""
    output.start(limit)
    failed, last = False, ""
    try:
        value = evaluate(code, scope)
        if value is not None:
            last = repr(value)
    except BaseException as error:
        failed, last = True, summary(error)
    if not failed and len(last.encode("utf-8", "backslashreplace")) > output.room:
        output.overflow = True
    if output.overflow:
        failed, last = True, f"OutputError: more than {limit} bytes of output"
    text = output.text()
    if text.endswith("\n"):
        text = text[:-1]
    return failed, f"{text}\n{last}" if text and last else text + last


def main() -> None:
    """Answers requests until there are no more."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.close(null)
    output = Output()
    sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = output
    sys.argv = [""]
    program = types.ModuleType("__main__")
    program.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = program
    random.seed(0)
    answers.write(b'{"call": 0, "failed": false, "text": ""}\n')
    answers.flush()
    for line in requests:
        request = json.loads(line)
        failed, text = run(request["code"], program.__dict__, output, request["output_bytes"])
        answer = json.dumps({"call": request["call"], "failed": failed, "text": text}, ensure_ascii=False)
        answers.write(answer.encode("utf-8", "backslashreplace") + b"\n")
        answers.flush()


main()
