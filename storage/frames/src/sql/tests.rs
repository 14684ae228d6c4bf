//! Tests statements by results that are computed by hand.

use super::*;
use arrow_array::RecordBatch;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trainyard_core::{Error, ErrorKind, Result};
use trainyard_tables::json::{CellLimits, row_as_json};
use trainyard_tables::{BatchWriter, TableBuilder};

/// Tables of a test, in a folder that is removed after it.
struct Tables {
    _folder: tempfile::TempDir,
    tables: Vec<FrameTable>,
}

impl Tables {
    /// Makes `problems` (4 rows), `tries` (6 rows, one without a problem, one with nulls) and `empty`.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(format!("{name}.parquet"));
        TableBuilder::new()
            .string("id", ["p1", "p2", "p3", "p4"])
            .i64("level", [Some(1), Some(2), Some(2), None])
            .write(&path("problems"))
            .unwrap();
        TableBuilder::new()
            .string("id", ["a", "b", "c", "d", "e", "f"])
            .optional_string("problem_id", ["p2", "p1", "p2", "p2", "p9"].map(Some).into_iter().chain([None]))
            .f64("reward", [Some(1.0), Some(0.5), Some(0.0), Some(1.0), Some(0.25), None])
            .i64("turns", [3, 1, 2, 5, 4, 6].map(Some))
            .write(&path("tries"))
            .unwrap();
        let none: [Option<i64>; 0] = [];
        TableBuilder::new().i64("n", none).write(&path("empty")).unwrap();
        let open = |name: &str| FrameTable::open(name, vec![path(name)]).unwrap();
        let tables = ["problems", "tries", "empty"].map(open).into();
        Self { _folder: folder, tables }
    }
    fn try_run(&self, sql: &str, settings: &FrameSettings) -> Result<FrameResult> {
        FrameStatement::parse(sql)?.run(&self.tables, settings)
    }
    fn rows(&self, sql: &str) -> Vec<Value> {
        let result = self.try_run(sql, &FrameSettings::new(0, 1_000)).unwrap_or_else(|e| panic!("{sql}: {e}"));
        cells(&result)
    }
    fn error(&self, sql: &str) -> Error {
        self.try_run(sql, &FrameSettings::new(0, 1_000)).err().unwrap_or_else(|| panic!("{sql} has no error"))
    }
}

/// Returns the cells of each row, in the order of the columns.
fn cells(result: &FrameResult) -> Vec<Value> {
    let names: Vec<String> = result.columns().map(str::to_string).collect();
    let row = |row: Value| names.iter().map(|name| row[name].clone()).collect::<Value>();
    let batches: Vec<_> = result.batches().collect::<Result<_>>().unwrap();
    let json = |batch: &RecordBatch| {
        (0..batch.num_rows()).map(|i| row_as_json(batch, i, CellLimits::NONE)).collect::<Vec<_>>()
    };
    batches.iter().flat_map(json).map(row).collect()
}

#[test]
fn groups_are_in_the_order_of_their_first_rows() {
    let tables = Tables::new();
    let sql = "select problem_id, count(*) as n, avg(reward) as mean, sum(turns) as turns from tries \
               group by problem_id";
    let expected = [
        json!(["p2", 3, 2.0 / 3.0, 10]),
        json!(["p1", 1, 0.5, 1]),
        json!(["p9", 1, 0.25, 4]),
        json!([null, 1, null, 6]),
    ];
    assert_eq!(tables.rows(sql), expected);
    let having = "select problem_id from tries group by problem_id having count(*) > 1";
    assert_eq!(tables.rows(having), [json!(["p2"])]);
    assert_eq!(tables.rows("select count(*) as n, count(reward) as known from tries"), [json!([6, 5])]);
    assert_eq!(
        tables.rows("select sum(reward) as s, max(reward) as m from tries where id = 'f'"),
        [json!([null, null])]
    );
}

#[test]
fn joined_rows_are_in_the_order_of_the_left_table_and_then_of_the_right_one() {
    let tables = Tables::new();
    let inner = "select p.id as problem, t.id as try from problems p join tries t on p.id = t.problem_id";
    let expected = [json!(["p1", "b"]), json!(["p2", "a"]), json!(["p2", "c"]), json!(["p2", "d"])];
    assert_eq!(tables.rows(inner), expected);
    let left = "select p.id as problem, t.id as try from problems p left join tries t on p.id = t.problem_id \
                where p.level = 2 or p.level is null";
    let expected =
        [json!(["p2", "a"]), json!(["p2", "c"]), json!(["p2", "d"]), json!(["p3", null]), json!(["p4", null])];
    assert_eq!(tables.rows(left), expected);
    // Nulls do not match each other.
    let own = "select a.id as a, b.id as b from tries a join tries b on a.problem_id = b.problem_id where a.id = 'f'";
    assert_eq!(tables.rows(own), Vec::<Value>::new());
    let without = "select id from problems where id not in (select problem_id from tries where problem_id is not null)";
    assert_eq!(tables.rows(without), [json!(["p3"]), json!(["p4"])]);
}

#[test]
fn inner_joins_take_any_condition() {
    let tables = Tables::new();
    let pairs = "select a.id as better, b.id as worse from tries a join tries b \
                 on a.problem_id = b.problem_id and a.reward > b.reward";
    assert_eq!(tables.rows(pairs), [json!(["a", "c"]), json!(["d", "c"])]);
    let earlier = "select a.id as a, b.id as b from tries a join tries b on a.turns < b.turns where b.id = 'a'";
    assert_eq!(tables.rows(earlier), [json!(["b", "a"]), json!(["c", "a"])]);
    let error = tables.error("select a.id from tries a left join tries b on a.turns < b.turns");
    assert!(error.message.contains("`a.turns < b.turns` is not supported"), "{error}");
}

#[test]
fn windows_number_the_rows_of_each_part_and_keep_the_order_of_equal_keys() {
    let tables = Tables::new();
    let best = "select id, row_number() over (partition by problem_id order by reward desc) as place from tries \
                where problem_id is not null";
    let expected = [json!(["a", 1]), json!(["b", 1]), json!(["c", 3]), json!(["d", 2]), json!(["e", 1])];
    assert_eq!(tables.rows(best), expected);
    let first = "select id, row_number() over (partition by problem_id order by reward desc) as place from tries \
                 qualify place = 1";
    assert_eq!(tables.rows(first), ["a", "b", "e", "f"].map(|id| json!([id, 1])));
    let share = "select id, turns - avg(turns) over (partition by problem_id) as more from tries \
                 where problem_id = 'p1'";
    assert_eq!(tables.rows(share), [json!(["b", 0.0])]);
}

#[test]
fn sorts_are_stable_and_put_nulls_last_when_ascending() {
    let tables = Tables::new();
    let ids = |sql: &str| tables.rows(sql).iter().map(|row| row[0].as_str().unwrap().to_string()).collect::<String>();
    assert_eq!(ids("select id from tries order by reward"), "cebadf");
    assert_eq!(ids("select id from tries order by reward desc, turns"), "fadbec");
    assert_eq!(ids("select id from tries order by reward desc nulls last limit 2 offset 1"), "db");
    assert_eq!(ids("select distinct problem_id as id from tries where problem_id is not null"), "p2p1p9");
    assert_eq!(ids("select id from tries where turns > 4 union all select id from problems where level = 1"), "dfp1");
}

#[test]
fn a_statement_may_define_tables() {
    let tables = Tables::new();
    let sql = "with rates as (select problem_id, avg(reward) as rate from tries group by problem_id) \
               select p.id, r.rate from problems p join rates r on p.id = r.problem_id where r.rate < 0.6";
    assert_eq!(tables.rows(sql), [json!(["p1", 0.5])]);
    let statement = FrameStatement::parse(sql).unwrap();
    assert_eq!(statement.tables().iter().collect::<Vec<_>>(), ["problems", "tries"]);
    assert_eq!(statement.own_tables().iter().collect::<Vec<_>>(), ["rates"]);
    let mean = "select id from tries cross join (select avg(reward) as mean from tries) m where reward > m.mean";
    assert_eq!(tables.rows(mean), [json!(["a"]), json!(["d"])]);
}

#[test]
fn samples_depend_on_the_seed_and_the_values_alone() {
    let tables = Tables::new();
    let draw = |seed: u64, sql: &str| cells(&tables.try_run(sql, &FrameSettings::new(seed, 1_000)).unwrap());
    let sql = "select id, random(id) as x from tries";
    let chance = trainyard_core::Chance::new(7);
    let expected: Vec<Value> = ["a", "b"].map(|id| json!([id, chance.at(&format!("1:{id}"), &[]).uniform()])).into();
    assert_eq!(draw(7, sql)[..2], expected);
    assert_ne!(draw(7, sql), draw(8, sql));
    // The number of a row does not depend on the rows before it.
    assert_eq!(draw(7, "select id, random(id) as x from tries where id = 'b'"), expected[1..]);
    let sample = "select id from tries order by random(id) limit 3";
    assert_eq!(draw(3, sample), draw(3, sample));
    assert_eq!(draw(3, sample).len(), 3);
    assert!(tables.error("select id from tries order by random()").help.unwrap().contains("random(id)"));
}

#[test]
fn arithmetic_has_defined_results_at_its_limits() {
    let tables = Tables::new();
    let level = |items: &str| tables.rows(&format!("select {items} from problems where id = 'p1'"));
    let limit = level("level * 9223372036854775807 + 1 as x")[0][0].clone();
    assert_eq!(limit, json!(i64::MIN), "integers wrap around");
    assert_eq!(level("7 / 2 * level as x"), [json!([3.5])], "`/` makes a float");
    assert_eq!(level("level % 0 as x"), [json!([null])]);
    assert_eq!(level("null as x, id"), [json!([null, "p1"])]);
    // Infinity has no JSON form.
    assert_eq!(level("(level / 0) > 1000000000000000000 as x"), [json!([true])]);
}

#[test]
fn small_unsigned_integers_have_signed_differences() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    let problem = trainyard_tables::Problem { id: "p".into(), level: 1, ..trainyard_tables::Problem::default() };
    trainyard_tables::write_problems(&path, &[problem]).unwrap();
    let tables = [FrameTable::problems("problems", vec![path])];
    let statement = FrameStatement::parse("select level - 3 as x from problems").unwrap();
    assert_eq!(cells(&statement.run(&tables, &FrameSettings::new(0, 10)).unwrap()), [json!([-2])]);
}

#[test]
fn empty_tables_have_empty_results_and_totals() {
    let tables = Tables::new();
    assert_eq!(tables.rows("select n, n + 1 as m from empty where n > 3 order by n"), Vec::<Value>::new());
    assert_eq!(tables.rows("select count(*) as rows, sum(n) as sum from empty"), [json!([0, null])]);
    assert_eq!(tables.rows("select e.n from empty e join tries t on e.n = t.turns"), Vec::<Value>::new());
}

#[test]
fn more_rows_than_the_limit_are_an_error_before_a_join_is_made() {
    let tables = Tables::new();
    let limited = |sql: &str, most: u64| tables.try_run(sql, &FrameSettings::new(0, most)).map(|result| result.rows());
    let pairs = "select a.id from tries a join tries b on a.problem_id = b.problem_id";
    assert_eq!(limited(pairs, 11).unwrap(), 11, "3 * 3 + 1 + 1");
    let error = limited(pairs, 10).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("a join has 11 rows") && error.message.contains("`max_rows`"), "{error}");
    let all = "select count(*) as n from tries a cross join tries b";
    assert_eq!(limited(all, 36).unwrap(), 1);
    assert!(limited(all, 35).is_err());
    let left = "select p.id from problems p left join tries t on p.id = t.problem_id";
    assert_eq!((limited(left, 6).unwrap(), limited(left, 5).is_err()), (6, true));
    let error = limited("select id from tries", 5).unwrap_err();
    assert!(error.message.contains("the result has more than 5 rows"), "{error}");
    assert_eq!(limited("select id from tries limit 5", 5).unwrap(), 5);
}

#[test]
fn other_statements_are_refused() {
    for (sql, word) in [
        ("delete from tries", "DELETE"),
        ("drop table tries", "DROP"),
        ("create table x as select * from tries", "CREATE"),
        ("insert into tries select * from tries", "INSERT"),
        ("truncate table tries", "TRUNCATE"),
        ("show tables", "SHOW"),
        ("explain select * from tries", "EXPLAIN"),
        ("select id from tries; select id from problems", "2 statements"),
        ("select * into x from tries", "SELECT INTO"),
        ("select * from read_parquet('/etc/x.parquet')", "read_parquet"),
        ("select * from other.tries", "other.tries"),
        ("select id from tries where", "cannot be read"),
        ("", "0 statements"),
    ] {
        let error = FrameStatement::parse(sql).err().unwrap_or_else(|| panic!("{sql} is accepted"));
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.message.contains(word), "{sql}: {error}");
        assert!(error.help.is_some(), "{sql}");
    }
}

#[test]
fn mistakes_name_the_columns_that_there_are() {
    let tables = Tables::new();
    let error = tables.error("select rewrad from tries");
    assert!(error.kind == ErrorKind::Invalid && error.message.contains("rewrad"), "{error}");
    let help = error.help.unwrap();
    assert!(help.starts_with("did you mean `reward`? ") && help.contains("`tries` has id, problem_id"), "{help}");
    let error = tables.error("select no_such_function(id) from tries");
    assert!(error.message.contains("no_such_function"), "{error}");
}

#[test]
fn a_damaged_file_is_an_error_of_the_data_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    let batch = TableBuilder::new().string("id", (0..5_000).map(|i| format!("row {i}"))).build().unwrap();
    let mut writer = BatchWriter::create(&path, batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let tables = [FrameTable::open("t", vec![path.clone()]).unwrap()];
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4..400].fill(0);
    std::fs::write(&path, bytes).unwrap();
    let run = FrameStatement::parse("select id from t").unwrap().run(&tables, &FrameSettings::new(0, 10_000));
    let error = run.err().unwrap();
    assert!(error.kind == ErrorKind::Data && error.message.contains("data.parquet"), "{error}");
}

#[test]
fn an_error_after_a_batch_ends_the_statement() {
    let tables = Tables::new();
    let after_batch: AfterBatch = Arc::new(|| Err(Error::cancelled("stopped")));
    let settings = FrameSettings { after_batch, ..FrameSettings::new(0, 100) };
    let error = tables.try_run("select count(*) as n from tries", &settings).err().unwrap();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Cancelled, "stopped"));
}

#[test]
fn files_of_a_table_follow_each_other_and_lack_columns_as_nulls() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, builder: TableBuilder| -> PathBuf {
        let path: &Path = &folder.path().join(name);
        builder.write(path).unwrap();
        path.to_path_buf()
    };
    let a = write("a", TableBuilder::new().i64("n", [Some(1), Some(2)]));
    let b = write("b", TableBuilder::new().string("text", ["x"]).i64("n", [Some(3)]));
    let table = FrameTable::open("t", vec![a.clone(), b]).unwrap();
    let rows = FrameStatement::parse("select * from t").unwrap().run(&[table], &FrameSettings::new(0, 10)).unwrap();
    assert_eq!(cells(&rows), [json!([1, null]), json!([2, null]), json!([3, "x"])]);
    let c = write("c", TableBuilder::new().string("n", ["x"]));
    let error = FrameTable::open("t", vec![a, c]).err().unwrap();
    assert!(error.message.contains("column `n` has type Utf8"), "{error}");
}

#[test]
fn source_ids_are_those_of_statements_that_keep_rows() {
    let tables = Tables::new();
    let with = |sql: &str| FrameStatement::parse(sql).unwrap().with_source_ids();
    let kept = with("select concat('hard-', id) as id, turns from tries where turns > 4 order by turns desc").unwrap();
    let rows = cells(&kept.run(&tables.tables, &FrameSettings::new(0, 10)).unwrap());
    assert_eq!(rows, [json!(["hard-f", 6, "f"]), json!(["hard-d", 5, "d"])]);
    for sql in [
        "select id, turns from tries",
        "select max(id) as id from tries",
        "select concat(problem_id, '') as id from tries group by problem_id",
        "select concat(a.id, b.id) as id from tries a cross join tries b",
        "select distinct lower(id) as id from tries",
        "select upper(id) as id, problem_id as parents from tries",
        "select upper(id) as id from tries union all select id from problems",
        "select *, upper(id) as other from tries",
    ] {
        assert!(with(sql).is_none(), "{sql}");
    }
}

#[test]
fn numbers_take_the_types_of_a_schema() {
    use arrow_schema::{DataType, Field, Schema};
    let tables = Tables::new();
    let schema = |kind| Arc::new(Schema::new(vec![Field::new("x", kind, true)]));
    let result = tables.try_run("select turns as x, id from tries", &FrameSettings::new(0, 10)).unwrap();
    let small = result.typed(&schema(DataType::UInt32)).unwrap().schema().unwrap();
    assert_eq!((small.field(0).data_type(), small.field(1).data_type()), (&DataType::UInt32, &DataType::Utf8));
    let error = result.typed(&schema(DataType::Utf8)).err().unwrap();
    assert!(error.kind == ErrorKind::Invalid && error.message.contains("column `x`"), "{error}");
    let negative = tables.try_run("select 0 - turns as x from tries", &FrameSettings::new(0, 10)).unwrap();
    let error = negative.typed(&schema(DataType::UInt32)).err().unwrap();
    assert!(error.kind == ErrorKind::Data && error.message.contains("column `x`"), "{error}");
}
