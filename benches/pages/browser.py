"""A Chromium without a screen, driven by the DevTools protocol over a pipe. Standard library only, Linux."""
import fcntl
import json
import os
import pathlib
import selectors
import shutil
import subprocess
import tempfile
import time

from program import Failed

NAME = "chromium"
ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe")
FREE = 10  # First number of a file descriptor of ours: the browser reads from 3 and writes to 4.
PATIENCE = 60  # Seconds until a response.
SCROLL = pathlib.Path(__file__).with_name("scroll.js")


def is_here():
    """Whether the path has a browser."""
    return shutil.which(NAME) is not None


def pipe():
    """A pipe whose ends do not have the numbers of those of the browser."""
    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, FREE) for end in ends]
    for end in ends:
        os.close(end)
    return moved


class Browser:
    """A browser with one page, whose profile is removed at the end."""

    def __init__(self):
        self.profile = tempfile.TemporaryDirectory(prefix="trainyard-browser-", ignore_cleanup_errors=True)
        (theirs_in, self.out), (self.into, theirs_out) = pipe(), pipe()

        def connect():
            os.dup2(theirs_in, 3)
            os.dup2(theirs_out, 4)

        words = [NAME, *ARGUMENTS, f"--user-data-dir={self.profile.name}", "about:blank"]
        null = subprocess.DEVNULL
        # Files of ours are not inherited: only 3 and 4, which `connect` makes.
        self.process = subprocess.Popen(
            words, stdin=null, stdout=null, stderr=null, close_fds=False, preexec_fn=connect, start_new_session=True
        )
        os.close(theirs_in)
        os.close(theirs_out)
        os.set_blocking(self.into, False)
        self.chooser = selectors.DefaultSelector()
        self.chooser.register(self.into, selectors.EVENT_READ)
        self.kept, self.number, self.session = b"", 0, None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.out)  # The browser ends with its pipe.
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.chooser.close()
        os.close(self.into)
        self.profile.cleanup()

    def message(self, end):
        """The next message: a response or an event. Fails at the time `end`."""
        while b"\0" not in self.kept:
            left = end - time.monotonic()
            if left <= 0 or not self.chooser.select(timeout=left):
                raise Failed(f"{NAME} does not respond within {PATIENCE} s")
            received = os.read(self.into, 1 << 20)
            if not received:
                raise Failed(f"{NAME} ended with {self.process.wait()}")
            self.kept += received
        message, self.kept = self.kept.split(b"\0", 1)
        return json.loads(message)

    def until(self, is_wanted):
        """The next message of a kind."""
        end = time.monotonic() + PATIENCE
        while not is_wanted(message := self.message(end)):
            pass
        return message

    def call(self, method, **parameters):
        """Calls a method of the protocol; returns its result."""
        self.number += 1
        call = {"id": self.number, "method": method, "params": parameters}
        call |= {"sessionId": self.session} if self.session else {}
        os.write(self.out, json.dumps(call).encode() + b"\0")
        response = self.until(lambda message: message.get("id") == self.number)
        if error := response.get("error"):
            raise Failed(f"{method}: {error['message']}")
        return response["result"]

    def open(self, url):
        """Opens a page and waits until it is loaded."""
        navigated = self.call("Page.navigate", url=url)
        if error := navigated.get("errorText"):
            raise Failed(f"{url}: {error}")
        self.until(lambda message: message.get("method") == "Page.loadEventFired")

    def scrolled(self):
        """The longest frame and the longest task of the open page (0 if none took 50 ms), in milliseconds."""
        expression = f"new Promise({SCROLL.read_text()})"
        told = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in told:
            raise Failed(f"a page cannot be scrolled: {told['exceptionDetails']['text']}")
        found = told["result"]["value"]
        if not found["isAtEnd"]:
            raise Failed(f"the end of a page was not reached in {found['frames']} frames")
        return found["longest"], max(found["tasks"], default=0)
