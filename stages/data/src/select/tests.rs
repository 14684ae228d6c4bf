use super::*;
use crate::facts::ENVIRONMENT;
use crate::identity::Half;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::Schema;
use std::path::Path;
use std::sync::Arc;
use trainyard_api::PreparedOptions;
use trainyard_core::{ErrorKind, Facts, WiredInputs};
use trainyard_tables::{Message, TableBuilder, read_batches, read_problems, write_batches, write_problems};

fn problems() -> Vec<Problem> {
    (0..12)
        .map(|i| Problem {
            id: format!("p{i}"),
            messages: vec![Message::new("user", format!("question {i}"))],
            level: i % 3 + 1,
            split: if i < 6 { "rl" } else { "test" }.into(),
            ..Problem::default()
        })
        .collect()
}

/// Selects from files and returns the rows that were written, with the counts.
fn selected(
    files: &[PathBuf],
    evaluation: &[Problem],
    config: &SelectConfig,
) -> Result<(Vec<Problem>, SelectedProblems)> {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.parquet");
    let counts = select(&RowFiles::strict(files), evaluation, config, folder.path(), &output)?;
    let rows = read_problems(&output)?;
    assert_eq!((rows.len(), counts.levels.values().sum::<usize>()), (counts.problems, counts.problems));
    Ok((rows, counts))
}

/// Selects from rows, which it writes as two files, and returns the ids and the number of overlapping rows.
fn of_rows(rows: &[Problem], evaluation: &[Problem], config: &SelectConfig) -> Result<(Vec<String>, usize)> {
    let folder = tempfile::tempdir().unwrap();
    let files =
        [write(folder.path(), "a", &rows[..rows.len() / 2]), write(folder.path(), "b", &rows[rows.len() / 2..])];
    let (rows, counts) = selected(&files, evaluation, config)?;
    Ok((rows.into_iter().map(|p| p.id).collect(), counts.overlapping))
}

fn write(folder: &Path, name: &str, rows: &[Problem]) -> PathBuf {
    let file = folder.join(format!("{name}.parquet"));
    write_problems(&file, rows).unwrap();
    file
}

fn ids(config: SelectConfig) -> Vec<String> {
    of_rows(&problems(), &[], &config).unwrap().0
}

#[test]
fn options_are_combined_by_and() {
    assert_eq!(
        ids(SelectConfig { splits: Some(vec!["test".into()]), levels: Some(vec![1, 2]), ..SelectConfig::default() }),
        ["p6", "p7", "p9", "p10"]
    );
    assert_eq!(ids(SelectConfig { per_level: Some(1), ..SelectConfig::default() }), ["p0", "p1", "p2"]);
    assert_eq!(
        ids(SelectConfig { limit: Some(2), splits: Some(vec!["test".into()]), ..SelectConfig::default() }),
        ["p6", "p7"]
    );
}

#[test]
fn output_environment_is_known_if_all_inputs_agree() {
    let of = |kind: &str| Facts::from([(ENVIRONMENT.to_string(), serde_json::json!(kind))]);
    let known = |problems: Vec<Facts>| {
        let mut inputs = WiredInputs::default();
        inputs.wire("problems", problems);
        SelectConfig::default().facts(&inputs)["problems"].get(ENVIRONMENT).cloned()
    };
    assert_eq!(known(vec![of("countdown"), of("countdown")]), Some(serde_json::json!("countdown")));
    assert_eq!((known(vec![of("countdown"), of("x")]), known(vec![of("countdown"), Facts::new()])), (None, None));
}

#[test]
fn halves_partition_the_problems() {
    let half = |h| ids(SelectConfig { half: Some(h), ..SelectConfig::default() });
    let mut all = [half(Half::A), half(Half::B)].concat();
    all.sort_by_key(|id| id[1..].parse::<u32>().unwrap());
    assert_eq!(all, ids(SelectConfig::default()));
}

#[test]
fn empty_selection_names_the_option() {
    let nowhere = SelectConfig { splits: Some(vec!["prm".into()]), ..SelectConfig::default() };
    let e = of_rows(&problems(), &[], &nowhere).unwrap_err();
    assert!(e.message.contains("`splits`"), "{e}");
    assert_eq!(e.help.unwrap(), "the input has 12 problems, splits rl, test; levels 1, 2, 3");
    let e = of_rows(&[], &[], &SelectConfig::default()).unwrap_err();
    assert_eq!(e.message, "no problems are left after `problems`");
}

#[test]
fn problems_that_overlap_evaluation_problems_are_left_out() {
    let shared = "each of the twelve hens of the old farmer lays five eggs in one week of this long summer";
    let mut problems = problems();
    problems[2].messages[0].content = format!("Yesterday he said: {shared}.");
    problems[4].reference = Some(format!("Since {shared} <<12*5=60>>60."));
    problems[5].messages[0].content = "How MANY are left?".into();
    let problem = |id: &str, text: &str| Problem {
        id: id.into(),
        messages: vec![Message::new("user", text)],
        ..Problem::default()
    };
    let evaluation = [problem("t1", shared), problem("t2", "how many are left")];
    let config = |methods: &str| -> SelectConfig {
        serde_json::from_value(serde_json::json!({"splits": ["rl"], "decontaminate": {"methods": [methods]}})).unwrap()
    };
    let remaining = |methods: &str| of_rows(&problems, &evaluation, &config(methods)).unwrap();
    assert_eq!(remaining("ngram_13"), (["p0", "p1", "p3", "p5"].map(String::from).to_vec(), 2));
    assert_eq!(remaining("canonical"), (["p0", "p1", "p2", "p3", "p4"].map(String::from).to_vec(), 1));
    assert!(of_rows(&problems, &[], &config("canonical")).is_err(), "no clean result without a comparison");
}

#[test]
fn evaluation_and_decontaminate_require_each_other() {
    let config = |text: &str| serde_json::from_str::<SelectConfig>(text).unwrap();
    let pointers = |config: &SelectConfig, evaluation: usize| {
        let wired = WiredInputs::from([("problems".to_string(), 1), ("evaluation".to_string(), evaluation)]);
        PreparedOptions::problems_with(config, &wired).into_iter().map(|p| p.pointer).collect::<Vec<_>>()
    };
    let clean = config(r#"{"decontaminate": {"methods": ["canonical"]}}"#);
    assert_eq!((pointers(&clean, 0), pointers(&clean, 1)), (vec!["/decontaminate".to_string()], vec![]));
    assert_eq!(
        (pointers(&SelectConfig::default(), 0), pointers(&SelectConfig::default(), 1)),
        (vec![], vec!["/evaluation".to_string()])
    );
    let faults = PreparedOptions::problems(&config(r#"{"decontaminate": {"methods": []}}"#));
    assert_eq!(faults.iter().map(|p| p.pointer.as_str()).collect::<Vec<_>>(), ["/decontaminate"]);
    // Configs without the option keep their JSON and so their digest.
    assert!(serde_json::to_value(SelectConfig::default()).unwrap().get("decontaminate").is_none());
}

#[test]
fn halves_are_those_of_the_last_question() {
    // SHA-256("hello") begins with 2, that of "abc" with b.
    let problem = Problem {
        id: "p".into(),
        messages: vec![Message::new("user", "abc"), Message::new("assistant", "?"), Message::new("user", "hello")],
        ..Problem::default()
    };
    let of = |half| {
        of_rows(std::slice::from_ref(&problem), &[], &SelectConfig { half: Some(half), ..SelectConfig::default() })
    };
    assert_eq!(of(Half::A).unwrap().0, ["p"]);
    assert!(of(Half::B).is_err());
}

#[test]
fn aggregates_are_those_of_the_rows_that_earlier_options_left() {
    let expression = SelectConfig {
        splits: Some(vec!["test".into()]),
        r#where: Some("id = max(id)".into()),
        ..SelectConfig::default()
    };
    let rows: Vec<Problem> = problems().into_iter().filter(|p| p.id.len() == 2).collect();
    assert_eq!(of_rows(&rows, &[], &expression).unwrap().0, ["p9"]);
    let rl = SelectConfig { splits: Some(vec!["rl".into()]), ..expression };
    assert_eq!(of_rows(&rows, &[], &rl).unwrap().0, ["p5"]);
}

#[test]
fn broken_later_files_are_refused_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let good = write(folder.path(), "good", &problems());
    let refused = |bad: PathBuf, config: &SelectConfig| selected(&[good.clone(), bad], &[], config).unwrap_err();
    let first = SelectConfig { limit: Some(1), ..SelectConfig::default() };
    let (schema, batches) = read_batches(&good).unwrap();
    let other = folder.path().join("other.parquet");
    let level = schema.index_of("level").unwrap();
    let table = schema.fields().iter().zip(batches[0].columns()).enumerate();
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1; 12]));
    let table = table.fold(TableBuilder::new(), |table, (i, (field, column))| {
        table.column(field.name(), if i == level { numbers.clone() } else { column.clone() })
    });
    table.write(&other).unwrap();
    let error = refused(other, &first);
    assert_eq!(error.kind, ErrorKind::Data);
    assert!(error.message.contains("other.parquet") && error.message.contains("`level` has type"), "{error}");
    let without = |name: &str| {
        let kept: Vec<usize> = (0..schema.fields().len()).filter(|i| schema.field(*i).name() != name).collect();
        let file = folder.path().join(format!("without-{name}.parquet"));
        let batch = batches[0].project(&kept).unwrap();
        write_batches(&file, batch.schema(), &[batch]).unwrap();
        file
    };
    let error = refused(without("answer"), &first);
    assert!(error.message.contains("without-answer") && error.message.contains("`answer`"), "{error}");
    // Columns that may be null may be missing.
    let (rows, _) = selected(&[good.clone(), without("reference")], &[], &SelectConfig::default()).unwrap();
    assert_eq!(rows.len(), 24);
}

#[test]
fn nulls_are_refused_with_their_row() {
    let folder = tempfile::tempdir().unwrap();
    let good = write(folder.path(), "good", &problems());
    let (schema, batches) = read_batches(&good).unwrap();
    let place = schema.index_of("source").unwrap();
    let mut fields: Vec<_> = schema.fields().iter().cloned().collect();
    fields[place] = Arc::new(fields[place].as_ref().clone().with_nullable(true));
    let texts: StringArray = (0..12).map(|i| (i != 7).then_some("s")).collect();
    let mut columns = batches[0].columns().to_vec();
    columns[place] = Arc::new(texts);
    let schema = Arc::new(Schema::new(fields));
    let file = folder.path().join("nulls.parquet");
    write_batches(&file, schema.clone(), &[RecordBatch::try_new(schema, columns).unwrap()]).unwrap();
    let error = selected(&[good, file], &[], &SelectConfig::default()).unwrap_err();
    assert!(error.message.contains("row 8") && error.message.contains("`source` has 1 nulls"), "{error}");
}
