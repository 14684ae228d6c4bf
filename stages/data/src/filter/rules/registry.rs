//! Lists the rules of `data/filter`, one line each, sorted.

use super::process::CustomRule;
use super::{
    answer, decontaminate, diversity, exact_duplicates, execution, expression, format, judge, language,
    near_duplicates, pass_rate, pattern, personal_data, rank, repetition, symbols, tokens, void_turn,
};
use crate::filter::rule::FilterRule;
use trainyard_api::{Family, PartKind, PartOptions};
use trainyard_envs::programs::ServiceOptions;
use trainyard_process::ProgramOptions;

/// Returns the rules of this crate.
pub fn family() -> Family<dyn FilterRule> {
    let members = vec![
        rule::<answer::AnswerRule>(),
        rule::<decontaminate::Decontaminate>(),
        rule::<diversity::Diversity>(),
        rule::<exact_duplicates::ExactDuplicates>(),
        rule::<execution::ExecutionRule>(),
        rule::<expression::ExpressionRule>(),
        rule::<format::FormatRule>(),
        rule::<CustomRule<ServiceOptions>>(),
        rule::<judge::JudgeRule>(),
        rule::<language::LanguageRule>(),
        rule::<near_duplicates::NearDuplicates>(),
        rule::<pass_rate::PassRate>(),
        rule::<pattern::PatternRule>(),
        rule::<personal_data::PersonalDataRule>(),
        rule::<CustomRule<ProgramOptions>>(),
        rule::<rank::Rank>(),
        rule::<repetition::RepetitionRule>(),
        rule::<symbols::SymbolsRule>(),
        rule::<tokens::TokensRule>(),
        rule::<void_turn::VoidTurnRule>(),
    ];
    Family::new("rules", "rule", members)
}

/// Returns the registry entry of a rule whose options type is the rule itself.
pub fn rule<R: FilterRule + PartOptions>() -> PartKind<dyn FilterRule> {
    PartKind::new::<R>(|options, ()| Ok(Box::new(options)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn rules_are_sorted_complete_and_every_file_is_listed() {
        let rules = family();
        assert!(rules.names().is_sorted());
        for kind in rules.names() {
            let minimal = match kind {
                "expression" => json!({"kind": kind, "keep": "turns > 0"}),
                "judge" => json!({"kind": kind, "model": {"endpoint": "http://h", "model": "m"}, "rubric": "r"}),
                "language" => json!({"kind": kind, "languages": ["en"]}),
                "pattern" => json!({"kind": kind, "pattern": "x"}),
                "process" => json!({"kind": kind, "command": ["sh"]}),
                "tokens" => json!({"kind": kind, "max": 4096}),
                "http" => json!({"kind": kind, "url": "http://127.0.0.1:9/"}),
                _ => json!(kind),
            };
            let full = rules.complete(&minimal).unwrap();
            assert_eq!(rules.complete(&full).unwrap(), full);
            assert_eq!(rules.build(&full, &()).unwrap().kind(), kind);
        }
        for file in std::fs::read_dir("src/filter/rules").unwrap() {
            let path = file.unwrap().path();
            let stem = path.file_stem().unwrap().to_str().unwrap();
            let is_rule =
                path.extension().is_some_and(|e| e == "rs") && !["mod", "registry", "repetition_tests"].contains(&stem);
            assert!(!is_rule || rules.names().contains(&stem), "`{stem}.rs` is not in the registry");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let refusal = |options: Value| family().build(&options, &()).err().unwrap();
        assert!(refusal(json!({"kind": "exact"})).help.unwrap().contains("exact_duplicates"));
        assert!(refusal(json!({"on": "question"})).message.contains("no `kind`"));
        assert!(refusal(json!({"kind": "exact_duplicates", "in": 3})).message.contains("unknown field `in`"));
    }
}
