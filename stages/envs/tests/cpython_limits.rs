//! Tests the limits of CPython's sandbox against programs that forge their own response and run on, that hold deleted
//! files, and that cannot be repeated.
//!
//! The tests are skipped without `python3`.

mod kit;

use kit::{ask, cpython, host, limits};
use std::path::Path;
use std::time::Duration;
use trainyard_envs::ToolLimits;

/// Beginning of a program that can write its response itself: the runner's variables are in the frames below it.
const FORGE: &str = "\
import os, sys, json
frame = sys._getframe()
while frame.f_code.co_name != 'main':
    frame = frame.f_back
call, out = frame.f_locals['request']['call'], frame.f_locals['answers'].fileno()
os.write(out, (json.dumps({'call': call, 'failed': False, 'text': 'forged'}) + '\\n').encode())
";

/// Returns the only child of a worker.
fn child(worker: u32) -> u32 {
    let tasks = std::fs::read_dir(format!("/proc/{worker}/task")).unwrap().flatten();
    let lists = tasks.map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default());
    let children: Vec<u32> =
        lists.flat_map(|list| list.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect();
    assert_eq!(children.len(), 1, "{children:?}");
    children[0]
}

/// Returns the state letter of a process, and its processor time in ticks.
fn state_and_ticks(pid: u32) -> (String, u64) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    (fields[0].to_string(), fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap())
}

/// Returns the size of all files of a folder in bytes.
fn size(folder: &Path) -> u64 {
    std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.metadata().map_or(0, |file| file.len())).sum()
}

#[test]
fn program_that_forged_its_response_is_stopped_until_the_next_call() {
    let host = host(1);
    let Some(mut s) = cpython(&host, &ToolLimits { time_millis: 1_000, ..limits() }) else { return };
    assert_eq!(ask(&mut *s, &format!("{FORGE}while True: pass")).text, "forged");
    let pid = child(host.worker_ids()[0]);
    let before = state_and_ticks(pid);
    assert_eq!(before.0, "T");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(state_and_ticks(pid), before);
    assert!(ask(&mut *s, "1+1").timed_out, "the next call runs the first program, within its limits");
}

#[test]
fn program_that_forged_its_response_writes_no_files_between_calls() {
    let host = host(1);
    let Some(mut s) = cpython(&host, &limits()) else { return };
    let folder = ask(&mut *s, "import os\nprint(os.getcwd())").text;
    let folder = Path::new(&folder);
    let filling = "
for number in range(60):
    with open(f'file{number}', 'wb') as file:
        for _ in range(31):
            file.write(bytes(1 << 20))
";
    assert_eq!(ask(&mut *s, &format!("{FORGE}{filling}")).text, "forged");
    let before = size(folder);
    assert!(before <= 64 << 20, "{before}");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(size(folder), before);
    let result = ask(&mut *s, "1+1");
    assert!(result.error && result.text.contains("files take more than 64 MiB"), "{result:?}");
}

const MAPPED_AND_CLOSED: &str = "
import ctypes, os
c = ctypes.CDLL(None, use_errno=True)
c.mmap.restype = ctypes.c_void_p
c.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
for _ in range(6):
    fd = os.open('a', os.O_RDWR | os.O_CREAT)
    os.write(fd, bytes(30 << 20))
    assert c.mmap(None, 4096, 3, 1, fd, 0) != 2**64 - 1
    os.unlink('a')
    os.close(fd)
";

const OPEN_AND_DELETED: &str = "
import os
held = []
for _ in range(6):
    held.append(os.open('a', os.O_RDWR | os.O_CREAT))
    os.write(held[-1], bytes(30 << 20))
    os.unlink('a')
";

const NAMED: &str = "
for number in range(6):
    with open(str(number), 'wb') as file:
        file.write(bytes(30 << 20))
";

const RESERVED: &str = "
import os
os.posix_fallocate(os.open('a', os.O_RDWR | os.O_CREAT), 0, 31 << 20)
";

#[test]
fn files_are_counted_however_they_are_held() {
    let host = host(1);
    if cpython(&host, &limits()).is_none() {
        return;
    }
    let full = "files take more than 64 MiB";
    for (code, words) in
        [(MAPPED_AND_CLOSED, full), (OPEN_AND_DELETED, full), (NAMED, full), (RESERVED, "PermissionError")]
    {
        let mut s = cpython(&host, &limits()).unwrap();
        let result = ask(&mut *s, code);
        assert!(result.error && result.text.contains(words), "{code}: {result:?}");
        assert_eq!(ask(&mut *s, "6*7").text, "42", "{code}");
    }
    // One deleted file that stays mapped is an ordinary temporary file.
    let mut s = cpython(&host, &limits()).unwrap();
    let temporary = "import mmap, tempfile\nwith tempfile.TemporaryFile() as file:\n    file.truncate(4096)\n    \
                     view = mmap.mmap(file.fileno(), 4096)\nview[:2] = b'ok'\nview[:2]";
    assert_eq!(ask(&mut *s, temporary).text, "b'ok'");
    assert_eq!(ask(&mut *s, "view[:2]").text, "b'ok'");
}

#[test]
fn session_that_cannot_be_repeated_begins_anew() {
    let host = host(1);
    let Some(mut s) = cpython(&host, &limits()) else { return };
    assert!(!ask(&mut *s, "import time\nprint(time.time_ns())").error);
    assert!(ask(&mut *s, "import os\nos._exit(0)").text.contains("ended the interpreter"));
    let lost = ask(&mut *s, "1+1");
    assert!(lost.infrastructure && lost.text.contains("the next call begins a new session"), "{lost:?}");
    for _ in 0..2 {
        assert_eq!(ask(&mut *s, "1+1").text, "2");
    }
    assert!(ask(&mut *s, "time").text.contains("NameError"), "the new session has no variables");
}

#[test]
fn program_that_ends_its_process_after_a_forged_response_is_not_repeated_for_ever() {
    let host = host(1);
    let Some(mut s) = cpython(&host, &limits()) else { return };
    assert_eq!(ask(&mut *s, &format!("{FORGE}os._exit(0)")).text, "forged");
    // The process may end before it is stopped after its response: then the second call begins a new session.
    for _ in 0..3 {
        let text = ask(&mut *s, "1+1").text;
        assert!(text.contains("the interpreter") || text == "2", "{text}");
    }
}

#[test]
fn a_rebuild_has_a_deadline() {
    let host = host(1);
    let Some(mut s) = cpython(&host, &ToolLimits { time_millis: 300, ..limits() }) else { return };
    for _ in 0..35 {
        assert!(!ask(&mut *s, "import time\ntime.sleep(0.1)").error);
    }
    assert!(ask(&mut *s, "import os\nos._exit(0)").error);
    let lost = ask(&mut *s, "1");
    assert!(lost.infrastructure && lost.text.contains("take longer than 3 s to repeat"), "{lost:?}");
    assert_eq!(ask(&mut *s, "1").text, "1");
}
