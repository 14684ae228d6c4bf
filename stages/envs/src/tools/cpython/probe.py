"""Prints what an interpreter is and which files it needs, as one line of JSON. Runs outside the sandbox."""

import importlib
import json
import os
import platform
import site
import sys
import sysconfig

# Their libraries may lie anywhere; once imported, they stand in the list of mapped files.
for name in ("_bz2", "_ctypes", "_hashlib", "_lzma", "_sqlite3", "_ssl", "zlib"):
    try:
        importlib.import_module(name)
    except ImportError:
        pass

with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
    mapped = [line.split(maxsplit=5)[5].rstrip("\n") for line in maps if line.count("/")]
libraries = sorted({path for path in mapped if path.startswith("/") and os.path.isfile(path)})

reads = [path for path in sys.path if path]
reads += [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix):
    reads += [os.path.join(prefix, name) for name in ("lib", "lib64", "share", "pyvenv.cfg")]
reads += [os.path.dirname(path) for path in libraries if ".so" in os.path.basename(path)]

executable = os.path.realpath(sys.executable)
loaders = [path for path in libraries if os.path.basename(path).startswith(("ld-", "ld."))]
print(json.dumps({
    "implementation": sys.implementation.name,
    "version": platform.python_version(),
    "executable": sys.executable,
    "reads": sorted({path for path in reads if path and os.path.exists(path)}),
    "executes": [executable, *loaders],
    "user_base": site.getuserbase() if site.ENABLE_USER_SITE else None,
}))
