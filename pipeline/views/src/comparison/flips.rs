//! Lists the problems that one model got right and another one wrong.

use super::samples::{ComparedArtifacts, ModelSamples, each_row};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use trainyard_core::Result;

/// Columns of a trajectory that [`FlippedAnswers::of`] reads.
pub(super) const ANSWER_COLUMNS: [&str; 3] = ["answer", "extracted", "expected"];

/// Problems by the verdicts of two models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Flips {
    /// Name of the first model.
    pub a: String,
    /// Name of the second model.
    pub b: String,
    /// Ids of the problems that `a` got right and `b` wrong.
    pub right_then_wrong: Vec<String>,
    /// Ids of the problems that `a` got wrong and `b` right.
    pub wrong_then_right: Vec<String>,
    /// Number of problems that both got right.
    pub both_right: usize,
    /// Number of problems that both got wrong.
    pub both_wrong: usize,
    /// Number of problems that one of the models did not answer, or whose answer was not judged.
    pub not_compared: usize,
    /// Answers to the problems of both lists, in their order.
    pub answers: Vec<FlippedAnswers>,
}

/// Answers of both models to a problem.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FlippedAnswers {
    /// Id of the problem.
    pub problem: String,
    /// Expected answer; null if it was not recorded.
    pub expected: Option<String>,
    /// Answer of `a`; null if it gave none, or if its rollout was not kept.
    pub a: Option<String>,
    /// Answer of `b`; null as for `a`.
    pub b: Option<String>,
}

impl FlippedAnswers {
    /// Reads the answers of two trajectories, each null if it was not kept. An extracted answer stands for the one as
    /// given.
    pub(super) fn of(problem: &str, a: &Value, b: &Value) -> Self {
        let answer = |row: &Value| text_of(&row["extracted"]).or_else(|| text_of(&row["answer"]));
        Self {
            problem: problem.to_string(),
            expected: text_of(&a["expected"]).or_else(|| text_of(&b["expected"])),
            a: answer(a),
            b: answer(b),
        }
    }
}

/// Change of the verdict from the first model to the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flip {
    /// The first model was right, the second wrong.
    RightThenWrong,
    /// The first model was wrong, the second right.
    WrongThenRight,
    /// Both were right.
    BothRight,
    /// Both were wrong.
    BothWrong,
    /// One of the models did not answer, or its answer was not judged.
    NotCompared,
}

impl Flip {
    /// Compares two verdicts.
    pub fn of(a: Option<bool>, b: Option<bool>) -> Self {
        match (a, b) {
            (Some(true), Some(false)) => Self::RightThenWrong,
            (Some(false), Some(true)) => Self::WrongThenRight,
            (Some(true), Some(true)) => Self::BothRight,
            (Some(false), Some(false)) => Self::BothWrong,
            (None, _) | (_, None) => Self::NotCompared,
        }
    }
}

impl Flips {
    /// Compares the verdicts on the samples of this number, by default the first ones, on every problem of one of the
    /// models.
    fn between(a: &ModelSamples, b: &ModelSamples, sample: Option<i64>) -> Self {
        let mut flips = Self {
            a: a.name.clone(),
            b: b.name.clone(),
            right_then_wrong: Vec::new(),
            wrong_then_right: Vec::new(),
            both_right: 0,
            both_wrong: 0,
            not_compared: 0,
            answers: Vec::new(),
        };
        for problem in problems(a, b) {
            match flip(a, b, problem, sample) {
                Flip::RightThenWrong => flips.right_then_wrong.push(problem.to_string()),
                Flip::WrongThenRight => flips.wrong_then_right.push(problem.to_string()),
                Flip::BothRight => flips.both_right += 1,
                Flip::BothWrong => flips.both_wrong += 1,
                Flip::NotCompared => flips.not_compared += 1,
            }
        }
        flips
    }
}

/// Lists the problems that model `a` got right and `b` wrong, and the opposite, with the answers of both. Compares the
/// samples of this number, by default the first ones. Reading blocks the thread. Errors: invalid (an unknown model),
/// those of reading.
pub fn flips(compared: &ComparedArtifacts, (a, b): (&str, &str), sample: Option<i64>) -> Result<Flips> {
    let (a, b) = (compared.model(a)?, compared.model(b)?);
    let mut flips = Flips::between(a, b, sample);
    let problems: Vec<&String> = flips.right_then_wrong.iter().chain(&flips.wrong_then_right).collect();
    let (of_a, of_b) = (answer_rows(compared, a, &problems, sample)?, answer_rows(compared, b, &problems, sample)?);
    let of = |rows: &HashMap<String, Value>, problem: &str| rows.get(problem).cloned().unwrap_or_default();
    let answers = problems.iter().map(|problem| FlippedAnswers::of(problem, &of(&of_a, problem), &of(&of_b, problem)));
    flips.answers = answers.collect();
    Ok(flips)
}

/// Reads the columns of answers of a model's trajectories by problem, in one pass over the table.
fn answer_rows(
    compared: &ComparedArtifacts,
    model: &ModelSamples,
    problems: &[&String],
    sample: Option<i64>,
) -> Result<HashMap<String, Value>> {
    let row = |problem: &&String| Some((model.sample(problem, sample)?.row?, (*problem).clone()));
    let mut wanted: HashMap<usize, String> = problems.iter().filter_map(row).collect();
    let mut found = HashMap::with_capacity(wanted.len());
    if wanted.is_empty() {
        return Ok(found);
    }
    each_row(&compared.tables[model.table].source, &ANSWER_COLUMNS, |at, cells| {
        if let Some(problem) = wanted.remove(&at) {
            found.insert(problem, cells);
        }
    })?;
    Ok(found)
}

/// Returns the text of a cell; `None` if it is null.
pub(super) fn text_of(cell: &Value) -> Option<String> {
    match cell {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Returns the problems of two models, each once, in the order of their first samples.
pub(super) fn problems<'a>(a: &'a ModelSamples, b: &'a ModelSamples) -> Vec<&'a str> {
    let mut known = HashSet::new();
    let all = a.samples.iter().chain(&b.samples).map(|sample| &*sample.problem);
    all.filter(|problem| known.insert(*problem)).collect()
}

/// Compares the samples of two models on a problem.
pub(super) fn flip(a: &ModelSamples, b: &ModelSamples, problem: &str, sample: Option<i64>) -> Flip {
    let correct = |model: &ModelSamples| model.sample(problem, sample)?.correct;
    Flip::of(correct(a), correct(b))
}

#[cfg(test)]
mod tests {
    use super::super::samples::{Sample, TrajectoryTable};
    use super::*;
    use serde_json::json;
    use trainyard_tables::{AnswerCheck, Trajectory, write_trajectories};

    fn model(name: &str, greedy: &[(&str, Option<bool>)]) -> ModelSamples {
        let mut model = ModelSamples::new(name, 0);
        for (problem, correct) in greedy {
            model.add(Sample { problem: (*problem).into(), number: -1, correct: *correct, ..Sample::default() });
        }
        model
    }

    #[test]
    fn problems_are_counted_by_both_verdicts() {
        let (yes, no) = (Some(true), Some(false));
        let a = model("sft", &[("p1", yes), ("p2", yes), ("p3", no), ("p4", no), ("p5", None), ("p6", yes)]);
        let b = model("rl", &[("p1", no), ("p2", yes), ("p3", yes), ("p4", no), ("p5", yes), ("p7", yes)]);
        let flips = Flips::between(&a, &b, None);
        assert_eq!(flips.right_then_wrong, ["p1"]);
        assert_eq!(flips.wrong_then_right, ["p3"]);
        assert_eq!((flips.both_right, flips.both_wrong, flips.not_compared), (1, 1, 3));
    }

    #[test]
    fn answers_follow_the_order_of_the_lists() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        let trajectory =
            |id: &str, answer: &str| Trajectory { id: id.into(), answer: Some(answer.into()), ..Trajectory::default() };
        let mut rows = [trajectory("a1", "20 degrees"), trajectory("a2", "3"), trajectory("b2", "4")];
        rows[0].answer_check = Some(AnswerCheck {
            expected: "20".into(),
            extracted: Some("20".into()),
            verifier: "numeric".into(),
            ..AnswerCheck::default()
        });
        write_trajectories(&path, &rows).unwrap();
        let table = TrajectoryTable {
            artifact: "r/e/results".into(),
            stage_digest: "d".into(),
            output: "trajectories".into(),
            source: (&path).into(),
        };
        let (mut a, mut b) = (ModelSamples::new("sft", 0), ModelSamples::new("rl", 0));
        let add = |model: &mut ModelSamples, problem: &str, is_right, row| {
            let (problem, correct) = (problem.into(), Some(is_right));
            model.add(Sample { problem, number: -1, correct, row, ..Sample::default() });
        };
        add(&mut a, "p1", false, Some(0));
        add(&mut a, "p2", true, Some(1));
        add(&mut b, "p1", true, None);
        add(&mut b, "p2", false, Some(2));
        let compared = ComparedArtifacts { tables: vec![table], models: vec![a, b] };
        let answers = |problem: &str, expected: Option<&str>, a: &str, b: Option<&str>| FlippedAnswers {
            problem: problem.into(),
            expected: expected.map(String::from),
            a: Some(a.into()),
            b: b.map(String::from),
        };
        let found = flips(&compared, ("sft", "rl"), None).unwrap();
        assert_eq!(found.answers, [answers("p2", None, "3", Some("4")), answers("p1", Some("20"), "20", None)]);
        let document = serde_json::to_value(&found).unwrap();
        let expected = json!({"problem": "p2", "expected": null, "a": "3", "b": "4"});
        assert_eq!(document["answers"][0], expected);
        let error = flips(&compared, ("sft", "other"), None).unwrap_err();
        assert_eq!(error.help.as_deref(), Some("the models are `sft`, `rl`"));
    }

    #[test]
    fn a_number_selects_the_samples() {
        let mut a = model("a", &[("p1", Some(true))]);
        a.add(Sample { problem: "p1".into(), number: 3, correct: Some(false), ..Sample::default() });
        let b = model("b", &[("p1", Some(true))]);
        assert_eq!(Flips::between(&a, &b, None).both_right, 1);
        assert_eq!(Flips::between(&a, &a, Some(3)).both_wrong, 1);
        assert_eq!(Flips::between(&a, &b, Some(3)).not_compared, 1);
    }
}
