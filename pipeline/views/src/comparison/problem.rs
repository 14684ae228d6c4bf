//! Reads the samples of several models on one problem.

use super::samples::{ComparedArtifacts, DrawnSamples, ModelSamples, Sample};
use crate::find;
use crate::trajectory::{self, PER_TOKEN};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use trainyard_core::{Error, Result};
use trainyard_tables::rows_as_json;

/// Samples of several models on one problem.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ProblemComparison {
    /// Id of the problem.
    pub problem: String,
    /// Position among the problems, from 0.
    pub position: usize,
    /// Number of problems in the artifacts.
    pub problems: usize,
    /// Messages of the prompt, which all conversations share.
    pub question: Vec<Value>,
    /// Expected answer; null if no row has one.
    pub expected: Option<Value>,
    /// Models in the order of the artifacts.
    pub models: Vec<ComparedModel>,
    /// Id of the problem before this one.
    #[serde(skip)]
    pub previous: Option<String>,
    /// Id of the problem after this one.
    #[serde(skip)]
    pub next: Option<String>,
}

/// Sample of one model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ComparedModel {
    /// Name of the model.
    pub model: String,
    /// Name of the artifact.
    pub artifact: String,
    /// Number of the sample; −1 = greedy; null if the model has no such sample of the problem.
    pub sample: Option<i64>,
    /// Samples that were drawn, not greedy.
    pub drawn: DrawnSamples,
    /// `right`, `wrong`, `unreadable` with the reason, or `not judged`.
    pub verdict: Option<String>,
    /// Trajectory without columns of tokens; null if it was not kept.
    pub row: Option<Map<String, Value>>,
    /// Place of the trajectory; `None` if it was not kept.
    #[serde(skip)]
    pub place: Option<RolloutPlace>,
}

/// Row of a published table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutPlace {
    /// Digest of the stage that published the table.
    pub stage_digest: String,
    /// Output of that stage.
    pub output: String,
    /// Position of the row, from 0.
    pub row: u64,
}

impl ComparedModel {
    /// Returns the messages of the trajectory.
    pub fn messages(&self) -> &[Value] {
        self.row.as_ref().and_then(|row| row.get("messages")?.as_array()).map_or(&[], Vec::as_slice)
    }
    /// Returns the first of these columns of the trajectory that has a value.
    pub fn cell(&self, names: &[&str]) -> Option<&Value> {
        let row = self.row.as_ref()?;
        names.iter().find_map(|name| row.get(*name).filter(|value| !value.is_null()))
    }
}

/// Reads the samples of the models called `models`, or of all if it is empty, on a problem, named by its id or its
/// position. Reading blocks the thread. Errors: invalid (an unknown problem or model), those of reading.
pub fn problem(
    compared: &ComparedArtifacts,
    models: &[&str],
    name: &str,
    sample: Option<i64>,
) -> Result<ProblemComparison> {
    let problems = compared.problems();
    let position = position(&problems, name)?;
    let problem = problems[position];
    let chosen: Vec<&ModelSamples> = match models {
        [] => compared.models.iter().collect(),
        names => names.iter().map(|name| compared.model(name)).collect::<Result<_>>()?,
    };
    let read = |model: &&ModelSamples| compared_model(compared, model, problem, sample);
    let models: Vec<ComparedModel> = chosen.iter().map(read).collect::<Result<_>>()?;
    let question = shared_prompt(&models);
    let expected = models.iter().find_map(|model| model.cell(&["expected"])).cloned();
    Ok(ProblemComparison {
        problem: problem.to_string(),
        position,
        problems: problems.len(),
        expected,
        question,
        models,
        previous: position.checked_sub(1).map(|at| problems[at].to_string()),
        next: problems.get(position + 1).map(ToString::to_string),
    })
}

/// Finds a problem by its id, or else by its position. Errors: invalid, with near ids and the number of problems.
fn position(problems: &[&str], name: &str) -> Result<usize> {
    let by_id = problems.iter().position(|id| *id == name);
    by_id.or_else(|| name.parse().ok().filter(|at| *at < problems.len())).ok_or_else(|| {
        let positions = format!("positions are counted from 0 to {}", problems.len().saturating_sub(1));
        let help = find::near_ids(name, problems).map_or(positions.clone(), |near| format!("{near}; {positions}"));
        Error::invalid(format!("there is no problem `{name}`: the artifacts have {} problems", problems.len()))
            .help(help)
    })
}

fn compared_model(
    compared: &ComparedArtifacts,
    model: &ModelSamples,
    problem: &str,
    number: Option<i64>,
) -> Result<ComparedModel> {
    let chosen = model.sample(problem, number);
    let table = &compared.tables[model.table];
    let row = match chosen.and_then(|sample| sample.row) {
        Some(row) => rows_as_json(&table.source, row, 1)?.pop(),
        None => None,
    };
    let row = row.and_then(|row| match row {
        Value::Object(cells) => Some(without_tokens(cells)),
        _ => None,
    });
    let place = |row: usize| RolloutPlace {
        stage_digest: table.stage_digest.clone(),
        output: table.output.clone(),
        row: row as u64,
    };
    Ok(ComparedModel {
        model: model.name.clone(),
        artifact: table.artifact.clone(),
        sample: chosen.map(|sample| sample.number),
        drawn: model.drawn(problem),
        verdict: chosen.map(|sample| verdict(sample, row.as_ref())),
        row,
        place: chosen.and_then(|sample| sample.row).map(place),
    })
}

fn verdict(sample: &Sample, row: Option<&Map<String, Value>>) -> String {
    match (sample.correct, row) {
        (None, _) => "not judged".to_string(),
        (Some(_), Some(row)) if row.get("correct").is_some_and(Value::is_boolean) => trajectory::verdict(row, true),
        (Some(is_correct), _) => if is_correct { "right" } else { "wrong" }.to_string(),
    }
}

fn without_tokens(mut cells: Map<String, Value>) -> Map<String, Value> {
    cells.retain(|name, _| !PER_TOKEN.contains(&name.as_str()));
    cells
}

/// Returns the messages before the first one of the assistant that all conversations share.
fn shared_prompt(models: &[ComparedModel]) -> Vec<Value> {
    let mut conversations = models.iter().filter(|model| model.row.is_some()).map(ComparedModel::messages);
    let Some(first) = conversations.next() else { return Vec::new() };
    let prompt = first.iter().take_while(|message| message["role"] != "assistant").count();
    let shared = conversations.fold(prompt, |shared, other| {
        first.iter().zip(other).take(shared).take_while(|(message, same)| message == same).count()
    });
    first[..shared].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn compared(messages: Value) -> ComparedModel {
        ComparedModel { row: json!({"messages": messages}).as_object().cloned(), ..ComparedModel::default() }
    }

    #[test]
    fn problems_are_named_by_id_or_position() {
        let problems = ["word-1", "word-2", "0"];
        assert_eq!(position(&problems, "word-2").unwrap(), 1);
        assert_eq!(position(&problems, "1").unwrap(), 1);
        assert_eq!(position(&problems, "0").unwrap(), 2, "an id comes before a position");
        let error = position(&problems, "word").unwrap_err();
        assert_eq!(error.message, "there is no problem `word`: the artifacts have 3 problems");
        let help = "near ids: `word-1`, `word-2`; positions are counted from 0 to 2";
        assert_eq!(error.help.as_deref(), Some(help));
        assert!(position(&problems, "3").is_err());
    }

    #[test]
    fn the_question_is_the_prompt_that_all_conversations_share() {
        let (system, user) = (json!({"role": "system", "content": "s"}), json!({"role": "user", "content": "u"}));
        let said = |text: &str| json!({"role": "assistant", "content": text});
        let a = compared(json!([system, user, said("1")]));
        let b = compared(json!([system, user, said("2")]));
        assert_eq!(shared_prompt(&[a.clone(), ComparedModel::default(), b]), [system.clone(), user.clone()]);
        let same = compared(json!([system, user, said("1")]));
        assert_eq!(shared_prompt(&[a.clone(), same]), [system.clone(), user.clone()], "answers are not shared");
        let other = compared(json!([system, {"role": "user", "content": "v"}, said("1")]));
        assert_eq!(shared_prompt(&[a, other]), [system]);
        assert_eq!(shared_prompt(&[]), Vec::<Value>::new());
    }

    #[test]
    fn a_verdict_needs_a_judgment() {
        let sample = |correct| Sample { correct, ..Sample::default() };
        let row = json!({"correct": false, "answer": "3 or 5", "unreadable": "different numbers: 3, 5"});
        let row = row.as_object();
        assert_eq!(verdict(&sample(None), row), "not judged");
        assert_eq!(verdict(&sample(Some(false)), row), "unreadable (different numbers: 3, 5)");
        assert_eq!(verdict(&sample(Some(true)), None), "right");
        assert_eq!(verdict(&sample(Some(false)), json!({}).as_object()), "wrong");
        let silent = json!({"correct": false, "answer": null, "unreadable": "the episode has no answer"});
        assert_eq!(verdict(&sample(Some(false)), silent.as_object()), "unreadable (the episode has no answer)");
    }
}
