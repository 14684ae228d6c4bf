use super::*;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use trainyard_core::ErrorKind;
use trainyard_tables::{Message, SamplingParams, Trajectory, write_trajectories};

/// Writes 3,000 trajectories of levels 1 to 3: the reward is level/10 for even rows, null-free; every third has a
/// format reward.
fn table() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    let row = |i: u32| Trajectory {
        id: format!("t{i:04}"),
        level: i % 3 + 1,
        reward: if i.is_multiple_of(2) { f64::from(i % 3 + 1) / 10.0 } else { 0.0 },
        rewards: if i.is_multiple_of(3) {
            [("answer".into(), 1.0), ("format".into(), 0.5)].into()
        } else {
            [("answer".into(), 0.0)].into()
        },
        token_ids: vec![i, 1, 2],
        loss_mask: vec![false, true, true],
        turn: vec![0, 0, 1],
        logprobs: i.is_multiple_of(2).then(|| vec![0.0, -0.5, -1.0]),
        messages: vec![Message::new("user", format!("question {i}"))],
        sampling: SamplingParams { temperature: 1.0, top_p: 0.5, top_k: 0 },
        answer: i.is_multiple_of(5).then(|| i.to_string()),
        seed: u64::from(i),
        ..Trajectory::default()
    };
    write_trajectories(&path, &(0..3000).map(row).collect::<Vec<_>>()).unwrap();
    (folder, path)
}

fn run_query(path: &Path, sql: &str) -> QueryResult {
    query(&[("self", path)], sql, QueryLimits::default()).unwrap_or_else(|e| panic!("{sql}: {e}"))
}

#[test]
fn query_of_the_documentation_runs() {
    let (_folder, path) = table();
    let result = run_query(&path, "select level, avg(reward) from self group by level");
    assert_eq!(result.columns[0], ResultColumn { name: "level".into(), r#type: "int".into() });
    assert_eq!(result.rows.iter().map(|r| r[0].clone()).collect::<Vec<_>>(), [json!(1), json!(2), json!(3)]);
    let mean = result.rows[1][1].as_f64().unwrap();
    assert!((mean - 0.1).abs() < 1e-12, "{mean}");
    assert!(!result.truncated);
}

#[test]
fn nested_columns_are_flat() {
    let (_folder, path) = table();
    let result = run_query(
        &path,
        "SELECT rewards_answer, rewards_format, sampling_top_p, messages, token_ids, turn, logprobs, status \
         FROM self LIMIT 2",
    );
    let expected = json!([[
        1.0,
        0.5,
        0.5,
        "[{\"content\":\"question 0\",\"role\":\"user\",\"tool_calls\":null}]",
        [0, 1, 2],
        [0, 0, 1],
        [0.0, -0.5, -1.0],
        "ok"
    ]]);
    assert_eq!(json!(result.rows[..1]), expected);
    assert_eq!((&result.rows[1][1], &result.rows[1][6]), (&Value::Null, &Value::Null));
    assert_eq!(result.objects()[0]["rewards_answer"], json!(1.0));
}

#[test]
fn all_columns_can_be_selected_and_counted() {
    let (_folder, path) = table();
    assert_eq!(run_query(&path, "select count(*) as n from self").rows, [[json!(3000)]]);
    let all = run_query(&path, "select * from self limit 1");
    assert!(all.columns.len() > 36 && all.columns.iter().any(|c| c.name == "verdicts"));
}

#[test]
fn joins_conditions_and_subqueries_work() {
    let (_folder, path) = table();
    let sql = "with best as (select level, max(reward) as top from self group by level) \
               select s.level, count(*) as n from self s join best b on s.level = b.level \
               where s.reward = b.top group by s.level order by s.level desc";
    assert_eq!(run_query(&path, sql).rows, [[json!(3), json!(500)], [json!(2), json!(500)], [json!(1), json!(500)]]);
    assert_eq!(
        run_query(&path, "select distinct status, stop_reason from self").rows,
        [[json!("ok"), json!("answer")]]
    );
    let two = query(
        &[("a", &path), ("b", &path)],
        "select count(*) as n from a join b on a.id = b.id",
        QueryLimits::default(),
    )
    .unwrap();
    assert_eq!(two.rows, [[json!(3000)]]);
}

#[test]
fn a_statement_needs_no_table() {
    assert_eq!(query(&[], "select 1 as one", QueryLimits::default()).unwrap().rows, [[json!(1)]]);
}

#[test]
fn everything_but_one_select_is_refused() {
    let (folder, path) = table();
    let texts = [
        "drop table self",
        "delete from self",
        "truncate table self",
        "create table x as select * from self",
        "insert into self values (1)",
        "update self set level = 1",
        "explain select * from self",
        "show tables",
        "select 1 from self; drop table self",
        "select * into x from self",
        "with x as (delete from self returning *) select * from x",
        "",
        "select from where",
        "select nothing from self",
        "select * from read_csv('/etc/passwd')",
        "select * from read_parquet('x')",
        "select * from other",
    ];
    for text in texts {
        let error = query(&[("self", &path)], text, QueryLimits::default()).expect_err(text);
        assert_eq!(error.kind, ErrorKind::Invalid, "{text}: {error}");
    }
    let error = query(&[("self", &path)], "drop table self", QueryLimits::default()).unwrap_err();
    assert!(error.message.contains("DROP"), "{error}");
    assert!(folder.path().join("data.parquet").exists());
}

#[test]
fn results_and_inputs_are_bounded() {
    let (_folder, path) = table();
    let few =
        query(&[("self", &path)], "select id from self", QueryLimits { rows: 7, ..QueryLimits::default() }).unwrap();
    assert_eq!((few.rows.len(), few.truncated, &few.rows[6][0]), (7, true, &json!("t0006")));
    let error = query(&[("self", &path)], "select * from self", QueryLimits { bytes: 1000, ..QueryLimits::default() })
        .unwrap_err();
    assert!(error.message.contains("larger than the limit"), "{error}");
}

#[test]
fn results_print_as_aligned_text() {
    let (_folder, path) = table();
    let text =
        run_query(&path, "select level, avg(reward) as mean, min(id) as first from self group by level order by level")
            .to_string();
    assert_eq!(
        text,
        "level  mean  first\n─────  ────  ─────\n\
         \x20   1  0.05  t0000\n    2   0.1  t0001\n    3  0.15  t0002\n\
         (3 rows)"
    );
    assert!(run_query(&path, "select count(*) from self").to_string().ends_with("(1 row)"));
}

#[test]
fn results_without_order_by_are_reproducible() {
    let (_folder, path) = table();
    let sql = "select seed, level, count(*) as n from self group by seed, level";
    let first = run_query(&path, sql);
    assert_eq!(first.rows[999], [json!(999), json!(1), json!(1)]);
    assert_eq!(first, run_query(&path, sql));
}

#[test]
fn filters_evaluate_every_row() {
    let (_folder, path) = table();
    let mask = filter_mask(&path, "reward > 0.15 AND level >= 2").unwrap();
    assert_eq!(mask.len(), 3000);
    assert!(mask.iter().enumerate().all(|(i, keep)| *keep == (i % 2 == 0 && i % 3 > 0)));
    let nulls = filter_mask(&path, "answer = '5'").unwrap();
    assert_eq!(nulls.iter().filter(|k| **k).count(), 1, "null is not kept");
    assert_eq!(filter_mask(&path, "REWARD > 0.15 AND Level >= 2").unwrap(), mask);
    assert_eq!(filter_mask(&path, "reward > avg(reward)").unwrap().len(), 3000);
    assert!(filter_mask(&path, "max(reward) > 0.2").unwrap().iter().all(|k| *k));
    assert!(filter_mask(&path, "true").unwrap().iter().all(|k| *k));
    assert_eq!(filter_mask(&path, "rewards_format IS NOT NULL").unwrap().iter().filter(|k| **k).count(), 1000);
}

#[test]
fn invalid_filters_are_explained() {
    let (_folder, path) = table();
    for (text, part) in [
        ("reward", "not true or false"),
        ("rewrd > 1", "rewrd"),
        ("reward >", "reward"),
        ("level = 'x' AND", "filter"),
        ("select 1", "filter"),
        ("id in (select id from self)", "filter"),
        ("id in (select 1)", "filter"),
        ("", "filter"),
    ] {
        let error = filter_mask(&path, text).expect_err(text);
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.message.contains(part), "{text}: {error}");
    }
}

#[test]
fn empty_tables_are_queried() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    write_trajectories(&path, &[]).unwrap();
    assert_eq!(run_query(&path, "select level, avg(reward) from self group by level").rows, Vec::<Vec<Value>>::new());
    assert_eq!(filter_mask(&path, "reward > 0").unwrap(), Vec::<bool>::new());
}

#[test]
fn corrupt_tables_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    std::fs::write(&path, b"PAR1 nothing").unwrap();
    let error = query(&[("self", &path)], "select 1 from self", QueryLimits::default()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Data);
    assert!(error.message.contains("data.parquet"), "{error}");
}

/// Returns the first row of a statement without tables.
fn one(sql: &str) -> Vec<Value> {
    query(&[], sql, QueryLimits::default()).unwrap_or_else(|e| panic!("{sql}: {e}")).rows.remove(0)
}

#[test]
fn common_sql_means_what_people_expect() {
    assert_eq!(one("select 5 / 2, 5 // 2, -5 // 2, 5 % 2"), [json!(2.5), json!(2), json!(-3), json!(1)]);
    assert_eq!(
        one("select 'aB' like 'ab', 'aB' ilike 'AB', 'ab' not ilike 'x%'"),
        [json!(false), json!(true), json!(true)]
    );
    assert_eq!(one("select '7'::int + 1, 3::text, cast(2.7 as int)"), [json!(8), json!("3"), json!(2)]);
    assert_eq!(one("select 'tool_call' rlike '^tool_', 'x' not rlike 'y'"), [json!(true), json!(true)]);
    assert_eq!(
        one("select greatest(1, 3, 2), least(4, 2), sqrt(9), pow(2, 10)"),
        [json!(3), json!(2), json!(3.0), json!(1024.0)]
    );
    assert_eq!(one("select case when 1 < 2 then true else false end as b"), [json!(true)]);
    assert_eq!(
        one("select starts_with('abc', 'ab'), strpos('abc', 'c'), left('abc', 2)"),
        [json!(true), json!(3), json!("ab")]
    );
    let error = query(&[], "select \"misspelled\"", QueryLimits::default()).unwrap_err();
    assert!(error.message.contains("there is no column `misspelled`"), "{error}");
}

#[test]
fn statistics_gather_rows_and_windows() {
    let (_folder, path) = table();
    let sql = "select median(seed) as m, quantile_cont(seed, 0.25) as q, stddev(level) as s, variance(level) as v, \
               bool_or(level > 2) as b from self";
    let row = &run_query(&path, sql).rows[0];
    assert_eq!((&row[0], &row[1], &row[4]), (&json!(1499.5), &json!(749.75), &json!(true)));
    let (deviation, variance) = (row[2].as_f64().unwrap(), row[3].as_f64().unwrap());
    assert!((variance - 2000.0 / 2999.0).abs() < 1e-12 && (deviation * deviation - variance).abs() < 1e-12);
    let moving =
        "select median(seed) over (order by seed rows between 1 preceding and 1 following) as m from self limit 3";
    assert_eq!(run_query(&path, moving).rows, [[json!(0.5)], [json!(1.0)], [json!(2.0)]]);
    let kept = filter_mask(&path, "seed > median(seed)").unwrap();
    assert_eq!(kept.iter().filter(|keep| **keep).count(), 1500);
}

#[test]
fn list_functions_work() {
    let (_folder, path) = table();
    let sql = "select array_length(token_ids), array_sum(logprobs), array_contains(turn, 1), array_get(token_ids, 2), \
               array_agg(level) from self where seed = 4";
    assert_eq!(run_query(&path, sql).rows[0], [json!(3), json!(-1.5), json!(true), json!("1"), json!([2])]);
}

#[test]
fn result_columns_have_types() {
    let (_folder, path) = table();
    let result =
        run_query(&path, "select level > 1 as high, level, reward, status, token_ids, null as none from self limit 1");
    let types: Vec<&str> = result.columns.iter().map(|c| c.r#type.as_str()).collect();
    assert_eq!(types, ["bool", "int", "float", "string", "list", "null"]);
    assert_eq!(result.rows[0][0], json!(false));
}

#[test]
fn large_integers_keep_their_digits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    write_trajectories(&path, &[Trajectory { seed: u64::MAX, ..Trajectory::default() }]).unwrap();
    assert_eq!(run_query(&path, "select seed from self").rows, [[json!(u64::MAX)]]);
}

#[test]
fn wrong_statements_are_explained() {
    let (folder, path) = table();
    let error = |sql: &str| query(&[("self", &path)], sql, QueryLimits::default()).unwrap_err();
    let unknown = error("select foo from self");
    assert!(unknown.message.contains("there is no column `foo`"), "{unknown}");
    let help = unknown.help.unwrap();
    assert!(help.contains("rewards_answer") && !help.contains(&folder.path().display().to_string()), "{help}");
    let nested = error("select messages[1].content from self");
    assert!(nested.message.contains("JSON text") && nested.help.unwrap().contains("json_extract"));
    let content = "select json_extract(messages, '$[0].content') as c from self limit 1";
    assert_eq!(run_query(&path, content).rows, [[json!("question 0")]]);
}

#[test]
fn artifacts_are_tables_by_their_names() {
    let (_folder, path) = table();
    let (_other, problems) = table();
    let sql = "select count(*) as n, min(p.id) as first from latest/test/problems p join self s on s.id = p.id \
               where s.level = 2";
    assert_eq!(table_names(sql).unwrap(), ["latest/test/problems", "self"]);
    let tables = [("self", path.as_path()), ("latest/test/problems", problems.as_path())];
    assert_eq!(query(&tables, sql, QueryLimits::default()).unwrap().rows, [[json!(1000), json!("t0001")]]);
    let alone = "select count(*) from {latest/test/problems} where level = 2";
    assert_eq!(query(&tables, alone, QueryLimits::default()).unwrap().rows, [[json!(1000)]]);
    let quoted = "with x as (select 1 as one) select one from x, \"latest/test/problems\" limit 1";
    assert_eq!(table_names(quoted).unwrap(), ["latest/test/problems", "x"]);
    assert_eq!(query(&tables, quoted, QueryLimits::default()).unwrap().rows, [[json!(1)]]);
}

#[test]
fn tables_that_a_statement_does_not_name_are_not_read() {
    let (folder, path) = table();
    let absent = folder.path().join("absent.parquet");
    let tables = [("self", path.as_path()), ("latest/test/problems", absent.as_path())];
    assert_eq!(query(&tables, "select count(*) from SELF", QueryLimits::default()).unwrap().rows, [[json!(3000)]]);
    assert!(query(&tables, "select 1 from latest/test/problems", QueryLimits::default()).is_err());
}

#[test]
fn errors_of_statements_have_help() {
    let (_folder, path) = table();
    let tables = [("self", path.as_path()), ("latest/test/problems", path.as_path())];
    let help = |sql: &str| query(&tables, sql, QueryLimits::default()).expect_err(sql).help.expect(sql);
    for sql in ["selct level from self", "", "select 1; select 2"] {
        assert!(help(sql).contains("e.g. `select level, avg(reward) from self group by level`"), "{sql}");
    }
    let both = help("select s.foo from self s join latest/test/problems p on p.id = s.id");
    assert!(both.contains("`self` has id, ") && both.contains("`latest/test/problems` has id, "), "{both}");
    assert!(help("select 1 from other").contains("join latest/test/problems p"));
    let filter = |text: &str| filter_mask(&path, text).expect_err(text).help.expect(text);
    assert!(filter("reward >").contains("the columns are: id, problem_id"));
    assert!(filter("rewrd > 1").contains("the columns are: id, problem_id"));
}
