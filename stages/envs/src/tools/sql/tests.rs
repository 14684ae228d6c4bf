//! Tests the tool `sql` on a real database.

use super::*;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

fn data() -> DatabaseData {
    let schema = "CREATE TABLE staff(id INTEGER PRIMARY KEY, name TEXT, pay REAL, born TEXT); CREATE VIEW rich AS \
                  SELECT name FROM staff WHERE pay > 15; CREATE TABLE empty(x);";
    serde_json::from_value(json!({
        "schema": schema,
        "rows": {"staff": [[1, "Ann", 10, "1990-05-06"], [2, "Bo|b", 20.5, "1985-01-31"], [3, null, true, null]]},
    }))
    .unwrap()
}

const LIMITS: SqlLimits = SqlLimits { steps: 100_000, rows: 5, output_bytes: 200 };

/// Time limit that no query of these tests reaches.
const TIME: Duration = Duration::from_secs(600);

fn database(limits: SqlLimits) -> SqlDatabase {
    SqlDatabase::load(&data(), limits, StatementBudget::within(TIME)).unwrap()
}

fn run(query: &str) -> Result<String, QueryFailure> {
    database(LIMITS).query(query)
}

fn rejected(query: &str) -> String {
    match run(query) {
        Err(QueryFailure::Query(message)) => message,
        other => panic!("{query}: {other:?}"),
    }
}

#[test]
fn rows_are_lines_and_values_are_joined() {
    for (query, text) in [
        ("SELECT COUNT(*) FROM staff", "3"),
        ("select id, name, pay from staff order by id;", "1|Ann|10.0\n2|Bo|b|20.5\n3|NULL|1.0"),
        ("WITH t(n) AS (SELECT 7) SELECT n, n / 2.0, x'0aff' FROM t -- that is it", "7|3.5|x'0aff'"),
        ("VALUES (1), ('a')", "1\na"),
        ("SELECT name FROM rich", "Bo|b"),
        ("SELECT * FROM empty", "(no rows)"),
        ("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name", "empty\nstaff"),
        ("SELECT 1 AS one UNION SELECT 0.1 + 0.2 ORDER BY one", "0.30000000000000004\n1"),
        ("SELECT value FROM json_each('[4,5]')", "4\n5"),
    ] {
        assert_eq!(run(query).as_deref(), Ok(text), "{query}");
    }
}

#[test]
fn agent_sees_errors_of_bad_queries() {
    for (query, words) in [
        ("SELECT pays FROM staff", "no such column: pays"),
        ("SELECT * FROM staffs", "no such table: staffs"),
        ("SELEC 1", "syntax error"),
        ("SELECT", "incomplete input"),
        ("SELECT ?", "parameters"),
        ("SELECT abs(-9223372036854775808)", "overflow"),
        ("", "only one SELECT"),
        ("-- nothing", "only one SELECT"),
    ] {
        assert!(rejected(query).contains(words), "{query}: {}", rejected(query));
    }
}

#[test]
fn writing_and_leaving_the_database_are_denied() {
    let database = database(LIMITS);
    let before = database.query("SELECT COUNT(*), SUM(pay) FROM staff").unwrap();
    for query in [
        "INSERT INTO staff(name) VALUES ('Eve')",
        "UPDATE staff SET pay = 0",
        "DELETE FROM staff",
        "WITH t AS (SELECT 1) DELETE FROM staff",
        "DROP TABLE staff",
        "CREATE TABLE t(x)",
        "CREATE TEMP TABLE t(x)",
        "ALTER TABLE staff ADD COLUMN x",
        "ATTACH ':memory:' AS other",
        "PRAGMA writable_schema = 1",
        "PRAGMA table_info(staff)",
        "BEGIN",
        "VACUUM",
        "REINDEX",
        "ANALYZE",
        "EXPLAIN SELECT 1",
        "SELECT 1; DROP TABLE staff",
        "SELECT 1; SELECT 2",
        "SELECT * FROM pragma_table_info('staff')",
        "SELECT load_extension('x')",
    ] {
        assert!(matches!(database.query(query), Err(QueryFailure::Query(_))), "{query}");
        assert_eq!(database.query("SELECT COUNT(*), SUM(pay) FROM staff").as_ref(), Ok(&before), "{query}");
    }
}

#[test]
fn clock_and_randomness_are_denied_but_dates_work() {
    for query in [
        "SELECT random()",
        "SELECT hex(randomblob(4))",
        "SELECT CURRENT_TIMESTAMP",
        "SELECT current_date",
        "SELECT date()",
        "SELECT date('now')",
        "SELECT DATE('NO' || 'W')",
        "SELECT date(x'6e6f77')",
        "SELECT datetime('now', '+1 day')",
        "SELECT strftime('%Y')",
        "SELECT unixepoch('subsec')",
        "SELECT julianday()",
        "SELECT timediff('2020-01-01', 'now')",
        "SELECT datetime('2020-01-01', 'localtime')",
        "SELECT datetime('2020-01-01', 'utc')",
    ] {
        assert!(!rejected(query).is_empty(), "{query}");
    }
    for (query, text) in [
        ("SELECT strftime('%Y', born) FROM staff WHERE id = 1", "1990"),
        ("SELECT date('2020-02-28', '+2 days')", "2020-03-01"),
        ("SELECT COUNT(*) FROM staff WHERE date(born) < date('1990-01-01')", "1"),
        ("SELECT unixepoch('1970-01-02')", "86400"),
        ("SELECT date(NULL)", "NULL"),
        ("SELECT date('no date')", "NULL"),
    ] {
        assert_eq!(run(query).as_deref(), Ok(text), "{query}");
    }
}

#[test]
fn endless_query_stops_after_the_same_steps_every_time() {
    let endless = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT COUNT(*) FROM t";
    assert_eq!(rejected(endless), "the query was stopped after 100000 steps; ask for less");
    // The depth that a recursion reaches is the same in every run and grows with the limit.
    let reaches = |steps: u64, max: u32| {
        let query = format!(
            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < {max}) SELECT COUNT(*) FROM t"
        );
        database(SqlLimits { steps, ..LIMITS }).query(&query).is_ok()
    };
    let farthest = |steps: u64| (0..20).map(|i| 1u32 << i).take_while(|max| reaches(steps, *max)).last();
    let few = farthest(20_000);
    assert_eq!(few, farthest(20_000));
    assert!(few.is_some() && few < farthest(200_000), "{few:?}");
    // The next query starts with its full allowance.
    let database = database(SqlLimits { steps: 20_000, ..LIMITS });
    for _ in 0..3 {
        assert!(database.query(endless).is_err());
        assert_eq!(database.query("SELECT COUNT(*) FROM staff").as_deref(), Ok("3"));
    }
}

#[test]
fn results_and_values_are_bounded() {
    let numbers = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 9) SELECT n FROM t";
    assert_eq!(run(numbers).unwrap(), "1\n2\n3\n4\n5\n... (more rows)");
    let tight = |output_bytes: usize| database(SqlLimits { output_bytes, ..LIMITS });
    assert_eq!(tight(7).query(numbers).unwrap(), "1\n2\n3\n4\n... (more rows)");
    let long = tight(7).query("SELECT 'longer than 7'");
    assert!(matches!(&long, Err(QueryFailure::Query(m)) if m.contains("longer than 7 bytes")), "{long:?}");
    for query in ["SELECT length(zeroblob(1000000))", "SELECT hex(zeroblob(60000))"] {
        assert!(rejected(query).contains("too big"), "{query}: {}", rejected(query));
    }
    assert!(run(&format!("SELECT 1 {}", " ".repeat(20_000))).is_err());
    for (pattern, fits) in [(100, true), (101, false)] {
        for operator in ["LIKE", "GLOB"] {
            let compared = run(&format!("SELECT 'a' {operator} '{}'", "b".repeat(pattern)));
            assert_eq!(compared.is_ok(), fits, "{operator} {pattern}: {compared:?}");
        }
    }
}

#[test]
fn errors_in_the_data_are_explained() {
    let load = |value: Value| {
        let data: DatabaseData = serde_json::from_value(value).unwrap();
        SqlDatabase::load(&data, LIMITS, StatementBudget::within(TIME)).err().map(|e| e.message)
    };
    for (value, words) in [
        (json!({"schema": "CREATE TABL t(x)"}), "syntax error"),
        (json!({"schema": "CREATE TABLE t(x)", "rows": {"u": [[1]]}}), "no such table: u"),
        (json!({"schema": "CREATE TABLE t(x)", "rows": {"t": [[1], [1, 2]]}}), "row 1 of table `t`"),
        (json!({"schema": "CREATE TABLE t(x)", "rows": {"t": [[[1]]]}}), "row 0 of table `t`"),
        (json!({"schema": "ATTACH 'elsewhere.db' AS other"}), "not authorized"),
        (json!({"schema": "CREATE TABLE t(x); INSERT INTO t VALUES (random())"}), "random"),
    ] {
        let message = load(value.clone()).unwrap_or_default();
        assert!(message.contains(words), "{value}: {message}");
    }
    assert_eq!(load(json!({"schema": "CREATE TABLE \"a\"\"b\"(x)", "rows": {"a\"b": [[1]], "none": []}})), None);
    assert!(serde_json::from_value::<DatabaseData>(json!({"tables": []})).is_err());
}

#[test]
fn time_stops_a_query_before_its_steps() {
    let budget = StatementBudget::by_clock(Duration::from_millis(5), Arc::new(RunningClock::default()));
    let database = SqlDatabase::load(&data(), SqlLimits { steps: 100_000_000, ..LIMITS }, budget).unwrap();
    let endless = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT COUNT(*) FROM t";
    for _ in 0..2 {
        assert_eq!(database.query(endless), Err(QueryFailure::Late));
        assert_eq!(database.query("SELECT COUNT(*) FROM staff").as_deref(), Ok("3"));
    }
    let script = format!("CREATE TABLE t AS {endless}");
    let budget = StatementBudget::by_clock(Duration::from_millis(5), Arc::new(RunningClock::default()));
    let slow = DatabaseData { schema: script, ..DatabaseData::default() };
    let error = SqlDatabase::load(&slow, LIMITS, budget).err().unwrap();
    assert!(error.message.contains("its `schema` takes too long"), "{error}");
}

/// Clock that is a millisecond later at every look.
#[derive(Default)]
struct RunningClock(std::sync::atomic::AtomicU64);

impl trainyard_core::Clock for RunningClock {
    fn unix_millis(&self) -> i64 {
        0
    }
    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
    }
}
