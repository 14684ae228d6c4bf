//! Implements the rule `execution`: runs the Python program of a row, and rejects the row if it fails.
//!
//! Programs run in the worker processes of the tool `python`, each in a separate session.

use crate::filter::rows::RuleRows;
use crate::filter::rule::{FilterRule, RuleColumns, RuleContext, RulePass, RuleVerdict};
use crate::text::short;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::VecDeque;
use std::time::Duration;
use trainyard_api::PartOptions;
use trainyard_core::{Error, OptionProblem, Result};
use trainyard_envs::tools::python::{Python, PythonOptions};
use trainyard_envs::tools::{AgentTool as _, PendingToolResult, ToolLimits, ToolResult, ToolSession};
use trainyard_tables::{Problem, Trajectory};

/// Programs that are sent to workers before the first of them has ended.
const AHEAD: usize = 64;

/// Rejects the rows whose program fails.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExecutionRule {
    /// Text that has the program: its last block in three backticks with the word `python`. `answer` without such a
    /// block is the program itself.
    pub of: ProgramSource,
    /// Tests that run after the program, in the same session: `reference` is the problem's worked solution, which must
    /// be Python then.
    pub tests: ProgramTests,
    /// More tests, the same for every row, such as `assert solve(3) == 9`.
    pub test: String,
    /// Output that the program must have, apart from spaces at the ends: `answer` is the problem's expected answer. The
    /// output includes the value of a last expression.
    pub expected: ExpectedOutput,
    /// Interpreter, with the options of the tool `python`.
    pub python: PythonOptions,
    /// Limits of the program, and of the tests.
    pub limits: ToolLimits,
}

/// Text that has the program of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProgramSource {
    /// All messages of the agent.
    #[default]
    Agent,
    /// The agent's last message.
    LastMessage,
    /// The final answer.
    Answer,
}

/// Tests of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProgramTests {
    /// No tests from problems.
    #[default]
    None,
    /// The column `reference` of the problem.
    Reference,
}

/// Output that a program must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExpectedOutput {
    /// Any output.
    #[default]
    Any,
    /// The expected answer of the problem.
    Answer,
}

impl ExecutionRule {
    /// Whether the rule reads problems.
    fn needs_problems(&self) -> bool {
        self.tests == ProgramTests::Reference || self.expected == ExpectedOutput::Answer
    }
    /// Returns the program of a row, if it has one.
    fn program(&self, row: &Trajectory) -> Option<String> {
        let mut messages = row.messages.iter().rev().filter(|message| message.role == "assistant");
        match self.of {
            ProgramSource::Agent => messages.find_map(|message| last_block(&message.content)),
            ProgramSource::LastMessage => messages.next().and_then(|message| last_block(&message.content)),
            ProgramSource::Answer => {
                let answer = row.answer.as_deref().filter(|answer| !answer.trim().is_empty())?;
                last_block(answer).or_else(|| (!answer.contains("```")).then(|| answer.to_string()))
            }
        }
    }
    /// Returns the tests of a row; empty for a row without tests.
    fn test_program(&self, problem: Option<&Problem>) -> String {
        let reference = problem.and_then(|problem| problem.reference.as_deref());
        let reference = reference.filter(|_| self.tests == ProgramTests::Reference);
        let parts: Vec<&str> =
            reference.into_iter().chain([self.test.as_str()]).filter(|part| !part.trim().is_empty()).collect();
        parts.join("\n")
    }
}

impl PartOptions for ExecutionRule {
    const KIND: &'static str = "execution";
    const SUMMARY: &'static str = "runs the row's Python program, and its tests";
    const DOC: &'static str = "Runs the program of each row, the last ```python block of the agent's messages, in the\n\
        sandboxed processes of the tool `python` (its built-in interpreter, or CPython with\n\
        `python: {interpreter: cpython}`). Rejects rows whose program raises an exception, exceeds a limit, or, with\n\
        `expected: answer`, prints something other than the problem's answer. `tests: reference` and `test` run\n\
        afterwards in the same session; `tests: reference` and `expected: answer` need the input `problems`.\n\n\
        The limit of time is a wall clock's, so a program near it may pass on one machine and fail on another.\n\
        Reasons: no_code, failed, time_limit, other_output, unknown_problem, no_reference.";
    fn check(&self) -> Vec<OptionProblem> {
        let python = self.python.check().into_iter().map(|problem| problem.with_prefix("/python"));
        python.chain(self.limits.check("/limits")).collect()
    }
}

impl FilterRule for ExecutionRule {
    fn kind(&self) -> &'static str {
        Self::KIND
    }
    fn columns(&self) -> RuleColumns {
        RuleColumns::named(&["problem_id", "messages", "answer"])
    }
    fn start<'a>(&'a self, context: &'a RuleContext<'a>) -> Result<Box<dyn RulePass + 'a>> {
        if self.needs_problems() && context.problems.is_empty() {
            return Err(Error::invalid("no problems with tests or answers for programs")
                .help("wire input `problems`, or remove `tests` and `expected` from the rule"));
        }
        Ok(Box::new(ExecutionPass { rule: self, tool: Python(self.python.clone()), context }))
    }
}

struct ExecutionPass<'a> {
    rule: &'a ExecutionRule,
    tool: Python,
    context: &'a RuleContext<'a>,
}

/// Row that is judged, or whose program runs.
enum StartedRow<'a> {
    Judged(RuleVerdict),
    Running {
        id: &'a str,
        expected: Option<&'a str>,
        program: PendingToolResult,
        tests: Option<PendingToolResult>,
        /// Session that must stay open until the results arrive.
        _session: Box<dyn ToolSession>,
    },
}

impl RulePass for ExecutionPass<'_> {
    fn judge(&mut self, rows: &RuleRows) -> Result<Vec<RuleVerdict>> {
        let rows = rows.trajectories()?;
        let mut verdicts = Vec::with_capacity(rows.len());
        let mut started = VecDeque::with_capacity(AHEAD);
        for row in rows {
            if started.len() == AHEAD {
                verdicts.extend(started.pop_front().map(finished).transpose()?);
            }
            started.push_back(self.start(row)?);
        }
        for row in started {
            verdicts.push(finished(row)?);
        }
        Ok(verdicts)
    }
}

impl ExecutionPass<'_> {
    /// Sends the program of a row, and its tests, to a worker.
    fn start<'r>(&'r self, row: &'r Trajectory) -> Result<StartedRow<'r>> {
        let rejected = |code, detail: &str| Ok(StartedRow::Judged(RuleVerdict::reject(code, detail)));
        let problem = self.context.problems.get(&row.problem_id);
        if self.rule.needs_problems() && problem.is_none() {
            return rejected("unknown_problem", &row.problem_id);
        }
        let has_reference = problem.is_some_and(|problem| problem.reference.is_some());
        if self.rule.tests == ProgramTests::Reference && !has_reference {
            return rejected("no_reference", &row.problem_id);
        }
        let Some(program) = self.rule.program(row) else { return rejected("no_code", "") };
        let mut session = self.tool.open(self.context.host, &self.rule.limits)?;
        let mut submit = |code: String| session.submit(&json!({"code": code}));
        let program = submit(program);
        let tests = Some(self.rule.test_program(problem)).filter(|tests| !tests.is_empty()).map(submit);
        let expected = problem.filter(|_| self.rule.expected == ExpectedOutput::Answer);
        let expected = expected.map(|problem| problem.answer.as_str());
        Ok(StartedRow::Running { id: &row.id, expected, program, tests, _session: session })
    }
}

/// Waits for the results of a row. Errors: retryable (a lost worker).
fn finished(row: StartedRow<'_>) -> Result<RuleVerdict> {
    let (id, expected, program, tests) = match &row {
        StartedRow::Judged(verdict) => return Ok(verdict.clone()),
        StartedRow::Running { id, expected, program, tests, .. } => (*id, *expected, program, tests),
    };
    let program = arrived(program);
    if let Some(verdict) = failure(id, "", &program)? {
        return Ok(verdict);
    }
    if let Some(expected) = expected.map(str::trim).filter(|expected| *expected != program.text.trim()) {
        let detail = format!("`{}` where `{}` is expected", short(program.text.trim(), 60), short(expected, 60));
        return Ok(RuleVerdict::reject("other_output", detail));
    }
    let tests = tests.as_ref().map(arrived);
    let verdict = tests.map(|tests| failure(id, "tests: ", &tests)).transpose()?.flatten();
    Ok(verdict.unwrap_or(RuleVerdict::Keep))
}

fn arrived(pending: &PendingToolResult) -> ToolResult {
    loop {
        if let Some(result) = pending.wait(Duration::from_secs(1)) {
            return result;
        }
    }
}

/// Returns the verdict on a program that did not succeed. Errors: retryable (a lost worker).
fn failure(id: &str, what: &str, result: &ToolResult) -> Result<Option<RuleVerdict>> {
    if result.infrastructure {
        return Err(Error::retryable(format!("the program of row `{id}` was lost: {}", result.text)));
    }
    let code = match (result.error, result.timed_out) {
        (false, _) => return Ok(None),
        (true, true) => "time_limit",
        (true, false) => "failed",
    };
    let last = result.text.lines().last().unwrap_or_default();
    Ok(Some(RuleVerdict::reject(code, format!("{what}{}", short(last, 120)))))
}

/// Returns the last closed block with the word `python` or `py` after its three backticks.
fn last_block(text: &str) -> Option<String> {
    let mut last = None;
    let mut block: Option<(bool, Vec<&str>)> = None;
    for line in text.lines() {
        let fence = line.trim_start().strip_prefix("```");
        match (fence, &mut block) {
            (Some(word), None) => {
                let word = word.trim().to_ascii_lowercase();
                block = Some((matches!(word.as_str(), "python" | "py" | "python3"), Vec::new()));
            }
            (Some(rest), Some((is_python, lines))) if rest.trim().is_empty() => {
                if *is_python {
                    last = Some(lines.join("\n"));
                }
                block = None;
            }
            (_, Some((_, lines))) => lines.push(line),
            (None, None) => {}
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::tests::verdicts;
    use crate::testing::skipped;
    use serde_json::Value;
    use trainyard_tables::Message;

    #[test]
    fn the_last_python_block_is_the_program() {
        assert_eq!(last_block("no code"), None);
        assert_eq!(last_block("```python\nx = 1\n```"), Some("x = 1".into()));
        assert_eq!(last_block("a\n```py\nx\n```\nb\n```python\ny\n  z\n```\nc").as_deref(), Some("y\n  z"));
        assert_eq!(last_block("```python\nx\n```\n```text\n```python\ny\n```").as_deref(), Some("x"));
        assert_eq!(last_block("```\nx\n```\n```bash\nls\n```"), None);
        assert_eq!(last_block("```python\nnever closed"), None);
    }

    #[test]
    fn sources_differ() {
        let agent = |text: &str| Message::new("assistant", text);
        let row = Trajectory {
            messages: vec![
                Message::new("user", "```python\nuser\n```"),
                agent("```python\nfirst\n```"),
                Message::new("tool", "```python\ntool\n```"),
                agent("Done."),
            ],
            answer: Some("print(1)".into()),
            ..Trajectory::default()
        };
        let program = |of| ExecutionRule { of, ..ExecutionRule::default() }.program(&row);
        assert_eq!(program(ProgramSource::Agent).as_deref(), Some("first"));
        assert_eq!(program(ProgramSource::LastMessage), None);
        assert_eq!(program(ProgramSource::Answer).as_deref(), Some("print(1)"));
    }

    #[test]
    fn tests_are_those_of_the_problem_and_of_the_rule() {
        let problem = Problem { reference: Some("assert f(1) == 1".into()), ..Problem::default() };
        let rule = |tests, test: &str| ExecutionRule { tests, test: test.into(), ..ExecutionRule::default() };
        let text = |rule: ExecutionRule| rule.test_program(Some(&problem));
        assert_eq!(text(rule(ProgramTests::None, "")), "");
        assert_eq!(text(rule(ProgramTests::None, "f(2)")), "f(2)");
        assert_eq!(text(rule(ProgramTests::Reference, "f(2)")), "assert f(1) == 1\nf(2)");
    }

    #[test]
    fn results_have_reasons() {
        let reason = |result: ToolResult| failure("a", "tests: ", &result);
        assert_eq!(reason(ToolResult::ok("5")).unwrap(), None);
        let failed = RuleVerdict::reject("failed", "tests: ValueError: no");
        assert_eq!(reason(ToolResult::error("printed\nValueError: no")).unwrap(), Some(failed));
        let late = RuleVerdict::reject("time_limit", "tests: TimeoutError");
        assert_eq!(reason(ToolResult::timed_out("TimeoutError")).unwrap(), Some(late));
        let error = reason(ToolResult::infrastructure("error: the tool was lost")).unwrap_err();
        assert!(error.kind == trainyard_core::ErrorKind::Retryable && error.message.contains("row `a`"), "{error}");
    }

    #[test]
    fn programs_run_in_workers() {
        if std::env::var_os(trainyard_envs::tools::WORKER_VARIABLE).is_none() {
            skipped("TRAINYARD_TOOL_WORKER names no worker program");
            return;
        }
        let row = |id: &str, program: &str| Trajectory {
            id: id.into(),
            problem_id: "p".into(),
            messages: vec![Message::new("assistant", format!("So:\n```python\n{program}\n```\nDone."))],
            ..Trajectory::default()
        };
        let rows = [
            row("right", "def double(x):\n    return 2 * x\nprint(double(3))"),
            row("wrong output", "def double(x):\n    return 2 * x\nprint(double(4))"),
            row("fails", "print(6)\nraise ValueError('no')"),
            row("endless", "while True:\n    pass"),
            row("fails the tests", "def double(x):\n    return 6\nprint(6)"),
        ];
        let reference = Some("assert double(5) == 10".into());
        let problem = Problem { id: "p".into(), answer: " 6 ".into(), reference, ..Problem::default() };
        let judged = |rule: Value| {
            let code = |verdict| match verdict {
                RuleVerdict::Reject { code, .. } => code,
                _ => "",
            };
            let verdicts = verdicts(&rule, &rows, std::slice::from_ref(&problem), &[]).unwrap();
            verdicts.into_iter().map(code).collect::<Vec<_>>()
        };
        let limits = json!({"time_millis": 200});
        assert_eq!(judged(json!({"kind": "execution", "limits": limits})), ["", "", "failed", "time_limit", ""]);
        assert_eq!(
            judged(json!({"kind": "execution", "limits": limits, "expected": "answer"})),
            ["", "other_output", "failed", "time_limit", ""]
        );
        assert_eq!(
            judged(json!({"kind": "execution", "limits": limits, "tests": "reference"})),
            ["", "", "failed", "time_limit", "failed"]
        );
    }

    #[test]
    fn rows_without_programs_or_problems_are_rejected_without_a_worker() {
        let row = |id: &str| Trajectory { id: id.into(), problem_id: id.into(), ..Trajectory::default() };
        let codes = |rule: Value, problems: &[Problem]| {
            let code = |verdict| match verdict {
                RuleVerdict::Reject { code, .. } => code,
                _ => "",
            };
            let verdicts = verdicts(&rule, &[row("a"), row("b")], problems, &[]).unwrap();
            verdicts.into_iter().map(code).collect::<Vec<_>>()
        };
        assert_eq!(codes(json!("execution"), &[]), ["no_code", "no_code"]);
        let problem = Problem { id: "a".into(), answer: "5".into(), ..Problem::default() };
        let expected = json!({"kind": "execution", "expected": "answer"});
        assert_eq!(codes(expected.clone(), std::slice::from_ref(&problem)), ["no_code", "unknown_problem"]);
        let tested = json!({"kind": "execution", "tests": "reference"});
        assert_eq!(codes(tested, std::slice::from_ref(&problem)), ["no_reference", "unknown_problem"]);
        assert!(
            verdicts(&expected, &[row("a")], &[], &[]).unwrap_err().help.unwrap().contains("wire input `problems`")
        );
    }
}
