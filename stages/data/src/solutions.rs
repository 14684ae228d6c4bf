//! Reads and writes the table `solutions`, which has one graded solution of a problem per row. The columns are
//! problem_id, question, answer, solver, solution (text), correct (bool), split (text) and parents (list of texts).
//! Tables of earlier versions lack `parents`.

use crate::io;
use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::cast::AsArray as _;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, StringArray};
use std::path::Path;
use std::sync::Arc;
use trainyard_core::{Error, Result};

/// One graded solution.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Solution {
    pub problem_id: String,
    pub question: String,
    /// The expected answer.
    pub answer: String,
    /// Author, e.g. `175b_verification`.
    pub solver: String,
    /// Solution, with calculator annotations if the source has them.
    pub solution: String,
    /// Whether the solution was graded as correct.
    pub correct: bool,
    /// The split of the problem.
    pub split: String,
    /// Place that the row was read from, such as `test.jsonl:3`.
    pub parents: Vec<String>,
}

type TextGetter = fn(&Solution) -> &str;
const TEXTS: [(&str, TextGetter); 6] = [
    ("problem_id", |s| &s.problem_id),
    ("question", |s| &s.question),
    ("answer", |s| &s.answer),
    ("solver", |s| &s.solver),
    ("solution", |s| &s.solution),
    ("split", |s| &s.split),
];

/// Returns rows as a batch of the table.
pub fn batch(rows: &[Solution]) -> Result<RecordBatch> {
    let mut columns: Vec<(&str, ArrayRef)> = Vec::new();
    for (name, get) in TEXTS {
        columns.push((name, Arc::new(StringArray::from_iter_values(rows.iter().map(get)))));
    }
    columns.push(("correct", Arc::new(BooleanArray::from_iter(rows.iter().map(|s| Some(s.correct))))));
    let mut parents = ListBuilder::new(StringBuilder::new());
    rows.iter().for_each(|row| parents.append_value(row.parents.iter().map(Some)));
    columns.push(("parents", Arc::new(parents.finish())));
    RecordBatch::try_from_iter(columns).map_err(|e| Error::bug(format!("solutions: {e}")))
}

/// Reads the table. Errors: data, naming a column that is missing, has another type or contains nulls.
pub fn read(file: &Path) -> Result<Vec<Solution>> {
    let mut rows = Vec::new();
    for batch in io::read_table(file)? {
        let text = |name: &str| text_column(&batch, name, file);
        let (ids, questions, answers) = (text("problem_id")?, text("question")?, text("answer")?);
        let (solvers, solutions, splits) = (text("solver")?, text("solution")?, text("split")?);
        let correct = column(&batch, "correct", file)?;
        let correct =
            correct.as_any().downcast_ref::<BooleanArray>().ok_or_else(|| wrong_type(file, "correct", "bool"))?;
        let mut parents = parents(&batch, file)?.into_iter();
        for i in 0..batch.num_rows() {
            let cell = |c: &StringArray| c.value(i).to_string();
            rows.push(Solution {
                problem_id: cell(ids),
                question: cell(questions),
                answer: cell(answers),
                solver: cell(solvers),
                solution: cell(solutions),
                correct: correct.value(i),
                split: cell(splits),
                parents: parents.next().unwrap_or_default(),
            });
        }
    }
    Ok(rows)
}

/// Returns the parents of each row, none of a table without the column. Errors: data (another type).
fn parents(batch: &RecordBatch, file: &Path) -> Result<Vec<Vec<String>>> {
    let Some(column) = batch.column_by_name("parents") else { return Ok(Vec::new()) };
    let wrong = || wrong_type(file, "parents", "a list of texts");
    let lists = column.as_list_opt::<i32>().ok_or_else(wrong)?;
    let texts = |list: ArrayRef| Some(list.as_string_opt::<i32>()?.iter().flatten().map(str::to_string).collect());
    lists.iter().map(|list| list.map_or(Some(Vec::new()), texts).ok_or_else(wrong)).collect()
}

fn column<'a>(batch: &'a RecordBatch, name: &str, file: &Path) -> Result<&'a ArrayRef> {
    let column = batch.column_by_name(name).ok_or_else(|| {
        Error::data(format!("{}: missing column `{name}`", file.display()))
            .help("import solutions with `data/import` and format gsm8k_solutions")
    })?;
    if column.null_count() > 0 {
        return Err(Error::data(format!("{}: column `{name}` has nulls", file.display())));
    }
    Ok(column)
}

fn text_column<'a>(batch: &'a RecordBatch, name: &str, file: &Path) -> Result<&'a StringArray> {
    column(batch, name, file)?.as_any().downcast_ref().ok_or_else(|| wrong_type(file, name, "text"))
}

fn wrong_type(file: &Path, name: &str, expected: &str) -> Error {
    Error::data(format!("{}: column `{name}` is not {expected}", file.display()))
}
