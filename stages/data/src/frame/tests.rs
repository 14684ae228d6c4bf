//! Tests the checks and the output of `data/frame` on small tables.

use super::evaluate::rows;
use super::*;
use trainyard_core::{ErrorKind, Facts};
use trainyard_tables::{
    ExtraColumns, Message, Problem, TableRow as _, Trajectory, read_batches, read_problems, read_trajectories,
    write_problems, write_trajectories,
};

fn config(sql: &str, output: FrameOutput) -> FrameConfig {
    FrameConfig { sql: sql.into(), output, seed: 0, max_rows: 100 }
}

/// Returns the problems that `check` reports, with inputs of these names and kinds.
fn checked(sql: &str, output: FrameOutput, inputs: &[(&str, ArtifactKind)]) -> Vec<OptionProblem> {
    let prepared = PreparedFrame { config: config(sql, output), statement: FrameStatement::parse(sql) };
    let mut wired = WiredInputs::default();
    for (name, kind) in inputs {
        wired.wire(*name, vec![Facts::new()]);
        wired.set_kind(*name, *kind);
    }
    prepared.problems().into_iter().chain(prepared.problems_with(&wired)).collect()
}

const PROBLEMS: (&str, ArtifactKind) = ("problems", ArtifactKind::Problems);
const TRIES: (&str, ArtifactKind) = ("tries", ArtifactKind::Trajectories);

/// Folder with three problems, two of which have trajectories.
struct Files {
    folder: tempfile::TempDir,
    tables: Vec<FrameTable>,
}

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (problems, tries) = (folder.path().join("p.parquet"), folder.path().join("t.parquet"));
        let problem = |i: u32| Problem {
            id: format!("p{i}"),
            messages: vec![Message::new("user", format!("question {i}"))],
            level: i,
            meta: (i == 2).then(|| r#"{"lang": "de"}"#.into()),
            ..Problem::default()
        };
        let of = |i: u32, reward: f64| Trajectory {
            id: format!("t{i}"),
            problem_id: format!("p{}", i % 2 + 1),
            reward,
            messages: vec![Message::new("assistant", format!("answer {i}"))],
            parents: vec!["earlier".into()],
            ..Trajectory::default()
        };
        write_problems(&problems, &[problem(1), problem(2), problem(3)]).unwrap();
        write_trajectories(&tries, &[of(0, 1.0), of(1, 0.0), of(2, 0.5)]).unwrap();
        let tables =
            vec![FrameTable::problems("problems", vec![problems]), FrameTable::trajectories("tries", vec![tries])];
        Self { folder, tables }
    }
    fn write(&self, sql: &str, output: FrameOutput) -> Result<PathBuf> {
        let path = self.folder.path().join("out.parquet");
        rows(&config(sql, output), &self.tables, &FrameSettings::new(0, 100))?.write(&path)?;
        Ok(path)
    }
    fn error(&self, sql: &str, output: FrameOutput) -> Error {
        self.write(sql, output).err().unwrap_or_else(|| panic!("{sql} has no error"))
    }
}

#[test]
fn problems_that_are_selected_by_a_join_are_unchanged() {
    let files = Files::new();
    let sql = "select p.* from problems p \
               join (select problem_id, avg(reward) as rate from tries group by problem_id) r \
               on p.id = r.problem_id where r.rate < 0.5";
    let kept = read_problems(&files.write(sql, FrameOutput::Problems).unwrap()).unwrap();
    let all = "select * from problems order by level desc";
    let sorted = read_problems(&files.write(all, FrameOutput::Problems).unwrap()).unwrap();
    assert_eq!(kept, [sorted[1].clone()], "p1 has the mean 0.75, p2 has 0");
    let mut original = read_problems(&files.folder.path().join("p.parquet")).unwrap();
    original.reverse();
    assert_eq!(sorted, original);
}

#[test]
fn trajectories_come_back_as_they_were() {
    let files = Files::new();
    let path = files.write("select * from tries", FrameOutput::Trajectories).unwrap();
    let before = read_trajectories(&files.folder.path().join("t.parquet")).unwrap();
    assert_eq!(read_trajectories(&path).unwrap(), before);
}

#[test]
fn parents_are_the_sources_of_rows_with_new_ids() {
    let files = Files::new();
    let schema = Trajectory::schema(ExtraColumns::default());
    let others: Vec<String> = schema
        .fields()
        .iter()
        .filter(|field| !["id", "parents"].contains(&field.name().as_str()))
        .map(|field| format!("\"{}\"", field.name()))
        .collect();
    let others = others.join(", ");
    let parents = |sql: &str| -> Vec<Vec<String>> {
        let path = files.write(sql, FrameOutput::Trajectories).unwrap();
        read_trajectories(&path).unwrap().into_iter().map(|row| row.parents).collect()
    };
    let renamed = format!("select if(reward > 0.6, id, concat('low-', id)) as id, {others} from tries");
    assert_eq!(parents(&renamed), [vec![], vec!["t1".to_string()], vec!["t2".to_string()]]);
    assert_eq!(parents(&format!("select id, {others} from tries limit 1")), [Vec::<String>::new()]);
    let selected = format!("select upper(id) as id, parents, {others} from tries limit 1");
    assert_eq!(parents(&selected), [vec!["earlier".to_string()]]);
}

#[test]
fn tables_have_the_columns_of_the_statement() {
    let files = Files::new();
    let names = |sql: &str| -> Vec<String> {
        let (schema, _) = read_batches(&files.write(sql, FrameOutput::Table).unwrap()).unwrap();
        schema.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect()
    };
    let grouped =
        "select problem_id, count(*) as n, array_agg(id) as parents, null as x from tries group by problem_id";
    let found = names(grouped);
    assert_eq!(found[0], "problem_id Utf8");
    assert!(found[2].starts_with("parents List(") && found[3] == "x Utf8", "{found:?}");
    let renamed = names("select concat('x', id) as id, level from problems");
    assert_eq!((renamed[0].as_str(), renamed[1].as_str()), ("id Utf8", "level Int64"));
    assert!(renamed[2].starts_with("parents List("), "{renamed:?}");
}

#[test]
fn columns_that_a_kind_lacks_or_needs_are_named() {
    let files = Files::new();
    let error = files.error("select *, 1 as levl from problems", FrameOutput::Problems);
    assert!(error.kind == ErrorKind::Invalid && error.message == "problems have no column `levl`", "{error}");
    assert!(error.help.unwrap().starts_with("did you mean `level`? "));
    let error = files.error("select from problems", FrameOutput::Table);
    assert!(error.message.contains("selects no columns"), "{error}");
    let error = files.error("select id, messages, level from problems", FrameOutput::Problems);
    assert!(error.message.starts_with("problems need the column `answer`, `verifier`"), "{error}");
    assert!(error.help.unwrap().contains("'' as answer"));
    let error = files.error("select * replace (id as level) from problems", FrameOutput::Problems);
    assert!(error.message.contains("column `level`"), "{error}");
    let error = files.error("select * replace (level - 2 as level) from problems", FrameOutput::Problems);
    assert!(error.kind == ErrorKind::Data && error.message.contains("column `level`"), "{error}");
    let null = "select * replace (nullif(level, 2) as level) from problems";
    let error = files.error(null, FrameOutput::Problems);
    assert!(error.message.contains("column `level` has 1 nulls"), "{error}");
    assert!(error.help.unwrap().contains("coalesce"));
}

#[test]
fn parts_of_structs_and_lists_are_values() {
    let files = Files::new();
    let sql = "select sampling.temperature as t, array_get(parents, 1) as parent, array_length(token_ids) as n, \
               messages from tries limit 1";
    let (_, batches) = read_batches(&files.write(sql, FrameOutput::Table).unwrap()).unwrap();
    let row = trainyard_tables::json::row_as_json(&batches[0], 0, trainyard_tables::json::CellLimits::NONE);
    let first = Trajectory::default().sampling.temperature;
    assert_eq!((row["t"].as_f64(), row["parent"].as_str(), row["n"].as_u64()), (Some(first), Some("earlier"), Some(0)));
    assert_eq!(row["messages"][0]["content"], "answer 0");
}

#[test]
fn equal_inputs_give_equal_bytes() {
    let files = Files::new();
    let bytes = || {
        let sql = "select problem_id, sum(reward) as s from tries group by problem_id";
        std::fs::read(files.write(sql, FrameOutput::Table).unwrap()).unwrap()
    };
    assert_eq!(bytes(), bytes());
}

#[test]
fn check_finds_tables_that_are_no_inputs_and_inputs_that_are_not_read() {
    let found = checked("select * from problem", FrameOutput::Table, &[PROBLEMS]);
    let messages: Vec<&str> = found.iter().map(|problem| problem.message.as_str()).collect();
    let expected =
        ["`sql` reads `problem`, which is no input of the stage", "`sql` does not read the input `problems`"];
    assert_eq!(messages, expected);
    assert_eq!((found[0].pointer.as_str(), found[1].pointer.as_str()), ("/sql", "/problems"));
    assert!(found[0].help.as_deref().unwrap().starts_with("did you mean `problems`? "));
    let own = "with problems as (select * from tries) select * from problems";
    let found = checked(own, FrameOutput::Table, &[PROBLEMS, TRIES]);
    assert!(found[0].message.contains("`with` defines `problems`"), "{found:?}");
}

#[test]
fn check_finds_mistakes_in_statements_by_the_kinds_of_the_inputs() {
    let first = |sql: &str, output: FrameOutput| {
        let found = checked(sql, output, &[PROBLEMS]);
        found.first().map(|problem| (problem.pointer.clone(), problem.message.clone())).unwrap_or_default()
    };
    assert_eq!(first("select id, level + 1 as next from problems where level > 1", FrameOutput::Table).1, "");
    assert_eq!(first("select * from problems", FrameOutput::Problems).1, "");
    for (sql, output, word) in [
        ("select from problems where", FrameOutput::Table, "cannot be read"),
        ("delete from problems", FrameOutput::Table, "DELETE"),
        ("select levle from problems", FrameOutput::Table, "levle"),
        ("select frobnicate(id) from problems", FrameOutput::Table, "frobnicate"),
        ("select id from problems", FrameOutput::Problems, "`messages`"),
    ] {
        let (pointer, message) = first(sql, output);
        assert!(pointer == "/sql" && message.contains(word), "{sql}: {message}");
    }
    // The columns of a table are known only when it exists.
    let other = [("problems", ArtifactKind::Table)];
    assert_eq!(checked("select levle from problems", FrameOutput::Problems, &other), []);
}
