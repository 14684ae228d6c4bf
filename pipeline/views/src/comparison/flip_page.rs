//! Lists the problems of one kind of flip, page by page, with the beginning of each problem and both answers.

use super::differences::{PairedDifference, paired_differences};
use super::flips::{ANSWER_COLUMNS, Flip, FlippedAnswers, flip, problems, text_of};
use super::samples::{ComparedArtifacts, ModelSamples};
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_core::Result;
use trainyard_tables::json::{CellLimits, row_as_json};
use trainyard_tables::{BatchReader, ReadSlice};

/// Maximum problems on one page.
const MAX_ROWS: usize = 100;
/// Maximum problems whose prompt is searched for a text.
const MAX_SEARCHED: usize = 1_000;
/// Maximum characters of a prompt or an answer.
const MAX_TEXT: usize = 400;

/// Selects problems.
#[derive(Debug, Clone, PartialEq)]
pub struct FlipQuery {
    /// Name of the first model.
    pub a: String,
    /// Name of the second model.
    pub b: String,
    /// Change of the verdict.
    pub flip: Flip,
    /// Only problems of this level.
    pub level: Option<i64>,
    /// Only problems with this text in their id or prompt, in any case.
    pub text: Option<String>,
    /// Number of the compared samples; by default the first ones, which are greedy.
    pub sample: Option<i64>,
    /// Index of the first problem.
    pub from: usize,
    /// Maximum number of problems, and never more than 100.
    pub limit: usize,
}

/// Page of flips.
#[derive(Debug, Clone, PartialEq)]
pub struct FlipPage {
    /// Names of all models.
    pub models: Vec<String>,
    /// Differences of the two models over all problems, second minus first.
    pub differences: Vec<PairedDifference>,
    /// Number of problems of each kind at the chosen level: right then wrong, wrong then right, both right, both wrong,
    /// not compared.
    pub counts: [usize; 5],
    /// Number of problems of each level.
    pub levels: BTreeMap<i64, usize>,
    /// Problems of the page.
    pub rows: Vec<FlipRow>,
    /// Number of problems that the query selects.
    pub matching: usize,
    /// Number of problems whose prompts were not searched, because there are too many.
    pub unsearched: usize,
    /// Value of `from` for the next page.
    pub next: Option<usize>,
}

/// Problem on which two models are compared.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlipRow {
    /// Id of the problem.
    pub problem: String,
    /// Difficulty, from 1; 0 if unknown.
    pub level: i64,
    /// Beginning of the user's first message; `None` if no rollout was kept.
    pub prompt: Option<String>,
    /// Expected answer.
    pub expected: Option<String>,
    /// Answer of the first model.
    pub answer_a: Option<String>,
    /// Answer of the second model.
    pub answer_b: Option<String>,
}

/// Lists problems. Reads the trajectories that are shown, and the prompts that a text is searched in; reading blocks
/// the thread. Errors: invalid (an unknown model), those of reading.
pub fn flip_page(compared: &ComparedArtifacts, query: &FlipQuery) -> Result<FlipPage> {
    let (a, b) = (compared.model(&query.a)?, compared.model(&query.b)?);
    let (mut counts, mut levels, mut selected) = ([0; 5], BTreeMap::new(), Vec::new());
    for problem in problems(a, b) {
        let level = level(a, b, problem);
        *levels.entry(level).or_default() += 1;
        if query.level.is_some_and(|only| only != level) {
            continue;
        }
        let found = flip(a, b, problem, query.sample);
        counts[found as usize] += 1;
        if found == query.flip {
            selected.push(problem);
        }
    }
    let unsearched = match &query.text {
        Some(text) => keep_with_text(compared, (a, b), &mut selected, &text.to_lowercase())?,
        None => 0,
    };
    let shown = selected.iter().skip(query.from).take(query.limit.clamp(1, MAX_ROWS));
    let rows: Vec<FlipRow> =
        shown.map(|problem| row(compared, (a, b), problem, query.sample)).collect::<Result<_>>()?;
    let reached = query.from.saturating_add(rows.len());
    Ok(FlipPage {
        models: compared.models.iter().map(|model| model.name.clone()).collect(),
        differences: paired_differences(a, b),
        counts,
        levels,
        matching: selected.len(),
        unsearched,
        next: (reached < selected.len()).then_some(reached),
        rows,
    })
}

/// Keeps the problems with a lower-case text in their id or prompt. Returns the number of prompts that were not
/// searched.
fn keep_with_text(
    compared: &ComparedArtifacts,
    (a, b): (&ModelSamples, &ModelSamples),
    selected: &mut Vec<&str>,
    text: &str,
) -> Result<usize> {
    let (mut searched, mut unsearched, mut kept) = (0, 0, Vec::new());
    for problem in selected.iter().copied() {
        if problem.to_lowercase().contains(text) {
            kept.push(problem);
        } else if searched == MAX_SEARCHED {
            unsearched += 1;
        } else {
            searched += 1;
            let prompt = [a, b].into_iter().find_map(|model| prompt_of(compared, model, problem).transpose());
            if prompt.transpose()?.is_some_and(|prompt| prompt.to_lowercase().contains(text)) {
                kept.push(problem);
            }
        }
    }
    *selected = kept;
    Ok(unsearched)
}

fn level(a: &ModelSamples, b: &ModelSamples, problem: &str) -> i64 {
    a.of(problem).chain(b.of(problem)).map(|sample| sample.level).next().unwrap_or_default()
}

fn row(
    compared: &ComparedArtifacts,
    (a, b): (&ModelSamples, &ModelSamples),
    problem: &str,
    sample: Option<i64>,
) -> Result<FlipRow> {
    let columns = [["messages"].as_slice(), &ANSWER_COLUMNS].concat();
    let read = |model: &ModelSamples| match model.sample(problem, sample).and_then(|sample| sample.row) {
        Some(row) => read_cells(compared, model, row, &columns),
        None => Ok(Value::Null),
    };
    let (of_a, of_b) = (read(a)?, read(b)?);
    let short = |text: String| text.chars().take(MAX_TEXT).collect::<String>();
    let answers = FlippedAnswers::of(problem, &of_a, &of_b);
    Ok(FlipRow {
        problem: problem.to_string(),
        level: level(a, b, problem),
        prompt: prompt(&of_a).or_else(|| prompt(&of_b)).map(short),
        expected: answers.expected.map(short),
        answer_a: answers.a.map(short),
        answer_b: answers.b.map(short),
    })
}

/// Reads the user's first message of a kept rollout of a problem.
fn prompt_of(compared: &ComparedArtifacts, model: &ModelSamples, problem: &str) -> Result<Option<String>> {
    match model.of(problem).find_map(|sample| sample.row) {
        Some(row) => Ok(prompt(&read_cells(compared, model, row, &["messages"])?)),
        None => Ok(None),
    }
}

fn prompt(cells: &Value) -> Option<String> {
    let messages = cells["messages"].as_array()?;
    text_of(&messages.iter().find(|message| message["role"] == "user")?["content"])
}

/// Reads some columns of a trajectory; null if there is no such row.
fn read_cells(compared: &ComparedArtifacts, model: &ModelSamples, row: usize, columns: &[&str]) -> Result<Value> {
    let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
    let slice = ReadSlice { offset: row, limit: Some(1), columns: Some(&columns) };
    let source = &compared.tables[model.table].source;
    match BatchReader::open_part(source, &slice)?.next() {
        Some(batch) => Ok(row_as_json(&batch?, 0, CellLimits::NONE)),
        None => Ok(Value::Null),
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{Sample, TrajectoryTable};
    use super::*;
    use trainyard_tables::{Message, Trajectory, write_trajectories};

    /// Ten problems, all wrong by `a`; `b` is right on the even ones.
    fn compared(folder: &std::path::Path) -> ComparedArtifacts {
        let path = folder.join("data.parquet");
        let trajectory = |n: usize| Trajectory {
            id: format!("r{n}"),
            problem_id: format!("p{n}"),
            messages: vec![Message::new("user", format!("What is {n} + 1?"))],
            answer: Some(format!("{n}")),
            ..Trajectory::default()
        };
        write_trajectories(&path, &(0..10).map(trajectory).collect::<Vec<_>>()).unwrap();
        let model = |name: &str, is_right: fn(usize) -> bool| {
            let mut model = ModelSamples::new(name, 0);
            for n in 0..10 {
                let (problem, row) = (format!("p{n}").into(), Some(n));
                let (level, correct) = (1 + n as i64 / 5, Some(is_right(n)));
                model.add(Sample { problem, level, number: -1, correct, reward: None, row });
            }
            model
        };
        ComparedArtifacts {
            tables: vec![TrajectoryTable {
                artifact: "r/e/results".into(),
                stage_digest: "d".into(),
                output: "trajectories".into(),
                source: (&path).into(),
            }],
            models: vec![model("a", |_| false), model("b", |n| n % 2 == 0)],
        }
    }

    fn query() -> FlipQuery {
        let (a, b, flip) = ("a".into(), "b".into(), Flip::WrongThenRight);
        FlipQuery { a, b, flip, level: None, text: None, sample: None, from: 0, limit: 3 }
    }

    fn ids(page: &FlipPage) -> Vec<&str> {
        page.rows.iter().map(|row| row.problem.as_str()).collect()
    }

    #[test]
    fn flips_come_in_pages_with_prompts_and_answers() {
        let folder = tempfile::tempdir().unwrap();
        let compared = compared(folder.path());
        let page = flip_page(&compared, &query()).unwrap();
        assert_eq!((page.counts, page.matching, page.next), ([0, 5, 0, 5, 0], 5, Some(3)));
        assert_eq!(ids(&page), ["p0", "p2", "p4"]);
        assert_eq!(page.rows[1].prompt.as_deref(), Some("What is 2 + 1?"));
        assert_eq!((page.rows[1].answer_a.as_deref(), page.rows[1].expected.as_deref()), (Some("2"), None));
        let rest = flip_page(&compared, &FlipQuery { from: 3, ..query() }).unwrap();
        assert_eq!((ids(&rest), rest.next), (vec!["p6", "p8"], None));
        assert_eq!(page.differences[0].difference, 0.5);
        assert!(flip_page(&compared, &FlipQuery { a: "other".into(), ..query() }).is_err());
    }

    #[test]
    fn level_and_text_select_problems() {
        let folder = tempfile::tempdir().unwrap();
        let compared = compared(folder.path());
        let second = flip_page(&compared, &FlipQuery { level: Some(2), ..query() }).unwrap();
        assert_eq!((ids(&second), second.counts), (vec!["p6", "p8"], [0, 2, 0, 3, 0]));
        assert_eq!(second.levels, BTreeMap::from([(1, 5), (2, 5)]));
        let by_prompt = flip_page(&compared, &FlipQuery { text: Some("IS 4 +".into()), ..query() }).unwrap();
        assert_eq!((ids(&by_prompt), by_prompt.unsearched), (vec!["p4"], 0));
        let by_id = flip_page(&compared, &FlipQuery { text: Some("P8".into()), ..query() }).unwrap();
        assert_eq!(ids(&by_id), ["p8"]);
    }
}
