//! Requests a reason and a verdict about each of many episodes from a model.

use super::prompt::JudgePrompt;
use serde_json::{Value, json};
use trainyard_chat::{ChatClient, ChatOptions, ChatRequest, ChatResponse, ResponseSchema};
use trainyard_core::{Error, OptionProblem, Result};
use trainyard_tables::{Problem, Trajectory};

/// Prompt and response format of a judge. A response contains the reason first, so that the verdict follows from it.
pub struct EpisodeJudge {
    prompt: JudgePrompt,
    rubric: String,
    /// Key of the verdict in the response.
    key: &'static str,
    /// JSON Schema of the verdict.
    schema: Value,
    /// The verdict in words.
    words: String,
}

/// A readable verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgeVerdict {
    /// The judge's reason.
    pub reason: String,
    /// Value under the judge's key.
    pub verdict: Value,
}

impl EpisodeJudge {
    /// Returns a judge whose verdicts are values of the JSON Schema `schema` under `key`; `words` describe the values
    /// to the model.
    ///
    /// Errors: a problem with the option `prompt`.
    pub fn new(
        (prompt, rubric): (&str, &str),
        key: &'static str,
        schema: Value,
        words: impl Into<String>,
    ) -> Result<Self, OptionProblem> {
        let prompt = JudgePrompt::read(prompt, "/prompt")?;
        Ok(Self { prompt, rubric: rubric.to_string(), key, schema, words: words.into() })
    }
    /// Returns the problems with the options that all judges have.
    pub fn problems(model: &ChatOptions, prompt: &str, rubric: &str) -> Vec<OptionProblem> {
        let mut problems: Vec<OptionProblem> = model.problems().into_iter().map(|p| p.with_prefix("/model")).collect();
        problems.extend(JudgePrompt::read(prompt, "/prompt").err());
        if rubric.trim().is_empty() && prompt.contains("rubric") {
            let problem = OptionProblem::new("/rubric", "the rubric of the judge is empty");
            problems
                .push(problem.help("write the rules in a sentence or a list, or in a `prompt` without `{{ rubric }}`"));
        }
        problems
    }
    fn question(&self, row: &Trajectory, problem: &Problem) -> ChatRequest {
        let Self { key, words, .. } = self;
        let filled = self.prompt.fill(&self.rubric, row, problem);
        let text = format!(
            "{filled}\n\nAnswer with a JSON object and nothing else: \
             {{\"reason\": \"why, in a sentence or two\", \"{key}\": {words}}}"
        );
        let properties = json!({"reason": {"type": "string"}, *key: self.schema});
        let schema = json!({
            "type": "object", "properties": properties, "required": ["reason", key], "additionalProperties": false,
        });
        ChatRequest {
            response_schema: Some(ResponseSchema { name: "verdict", schema }),
            ..ChatRequest::from_prompt("", text)
        }
    }
    fn read(&self, answer: &ChatResponse) -> Result<JudgeVerdict> {
        let mut object = answer.object()?;
        let reason = object["reason"].as_str().unwrap_or_default().trim().to_string();
        match object.get_mut(self.key) {
            Some(verdict) => Ok(JudgeVerdict { reason, verdict: verdict.take() }),
            None => Err(Error::data(format!("the judge's answer has no `{}`: {object}", self.key))),
        }
    }
}

/// Requests verdicts on episodes of problems. Returns, for each episode, the verdict or the reason for its absence: the
/// model declines, its response cannot be parsed, or the server rejects the request. Blocks until all responses have
/// arrived.
///
/// Errors: those of [`ChatClient::next`].
pub fn request_verdicts(
    judge: &EpisodeJudge,
    chat: &mut ChatClient,
    rows: &[(&Trajectory, &Problem)],
) -> Result<Vec<Result<JudgeVerdict>>> {
    let questions: Vec<ChatRequest> = rows.iter().map(|(row, problem)| judge.question(row, problem)).collect();
    let answers = chat.send_all(&questions, |_| Ok(()))?;
    Ok(answers.into_iter().map(|answer| judge.read(&answer?)).collect())
}
