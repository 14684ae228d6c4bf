//! Tests the tool `python` with the user's CPython: results and state of programs, and sessions whose process has
//! exited.
//!
//! The tests are skipped without `python3`. Attacks are tested in `hostile/`.

mod kit;

use kit::{PATIENCE, ask, cpython, host, limits};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use trainyard_envs::tools::family;
use trainyard_envs::{ToolHost, ToolLimits, ToolResult};

fn text(result: &ToolResult) -> &str {
    &result.text
}

/// Returns the processes whose parent is this one.
fn children(pid: u32) -> Vec<u32> {
    let read = |name: String| std::fs::read_to_string(name).unwrap_or_default();
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.map(|task| read(task.path().join("children").display().to_string()));
    lists.flat_map(|list| list.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()).collect()
}

fn kill(pid: u32) {
    assert!(std::process::Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}

/// Waits until a process is neither running nor a zombie.
fn gone(pid: u32) {
    wait_until(pid, |stat| stat.is_none());
}

/// Waits until a process no longer runs; its parent may not have noticed yet.
fn dead(pid: u32) {
    wait_until(pid, |stat| stat.is_none_or(|stat| stat.contains(") Z ")));
}

fn wait_until(pid: u32, reached: impl Fn(Option<String>) -> bool) {
    for _ in 0..2_000 {
        if reached(std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("process {pid} is still there");
}

#[test]
fn a_session_behaves_like_a_prompt() {
    let Some(mut s) = cpython(&host(1), &limits()) else { return };
    for (code, expected) in [
        ("x=12\nx+=7\nx", "19"),
        ("print('a')\n'b'", "a\n'b'"),
        ("x=1", ""),
        ("None", ""),
        ("print(1, 2)\nprint(3)", "1 2\n3"),
        ("class A:\n    def __repr__(self): return 'an A'\nclass B(A): pass\nB()", "an A"),
        ("def g():\n    yield from range(3)\nlist(g())", "[0, 1, 2]"),
        ("import sys\nprint('warn', file=sys.stderr)", "warn"),
        ("'é'*3", "'ééé'"),
        ("__name__", "'__main__'"),
        ("import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 7\nasyncio.run(f())", "7"),
        (
            "import json, sqlite3, zoneinfo, decimal\nsqlite3.connect(':memory:').execute('select 1+1').fetchone()",
            "(2,)",
        ),
        ("zoneinfo.ZoneInfo('UTC').key", "'UTC'"),
        ("with open('a.txt', 'w') as f: f.write('kept')\nopen('a.txt').read()", "'kept'"),
        ("import os\nos.listdir('.'), os.path.samefile('.', os.environ['HOME'])", "(['a.txt'], True)"),
        ("import tempfile\nwith tempfile.NamedTemporaryFile('w') as f: n=f.write('x')\nn", "1"),
        ("input", "<built-in function input>"),
    ] {
        let result = ask(&mut *s, code);
        assert_eq!((text(&result), result.error), (expected, false), "{code}");
    }
}

#[test]
fn errors_are_one_line_and_keep_the_session() {
    let Some(mut s) = cpython(&host(1), &limits()) else { return };
    ask(&mut *s, "x=5");
    for (code, start) in [
        ("x+=1\ny", "NameError: name 'y' is not defined"),
        ("x=+", "SyntaxError: "),
        ("print('before')\n1/0", "before\nZeroDivisionError: division by zero"),
        ("open('/etc/passwd').read()", "PermissionError: "),
        ("import nothing_like_it", "ModuleNotFoundError: "),
        ("class Odd(Exception):\n    def __str__(self): raise KeyError(1)\nraise Odd", "Odd: <its text"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("input()", "EOFError: "),
        ("import json\njson.loads('{')", "json.decoder.JSONDecodeError: "),
        ("raise ValueError('é' * 1000)", "ValueError: éé"),
    ] {
        let result = ask(&mut *s, code);
        assert!(result.error && !result.infrastructure && !result.timed_out, "{code}: {result:?}");
        assert!(text(&result).starts_with(start) && text(&result).len() <= 400, "{code}: {result:?}");
    }
    assert_eq!(text(&ask(&mut *s, "x")), "6", "partial effects stay, as in Python");
}

#[test]
fn output_flood_is_cut_and_reported() {
    let Some(mut s) = cpython(&host(1), &ToolLimits { output_bytes: 64, ..limits() }) else { return };
    let result = ask(&mut *s, "for i in range(10000):\n    print('line', i)");
    assert!(result.error && text(&result).len() < 150, "{result:?}");
    assert!(text(&result).ends_with("OutputError: more than 64 bytes of output"), "{result:?}");
    assert!(ask(&mut *s, "'é'*40").error, "the limit counts bytes");
    assert_eq!(text(&ask(&mut *s, "'a'*62")).len(), 64);
    assert_eq!(text(&ask(&mut *s, "print('\\x00\\x1f'*31)")).len(), 62, "in JSON it is six times as long");
}

#[test]
fn an_endless_loop_leaves_the_session_unchanged() {
    let Some(mut s) = cpython(&host(1), &ToolLimits { time_millis: 1_000, ..limits() }) else { return };
    ask(&mut *s, "x=5\nf=open('kept', 'w'); f.write('1'); f.close()");
    let result = ask(&mut *s, "x=6\nopen('new', 'w').close()\nwhile True: pass");
    assert_eq!(result, ToolResult::timed_out("TimeoutError: the call ran longer than 1000 ms"));
    assert_eq!(text(&ask(&mut *s, "import os\nx, os.listdir('.')")), "(5, ['kept'])");
}

#[test]
fn a_fork_shares_only_the_past() {
    let host = host(2);
    let Some(mut original) = cpython(&host, &limits()) else { return };
    ask(&mut *original, "x=[1]\nopen('a', 'w').close()");
    let mut fork = original.fork().unwrap();
    ask(&mut *original, "x.append(2)");
    ask(&mut *fork, "x.append(3)\nopen('b', 'w').close()");
    assert_eq!(text(&ask(&mut *original, "import os\nx, os.listdir('.')")), "([1, 2], ['a'])");
    assert_eq!(text(&ask(&mut *fork, "import os\nx, sorted(os.listdir('.'))")), "([1, 3], ['a', 'b'])");
}

#[test]
fn session_with_other_results_is_lost() {
    let host = host(1);
    let Some(mut s) = cpython(&host, &limits()) else { return };
    let drawn = ask(&mut *s, "import os\nos.urandom(8).hex()");
    assert!(!drawn.error, "{drawn:?}");
    assert!(!ask(&mut *s, "1").error);
    let result = ask(&mut *s.fork().unwrap(), "1");
    assert!(
        result.infrastructure && text(&result).contains("returned a different result when it was repeated"),
        "{result:?}"
    );
    assert_eq!(text(&ask(&mut *s, "1+1")), "2", "the original goes on");
}

#[test]
fn results_are_the_same_in_every_process() {
    let host = host(3);
    let Some(first) = cpython(&host, &limits()) else { return };
    let mut sessions = vec![first];
    sessions.extend((0..2).map(|_| cpython(&host, &limits()).unwrap()));
    let code = "import random, locale, time\n\
        [hash('a'), {'b', 'c', 'a'}, random.random(), time.tzname, locale.getlocale()]";
    let results: Vec<ToolResult> = sessions.iter_mut().map(|s| ask(&mut **s, code)).collect();
    assert!(!results[0].error && results.iter().all(|result| *result == results[0]), "{results:?}");
}

#[test]
fn sessions_survive_a_killed_worker_and_nothing_else_does() {
    let host = host(1);
    let Some(mut s) = cpython(&host, &limits()) else { return };
    let folder = ask(&mut *s, "import os\nx=1\nopen('a', 'w').close()\nprint(os.getcwd())").text;
    let mut t = cpython(&host, &limits()).unwrap();
    ask(&mut *t, "x=2");
    let worker = host.worker_ids()[0];
    let pythons = children(worker);
    assert_eq!(pythons.len(), 2);
    kill(worker);
    // The next call detects the loss. The program above printed its folder, which now is a different one.
    assert_eq!(text(&ask(&mut *t, "x")), "2");
    pythons.into_iter().for_each(gone);
    assert!(!Path::new(&folder).exists());
    assert!(ask(&mut *s, "x").infrastructure, "it printed its folder");
}

#[test]
fn a_killed_interpreter_is_rebuilt() {
    let host = host(1);
    let Some(mut s) = cpython(&host, &limits()) else { return };
    ask(&mut *s, "x=3\nopen('a', 'w').close()");
    let folder = ask(&mut *s, "import os\nos.getcwd()");
    for pid in children(host.worker_ids()[0]) {
        kill(pid);
        dead(pid);
    }
    assert_eq!(text(&ask(&mut *s, "x, os.listdir('.')")), "(3, ['a'])");
    assert_eq!(ask(&mut *s, "os.getcwd()"), folder);
}

#[test]
fn more_sessions_than_processes_keep_their_state() {
    let host = host(1);
    let Some(first) = cpython(&host, &limits()) else { return };
    let mut sessions = vec![first];
    sessions.extend((1..70).map(|_| cpython(&host, &limits()).unwrap()));
    let tickets: Vec<_> =
        sessions.iter_mut().enumerate().map(|(i, s)| s.submit(&json!({"code": format!("x={i}")}))).collect();
    assert!(tickets.iter().all(|ticket| !ticket.wait(PATIENCE).unwrap().error));
    assert_eq!(children(host.worker_ids()[0]).len(), 64);
    for (i, s) in sessions.iter_mut().enumerate() {
        assert_eq!(text(&ask(&mut **s, "x")), i.to_string());
    }
    sessions.truncate(1);
    assert_eq!(text(&ask(&mut *sessions[0], "x")), "0");
    assert_eq!(children(host.worker_ids()[0]).len(), 1, "closed sessions leave with the next call");
}

#[test]
fn a_process_is_confined_as_seen_from_outside() {
    let host = host(1);
    let Some(mut s) = cpython(&host, &limits()) else { return };
    ask(&mut *s, "1");
    let pid = children(host.worker_ids()[0])[0];
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let value = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.rsplit(['\t', ' ']).next().unwrap().to_string()
    };
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(value(set), "0000000000000000", "{set}");
    }
    assert_eq!((value("NoNewPrivs:"), value("Seccomp:"), value("Threads:")), ("1".into(), "2".into(), "1".into()));
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    for limited in ["Max address space", "Max cpu time", "Max file size", "Max open files", "Max processes"] {
        let line = limits.lines().find(|line| line.starts_with(limited)).unwrap();
        assert!(!line.contains("unlimited"), "{line}");
    }
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    assert_eq!(open, 5, "three times /dev/null, and two pipes");
}

#[test]
fn machine_without_confinement_is_rejected() {
    if cpython(&host(1), &limits()).is_none() {
        return;
    }
    // The filter makes this thread behave as on a kernel without Landlock.
    let refusal = std::thread::spawn(|| {
        let rules = BTreeMap::from([(libc::SYS_landlock_create_ruleset, Vec::new())]);
        let absent = SeccompAction::Errno(libc::ENOSYS as u32);
        let architecture = std::env::consts::ARCH.try_into().unwrap();
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, absent, architecture).unwrap();
        seccompiler::apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
        let options = json!({"kind": "python", "interpreter": "cpython"});
        family().build(&options, &()).unwrap().open(&host(1), &limits()).err().unwrap().to_string()
    });
    let refusal = refusal.join().unwrap();
    assert!(refusal.contains("cannot be confined on this machine, which lacks Landlock"), "{refusal}");
}

#[test]
fn a_dropped_host_leaves_nothing() {
    let host = host(1);
    let Some(mut s) = cpython(&host, &limits()) else { return };
    let folder = ask(&mut *s, "import os\nopen('a', 'w').close()\nprint(os.getcwd())").text;
    assert!(Path::new(&folder).join("a").exists());
    let worker = host.worker_ids()[0];
    let pythons = children(worker);
    s.submit(&json!({"code": "while True: pass"}));
    drop(s);
    drop(host);
    gone(worker);
    pythons.into_iter().for_each(gone);
    assert!(!Path::new(&folder).parent().unwrap().exists());
}

#[test]
fn interpreter_is_reported_and_a_wrong_one_is_rejected() {
    let host = host(1);
    if cpython(&host, &limits()).is_none() {
        return;
    }
    let named = host.interpreters();
    assert!(named.len() == 1 && named[0].starts_with("CPython 3."), "{named:?}");
    let refusal = |options: serde_json::Value| {
        let opened = family().build(&options, &()).unwrap().open(&ToolHost::new(1), &limits());
        opened.err().unwrap().to_string()
    };
    let old = refusal(json!({"kind": "python", "interpreter": "cpython", "version": "2.7"}));
    assert!(old.contains("but `version` is 2.7"), "{old}");
    let none = refusal(json!({"kind": "python", "interpreter": "cpython", "program": "/nowhere/python"}));
    assert!(none.contains("cannot run `/nowhere/python`"), "{none}");
}
