"""Measures a program that draws on a terminal: its CPU time, its memory, and when it shows a text. Linux."""
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from dataclasses import dataclass

from measured import high_water
from program import Failed

ROWS, COLUMNS = 40, 120
SETTLE = 3  # Seconds between the first screen and the measurement.
FIRST = 60  # Maximum seconds until the first screen.
END = 10  # Maximum seconds from the key `q` to the end.
BLOCK = 65536  # Bytes read at once.


@dataclass
class Watched:
    """Share of one core in percent, the largest resident size, and the time until the text was drawn."""

    cpu_percent: float
    max_rss_mib: float
    first_ms: float


class Screen:
    """A program on a terminal of its own."""

    def __init__(self, command, cwd, env):
        self.name = " ".join(map(str, command[:2]))
        self.began = time.monotonic()
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
                os.chdir(cwd)
                os.execvpe(command[0], command, env)
            finally:
                os._exit(127)
        self.drawn, self.is_open = bytearray(), True

    def read(self, seconds, wanted=None):
        """Reads what the program draws for some seconds, or until it has drawn a text. Returns whether it has."""
        end = time.monotonic() + seconds
        self.drawn.clear()
        while self.is_open and (left := end - time.monotonic()) > 0:
            if not select.select([self.terminal], [], [], left)[0]:
                break
            try:
                data = os.read(self.terminal, BLOCK)
            except OSError:  # The program has closed the terminal.
                data = b""
            self.is_open = bool(data)
            self.drawn += data
            if wanted is not None and wanted in self.drawn:
                return True
        return False

    def cpu_seconds(self):
        """The CPU time of the program, user and system."""
        with open(f"/proc/{self.pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def watch(self, seconds, text):
        """Waits for a text and measures from then on."""
        if not self.read(FIRST, text):
            last = bytes(self.drawn[-500:])
            raise Failed(f"`{self.name}` has not drawn {text.decode()!r} in {FIRST} s; it drew {last!r}")
        first = time.monotonic() - self.began
        self.read(SETTLE)
        began, before = time.monotonic(), self.cpu_seconds()
        self.read(seconds)
        if not self.is_open:
            raise Failed(f"`{self.name}` ended during the measurement; it drew {bytes(self.drawn[-500:])!r}")
        share = (self.cpu_seconds() - before) / (time.monotonic() - began)
        return Watched(100 * share, high_water(self.pid) / 1024, 1000 * first)

    def quit(self):
        """Presses `q` and waits for the end. Fails if the program does not end, or not well."""
        os.write(self.terminal, b"q")
        self.read(END)
        if self.is_open:
            raise Failed(f"`{self.name}` has not ended {END} s after the key q")
        _, status = os.waitpid(self.pid, 0)
        self.pid = None
        if code := os.waitstatus_to_exitcode(status):
            raise Failed(f"`{self.name}` exited with {code}: {bytes(self.drawn[-500:])!r}")

    def close(self):
        if self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = None
        os.close(self.terminal)


def watch(command, cwd, env, seconds, text):
    """Runs a program on a terminal, measures it for some seconds after it has drawn a text, and ends it by `q`."""
    screen = Screen(command, cwd, env)
    try:
        watched = screen.watch(seconds, text)
        screen.quit()
        return watched
    finally:
        screen.close()
