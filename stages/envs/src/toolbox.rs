//! Holds the tools, tool-call formats and verifiers of a program, which options and problems name.

use crate::formats::ToolFormat;
use crate::tools::{AgentTool, ToolConfig, ToolSpec};
use crate::verifiers::{Extraction, Verifier};
use crate::{formats, tools, verifiers};
use serde_json::Value;
use trainyard_api::Family;
use trainyard_core::Result;
use trainyard_tables::{AnswerCheck, Problem};

/// Tools, tool-call formats and verifiers, from which environments resolve names.
pub struct Toolbox {
    /// Tool-call formats.
    pub formats: Family<dyn ToolFormat, [ToolSpec]>,
    /// Tools of agents.
    pub tools: Family<dyn AgentTool>,
    /// Verifiers of answers.
    pub verifiers: Family<&'static dyn Verifier>,
}

impl Toolbox {
    /// Returns the toolbox of this crate.
    pub fn standard() -> Self {
        Self { formats: formats::family(), tools: tools::family(), verifiers: verifiers::family() }
    }
    /// Returns the named tool with its default options. Errors: invalid, with the valid names.
    pub fn tool(&self, name: &str) -> Result<Box<dyn AgentTool>> {
        self.chosen_tool(&ToolConfig::from(name))
    }
    /// Returns the tool that the options name. Errors: invalid, with the valid names or the invalid option.
    pub fn chosen_tool(&self, choice: &ToolConfig) -> Result<Box<dyn AgentTool>> {
        self.tools.build(choice.options(), &())
    }
    /// Returns the named format for these tools. Errors: invalid (unknown format, or tools that the format cannot
    /// express).
    pub fn format(&self, name: &str, tools: &[ToolSpec]) -> Result<Box<dyn ToolFormat>> {
        self.formats.build(&Value::from(name), tools)
    }
    /// Returns the formats in which every call names its tool, so that they support any set of tools.
    pub fn formats_for_any_tools(&self) -> Vec<&'static str> {
        self.formats.names().into_iter().filter(|name| self.format(name, &[]).is_ok()).collect()
    }
    /// Returns the verifier that a problem names, by default `numeric`. Errors: data, with the problem and the valid
    /// names.
    pub fn verifier(&self, problem: &Problem) -> Result<&'static dyn Verifier> {
        let kind = verifiers::kind(problem)?;
        let found = self.verifiers.build(&Value::from(kind.as_str()), &());
        found.map(|verifier| *verifier).map_err(|_| verifiers::unknown(problem, &kind, &self.verifiers.names()))
    }
    /// Compares an answer with the expected one by the verifier that the problem names. The answer is unreadable if the
    /// verifier is unknown or its data are not JSON. Errors: those of the verifier.
    pub fn check_answer(&self, problem: &Problem, extraction: Extraction, answer: &str) -> Result<AnswerCheck> {
        match self.verifier(problem) {
            Ok(verifier) => verifiers::check(verifier, extraction, &problem.answer, answer),
            Err(unknown) => Ok(AnswerCheck {
                expected: problem.answer.clone(),
                verifier: verifiers::kind(problem).unwrap_or_default(),
                unreadable: Some(unknown.message),
                ..AnswerCheck::default()
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_api::PartKind;
    use trainyard_api::slot::constant;

    struct Never;
    impl Verifier for Never {
        fn kind(&self) -> &'static str {
            "never"
        }
        fn summary(&self) -> &'static str {
            "nothing is right"
        }
        fn matches(&self, _: &str, _: &str) -> Result<bool> {
            Ok(false)
        }
    }

    #[test]
    fn kinds_of_a_program_are_added_to_the_standard_ones() {
        let mut toolbox = Toolbox::standard();
        let python = || tools::registry::tool("python");
        toolbox.tools.add(PartKind::plain("snake", "python again", "Again.", move |()| python())).unwrap();
        toolbox
            .formats
            .add(PartKind::plain("json", "hermes again", "Again.", |_| formats::build("hermes", &[])))
            .unwrap();
        toolbox
            .verifiers
            .add(constant("never", "nothing is right", "Never.", &Never as &'static dyn Verifier))
            .unwrap();
        assert_eq!(toolbox.tool("snake").unwrap().specs()[0].name, "python");
        assert_eq!(toolbox.formats_for_any_tools(), ["hermes", "json", "llama3", "mistral", "qwen", "toolrl"]);
        let problem = |verifier: &str| Problem { answer: "5".into(), verifier: verifier.into(), ..Problem::default() };
        let check = |verifier: &str, answer: &str| {
            toolbox.check_answer(&problem(verifier), Extraction::default(), answer).unwrap()
        };
        let right = |verifier: &str, answer: &str| check(verifier, answer).correct;
        assert!(right("{}", "5.0") && !right(r#"{"kind": "never"}"#, "5"));
        let lost = check(r#"{"kind": "taste"}"#, "5");
        assert!(lost.extracted.is_none() && lost.verifier == "taste", "{lost:?}");
        assert!(lost.unreadable.unwrap().contains("no verifier `taste`"));
        let unknown = toolbox.verifier(&problem(r#"{"kind": "taste"}"#)).err().unwrap();
        assert!(unknown.message.contains("no verifier `taste`") && unknown.help.unwrap().contains("never, numeric"));
        assert!(Toolbox::standard().verifier(&problem(r#"{"kind": "never"}"#)).is_err(), "another program lacks it");
    }
}
