//! Tests the tool `python` in real worker processes: results of programs, and misbehaving programs or workers.

mod kit;

use kit::{PATIENCE, ask, host, limits, session};
use std::io::Write;
use std::process::Stdio;
use trainyard_envs::tools::{ToolLimits, ToolResult};
use trainyard_envs::{ToolHost, ToolSession};

fn text(result: &ToolResult) -> &str {
    &result.text
}

#[test]
fn a_session_behaves_like_a_prompt() {
    let mut s = session(&host(1), &limits());
    for (code, expected) in [
        ("x=12\nx+=7\nx", "19"),
        ("x*2", "38"),
        ("print(x)", "19"),
        ("print('a')\n'b'", "a\n'b'"),
        ("x=1", ""),
        ("None", ""),
        ("print(1, 2)\nprint(3)", "1 2\n3"),
        ("7/2", "3.5"),
        ("2**70", "1180591620717411303424"),
        ("def f(n):\n    return n*x\n", ""),
        ("[f(i) for i in range(3)]", "[0, 1, 2]"),
        ("import math\nmath.sqrt(16)", "4.0"),
        ("'é'*3", "'ééé'"),
    ] {
        let result = ask(&mut *s, code);
        assert_eq!((text(&result), result.error), (expected, false), "{code}");
    }
}

#[test]
fn errors_are_one_line_and_keep_the_session() {
    let mut s = session(&host(1), &limits());
    ask(&mut *s, "x=5");
    for (code, start) in [
        ("x+=1\ny", "NameError: name 'y' is not defined"),
        ("x=+", "SyntaxError"),
        ("1/0", "ZeroDivisionError: division by zero"),
        ("print('before')\n1/0", "before\nZeroDivisionError"),
        ("f(3)", "NameError: name 'f' is not defined"),
        ("open('/etc/passwd').read()", "PermissionError"),
        ("from datetime import datetime\ndatetime.now()", "RuntimeError"),
        ("import socket", "ModuleNotFoundError"),
        ("raise ValueError('no')", "ValueError: no"),
    ] {
        let result = ask(&mut *s, code);
        assert!(result.error && !result.infrastructure && !result.timed_out, "{code}: {result:?}");
        assert!(text(&result).starts_with(start), "{code}: {result:?}");
    }
    assert_eq!(text(&ask(&mut *s, "x")), "6", "partial effects stay, as in Python");
    assert_eq!(
        text(&ask(&mut *s, "try:\n    open('/etc/passwd')\nexcept PermissionError:\n    print('caught')")),
        "caught"
    );
}

#[test]
fn agent_sees_errors_for_bad_arguments() {
    let mut s = session(&host(1), &limits());
    for arguments in
        [serde_json::json!({}), serde_json::json!({"code": 3}), serde_json::json!({"code": "x".repeat(70_000)})]
    {
        let result = s.submit(&arguments).poll().expect("an answer without a worker");
        assert!(result.error && text(&result).starts_with("error: "), "{result:?}");
    }
}

#[test]
fn endless_loop_times_out_and_leaves_the_session_unchanged() {
    let mut s = session(&host(1), &ToolLimits { time_millis: 200, ..limits() });
    ask(&mut *s, "x=5");
    let result = ask(&mut *s, "x=6\nwhile True:\n    x+=1");
    assert_eq!(result, ToolResult::timed_out("TimeoutError: the call ran longer than 200 ms"));
    assert_eq!(text(&ask(&mut *s, "x")), "5");
    let caught = ask(&mut *s, "try:\n    while True: pass\nexcept BaseException:\n    print('caught')");
    assert!(caught.timed_out, "{caught:?}");
}

#[test]
fn endless_allocation_is_a_tool_error_and_neighbors_survive() {
    let host = host(1);
    let roomy = ToolLimits { time_millis: 60_000, memory_bytes: 96 << 20, ..limits() };
    let mut good = session(&host, &roomy);
    let mut bad = session(&host, &roomy);
    ask(&mut *good, "x=41");
    ask(&mut *bad, "y=1");
    for code in [
        "a=[]\nwhile True:\n    a.append('z'*100000)",
        "b='q'*1000\nwhile True:\n    b+=b",
        "10**1000000000",
        "[0]*10**10",
    ] {
        let result = ask(&mut *bad, code);
        assert!(result.error && !result.infrastructure && !result.timed_out, "{code}: {result:?}");
        assert!(text(&result).contains("MemoryError"), "{code}: {result:?}");
    }
    assert_eq!(text(&ask(&mut *good, "x+1")), "42");
    assert_eq!(text(&ask(&mut *bad, "y")), "1");
}

#[test]
fn deep_recursion_and_deep_nesting_are_errors() {
    let mut s = session(&host(1), &limits());
    let result = ask(&mut *s, "def f(n):\n    return f(n+1)\nf(0)");
    assert!(result.error && text(&result).starts_with("RecursionError"), "{result:?}");
    let nested = format!("{}1{}", "(".repeat(5000), ")".repeat(5000));
    assert!(ask(&mut *s, &nested).error);
    let list = ask(&mut *s, "a=[]\nfor i in range(100000):\n    a=[a]\na");
    assert!(list.error || text(&list).len() <= 2048, "{}", list.text.len());
    assert_eq!(text(&ask(&mut *s, "1+1")), "2");
}

#[test]
fn output_flood_is_cut_and_reported() {
    let mut s = session(&host(1), &ToolLimits { output_bytes: 64, ..limits() });
    let result = ask(&mut *s, "for i in range(10000):\n    print('line', i)");
    assert!(result.error && text(&result).len() < 150, "{result:?}");
    assert!(text(&result).ends_with("OutputError: more than 64 bytes of output"), "{result:?}");
    assert!(ask(&mut *s, "list(range(100000))").error);
    assert!(ask(&mut *s, "'é'*40").error, "the limit counts bytes");
    assert_eq!(text(&ask(&mut *s, "'a'*62")).len(), 64);
    assert!(ask(&mut *s, "while True:\n    try:\n        print('x'*100)\n    except Exception:\n        break").error);
}

#[test]
fn a_fork_shares_only_the_past() {
    let host = host(2);
    let mut original = session(&host, &limits());
    ask(&mut *original, "x=[1]\ndef f():\n    return x");
    let mut fork = original.fork().unwrap();
    ask(&mut *original, "x.append(2)");
    ask(&mut *fork, "x.append(3)");
    assert_eq!(text(&ask(&mut *original, "f()")), "[1, 2]");
    assert_eq!(text(&ask(&mut *fork, "f()")), "[1, 3]");
    let mut deeper = fork.fork().unwrap();
    drop(fork);
    assert_eq!(text(&ask(&mut *deeper, "x")), "[1, 3]");
    assert_eq!(text(&ask(&mut *original, "x")), "[1, 2]");
}

fn kill(pid: u32) {
    let status = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn sessions_survive_a_killed_worker() {
    let host = host(1);
    let mut sessions: Vec<Box<dyn ToolSession>> = (0..20).map(|_| session(&host, &limits())).collect();
    for (i, s) in sessions.iter_mut().enumerate() {
        ask(&mut **s, &format!("x={i}"));
        ask(&mut **s, "x+=100\ny=0\nfor i in range(20000):\n    y+=i");
        assert!(ask(&mut **s, "1/0").error);
    }
    kill(host.worker_ids()[0]);
    for (i, s) in sessions.iter_mut().enumerate() {
        assert_eq!(text(&ask(&mut **s, "x, y")), format!("({}, 199990000)", i + 100));
    }
}

#[test]
fn killing_a_worker_during_calls_loses_none() {
    let host = host(1);
    let mut sessions: Vec<Box<dyn ToolSession>> =
        (0..8).map(|_| session(&host, &ToolLimits { time_millis: 20_000, ..limits() })).collect();
    for (i, s) in sessions.iter_mut().enumerate() {
        ask(&mut **s, &format!("x={i}"));
    }
    let slow = "for i in range(300000):\n    x+=1\nx";
    let tickets: Vec<_> = sessions.iter_mut().map(|s| s.submit(&serde_json::json!({"code": slow}))).collect();
    tickets[1].wait(PATIENCE).unwrap();
    kill(host.worker_ids()[0]);
    for (i, ticket) in tickets.iter().enumerate() {
        assert_eq!(ticket.wait(PATIENCE).unwrap(), ToolResult::ok((300_000 + i).to_string()));
    }
}

#[test]
fn only_the_bad_call_of_a_batch_is_blamed() {
    let host = host(1);
    let tight = ToolLimits { time_millis: 60_000, memory_bytes: 96 << 20, ..limits() };
    let mut sessions: Vec<Box<dyn ToolSession>> = (0..12).map(|_| session(&host, &tight)).collect();
    let code = |i: usize| {
        if i == 5 { "a=[]\nwhile True:\n    a.append('z'*100000)".to_string() } else { format!("x={i}\nx*x") }
    };
    let tickets: Vec<_> =
        sessions.iter_mut().enumerate().map(|(i, s)| s.submit(&serde_json::json!({"code": code(i)}))).collect();
    for (i, ticket) in tickets.iter().enumerate() {
        let result = ticket.wait(PATIENCE).unwrap();
        if i == 5 {
            assert!(result.error && !result.infrastructure && text(&result).contains("MemoryError"), "{result:?}");
        } else {
            assert_eq!(result, ToolResult::ok((i * i).to_string()));
        }
    }
}

#[test]
fn many_threads_share_a_host_and_calls_stay_in_order() {
    let host = host(2);
    std::thread::scope(|scope| {
        for t in 0..4u64 {
            let host = &host;
            scope.spawn(move || {
                let mut s = session(host, &limits());
                ask(&mut *s, "x=0");
                let tickets: Vec<_> = (1..200u64)
                    .map(|i| s.submit(&serde_json::json!({"code": format!("x=x*7%1000+{}\nx", i * t)})))
                    .collect();
                let mut x = 0;
                for (i, ticket) in (1..200u64).zip(tickets) {
                    x = x * 7 % 1000 + i * t;
                    assert_eq!(ticket.wait(PATIENCE).unwrap().text, x.to_string());
                }
            });
        }
    });
}

#[test]
fn results_do_not_depend_on_workers_or_history_length() {
    let run = |workers: usize| {
        let host = host(workers);
        let mut sessions: Vec<_> = (0..6).map(|_| session(&host, &limits())).collect();
        let mut all = Vec::new();
        for round in 0..150 {
            for (i, s) in sessions.iter_mut().enumerate() {
                all.push(ask(
                    &mut **s,
                    &format!("d=globals if {round}<0 else {{}}\nd['{i}']={round}\nd, hash('{i}')%7, {{3,1,2}}"),
                ));
            }
            if round == 140 {
                host.worker_ids().into_iter().for_each(kill);
            }
        }
        all
    };
    let (one, three) = (run(1), run(3));
    assert_eq!(one, three);
}

#[test]
fn a_worker_that_cannot_start_is_an_infrastructure_failure() {
    for program in ["/nowhere/at/all", "/bin/false", "/bin/true"] {
        let mut s = session(&ToolHost::with_program(1, program), &limits());
        let result = ask(&mut *s, "1");
        assert!(result.error && result.infrastructure, "{program}: {result:?}");
    }
}

#[test]
fn worker_ends_with_its_input_and_rejects_garbage() {
    let worker = || std::process::Command::new(env!("CARGO_BIN_EXE_trainyard-tool-worker"));
    let output = worker().stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let mut child = worker().stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"garbage, not a frame at all").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

#[test]
fn a_dropped_host_ends_its_workers() {
    let host = host(1);
    let mut s = session(&host, &limits());
    ask(&mut *s, "1");
    let pid = host.worker_ids()[0];
    drop(s);
    drop(host);
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}
