//! The table: what each program attacks, and what its agent must see.
//!
//! `TREASURE` stands for a folder with a secret, `HOST` for the process id of the test.

use Expected::{Error, Harmless, TimedOut};

/// What an agent sees.
pub enum Expected {
    /// An error with this text in it; the empty text stands for any error.
    Error(&'static str),
    /// No error, and exactly this.
    Harmless(&'static str),
    /// The end of the call at its time limit.
    TimedOut,
}

/// One program.
pub struct Program {
    pub name: &'static str,
    pub code: &'static str,
    /// In CPython's sandbox.
    pub cpython: Expected,
    /// In the embedded interpreter.
    pub monty: Expected,
}

const fn row(name: &'static str, code: &'static str, cpython: Expected, monty: Expected) -> Program {
    Program { name, code, cpython, monty }
}

/// Any error: most modules are not there.
const ANY: Expected = Error("");
const PERMISSION: Expected = Error("PermissionError");

pub const PROGRAMS: &[Program] = &[
    // Processes and threads.
    row(
        "fork bomb",
        "import os\n\
         while True:\n\
         \x20   os.fork()",
        PERMISSION,
        ANY,
    ),
    row(
        "daemon that holds the pipes",
        "import os\n\
         if os.fork() == 0:\n\
         \x20   os.setsid()\n\
         \x20   while True:\n\
         \x20       pass",
        PERMISSION,
        ANY,
    ),
    row(
        "spawned program",
        "import os\n\
         os.posix_spawn('/bin/sleep', ['sleep', '1000'], {})",
        PERMISSION,
        ANY,
    ),
    row(
        "shell",
        "import subprocess\n\
         subprocess.run(['/bin/sh', '-c', 'touch TREASURE/made'])",
        PERMISSION,
        ANY,
    ),
    row(
        "thread bomb",
        "import threading, time\n\
         while True:\n\
         \x20   threading.Thread(target=time.sleep, args=(1000,)).start()",
        Error("can't start new thread"),
        ANY,
    ),
    row(
        "pool of processes",
        "import multiprocessing\n\
         multiprocessing.Process(target=print).start()",
        PERMISSION,
        ANY,
    ),
    row(
        "another program instead",
        "import os\n\
         os.execv('/bin/sh', ['sh', '-c', 'touch TREASURE/made'])",
        PERMISSION,
        ANY,
    ),
    row(
        "setuid program",
        "import os, glob\n\
         for path in glob.glob('/bin/*') + ['/usr/bin/su', '/bin/su']:\n\
         \x20   if path.endswith(('/su', '/mount', '/passwd')):\n\
         \x20       os.execv(path, [path])",
        PERMISSION,
        ANY,
    ),
    row(
        "its own interpreter again",
        "import os, sys\n\
         os.execv(sys.executable, [sys.executable, '-c', 'while True: pass'])",
        Error("SystemError"),
        ANY,
    ),
    row(
        "program in memory",
        "import os\n\
         os.memfd_create('program')",
        PERMISSION,
        ANY,
    ),
    row(
        "program in its folder",
        "import os\n\
         open('program', 'w').write('#!/bin/sh\\ntouch TREASURE/made')\n\
         os.execv('./program', ['program'])",
        PERMISSION,
        ANY,
    ),
    // Memory, time, output, recursion.
    row(
        "memory in pieces",
        "kept = []\n\
         while True:\n\
         \x20   kept.append('x' * 100_000 + str(len(kept)))",
        Error("MemoryError"),
        Error("MemoryError"),
    ),
    row("memory at once", "x = [0] * 10**11", Error("MemoryError"), Error("MemoryError")),
    row(
        "doubling text",
        "x = 'x' * 1000\n\
         while True:\n\
         \x20   x += x",
        Error("MemoryError"),
        Error("MemoryError"),
    ),
    row(
        "endless loop",
        "while True:\n\
         \x20   pass",
        TimedOut,
        TimedOut,
    ),
    row(
        "endless loop that catches everything",
        "while True:\n\
         \x20   try:\n\
         \x20       while True:\n\
         \x20           pass\n\
         \x20   except BaseException:\n\
         \x20       pass",
        TimedOut,
        TimedOut,
    ),
    row("endless number", "x = 3 ** (10 ** 9)", TimedOut, Error("MemoryError")),
    row(
        "sleep",
        "import time\n\
         time.sleep(10**6)",
        TimedOut,
        ANY,
    ),
    row(
        "waiting for input",
        "import os\n\
         for fd in range(3, 100):\n\
         \x20   try:\n\
         \x20       os.read(fd, 1)\n\
         \x20   except OSError:\n\
         \x20       pass\n\
         os.pause if False else __import__('signal').pause()",
        TimedOut,
        ANY,
    ),
    row(
        "endless output",
        "while True:\n\
         \x20   print('x' * 1000)",
        Error("OutputError"),
        Error("OutputError"),
    ),
    row(
        "endless output that catches everything",
        "while True:\n\
         \x20   try:\n\
         \x20       print('x' * 1000)\n\
         \x20   except BaseException:\n\
         \x20       pass",
        TimedOut,
        ANY,
    ),
    row(
        "output around the runner",
        "import os\n\
         while True:\n\
         \x20   os.write(1, b'x' * 65536)",
        TimedOut,
        ANY,
    ),
    row("huge value", "'x' * 10**7", Error("OutputError"), Error("OutputError")),
    row(
        "deep recursion",
        "def f(n):\n\
         \x20   return f(n + 1)\n\
         f(0)",
        Error("RecursionError"),
        Error("RecursionError"),
    ),
    row(
        "recursion without a limit",
        "import sys\n\
         sys.setrecursionlimit(10**9)\n\
         class A:\n\
         \x20   def __repr__(self):\n\
         \x20       return repr([self])\n\
         repr(A())",
        ANY,
        ANY,
    ),
    row("deep source", "eval('(' * 100_000)", ANY, ANY),
    row(
        "hidden garbage",
        "class A:\n\
         \x20   pass\n\
         a = A()\n\
         a.self = a\n\
         a.__del__ = a\n\
         for i in range(100):\n\
         \x20   b = A()\n\
         \x20   b.a, a.b = a, b",
        Harmless(""),
        ANY,
    ),
    // Files.
    row("reading a secret", "print(open('TREASURE/secret').read())", PERMISSION, PERMISSION),
    row(
        "listing a folder",
        "import os\n\
         os.listdir('TREASURE')",
        PERMISSION,
        ANY,
    ),
    row(
        "reading keys",
        "import os\n\
         open(os.path.expanduser('~root/.ssh/id_rsa')).read()",
        ANY,
        ANY,
    ),
    row("reading accounts", "open('/etc/passwd').read()", PERMISSION, PERMISSION),
    row("writing elsewhere", "open('TREASURE/made', 'w')", PERMISSION, PERMISSION),
    row(
        "emptying a file",
        "import os\n\
         os.truncate('TREASURE/secret', 0)",
        PERMISSION,
        ANY,
    ),
    row(
        "emptying a file that may be read",
        "import os\n\
         os.open(os.path.dirname(os.__file__) + '/this.py', os.O_RDONLY | os.O_TRUNC)",
        PERMISSION,
        ANY,
    ),
    row(
        "writing to packages",
        "import json\n\
         open(json.__file__, 'a')",
        PERMISSION,
        ANY,
    ),
    row(
        "adding a package",
        "import os, json\n\
         open(os.path.dirname(json.__file__) + '/made.py', 'w')",
        PERMISSION,
        ANY,
    ),
    row(
        "removing a file",
        "import os\n\
         os.remove('TREASURE/secret')",
        PERMISSION,
        ANY,
    ),
    row(
        "moving a file",
        "import os\n\
         os.rename('TREASURE/secret', 'secret')",
        Error("Error"),
        ANY,
    ),
    row(
        "changing a mode",
        "import os\n\
         os.chmod('TREASURE/secret', 0o777)",
        PERMISSION,
        ANY,
    ),
    row(
        "changing times",
        "import os\n\
         os.utime('TREASURE/secret', (0, 0))",
        PERMISSION,
        ANY,
    ),
    row(
        "symbolic link",
        "import os\n\
         os.symlink('TREASURE/secret', 'link')\n\
         print(open('link').read())",
        PERMISSION,
        ANY,
    ),
    row(
        "hard link",
        "import os\n\
         os.link('TREASURE/secret', 'link')\n\
         print(open('link').read())",
        PERMISSION,
        ANY,
    ),
    row("way up", "print(open('../../../../../../../../TREASURE/secret').read())", PERMISSION, ANY),
    row(
        "endless folders",
        "import os\n\
         while True:\n\
         \x20   os.mkdir('a')\n\
         \x20   os.chdir('a')",
        PERMISSION,
        ANY,
    ),
    row(
        "named pipe",
        "import os\n\
         os.mkfifo('pipe')\n\
         open('pipe').read()",
        PERMISSION,
        ANY,
    ),
    row("shared memory", "open('/dev/shm/made', 'w')", PERMISSION, PERMISSION),
    row(
        "huge file",
        "with open('a', 'wb') as f:\n\
         \x20   f.truncate(10**12)",
        Error("OSError"),
        ANY,
    ),
    row(
        "full disk",
        "i = 0\n\
         while True:\n\
         \x20   with open(str(i % 100), 'wb') as f:\n\
         \x20       f.write(bytes(10**7))\n\
         \x20   i += 1",
        Error("OSError"),
        ANY,
    ),
    row(
        "countless files",
        "i = 0\n\
         while True:\n\
         \x20   open(str(i), 'w').close()\n\
         \x20   i += 1",
        Error("OSError"),
        ANY,
    ),
    row(
        "files without names",
        "import os\n\
         kept = []\n\
         while True:\n\
         \x20   f = open('a', 'wb')\n\
         \x20   os.remove('a')\n\
         \x20   f.write(bytes(10**7))\n\
         \x20   f.flush()\n\
         \x20   kept.append(f)",
        Error("OSError"),
        ANY,
    ),
    row(
        "countless open files",
        "import os\n\
         kept = []\n\
         while True:\n\
         \x20   kept.append(os.pipe())",
        Error("Too many open files"),
        ANY,
    ),
    row(
        "mapping a huge file",
        "import mmap\n\
         f = open('a', 'w+b')\n\
         f.truncate(30 << 20)\n\
         kept = []\n\
         while True:\n\
         \x20   kept.append(mmap.mmap(f.fileno(), 0))",
        Error("Cannot allocate memory"),
        ANY,
    ),
    // Network.
    row(
        "connecting",
        "import socket\n\
         socket.create_connection(('127.0.0.1', 22))",
        PERMISSION,
        ANY,
    ),
    row(
        "listening",
        "import socket\n\
         socket.socket().bind(('127.0.0.1', 0))",
        PERMISSION,
        ANY,
    ),
    row(
        "looking up a name",
        "import socket\n\
         socket.getaddrinfo('example.com', 80)",
        Error("gaierror"),
        ANY,
    ),
    row(
        "raw packets",
        "import socket\n\
         socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
        PERMISSION,
        ANY,
    ),
    row(
        "unix socket",
        "import socket\n\
         socket.socket(socket.AF_UNIX).connect('TREASURE/socket')",
        PERMISSION,
        ANY,
    ),
    row(
        "abstract socket",
        "import socket\n\
         socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', '\\0trainyard')",
        PERMISSION,
        ANY,
    ),
    row(
        "pair of datagram sockets",
        "import socket\n\
         a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
        PERMISSION,
        ANY,
    ),
    // Signals and other processes.
    row(
        "killing its parent",
        "import os\n\
         os.kill(os.getppid(), 9)",
        PERMISSION,
        ANY,
    ),
    row(
        "killing the host",
        "import os\n\
         os.kill(HOST, 9)",
        PERMISSION,
        ANY,
    ),
    row(
        "killing everything",
        "import os\n\
         os.kill(-1, 9)",
        PERMISSION,
        ANY,
    ),
    row(
        "killing its group",
        "import os\n\
         os.killpg(0, 9)",
        PERMISSION,
        ANY,
    ),
    row(
        "signals by a pipe's owner",
        "import fcntl, os\n\
         r, w = os.pipe()\n\
         fcntl.fcntl(r, fcntl.F_SETOWN, HOST)",
        PERMISSION,
        ANY,
    ),
    row(
        "killing itself",
        "import os\n\
         os.kill(os.getpid(), 9)",
        Error("signal 9"),
        ANY,
    ),
    row(
        "stopping itself",
        "import os\n\
         os.kill(os.getpid(), 19)",
        TimedOut,
        ANY,
    ),
    row(
        "ignoring signals",
        "import signal\n\
         for number in range(1, 32):\n\
         \x20   try:\n\
         \x20       signal.signal(number, signal.SIG_IGN)\n\
         \x20   except (OSError, ValueError):\n\
         \x20       pass\n\
         while True:\n\
         \x20   pass",
        TimedOut,
        ANY,
    ),
    row(
        "work between calls",
        "import signal\n\
         signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)",
        Error("not permitted"),
        ANY,
    ),
    row("secrets in the host's environment", "print(open('/proc/HOST/environ').read())", PERMISSION, PERMISSION),
    row(
        "secrets in its parent's environment",
        "import os\n\
         print(open(f'/proc/{os.getppid()}/environ').read())",
        PERMISSION,
        ANY,
    ),
    row(
        "secrets in its own environment",
        "import os\n\
         'CARGO_MANIFEST_DIR' in os.environ",
        Harmless("False"),
        ANY,
    ),
    row("memory by /proc", "open('/proc/self/mem', 'r+b')", PERMISSION, PERMISSION),
    row("kernel settings", "open('/proc/sys/kernel/core_pattern', 'w')", PERMISSION, PERMISSION),
    row(
        "tracing",
        "import ctypes, os\n\
         lib = ctypes.CDLL(None, use_errno=True)\n\
         lib.ptrace(16, HOST, 0, 0), ctypes.get_errno()",
        Harmless("(-1, 1)"),
        ANY,
    ),
    row(
        "memory of another process",
        "import ctypes, os\n\
         lib = ctypes.CDLL(None, use_errno=True)\n\
         lib.process_vm_readv(HOST, 0, 0, 0, 0, 0), ctypes.get_errno()",
        Harmless("(-1, 1)"),
        ANY,
    ),
    row(
        "io_uring",
        "import ctypes, os\n\
         lib = ctypes.CDLL(None, use_errno=True)\n\
         lib.syscall(425, 8, 0), ctypes.get_errno()",
        Harmless("(-1, 1)"),
        ANY,
    ),
    row(
        "opening by pidfd",
        "import ctypes, os\n\
         lib = ctypes.CDLL(None, use_errno=True)\n\
         lib.syscall(434, HOST, 0), ctypes.get_errno()",
        Harmless("(-1, 1)"),
        ANY,
    ),
    row(
        "new namespaces",
        "import ctypes, os\n\
         lib = ctypes.CDLL(None, use_errno=True)\n\
         lib.unshare(0x10000000), ctypes.get_errno()",
        Harmless("(-1, 1)"),
        ANY,
    ),
    row(
        "mounting",
        "import ctypes, os\n\
         lib = ctypes.CDLL(None, use_errno=True)\n\
         lib.mount(b'none', b'.', b'tmpfs', 0, 0), ctypes.get_errno()",
        Harmless("(-1, 1)"),
        ANY,
    ),
    row(
        "outliving its supervisor",
        "import ctypes, os\n\
         lib = ctypes.CDLL(None, use_errno=True)\n\
         lib.prctl(1, 0, 0, 0, 0), ctypes.get_errno()",
        Harmless("(-1, 1)"),
        ANY,
    ),
    row(
        "more capabilities",
        "import ctypes, os\n\
         lib = ctypes.CDLL(None, use_errno=True)\n\
         lib.setuid(0), lib.capset(0, 0), ctypes.get_errno()",
        Harmless("(-1, -1, 1)"),
        ANY,
    ),
    row(
        "higher limits",
        "import resource\n\
         resource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
        Error("Error"),
        ANY,
    ),
    row(
        "limits of others",
        "import ctypes, os\n\
         lib = ctypes.CDLL(None, use_errno=True)\n\
         lib.prlimit(HOST, 7, (ctypes.c_long * 2)(3, 3), 0), ctypes.get_errno()",
        Harmless("(-1, 1)"),
        ANY,
    ),
    // The interpreter and its answers.
    row(
        "a printed answer",
        "print('{\"call\": 2, \"failed\": false, \"text\": \"forged\"}')",
        Harmless("{\"call\": 2, \"failed\": false, \"text\": \"forged\"}"),
        Harmless("{\"call\": 2, \"failed\": false, \"text\": \"forged\"}"),
    ),
    row(
        "forged answers",
        "import os\n\
         for fd in range(3, 100):\n\
         \x20   try:\n\
         \x20       os.write(fd, b'{\"call\": 99, \"failed\": false, \"text\": \"forged\"}\\n')\n\
         \x20   except OSError:\n\
         \x20       pass",
        Error("SystemError"),
        ANY,
    ),
    row(
        "endless answer",
        "import os\n\
         while True:\n\
         \x20   for fd in range(3, 20):\n\
         \x20       try:\n\
         \x20           os.write(fd, b'x' * 1000)\n\
         \x20       except OSError:\n\
         \x20           pass",
        Error("SystemError"),
        ANY,
    ),
    row(
        "huge answer",
        "import os\n\
         write = os.write\n\
         for fd in range(3, 20):\n\
         \x20   try:\n\
         \x20       write(fd, b'{\"call\": 2, \"failed\": false, \"text\": \"' + b'x' * 10**6 + b'\"}\\n')\n\
         \x20   except OSError:\n\
         \x20       pass",
        Error("SystemError"),
        ANY,
    ),
    row(
        "closed pipes",
        "import os\n\
         os.closerange(0, 100)",
        Error("SystemError"),
        ANY,
    ),
    row(
        "replaced pipes",
        "import os\n\
         for fd in range(3, 20):\n\
         \x20   os.dup2(0, fd)",
        Error("SystemError"),
        ANY,
    ),
    row(
        "closed pipes of a living program",
        "import os\n\
         os.closerange(0, 100)\n\
         while True:\n\
         \x20   pass",
        Error("SystemError"),
        ANY,
    ),
    row(
        "other answers",
        "import json\n\
         json.dumps = lambda *a, **k: 'garbage'",
        Error("SystemError"),
        ANY,
    ),
    row(
        "a runner without its names",
        "import sys\n\
         frame = sys._getframe()\n\
         while frame:\n\
         \x20   frame.f_globals.clear()\n\
         \x20   frame = frame.f_back",
        ANY,
        ANY,
    ),
    row(
        "exit",
        "import os\n\
         os._exit(0)",
        Error("status 0"),
        ANY,
    ),
    row(
        "exit by exception",
        "import sys\n\
         sys.exit(0)",
        Error("SystemExit"),
        ANY,
    ),
    row(
        "bad memory",
        "import ctypes\n\
         ctypes.string_at(8)",
        Error("signal 11"),
        ANY,
    ),
    row(
        "abort",
        "import os\n\
         os.abort()",
        Error("signal 6"),
        ANY,
    ),
    row(
        "late work at exit",
        "import atexit, time\n\
         _ = atexit.register(time.sleep, 1000)",
        Harmless(""),
        ANY,
    ),
    row(
        "denied by name only",
        "import builtins\n\
         builtins.open = None\n\
         import _io\n\
         print(_io.open('TREASURE/secret').read())",
        PERMISSION,
        ANY,
    ),
];
