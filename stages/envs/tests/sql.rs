//! Tests the tool `sql` and its environment in real worker processes: sessions, episodes, and queries that want more
//! time or memory than there is.

mod kit;

use kit::{PATIENCE, host, limits};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::{Chance, Clock as _, ErrorKind, SystemClock};
use trainyard_envs::environments::sql_questions::SqlQuestions;
use trainyard_envs::environments::sql_questions::questions::MAX_LEVEL;
use trainyard_envs::environments::{
    Environment, EnvironmentSetup, EpisodeStep, GeneratingEnvironment, ProblemGenerator as _, ScriptedTurn,
    WithDialogue,
};
use trainyard_envs::tools::sql::SqlLimits;
use trainyard_envs::tools::sql_session::SqlSession;
use trainyard_envs::{ToolCall, ToolHost, ToolLimits, ToolResult, ToolSession, Toolbox};
use trainyard_tables::{Problem, StopReason};

const SQL: SqlLimits = SqlLimits { steps: 1_000_000, rows: 5, output_bytes: 200 };

const STAFF: &str =
    r#"{"schema": "CREATE TABLE staff(id INTEGER, pay REAL)", "rows": {"staff": [[1, 10], [2, 20.5]]}}"#;

/// Ten matches of a text of 64,000 bytes against patterns of 20,000, each one instruction.
const SLOW_MATCH: &str = "WITH RECURSIVE s(a) AS (SELECT replace(hex(zeroblob(32000)),'0','a')), t(n) AS (SELECT 1 \
    UNION ALL SELECT n+1 FROM t LIMIT 10) SELECT sum(a LIKE '%'||substr(a,1,20000)||'b'||n||'%') FROM s,t";
/// A million searches for a text of 32,000 bytes in one of 64,000, each one instruction.
const SLOW_SEARCH: &str = "WITH RECURSIVE s(a,b) AS (SELECT replace(hex(zeroblob(32000)),'0','a'), \
    replace(hex(zeroblob(16000)),'0','a')||'b'), t(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM t LIMIT 1000) \
    SELECT sum(instr(a||n,b)) FROM s,t";
/// A table of 30,000 rows of 65,000 bytes.
const LARGE_TABLE: &str = "WITH d(x) AS (VALUES(0),(1),(2),(3),(4),(5),(6),(7),(8),(9)), m AS MATERIALIZED (SELECT \
    zeroblob(65000) b FROM d a,d b,d c,d e,d f LIMIT 30000) SELECT (SELECT count(*) FROM m x), (SELECT count(*) FROM m \
    y)";

fn session(host: &Arc<ToolHost>, limits: &ToolLimits) -> SqlSession {
    SqlSession::open(host, limits, SQL, STAFF).unwrap()
}

fn ask(session: &mut dyn ToolSession, query: &str) -> ToolResult {
    session.submit(&json!({"query": query})).wait(PATIENCE).expect("an answer in time")
}

#[test]
fn sessions_answer_and_agent_sees_errors() {
    let mut s = session(&host(1), &limits());
    assert_eq!(ask(&mut s, "SELECT COUNT(*), SUM(pay) FROM staff"), ToolResult::ok("2|30.5"));
    assert_eq!(ask(&mut s, "SELECT pays FROM staff"), ToolResult::error("error: no such column: pays"));
    let result = s.submit(&json!({"sql": "SELECT 1"})).poll().unwrap();
    assert!(result.error && result.text.contains("needs the argument `query`"));
}

/// Returns the values of a line of the status of all threads of a process.
fn of_threads(process: u32, line: &str) -> BTreeSet<String> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap().map(Result::unwrap);
    let values = threads.map(|thread| {
        let status = std::fs::read_to_string(thread.path().join("status")).unwrap();
        status.lines().find_map(|found| found.strip_prefix(line)).unwrap().trim().to_string()
    });
    values.collect()
}

#[test]
fn workers_are_isolated_as_seen_from_outside() {
    let one = |value: &str| BTreeSet::from([value.to_string()]);
    let actions = std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    if !actions.contains("errno") {
        eprintln!("skipped: no seccomp");
        return;
    }
    let (sql, python) = (host(1), host(1));
    let mut queries = session(&sql, &limits());
    assert_eq!(ask(&mut queries, "SELECT COUNT(*) FROM staff"), ToolResult::ok("2"));
    let mut programs = kit::session(&python, &limits());
    assert_eq!(kit::ask(&mut *programs, "1 + 1").text.trim(), "2");
    for worker in [sql.worker_ids()[0], python.worker_ids()[0]] {
        assert_eq!(of_threads(worker, "Seccomp:"), one("2"), "a filter for every thread");
        assert_eq!(of_threads(worker, "NoNewPrivs:"), one("1"));
        let limits = std::fs::read_to_string(format!("/proc/{worker}/limits")).unwrap();
        for limited in ["Max address space", "Max file size", "Max core file size"] {
            let line = limits.lines().find(|line| line.starts_with(limited)).unwrap();
            assert!(!line.contains("unlimited"), "{line}");
        }
    }
}

#[test]
fn forks_and_threads_have_the_same_database() {
    let s = session(&host(2), &limits());
    let results: BTreeSet<String> = std::thread::scope(|scope| {
        let run = |i: usize| {
            let mut fork = s.fork().unwrap();
            scope.spawn(move || ask(&mut *fork, &format!("SELECT {i} + COUNT(*) FROM staff")).text)
        };
        let running: Vec<_> = (0..4).map(run).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(results, BTreeSet::from(["2", "3", "4", "5"].map(str::to_string)));
}

#[test]
fn queries_are_bounded_in_time_and_memory_and_harm_no_neighbor() {
    let host = host(1);
    let limits = ToolLimits { time_millis: 500, memory_bytes: 64 << 20, ..ToolLimits::default() };
    let (mut hostile, mut neighbor) = (session(&host, &limits), session(&host, &limits));
    let clock = SystemClock::new();
    for (query, words, timed_out) in [
        (SLOW_MATCH, "pattern too complex", false),
        (SLOW_SEARCH, "TimeoutError: the call ran longer than 500 ms", true),
        (LARGE_TABLE, "MemoryError: the query needs more memory than there is", false),
    ] {
        let start = clock.monotonic();
        let result = ask(&mut hostile, query);
        assert!(result.error && result.text.contains(words), "{query}: {result:?}");
        assert_eq!((result.timed_out, result.infrastructure), (timed_out, false), "{query}: {result:?}");
        let taken = clock.monotonic().saturating_sub(start);
        assert!(taken < Duration::from_secs(30), "{query}: {taken:?}");
        for s in [&mut hostile, &mut neighbor] {
            assert_eq!(ask(s, "SELECT COUNT(*) FROM staff"), ToolResult::ok("2"), "after {query}");
        }
    }
}

#[test]
fn databases_that_cannot_be_created_are_errors_of_the_data() {
    let host = host(1);
    let limits = ToolLimits { time_millis: 500, memory_bytes: 64 << 20, ..ToolLimits::default() };
    let scripts = [
        ("CREATE TABL t(x)".to_string(), "syntax error"),
        ("ATTACH 'elsewhere.db' AS other".to_string(), "not authorized"),
        (format!("CREATE TABLE t AS {SLOW_SEARCH}"), "cannot create the database: "),
        (format!("CREATE TABLE t AS {LARGE_TABLE}"), "MemoryError"),
    ];
    for (schema, words) in scripts {
        let error = SqlSession::open(&host, &limits, SQL, &json!({"schema": schema}).to_string()).err().unwrap();
        assert!(error.kind == ErrorKind::Data && error.message.contains(words), "{schema}: {error}");
    }
}

fn environment(options: Value) -> GeneratingEnvironment<SqlQuestions> {
    let options: WithDialogue<SqlQuestions> = serde_json::from_value(options).unwrap();
    let setup = EnvironmentSetup { host: host(1), toolbox: Arc::new(Toolbox::standard()) };
    GeneratingEnvironment::new(options, &setup).unwrap()
}

fn call(query: &str) -> ScriptedTurn {
    ScriptedTurn::Call(ToolCall { name: "sql".to_string(), arguments: json!({"query": query}) })
}

/// Returns the tool results, the number of failed calls and the final answer of these turns.
fn play(
    environment: &dyn Environment,
    problem: &Problem,
    turns: &[ScriptedTurn],
) -> (Vec<String>, u32, Option<String>) {
    let mut episode = environment.start(problem, 0).unwrap();
    let mut results: Vec<String> = Vec::new();
    for turn in turns {
        let text = turn.text(environment.format(), results.last().map_or("", String::as_str));
        let step = episode.step(&environment.format().parse(&text)).unwrap();
        match if step == EpisodeStep::Pending { episode.poll(PATIENCE).unwrap().unwrap() } else { step } {
            EpisodeStep::Observe(o) => results.extend(o.messages.into_iter().map(|m| m.content)),
            EpisodeStep::Done(outcome) => {
                assert_eq!(outcome.stop, StopReason::Answer);
                return (results, outcome.tool_errors, outcome.answer);
            }
            EpisodeStep::Pending | EpisodeStep::TurnRequest(_) => panic!("still pending"),
        }
    }
    panic!("the episode continues");
}

#[test]
fn demonstrations_solve_their_problems_with_and_without_a_mistake() {
    let environment = environment(json!({}));
    let (chance, mistakes) = (Chance::new(2), Chance::new(3));
    for level in 1..=MAX_LEVEL {
        for index in 0..10 {
            let problem = environment.problem(level, index, &chance);
            for share in [0.0, 1.0] {
                let demonstration = environment.demonstration(level, index, &chance, share, &mistakes);
                assert_eq!(demonstration.mistaken, share == 1.0);
                let (_, errors, answer) = play(&environment, &problem, &demonstration.turns);
                assert_eq!(errors, u32::from(demonstration.mistaken));
                assert!(environment.verify(&problem, &answer.unwrap()).unwrap(), "{problem:?}");
            }
            assert!(problem.question().starts_with("staff(id, name, town, age, pay)\nsales("));
        }
    }
}

#[test]
fn any_problem_with_a_database_works() {
    let database = json!({"schema": "CREATE TABLE t(x TEXT)", "rows": {"t": [["Oslo"], ["Rome"]]}});
    let problem = Problem {
        answer: "oslo".to_string(),
        verifier: json!({"kind": "text", "database": database}).to_string(),
        ..Problem::default()
    };
    let environment = environment(json!({"max_rows": 1}));
    let turns = [
        call("DELETE FROM t"),
        call("SELECT x FROM t ORDER BY x"),
        ScriptedTurn::Text("The first one:\n#### Oslo".to_string()),
    ];
    let (results, errors, answer) = play(&environment, &problem, &turns);
    assert_eq!((errors, answer.as_deref()), (1, Some("Oslo")));
    assert_eq!(results, ["error: only one SELECT is allowed; nothing can be changed", "Oslo\n... (more rows)"]);
    assert!(environment.verify(&problem, "Oslo").unwrap());
}

#[test]
fn endless_query_is_an_error_not_an_infrastructure_failure() {
    let environment = environment(json!({"max_steps": 10_000}));
    let problem = environment.problem(1, 0, &Chance::new(0));
    let endless = call("WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT MAX(n) FROM t");
    let (results, errors, answer) = play(&environment, &problem, &[endless, ScriptedTurn::Text("7".to_string())]);
    assert_eq!(results, ["error: the query was stopped after 10000 steps; ask for less"]);
    assert_eq!((errors, answer.as_deref()), (1, Some("7")));
}

#[test]
fn problem_whose_database_cannot_be_created_is_named() {
    let verifier = json!({"kind": "text", "database": {"schema": "CREATE TABL"}}).to_string();
    let problem = Problem { id: "p7".to_string(), verifier, ..Problem::default() };
    let error = environment(json!({})).start(&problem, 0).err().unwrap();
    assert!(error.message.starts_with("problem `p7`: cannot create the database: "), "{error}");
}

/// Hostile queries: name, text that is repeated, number of repetitions, text around them, part of the error. Without
/// such a part, the query may also have a result.
const HOSTILE: &[(&str, &str, usize, [&str; 2], &str)] = &[
    ("nested parentheses", "(", 5_000, ["SELECT ", "1"], "error"),
    ("negations", "NOT ", 3_000, ["SELECT ", "1"], "error"),
    ("sums", "1+", 5_000, ["SELECT ", "1"], "error"),
    ("a query of 100 kB", "1,", 50_000, ["SELECT ", "1"], "error"),
    ("columns", "1,", 5_000, ["SELECT ", "1"], "error"),
    ("unions", " UNION ALL SELECT 1", 500, ["SELECT 1", ""], "error"),
    ("joins", ", staff", 100, ["SELECT 1 FROM staff", ""], "error"),
    ("a product of tables", ", staff s#", 40, ["SELECT count(*) FROM staff", ""], "error"),
    (
        "endless recursion",
        "",
        0,
        ["WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM t) SELECT sum(n) FROM t", ""],
        "error",
    ),
    (
        "growing text",
        "",
        0,
        ["WITH RECURSIVE t(n) AS (SELECT 'x' UNION ALL SELECT n||n FROM t) SELECT max(n) FROM t", ""],
        "error",
    ),
    ("zeros of 2 GiB", "", 0, ["SELECT zeroblob(2147483647)", ""], "error"),
    ("a width of 10^9", "", 0, ["SELECT printf('%.*c', 1000000000, 'x')", ""], ""),
    (
        "a sorted product",
        "",
        0,
        [
            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM t LIMIT 300000) \
             SELECT n FROM t ORDER BY hex(zeroblob(3000))||n",
            "",
        ],
        "",
    ),
    (
        "one group of text",
        "",
        0,
        [
            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM t LIMIT 100000) \
             SELECT group_concat(hex(zeroblob(1000))) FROM t",
            "",
        ],
        "error",
    ),
    ("a pattern of stars", "%a", 40, ["SELECT hex(zeroblob(20000)) LIKE '", "%b'"], ""),
    ("another database", "", 0, ["ATTACH 'hostile.db' AS other", ""], "error"),
    ("a copy of the database", "", 0, ["VACUUM INTO 'hostile.db'", ""], "error"),
    ("a library", "", 0, ["SELECT load_extension('libc.so.6')", ""], "error"),
    ("a file that is read", "", 0, ["SELECT readfile('/etc/passwd')", ""], "error"),
    ("a file that is written", "", 0, ["SELECT writefile('hostile.db', 'x')", ""], "error"),
    ("a setting", "", 0, ["PRAGMA hard_heap_limit = 0", ""], "error"),
    ("a table of settings", "", 0, ["SELECT * FROM pragma_database_list", ""], ""),
    ("a removed table", "", 0, ["DROP TABLE staff", ""], "error"),
    ("removed rows", "", 0, ["DELETE FROM staff", ""], "error"),
    ("removed rows after a result", "", 0, ["SELECT 1; DELETE FROM staff", ""], "error"),
    ("a transaction", "", 0, ["BEGIN EXCLUSIVE", ""], "error"),
    ("a temporary view", "", 0, ["CREATE TEMP VIEW staff AS SELECT 1", ""], "error"),
    ("random numbers", "", 0, ["SELECT random()", ""], "error"),
    ("an open comment", "/*", 1_000, ["SELECT 1 ", ""], ""),
    ("an open text", "", 0, ["SELECT 'x", ""], "error"),
    ("no query", "", 0, ["", ""], ""),
    ("a NUL", "", 0, ["SELECT 1\0; DELETE FROM staff", ""], ""),
];

#[test]
fn hostile_queries_end_and_change_nothing() {
    let host = host(1);
    let limits = ToolLimits { time_millis: 2_000, memory_bytes: 64 << 20, ..ToolLimits::default() };
    let mut neighbor = session(&host, &limits);
    let mut failures = Vec::new();
    for (name, repeated, times, [before, after], words) in HOSTILE {
        let middle: String = (0..*times).map(|number| repeated.replace('#', &number.to_string())).collect();
        let mut hostile = session(&host, &limits);
        let result = ask(&mut hostile, &format!("{before}{middle}{after}"));
        let is_expected = (result.error || words.is_empty()) && result.text.to_lowercase().contains(words);
        if !is_expected || result.infrastructure {
            failures.push(format!("{name}: {result:?}"));
        }
        for s in [&mut hostile, &mut neighbor] {
            let count = ask(s, "SELECT COUNT(*) FROM staff");
            if count != ToolResult::ok("2") {
                failures.push(format!("{name}: the next query gives {count:?}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(!std::path::Path::new("hostile.db").exists());
}
