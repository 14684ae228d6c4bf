//! All environments of this build: one line each, sorted.

use crate::environments::{
    Environment, countdown, customer_service, function_calling, grid_world, math_problems, multi_hop_questions, sql_questions,
    word_problems,
};
use crate::options::{PartKind, find, part, read};
use crate::tools::ToolHost;
use serde_json::{Value, json};
use std::sync::Arc;
use trainyard_core::{OptionProblem, Result};

type Build = fn(&Value, &Arc<ToolHost>) -> Result<Box<dyn Environment>>;

/// Every environment, by name.
pub fn kinds() -> Vec<PartKind<Build>> {
    vec![
        part::<countdown::CountdownOptions, Build>("make a target from given numbers, with tools, judged by evaluation", |o, host| {
            Ok(Box::new(countdown::Countdown::new(read(o)?, host)?))
        }),
        part::<customer_service::CustomerServiceOptions, Build>("serve a customer of a shop, judged by the shop's database", |o, host| {
            Ok(Box::new(customer_service::CustomerService::new(read(o)?, host)?))
        }),
        part::<function_calling::FunctionCallingOptions, Build>("one turn of tool calls, judged by gold calls", |o, _| {
            Ok(Box::new(function_calling::FunctionCalling::new(read(o)?)?))
        }),
        part::<grid_world::GridWorldOptions, Build>("walk to a goal in a grid that is only seen nearby, judged by the world", |o, host| {
            Ok(Box::new(grid_world::GridWorld::new(read(o)?, host)?))
        }),
        part::<math_problems::MathProblemsOptions, Build>("math word problems of data sets, with tools, judged by a number", |o, host| {
            Ok(Box::new(math_problems::MathProblems::new(read(o)?, host)?))
        }),
        part::<multi_hop_questions::MultiHopQuestionsOptions, Build>(
            "several facts found one by one by search, judged by text",
            |o, host| Ok(Box::new(multi_hop_questions::MultiHopQuestions::new(read(o)?, host)?)),
        ),
        part::<sql_questions::SqlQuestionsOptions, Build>(
            "questions over a database that the agent queries, judged by a value",
            |o, host| Ok(Box::new(sql_questions::SqlQuestions::new(read(o)?, host)?)),
        ),
        part::<word_problems::WordProblemsOptions, Build>("generated arithmetic stories, with tools, judged by a number", |o, host| {
            Ok(Box::new(word_problems::WordProblems::new(read(o)?, host)?))
        }),
    ]
}

/// Builds an environment from `{kind: word-problems, tools: [python], max_turns: 4, …}`. No process starts before the first call.
pub fn build(options: &Value, host: &Arc<ToolHost>) -> Result<Box<dyn Environment>> {
    let kinds = kinds();
    (find("environment", &kinds, options)?.build)(options, host)
}

/// One branch per environment; for options of stages, by `schema_with`. It marks what is a file, so that its content enters the digest.
pub fn schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let branches: Vec<Value> = kinds().iter().map(crate::options::branch).collect();
    schemars::Schema::try_from(serde_json::json!({ "oneOf": branches })).unwrap_or_default()
}

/// The same options with all defaults filled in.
pub fn complete(options: &Value) -> Result<Value> {
    let kinds = kinds();
    (find("environment", &kinds, options)?.complete)(options)
}

/// Everything wrong with the options; pointers are relative to them.
pub fn check(options: &Value) -> Vec<OptionProblem> {
    let kinds = kinds();
    match find("environment", &kinds, options) {
        Ok(kind) => (kind.check)(options),
        Err(e) => vec![OptionProblem { pointer: "/kind".to_string(), message: e.message, help: e.help }],
    }
}

/// Kinds whose environment makes problems, sorted.
pub fn generating() -> Vec<&'static str> {
    let host = ToolHost::new(1);
    let mut kinds = kinds();
    kinds.retain(|kind| (kind.build)(&json!({}), &host).is_ok_and(|e| e.generator().is_some()));
    kinds.iter().map(|kind| kind.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_defaults_build() {
        let kinds = kinds();
        assert!(kinds.iter().map(|k| k.name).collect::<Vec<_>>().is_sorted());
        let host = ToolHost::new(1);
        for kind in kinds {
            let whole = complete(&json!({"kind": kind.name})).unwrap();
            assert_eq!(complete(&whole).unwrap(), whole);
            assert_eq!(check(&whole), []);
            assert_eq!(build(&whole, &host).unwrap().kind(), kind.name);
        }
        assert!(host.worker_ids().is_empty(), "building must not start a worker");
        let generating = generating();
        assert!(generating.contains(&"word-problems") && !generating.contains(&"math-problems"), "{generating:?}");
    }

    #[test]
    fn what_stages_use_by_default_is_whole() {
        let solutions = complete(&math_problems::default_options()).unwrap();
        assert_eq!((&solutions["tools"], &solutions["max_turns"]), (&json!(["calculator"]), &json!(32)));
        let stories = complete(&word_problems::default_options()).unwrap();
        assert_eq!((&stories["tools"], &stories["max_turns"]), (&json!(["python"]), &json!(4)));
    }

    #[test]
    fn every_mistake_has_its_place() {
        let options = json!({"kind": "word-problems", "tools": ["abacus"], "max_turns": 0, "limits": {"time_millis": 1}});
        let pointers: Vec<String> = check(&options).into_iter().map(|p| p.pointer).collect();
        assert_eq!(pointers, ["/tools/0", "/max_turns", "/limits/time_millis"]);
        assert_eq!(check(&json!({"kind": "chess"}))[0].pointer, "/kind");
        assert!(check(&json!({"kind": "word-problems", "max_turn": 3}))[0].message.contains("max_turn"));
        assert_eq!(check(&json!({"kind": "word-problems", "tools": ["python", "calculator"]}))[0].pointer, "/format");
        assert!(build(&options, &ToolHost::new(1)).is_err());
    }
}
