//! Evaluates SQL expressions over the columns of rows: by polars where its values are those of SQLite, else by SQLite.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use std::path::Path;
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};
use trainyard_frames::Batches;
use trainyard_query::FilterExpression;
use trainyard_tables::{BatchWriter, ExtraColumns, TableRow};

/// Parses an expression over the columns of rows. Errors: invalid, with the columns in the help.
pub fn parse_expression<R: TableRow>(text: &str) -> Result<FilterExpression> {
    let with_columns = |e: Error| e.help(format!("the columns are: {}", all_columns::<R>().join(", ")));
    FilterExpression::parse(text).map_err(|e| if e.help.is_none() { with_columns(e) } else { e })
}

/// Returns the columns that an expression needs: those that it may name, or all if it names one that no table has, for
/// the error lists them.
pub fn needed_columns<R: TableRow>(expression: &FilterExpression) -> Vec<String> {
    let schema = R::schema(ExtraColumns::ALL);
    if expression.has_unknown_columns(&schema) { all_columns::<R>() } else { expression.columns(&schema) }
}

/// Evaluates an expression for each row of batches, which have the columns that it needs. `file` is the path of a
/// temporary file of SQLite.
///
/// Errors: invalid (an unknown column, not true or false).
pub fn batch_mask(batches: &[RecordBatch], expression: &FilterExpression, file: &Path) -> Result<Vec<bool>> {
    let Some(first) = batches.first() else { return Ok(Vec::new()) };
    table_mask(expression, &first.schema(), &reader_of(batches), file)
}

/// Evaluates an expression for each row of a table, of whose columns `schema` it needs some; `read` reads the named
/// columns of all rows. `file` is the path of a temporary file of SQLite.
///
/// Errors: those of `read`, invalid (an unknown column, not true or false).
pub fn table_mask<'a>(
    expression: &FilterExpression,
    schema: &SchemaRef,
    read: &TableRead<'a, '_>,
    file: &Path,
) -> Result<Vec<bool>> {
    match trainyard_frames::mask(expression, schema, read)? {
        Some(mask) => Ok(mask),
        None => sqlite_mask(expression, schema, read, file),
    }
}

/// Reads the named columns of a table.
pub type TableRead<'a, 'r> = dyn Fn(&[String]) -> Result<Batches<'a>> + 'r;

fn all_columns<R: TableRow>() -> Vec<String> {
    R::schema(ExtraColumns::ALL).fields().iter().map(|field| field.name().clone()).collect()
}

fn sqlite_mask<'a>(
    expression: &FilterExpression,
    schema: &SchemaRef,
    read: &TableRead<'a, '_>,
    file: &Path,
) -> Result<Vec<bool>> {
    let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    let mut writer = BatchWriter::create(file, schema.clone())?;
    read(&names)?.try_for_each(|batch| writer.write(&batch?))?;
    writer.finish()?;
    let mask = expression.mask(file);
    let removed = std::fs::remove_file(file).map_err(|e| io_error(file, &e));
    mask.and_then(|mask| removed.map(|()| mask))
}

fn reader_of<'a>(batches: &'a [RecordBatch]) -> impl Fn(&[String]) -> Result<Batches<'a>> {
    move |columns: &[String]| {
        let columns = columns.to_vec();
        Ok(Box::new(batches.iter().map(move |batch| named_columns(batch, &columns))))
    }
}

fn named_columns(batch: &RecordBatch, columns: &[String]) -> Result<RecordBatch> {
    let fields = batch.schema_ref().fields().iter().enumerate();
    let places: Vec<usize> = fields.filter(|(_, field)| columns.contains(field.name())).map(|(i, _)| i).collect();
    batch.project(&places).map_err(|e| Error::bug(format!("a batch lacks a column: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_tables::{AnswerCheck, EpisodeStatus, Message, Problem, SamplingParams, Trajectory, encode_columns};

    /// Rows whose columns are encoded at once.
    const FRAME_ROWS: usize = 16_384;

    fn encoded<R: TableRow>(rows: &[&R], expression: &FilterExpression) -> Vec<RecordBatch> {
        let columns = needed_columns::<R>(expression);
        rows.chunks(FRAME_ROWS).map(|rows| encode_columns(rows, &columns, ExtraColumns::ALL).unwrap()).collect()
    }

    fn row_mask<R: TableRow>(rows: &[&R], text: &str, folder: &Path) -> Result<Vec<bool>> {
        let expression = parse_expression::<R>(text)?;
        batch_mask(&encoded(rows, &expression), &expression, &folder.join("rows.parquet"))
    }

    fn trajectory(i: u32) -> Trajectory {
        let check = AnswerCheck { expected: "4".into(), verifier: "exact".into(), ..AnswerCheck::default() };
        Trajectory {
            id: format!("t{i}"),
            level: i % 5,
            tool_errors: i % 3,
            tool_calls: i % 4,
            reward: [0.0, 0.25, 1.0, f64::NAN][i as usize % 4],
            rewards: if i.is_multiple_of(2) { [("answer".to_string(), f64::from(i % 3))].into() } else { [].into() },
            answer: [None, Some(""), Some("42"), Some("Ünder_way 100%")][i as usize % 4].map(String::from),
            answer_check: i.is_multiple_of(7).then_some(check),
            token_ids: (0..i % 9).collect(),
            loss_mask: vec![true; i as usize % 9],
            turn: vec![0; i as usize % 9],
            step_scores: i.is_multiple_of(3).then(|| vec![0.1; i as usize % 5]),
            messages: vec![Message::new("user", format!("question {i}"))],
            sampling: SamplingParams { temperature: f64::from(i % 2), top_p: 0.9, top_k: i % 3 },
            status: if i.is_multiple_of(5) { EpisodeStatus::Infrastructure } else { EpisodeStatus::Ok },
            update: i.is_multiple_of(4).then_some(i),
            ..Trajectory::default()
        }
    }

    /// Returns the masks of both ways.
    fn masks<R: TableRow>(rows: &[&R], text: &str) -> (Option<Vec<bool>>, Vec<bool>) {
        let folder = tempfile::tempdir().unwrap();
        let expression = FilterExpression::parse(text).unwrap();
        let batches = encoded(rows, &expression);
        let (schema, read) = (batches[0].schema(), reader_of(&batches));
        let by_frames = trainyard_frames::mask(&expression, &schema, &read).unwrap();
        let by_sqlite = sqlite_mask(&expression, &schema, &read, &folder.path().join("rows.parquet")).unwrap();
        assert_eq!(row_mask(rows, text, folder.path()).unwrap(), by_sqlite, "{text}");
        (by_frames, by_sqlite)
    }

    #[test]
    fn frames_and_sqlite_judge_trajectories_alike() {
        let rows: Vec<Trajectory> = (0..20_000).map(trajectory).collect();
        let rows: Vec<&Trajectory> = rows.iter().collect();
        let expressions = [
            "tool_errors <= 1 and level < 4",
            "tool_calls = 0",
            "reward > 0.5 OR rewards_answer >= 1",
            "rewards_answer IS NULL",
            "answer LIKE '%way 100_' or answer ilike 'UN%' or length(answer) = 2",
            "coalesce(answer, '') <> '' and not (id in ('t1', 't2', 't3', 't4', 't5', 't6'))",
            "sampling_temperature = 0 and sampling_top_p < 0.95",
            "array_length(token_ids) between 2 and 6 and status = 'ok'",
            "\"group\" = 0 and \"update\" % 8 = 4",
            "correct is not null or ID >= 't5'",
            "tool_errors / tool_calls < 0.5",
            "regexp_like(id, '[02468]$')",
            "CASE WHEN level = 0 THEN reward > 0 ELSE level % 2 = 1 END",
        ];
        for text in expressions {
            let (by_frames, by_sqlite) = masks(&rows, text);
            assert_eq!(by_frames.as_ref(), Some(&by_sqlite), "{text}");
            let kept = by_sqlite.iter().filter(|keep| **keep).count();
            assert!((1..rows.len()).contains(&kept), "{text}: {kept}");
        }
    }

    #[test]
    fn sqlite_answers_what_has_no_equal() {
        let rows: Vec<Trajectory> = (0..300).map(trajectory).collect();
        let rows: Vec<&Trajectory> = rows.iter().collect();
        for text in ["reward >= avg(reward)", "answer = 42", "seed = 0", "json_extract(messages, '$[0].role') = 'user'"]
        {
            let (by_frames, by_sqlite) = masks(&rows, text);
            assert!(by_frames.is_none() && by_sqlite.contains(&true), "{text}");
        }
    }

    #[test]
    fn frames_and_sqlite_select_problems_alike() {
        let problem = |i: u32| Problem {
            id: format!("gsm8k-{i:04x}"),
            level: i % 3,
            verifier: if i.is_multiple_of(2) { r#"{"known":true}"# } else { "{}" }.into(),
            reference: i.is_multiple_of(3).then(|| format!("#### {i}")),
            ..Problem::default()
        };
        let rows: Vec<Problem> = (0..1_000).map(problem).collect();
        let rows: Vec<&Problem> = rows.iter().collect();
        for text in ["id < 'gsm8k-02'", "verifier LIKE '%\"known\":true%'", "reference like '#### %5' and level = 0"] {
            let (by_frames, by_sqlite) = masks(&rows, text);
            assert_eq!(by_frames.as_ref(), Some(&by_sqlite), "{text}");
            assert!(by_sqlite.contains(&true) && by_sqlite.contains(&false), "{text}");
        }
    }

    #[test]
    fn mistakes_in_expressions_are_those_of_sqlite() {
        let row = trajectory(1);
        let error = |text: &str| row_mask(&[&row], text, &std::env::temp_dir()).unwrap_err();
        assert!(error("levle = 1").message.contains("there is no column `levle`"));
        assert!(error("levle = 1").help.unwrap().contains("tool_errors"));
        assert!(error("level + 1").message.contains("is a value, not true or false"));
        assert!(error("level = ").message.contains("cannot be read"));
    }
}
