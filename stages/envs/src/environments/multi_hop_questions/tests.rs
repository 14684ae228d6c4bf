//! Tests the searches of demonstrations, problems of other facts, and custom corpora.

use super::*;
use crate::environments::{
    Environment, EnvironmentSetup, EpisodeStep, GeneratingEnvironment, ProblemGenerator, WithDialogue,
};
use tempfile::NamedTempFile;
use trainyard_api::PartOptions;
use trainyard_tables::StopReason;

fn environment(options: Value) -> GeneratingEnvironment<MultiHopQuestions> {
    let options: WithDialogue<MultiHopQuestionsExtra> = serde_json::from_value(options).unwrap();
    assert_eq!(PartOptions::check(&options), []);
    GeneratingEnvironment::new(options, &EnvironmentSetup::standard(1)).unwrap()
}

/// Returns the tool results and the final answer of these turns.
fn play(environment: &dyn Environment, problem: &Problem, turns: &[ScriptedTurn]) -> (Vec<String>, Option<String>) {
    let mut episode = environment.start(problem, 0).unwrap();
    let mut results: Vec<String> = Vec::new();
    for turn in turns {
        let text = turn.text(environment.format(), results.last().map_or("", String::as_str));
        match episode.step(&environment.format().parse(&text)).unwrap() {
            EpisodeStep::Observe(o) => results.extend(o.messages.into_iter().map(|m| m.content)),
            EpisodeStep::Done(outcome) => {
                assert_eq!(outcome.stop, StopReason::Answer);
                return (results, outcome.answer);
            }
            EpisodeStep::Pending | EpisodeStep::TurnRequest(_) => panic!("a search is answered immediately"),
        }
    }
    panic!("the episode continues");
}

#[test]
fn demonstrations_search_for_what_is_not_known() {
    let (chance, mistakes) = (Chance::new(4), Chance::new(5));
    for (share, tool_turns) in [(0.0, 3), (1.0, 0)] {
        let environment = environment(json!({"facts_size": 200, "known_share": share, "top_k": 1}));
        for index in 0..20 {
            let problem = environment.problem(3, index, &chance);
            let demonstration = environment.demonstration(3, index, &chance, 0.0, &mistakes);
            assert!(!demonstration.mistaken);
            let (results, answer) = play(&environment, &problem, &demonstration.turns);
            assert_eq!((results.len(), answer.as_deref()), (tool_turns, Some(problem.answer.as_str())));
            assert!(environment.verify(&problem, &answer.unwrap()).unwrap());
            // Each result contains the entity that the next search or the answer needs.
            let question = MultiHopQuestion::at(environment.world.knowledge(), 3, index, &chance);
            for (hop, result) in question.unknown().zip(&results) {
                assert!(result.contains(&environment.world.knowledge().entities[hop.object].name), "{result}");
            }
        }
    }
    // In between: one search for each unknown entity on the way.
    let environment = environment(json!({"facts_size": 200, "known_share": 0.5}));
    for index in 0..40 {
        let problem = environment.problem(2, index, &chance);
        let data: Value = serde_json::from_str(&problem.verifier).unwrap();
        let turns = environment.demonstration(2, index, &chance, 0.0, &mistakes).turns;
        assert_eq!(data["searches"], turns.len() - 1);
        assert_eq!(data["known"], turns.len() == 1);
    }
}

#[test]
fn mistakes_are_searches_that_find_nothing() {
    let environment = environment(json!({"facts_size": 200, "known_share": 0.3}));
    let (chance, mistakes) = (Chance::new(4), Chance::new(6));
    let mut mistaken = 0;
    for index in 0..40 {
        let problem = environment.problem(1, index, &chance);
        let demonstration = environment.demonstration(1, index, &chance, 1.0, &mistakes);
        let (results, answer) = play(&environment, &problem, &demonstration.turns);
        assert_eq!(answer.as_deref(), Some(problem.answer.as_str()));
        assert_eq!(demonstration.mistaken, !results.is_empty(), "without a search there is no mistake");
        if demonstration.mistaken {
            mistaken += 1;
            assert_eq!((results.len(), results[0].as_str()), (2, search::NO_RESULTS));
        }
    }
    assert!((1..40).contains(&mistaken));
}

#[test]
fn problems_about_other_facts_are_rejected() {
    let environment = environment(json!({"facts_seed": 1, "facts_size": 100}));
    let problem = environment.problem(1, 0, &Chance::new(0));
    assert!(environment.start(&problem, 0).is_ok());
    for options in [json!({"facts_seed": 2, "facts_size": 100}), json!({"facts_seed": 1, "facts_size": 110})] {
        let other = self::environment(options);
        let error = other.start(&problem, 0).err().unwrap();
        assert!(error.message.contains("1/100") && error.help.is_some(), "{error}");
        // A problem that names no facts fits anywhere.
        assert!(other.start(&Problem { verifier: "{}".to_string(), ..problem.clone() }, 0).is_ok());
    }
    // The share of known entities does not change the facts.
    let known = self::environment(json!({"facts_seed": 1, "facts_size": 100, "known_share": 1.0}));
    assert!(known.start(&problem, 0).is_ok());
}

#[test]
fn a_corpus_is_searched_and_generates_no_problems() {
    let file = NamedTempFile::new().unwrap();
    let passages = [
        json!({"id": "1", "title": "Oslo", "text": "Oslo lies on a fjord."}),
        json!({"id": "2", "text": "Rome does not."}),
    ];
    std::fs::write(file.path(), passages.map(|p| format!("{p}\n")).concat()).unwrap();
    let environment = environment(json!({"corpus": file.path(), "top_k": 1}));
    assert!(environment.generator().is_none());
    let problem =
        Problem { answer: "Oslo".to_string(), verifier: r#"{"kind":"text"}"#.to_string(), ..Problem::default() };
    let search = ToolCall { name: "search".to_string(), arguments: json!({"query": "fjord"}) };
    let turns = [ScriptedTurn::Call(search), ScriptedTurn::Text("It lies there:\noslo".to_string())];
    let (results, answer) = play(&environment, &problem, &turns);
    assert_eq!(results, ["Oslo: Oslo lies on a fjord."]);
    assert!(environment.verify(&problem, &answer.unwrap()).unwrap());
    let generated = self::environment(json!({})).problem(1, 0, &Chance::new(0));
    assert!(environment.start(&generated, 0).is_err());
    let missing = self::environment(json!({"corpus": "no-such-file.jsonl"}));
    let error = missing.start(&problem, 0).err().unwrap();
    assert!(error.message.contains("no-such-file.jsonl"), "{error}");
}

#[test]
fn invalid_options_are_reported_with_their_pointers() {
    let pointers = |options: Value| -> Vec<String> {
        let options: WithDialogue<MultiHopQuestionsExtra> = serde_json::from_value(options).unwrap();
        PartOptions::check(&options).into_iter().map(|p| p.pointer).collect()
    };
    assert_eq!(pointers(json!({})), Vec::<String>::new());
    assert_eq!(
        pointers(json!({"facts_size": 3, "known_share": 1.5, "top_k": 0})),
        ["/facts_size", "/known_share", "/top_k"]
    );
    assert_eq!(pointers(json!({"corpus": "x.jsonl", "known_share": 0.5})), ["/known_share"]);
    assert_eq!(pointers(json!({"tools": ["python"]})), ["/format"], "raw code works for one tool");
    assert_eq!(pointers(json!({"tools": ["python"], "format": "hermes"})), Vec::<String>::new());
    assert!(serde_json::from_value::<WithDialogue<MultiHopQuestionsExtra>>(json!({"seed": 3})).is_err());
}
