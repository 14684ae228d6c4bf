//! All environments of this build: one line each, sorted.

use crate::environments::{
    Environment, countdown, customer_service, function_calling, grid_world, math_problems, multi_hop_questions,
    sql_questions, word_problems,
};
use crate::tools::ToolHost;
use serde_json::{Value, json};
use std::sync::Arc;
use trainyard_api::parts::{Kinds, part, read};
use trainyard_core::{OptionProblem, Result};

/// Environments share a tool host.
pub type Build = fn(&Value, &Arc<ToolHost>) -> Result<Box<dyn Environment>>;

/// Every environment, by name.
pub fn kinds() -> Kinds<Build> {
    let list = vec![
        part::<countdown::CountdownOptions, Build>(|o, host| Ok(Box::new(countdown::Countdown::new(read(o)?, host)?))),
        part::<customer_service::CustomerServiceOptions, Build>(|o, host| {
            Ok(Box::new(customer_service::CustomerService::new(read(o)?, host)?))
        }),
        part::<function_calling::FunctionCallingOptions, Build>(|o, _| {
            Ok(Box::new(function_calling::FunctionCalling::new(read(o)?)?))
        }),
        part::<grid_world::GridWorldOptions, Build>(|o, host| {
            Ok(Box::new(grid_world::GridWorld::new(read(o)?, host)?))
        }),
        part::<math_problems::MathProblemsOptions, Build>(|o, host| {
            Ok(Box::new(math_problems::MathProblems::new(read(o)?, host)?))
        }),
        part::<multi_hop_questions::MultiHopQuestionsOptions, Build>(|o, host| {
            Ok(Box::new(multi_hop_questions::MultiHopQuestions::new(read(o)?, host)?))
        }),
        part::<sql_questions::SqlQuestionsOptions, Build>(|o, host| {
            Ok(Box::new(sql_questions::SqlQuestions::new(read(o)?, host)?))
        }),
        part::<word_problems::WordProblemsOptions, Build>(|o, host| {
            Ok(Box::new(word_problems::WordProblems::new(read(o)?, host)?))
        }),
    ];
    Kinds { what: "environment", list }
}

/// Builds an environment from `{kind: word-problems, tools: [python], max_turns: 4, …}`. Starts no process before the
/// first call.
pub fn build(options: &Value, host: &Arc<ToolHost>) -> Result<Box<dyn Environment>> {
    let kinds = kinds();
    let (kind, own) = kinds.find(options)?;
    (kind.build)(&own, host).map_err(|e| e.at(kinds.place(kind)))
}

/// JSON Schema of `{kind, …}` for stage options, by `schema_with`. It marks options that name files, so that their
/// content enters the digest.
pub fn schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::Schema::try_from(kinds().schema()).unwrap_or_default()
}

/// The same options with all defaults filled in.
pub fn complete(options: &Value) -> Result<Value> {
    kinds().complete(options)
}

/// Everything wrong with the options; pointers are relative to them.
pub fn check(options: &Value) -> Vec<OptionProblem> {
    kinds().check(options)
}

/// Kinds of environments that generate problems, sorted.
pub fn generating() -> Vec<&'static str> {
    let host = ToolHost::new(1);
    let makes = |kind: &&str| build(&json!(kind), &host).is_ok_and(|e| e.generator().is_some());
    kinds().names().into_iter().filter(makes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_defaults_build() {
        let names = kinds().names();
        assert!(names.is_sorted());
        assert!(kinds().list.iter().all(|kind| !kind.summary.is_empty() && !kind.doc.is_empty()));
        let host = ToolHost::new(1);
        for name in names {
            let whole = complete(&json!({"kind": name})).unwrap();
            assert_eq!(complete(&whole).unwrap(), whole);
            assert_eq!(complete(&json!(name)).unwrap(), whole, "a bare name is the default");
            assert_eq!(check(&whole), []);
            assert_eq!(build(&whole, &host).unwrap().kind(), name);
        }
        assert!(host.worker_ids().is_empty(), "building must not start a worker");
        let generating = generating();
        assert!(generating.contains(&"word-problems") && !generating.contains(&"math-problems"), "{generating:?}");
    }

    /// Stage configs contain these keys, so their digests depend on them.
    #[test]
    fn unused_dialogue_options_are_hidden() {
        let keys =
            |kind: &str| complete(&json!(kind)).unwrap().as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys("grid-world"), ["describe_tools", "format", "kind", "max_tool_calls", "max_turns", "system"]);
        let service =
            ["communication", "database", "describe_tools", "format", "kind", "max_tool_calls", "max_turns", "policy"];
        assert_eq!(keys("customer-service"), service);
        let words = ["describe_tools", "format", "kind", "limits", "max_tool_calls", "max_turns", "system", "tools"];
        assert_eq!(keys("word-problems"), words);
        assert!(check(&json!({"kind": "grid-world", "tools": ["python"]}))[0].message.contains("tools"));
        assert!(check(&json!({"kind": "customer-service", "system": "Be brief."}))[0].message.contains("system"));
    }

    #[test]
    fn default_options_are_complete() {
        let solutions = complete(&math_problems::default_options()).unwrap();
        assert_eq!((&solutions["tools"], &solutions["max_turns"]), (&json!(["calculator"]), &json!(32)));
        let stories = complete(&word_problems::default_options()).unwrap();
        assert_eq!((&stories["tools"], &stories["max_turns"]), (&json!(["python"]), &json!(4)));
    }

    #[test]
    fn every_mistake_is_located() {
        let options =
            json!({"kind": "word-problems", "tools": ["abacus"], "max_turns": 0, "limits": {"time_millis": 1}});
        let pointers: Vec<String> = check(&options).into_iter().map(|p| p.pointer).collect();
        assert_eq!(pointers, ["/tools/0", "/max_turns", "/limits/time_millis"]);
        assert_eq!(check(&json!({"kind": "chess"}))[0].pointer, "/kind");
        assert!(check(&json!({"kind": "word-problems", "max_turn": 3}))[0].message.contains("max_turn"));
        assert_eq!(check(&json!({"kind": "word-problems", "tools": ["python", "calculator"]}))[0].pointer, "/format");
        assert!(build(&options, &ToolHost::new(1)).is_err());
    }
}
