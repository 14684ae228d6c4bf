//! Implements `artifacts compare`: the samples of several models on one problem next to each other, or the problems
//! that one model got right and another wrong.

mod flips;
mod samples;

use crate::args::{CompareArgs, OutputFormat};
use crate::exit::CliExit;
use crate::output::comparison::{self, ComparedModel, ProblemComparison};
use crate::output::conversation::{self, PER_TOKEN};
use crate::output::human::{print_json, print_text};
use crate::session::AppSession;
use flips::Flips;
use samples::{ComparedArtifacts, ModelSamples, Sample};
use serde_json::{Map, Value};
use trainyard_core::{Error, Result};
use trainyard_tables::rows_as_json;
use trainyard_views::find;

/// Prints the comparison of the artifacts that the arguments name. Errors: invalid (an artifact without trajectories,
/// an unknown problem or model), and those of the store.
pub fn run(session: &AppSession, args: &CompareArgs, format: OutputFormat) -> Result<CliExit> {
    let compared = samples::load(session, &args.artifacts)?;
    if let Some([a, b]) = args.flips.as_deref() {
        let flips = Flips::between(model(&compared, a)?, model(&compared, b)?, args.sample);
        return print(&flips, &flips.text(&args.artifacts), format);
    }
    let found = problem(&compared, args.problem.as_deref().unwrap_or_default(), args.sample)?;
    print(&found, &comparison::text(&found), format)
}

fn print(document: &impl serde::Serialize, text: &str, format: OutputFormat) -> Result<CliExit> {
    match format {
        OutputFormat::Json => print_json(document)?,
        OutputFormat::Text => print_text(text),
    }
    Ok(CliExit::Done)
}

fn model<'a>(compared: &'a ComparedArtifacts, name: &str) -> Result<&'a ModelSamples> {
    compared.models.iter().find(|model| model.name == name).ok_or_else(|| {
        let names: Vec<String> = compared.models.iter().map(|model| format!("`{}`", model.name)).collect();
        Error::invalid(format!("there is no model `{name}` in the artifacts"))
            .help(format!("the models are {}", names.join(", ")))
    })
}

/// Reads the samples of all models on a problem, named by its id or its position.
fn problem(compared: &ComparedArtifacts, name: &str, sample: Option<i64>) -> Result<ProblemComparison> {
    let problems = compared.problems();
    let position = position(&problems, name)?;
    let problem = problems[position];
    let mut models = Vec::new();
    for model in &compared.models {
        models.push(compared_model(compared, model, problem, sample)?);
    }
    let question = shared_prompt(&models);
    let expected = models.iter().filter_map(|model| model.row.as_ref()?.get("expected")).find(|v| !v.is_null());
    Ok(ProblemComparison {
        problem: problem.to_string(),
        position,
        problems: problems.len(),
        expected: expected.cloned(),
        question,
        models,
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
    Ok(ComparedModel {
        model: model.name.clone(),
        artifact: table.artifact.clone(),
        sample: chosen.map(|sample| sample.number),
        drawn: model.drawn(problem),
        verdict: chosen.map(|sample| verdict(sample, row.as_ref())),
        row,
    })
}

fn verdict(sample: &Sample, row: Option<&Map<String, Value>>) -> String {
    match (sample.correct, row) {
        (None, _) => "not judged".to_string(),
        (Some(_), Some(row)) if row.get("correct").is_some_and(Value::is_boolean) => {
            conversation::verdict(row, row.get("answer").is_some_and(|answer| !answer.is_null()))
        }
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
    }
}
