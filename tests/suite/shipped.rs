//! Guarantees of the shipped workflows about their data and reports.

use crate::kit::{Sandbox, repository};

fn shipped(name: &str) -> String {
    std::fs::read_to_string(repository().join("workflows").join(name)).unwrap()
}

#[test]
fn the_quickstart_refuses_to_learn_from_its_test_problems() {
    let s = Sandbox::new();
    let text = shipped("quickstart.yaml");
    for (port, split) in [("problems", "rl"), ("validation", "validation"), ("problems", "prm")] {
        let wired = |split: &str| format!("{port}: ${{{{ stages.synthesize.problems_{split} }}}}");
        assert!(text.contains(&wired(split)), "{port}");
        s.write("wired.yaml", text.replace(&wired(split), &wired("test")));
        let found = s.run(&["check", "wired.yaml", "--format", "json"]).code(2).json();
        assert!(
            found["diagnostics"].to_string().contains("must not see the evaluation set `test`"),
            "{split}: {found}"
        );
    }
}

#[test]
fn the_quickstart_reports_all_that_it_measures_whatever_its_gate_says() {
    let text = shipped("quickstart.yaml");
    for stage in ["compare", "evaluate", "filter", "prm", "rl", "sft", "synthesize"] {
        assert!(text.contains(&format!("- ${{{{ stages.{stage}.report }}}}")), "{stage}");
    }
    let (before, page) = text.split_once("\n  report:\n").unwrap();
    assert!(page.contains("checks: [{metric: accuracy, of: low, min: 0.001}]"), "the run is gated");
    assert!(!before.contains("checks:"), "the page must be there when the gate fails");
}

/// Problems that share words with a test problem are used neither for demonstrations nor for practice, nor to choose
/// weights.
#[test]
fn gsm8k_learns_from_problems_that_share_nothing_with_the_test() {
    let s = Sandbox::new();
    let row =
        |question: &str| format!("{{\"question\": \"{question}\", \"answer\": \"It is <<1+2=3>>3.\\n#### 3\"}}\n");
    let hens = "a farmer has twelve hens and each hen lays five eggs in a week so how many eggs are there?";
    // By the hashes of their questions bag 2 and day 3 are for validation, all others for practice.
    let bags = (1..=20)
        .map(|i| row(&format!("Bag {i} holds {i} nuts and {} more are put in. How many nuts does it hold?", i + 1)));
    let shared = [0, 3].map(|day| row(&format!("On day {day} they say: {hens}")));
    s.write("data/train.jsonl", bags.chain(shared).collect::<String>());
    s.write("data/test.jsonl", row(hens));
    s.write("data/example_model_solutions.jsonl", "");
    s.write("gsm8k.yaml", shipped("gsm8k.yaml"));
    let data = format!("data={}", s.path("data").display());
    s.run(&["run", "gsm8k.yaml", "-p", &data, "--until", "demonstrations", "--until", "validation"]).code(0);
    for (artifact, rows) in
        [("practice/problems", 19), ("validation/problems", 1), ("demonstrations/demonstrations", 19)]
    {
        let artifact = format!("latest/{artifact}");
        let found = s
            .run(&["artifacts", "query", &artifact, "select count(*) as n from self", "--format", "json"])
            .code(0)
            .json();
        assert_eq!(found["rows"][0][0], rows, "{artifact}: {found}");
    }
}
