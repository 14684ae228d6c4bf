//! Makes rows with values in every kind of column, for tests that compare whole files with recorded digests.

use serde_json::json;
use std::path::{Path, PathBuf};
use trainyard_core::chance::PhiloxRng;
use trainyard_core::{Chance, Digest};
use trainyard_tables::{
    AnswerCheck, EpisodeStatus, Message, Problem, SamplingParams, StopReason, Trajectory, Verdict, write_problems,
    write_trajectories,
};

/// First row that uses the additional columns, so that files change their schema on the way.
const WITH_EXTRA: u64 = 700;

/// Returns row `i` of a table of problems.
pub fn problem(i: u64) -> Problem {
    let mut draws = Chance::new(3).at("problem", &[i]);
    let question = words(&mut draws, 15);
    let mut messages = vec![Message::new("user", question)];
    if i.is_multiple_of(9) {
        messages.insert(0, Message::new("system", "Be brief."));
    }
    if i > WITH_EXTRA && i.is_multiple_of(10) {
        messages[0].name = Some(format!("user-{i}"));
    }
    Problem {
        id: format!("p{}", i * 7919 % 100_003),
        messages,
        answer: format!("{}", i % 50),
        verifier: if i.is_multiple_of(2) { r#"{"known":true}"# } else { "{}" }.into(),
        environment: ["math-problems", "countdown"][i as usize % 2].into(),
        level: draws.below(5) as u32 + 1,
        source: format!("source {}", i % 3),
        split: ["train", "rl", "test"][draws.below(3) as usize].into(),
        canonical: if i.is_multiple_of(4) { format!("form {}", i % 100) } else { String::new() },
        reference: i.is_multiple_of(3).then(|| format!("<<1+1=2>>2\n#### {}", i % 50)),
        meta: (i > WITH_EXTRA && i.is_multiple_of(7)).then(|| meta(i)),
        parents: Vec::new(),
    }
}

/// Returns row `i` of a table of rollouts of `problems` problems: several rows of a problem, in no order.
pub fn trajectory(i: u64, problems: u64) -> Trajectory {
    let mut draws = Chance::new(3).at("trajectory", &[i]);
    let problem = draws.below(problems);
    let prompt = if problem.is_multiple_of(5) { draws.below(3) } else { 0 };
    let question = format!("question {problem}, prompt {prompt}");
    let status = if i.is_multiple_of(41) { EpisodeStatus::Infrastructure } else { EpisodeStatus::Ok };
    let mut row = Trajectory {
        id: format!("row-{i}"),
        problem_id: format!("p{problem}"),
        group: (i / 4) as u32,
        sample: (i % 4) as u32,
        fork_of: i.is_multiple_of(13).then(|| format!("row-{}", i / 2)),
        fork_at: i.is_multiple_of(13).then_some(3),
        reward: [0.0, 0.5, 1.0][draws.below(3) as usize],
        turn_rewards: vec![0.25, draws.uniform()],
        stop_reason: [StopReason::Answer, StopReason::Length, StopReason::Turns][i as usize % 3],
        status,
        turns: 2,
        tool_calls: 1,
        tool_errors: u32::from(i.is_multiple_of(11)),
        answer: (!i.is_multiple_of(6)).then(|| format!("{}", i % 50)),
        level: (problem % 4) as u32,
        sampling: SamplingParams { temperature: 0.5, top_p: 0.9, top_k: (i % 3) as u32 },
        environment: "math-problems".into(),
        seed: i,
        model_digest: i.is_multiple_of(2).then(|| "model".to_string()),
        tokenizer_digest: "tokenizer".into(),
        template_digest: "template".into(),
        verdicts: vec![Verdict { rule: "format".into(), keep: true, reason: format!("{}", i % 3) }],
        parents: (0..i % 3).map(|n| format!("parent-{n}")).collect(),
        update: i.is_multiple_of(4).then_some(i as u32),
        ..Trajectory::default()
    };
    row.rewards.insert("answer".into(), draws.below(3) as f64 / 2.0);
    if i.is_multiple_of(2) {
        row.rewards.insert("length".into(), draws.uniform());
    }
    let turns = [turn(&mut draws, 3), turn(&mut draws, 4)];
    let observed = 90 + draws.below(2) as u32;
    row.messages = messages(i, &question, &turns, observed);
    // Every tenth row is text without tokens.
    if !i.is_multiple_of(10) {
        add_tokens(&mut row, &[1, problem as u32, prompt as u32], &turns, observed);
        row.logprobs = i.is_multiple_of(3).then(|| vec![-0.5; row.token_ids.len()]);
        row.entropies = i.is_multiple_of(5).then(|| vec![0.25; row.token_ids.len()]);
        row.weights_version = i.is_multiple_of(3).then(|| vec![2; row.token_ids.len()]);
        row.advantages = i.is_multiple_of(7).then(|| vec![0.5; row.token_ids.len()]);
    }
    row.step_labels = (i % 4 != 1).then(|| vec![[0.0, 0.25, 1.0, f32::NAN][i as usize % 4], draws.below(2) as f32]);
    row.step_scores = (i % 4 != 2).then(|| vec![draws.uniform() as f32, draws.uniform() as f32]);
    if i > WITH_EXTRA {
        row.tools = i.is_multiple_of(3).then(|| r#"[{"type":"function","function":{"name":"add"}}]"#.to_string());
        row.environment_tools = i.is_multiple_of(5).then(|| "[]".to_string());
        row.answer_check = i.is_multiple_of(7).then(|| AnswerCheck::whole("4", "5", "exact", i.is_multiple_of(2)));
        row.meta = i.is_multiple_of(8).then(|| meta(i));
    }
    row
}

/// Returns the two rows of pair `i`, as `data/pairs` writes them; every fifth pair lacks its second row.
pub fn pair(i: u64) -> Vec<Trajectory> {
    let side = |sample: u32| {
        let mut row = trajectory(2 * i + u64::from(sample), 40);
        (row.group, row.sample) = (i as u32, sample);
        row.rewards.insert(crate::pairs::REWARD.into(), f64::from(1 - sample));
        row
    };
    if i.is_multiple_of(5) { vec![side(0)] } else { vec![side(0), side(1)] }
}

/// Returns values of different types for one key.
fn meta(i: u64) -> String {
    let score = if i.is_multiple_of(16) { json!(1) } else { json!(0.5) };
    let value = json!({"score": score, "of": {"lang": "de", "tags": ["a", format!("{}", i % 3)]}, "none": null});
    value.to_string()
}

fn turn(draws: &mut PhiloxRng, values: u64) -> Vec<u32> {
    (0..=draws.below(2)).map(|_| 10 + draws.below(values) as u32).collect()
}

fn messages(i: u64, question: &str, turns: &[Vec<u32>; 2], observed: u32) -> Vec<Message> {
    let call = Message {
        tool_calls: Some(format!(r#"[{{"name": "add", "arguments": {{"b": {}, "a": 2}}}}]"#, turns[0].len())),
        ..Message::new("assistant", format!("I add {:?}.", turns[0]))
    };
    let result = if i.is_multiple_of(11) { "error: no".to_string() } else { format!("{observed}") };
    let mut messages = vec![
        Message::new("user", question),
        call,
        Message::new("tool", result),
        Message::new("assistant", format!("It is {:?}.", turns[1])),
    ];
    if i > WITH_EXTRA && i.is_multiple_of(6) {
        messages[1].reasoning_content = Some("let me think".into());
        messages[2].tool_call_id = Some(format!("call-{}", i % 5));
    }
    messages
}

fn add_tokens(row: &mut Trajectory, prompt: &[u32], turns: &[Vec<u32>; 2], observed: u32) {
    row.prompt_tokens = prompt.len() as u32;
    let parts: [(&[u32], bool, u16); 4] =
        [(prompt, false, 0), (&turns[0], true, 0), (&[observed], false, 1), (&turns[1], true, 1)];
    for (tokens, in_loss, turn) in parts {
        row.token_ids.extend(tokens);
        row.loss_mask.extend(vec![in_loss; tokens.len()]);
        row.turn.extend(vec![turn; tokens.len()]);
    }
    if row.seed.is_multiple_of(3) {
        row.step_ends = vec![(prompt.len() + turns[0].len()) as u32, row.token_ids.len() as u32];
    }
}

fn words(draws: &mut PhiloxRng, n: u64) -> String {
    (0..n).map(|_| format!("w{}", draws.below(40))).collect::<Vec<_>>().join(" ")
}

/// Writes problems as an artifact, and returns its folder.
pub fn problems_artifact(root: &Path, name: &str, rows: &[Problem]) -> PathBuf {
    let folder = root.join(name);
    std::fs::create_dir_all(&folder).unwrap();
    write_problems(&folder.join("data.parquet"), rows).unwrap();
    folder
}

/// Writes trajectories as an artifact, and returns its folder.
pub fn trajectories_artifact(root: &Path, name: &str, rows: &[Trajectory]) -> PathBuf {
    let folder = root.join(name);
    std::fs::create_dir_all(&folder).unwrap();
    write_trajectories(&folder.join("data.parquet"), rows).unwrap();
    folder
}

/// Returns the first 16 digits of the digest of a file.
pub fn digest(file: &Path) -> String {
    Digest::of(&std::fs::read(file).unwrap()).as_str()[..16].to_string()
}

/// Compares found results with recorded ones; the message lists all differences.
pub fn expect_recorded(found: &[(String, String)], recorded: &[&str]) {
    assert_eq!(found.len(), recorded.len());
    let differing = found.iter().zip(recorded).filter(|((_, digest), recorded)| digest != **recorded);
    let lines: Vec<String> = differing.map(|((case, digest), _)| format!("{case}: \"{digest}\"")).collect();
    assert!(lines.is_empty(), "\n{}", lines.join("\n"));
}
