//! Runs the worker of a statement: it reads its request, limits its memory, writes its response, and ends.

use super::{AnswerFormat, QueryRequest, QueryResponse, too_large};
use serde_json::json;
use std::io::{self, Write as _};
use std::path::Path;
use trainyard_core::{Error, Result, panics};
use trainyard_envs::tools::confinement::confine;
use trainyard_frames::{Batches, mask, query};
use trainyard_query::{FilterExpression, QueryLimits, filter_mask, is_out_of_memory};
use trainyard_tables::{BatchReader, ReadSlice, read_schema};

/// Runs a worker and returns its exit code: 0 after a response, which may be an error, and 2 otherwise.
pub fn main() -> u8 {
    serve().map_or(2, |()| 0)
}

fn serve() -> io::Result<()> {
    let request: QueryRequest = serde_json::from_reader(io::stdin().lock())?;
    confine(request.memory)?;
    // If the owner died before this line, the worker gets no signal of its death.
    if std::os::unix::process::parent_id() != request.owner {
        return Err(io::Error::other("the process that sent the request has ended"));
    }
    let response = panics::catch(|| run(&request))
        .unwrap_or_else(|message| Err(Error::bug(format!("the statement panicked: {message}"))));
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, &response)?;
    out.flush()
}

fn run(request: &QueryRequest) -> QueryResponse {
    let response = match request.format {
        AnswerFormat::Matching { from } => matching(request, from),
        AnswerFormat::Json | AnswerFormat::Text => select(request),
    };
    response.map_err(|e| if is_out_of_memory(&e) { too_large(request.memory) } else { e })
}

/// Finds the rows of the only table for which the statement is true.
fn matching(request: &QueryRequest, from: usize) -> QueryResponse {
    let (_, path) = request.tables.first().ok_or_else(|| Error::bug("a condition without a table"))?;
    let mask = condition_mask(path, &request.statement)?;
    let rows = mask.iter().enumerate().filter(|(_, is_true)| **is_true).map(|(row, _)| row);
    let shown: Vec<usize> = rows.clone().skip(from).take(request.rows).collect();
    Ok(json!({"matching": rows.count(), "of": mask.len(), "rows": shown}).to_string())
}

/// Evaluates a condition for each row of a table: in polars, or in SQLite what polars does not answer alike.
fn condition_mask(path: &Path, condition: &str) -> Result<Vec<bool>> {
    let read = |columns: &[String]| -> Result<Batches<'static>> {
        let part = ReadSlice { columns: Some(columns), ..ReadSlice::default() };
        Ok(Box::new(BatchReader::open_part(path, &part)?))
    };
    let schema = read_schema(path)?;
    let parsed = FilterExpression::parse(condition).ok();
    let answered = parsed.map(|expression| mask(&expression, &schema, &read)).transpose()?.flatten();
    answered.map_or_else(|| filter_mask(path, condition), Ok)
}

fn select(request: &QueryRequest) -> QueryResponse {
    let limits = QueryLimits { rows: request.rows, ..QueryLimits::default() };
    let tables: Vec<(&str, &Path)> =
        request.tables.iter().map(|(name, path)| (name.as_str(), path.as_path())).collect();
    let result = query(&tables, &request.statement, limits)?;
    if request.format == AnswerFormat::Text {
        return Ok(result.to_string());
    }
    let document = json!({"columns": result.columns, "rows": result.rows, "truncated": result.truncated});
    serde_json::to_string_pretty(&document).map_err(|e| Error::bug(format!("the result has no JSON form: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use trainyard_tables::TableBuilder;

    fn answer(path: &Path, condition: &str, from: usize) -> Result<Value> {
        let request = QueryRequest {
            owner: 0,
            tables: vec![("self".to_string(), path.to_path_buf())],
            statement: condition.to_string(),
            rows: 2,
            format: AnswerFormat::Matching { from },
            memory: 1 << 30,
        };
        run(&request).map(|text| serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn matching_rows_are_numbered_and_paged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        let texts = (0..10).map(|n| format!("text {n}"));
        TableBuilder::new().i64("n", 0..10).string("text", texts).write(&path).unwrap();
        let first = json!({"matching": 5, "of": 10, "rows": [5, 6]});
        assert_eq!(answer(&path, "n > 4", 0).unwrap(), first);
        assert_eq!(answer(&path, "n > 4", 4).unwrap()["rows"], json!([9]));
        // SQLite answers what compares a row with all rows.
        assert_eq!(answer(&path, "n > avg(n)", 0).unwrap(), first);
        assert_eq!(answer(&path, "text = 'text 3'", 0).unwrap()["rows"], json!([3]));
        let error = answer(&path, "level > 4", 0).unwrap_err();
        assert!(error.help.unwrap_or_default().contains("text"), "the help lists the columns");
        assert!(answer(&path, "n +", 0).is_err());
        assert!(answer(&path, "n", 0).unwrap_err().message.contains("not true or false"));
    }
}
