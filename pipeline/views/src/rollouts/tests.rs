//! Views of a stored artifact of trajectories.

use super::*;
use crate::find::ResolvedOutput;
use crate::search::{NoteSink, PatternKind};
use serde_json::json;
use std::sync::Arc;
use trainyard_core::artifact::TableSummary;
use trainyard_core::{ArtifactKind, Digest, ErrorKind, FileEntry, Manifest, Output};
use trainyard_store::{Store, StoreOptions};
use trainyard_tables::{AnswerCheck, AnswerVerdict, Message, Trajectory, Verdict, write_trajectories};

const NAME: &str = "r/s/rollouts";

fn silent() -> NoteSink {
    Arc::new(|_| {})
}

/// Returns rollout `sample` of problem `problem` for an update.
fn rollout(update: u32, problem: u32, sample: u32) -> Trajectory {
    let reward = f64::from((update + problem + sample) % 2);
    Trajectory {
        id: format!("step-{update}/p{problem}/{sample}"),
        problem_id: format!("p{problem}"),
        group: problem,
        sample,
        update: Some(update),
        messages: vec![
            Message::new("user", format!("\nWhat is {problem} + 1?\nThink.")),
            Message::new("assistant", format!("It is number {sample} of update {update}.")),
        ],
        token_ids: vec![1; 4],
        loss_mask: vec![false, true, true, false],
        turn: vec![0; 4],
        advantages: Some(vec![0.0, 0.5, -1.5, 0.0]),
        turns: 1 + sample,
        level: problem,
        reward,
        rewards: [("verdict".to_string(), reward)].into(),
        answer_check: Some(AnswerCheck::whole("5", "5", "numeric", reward == 1.0)),
        verdicts: vec![Verdict { rule: "overlong".into(), keep: sample > 0, reason: "too long".into() }],
        fork_of: (sample == 2).then(|| format!("step-{update}/p{problem}/0")),
        fork_at: (sample == 2).then_some(2),
        ..Trajectory::default()
    }
}

/// Returns 3 updates of 2 problems with 3 rollouts each.
fn rows() -> Vec<Trajectory> {
    let of_update = |update| (0..2).flat_map(move |problem| (0..3).map(move |sample| rollout(update, problem, sample)));
    (0..3).flat_map(of_update).collect()
}

async fn stored(kind: ArtifactKind, rows: &[Trajectory]) -> (Store, ResolvedOutput) {
    let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    write_trajectories(&path, rows).unwrap();
    let (digest, size) = store.put_object(std::fs::read(&path).unwrap().into()).await.unwrap();
    let file: FileEntry =
        serde_json::from_value(json!({"path": "data.parquet", "digest": digest, "size": size})).unwrap();
    let table = TableSummary { rows: rows.len() as u64, columns: Vec::new(), preview: Vec::new() };
    let output = Output::new(kind, vec![file], Some(table), Default::default()).unwrap();
    let manifest = json!({
        "format": 1, "stage_digest": Digest::of(b"s"), "generation": 0, "kind": "rl", "kind_version": 1,
        "config": {}, "inputs": {}, "outputs": {"rollouts": output}, "metrics": {},
        "provenance": {"workflow": "w", "run": "r", "stage": "s", "attempt": 1},
    });
    let manifest: Manifest = serde_json::from_value(manifest).unwrap();
    store.publish(&manifest).await.unwrap();
    (store, ResolvedOutput { manifest, port: "rollouts".into() })
}

fn numbers(list: &RolloutList) -> Vec<u64> {
    list.rows.iter().map(|row| row.facts.row).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_selected_sorted_and_paged() {
    let (store, found) = stored(ArtifactKind::Trajectories, &rows()).await;
    let page = async |query: RolloutListQuery| list(&store, NAME, &found, query, silent()).await.unwrap();
    let all = page(RolloutListQuery { limit: 4, ..RolloutListQuery::default() }).await;
    assert_eq!((numbers(&all), all.matching, all.total, all.next), (vec![0, 1, 2, 3], 18, 18, Some(4)));
    let first = &all.rows[0];
    assert_eq!(
        (first.id.as_str(), first.problem.as_str(), first.stop_reason.as_str()),
        ("step-0/p0/0", "What is 0 + 1?", "answer")
    );
    assert_eq!((first.facts.tokens, first.verdict(), all.examined.clone()), (4, AnswerVerdict::Wrong, Some(0..18)));
    let filters = RolloutFilters { step: "1..2".parse().ok(), problem: Some("p1".into()), ..RolloutFilters::default() };
    let query = RolloutListQuery {
        filters,
        sort: RolloutSort::Turns,
        is_descending: true,
        limit: 50,
        ..RolloutListQuery::default()
    };
    let some = page(query).await;
    assert_eq!((numbers(&some), some.next), (vec![11, 17, 10, 16, 9, 15], None));
    let by_tokens = RolloutListQuery { sort: RolloutSort::Tokens, from: 16, limit: 50, ..RolloutListQuery::default() };
    assert_eq!(numbers(&page(by_tokens).await), [16, 17]);
    let beyond = RolloutListQuery { part: 7, limit: 50, ..RolloutListQuery::default() };
    assert!(page(beyond).await.rows.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_selects_the_rows_that_have_it() {
    let (store, found) = stored(ArtifactKind::Trajectories, &rows()).await;
    let find = |pattern: &str, kind| RolloutListQuery {
        find: Some(FoundText { pattern: pattern.into(), kind }),
        limit: 50,
        ..RolloutListQuery::default()
    };
    let page = list(&store, NAME, &found, find("NUMBER 2 of", PatternKind::Text), silent()).await.unwrap();
    assert_eq!((numbers(&page), page.found), (vec![2, 5, 8, 11, 14, 17], Some((6, 6))));
    let first = page.rows[0].found.as_ref().unwrap();
    assert_eq!((first.message, first.excerpt.found.as_str()), (1, "number 2 of"));
    let regex = find("update [12]", PatternKind::Regex);
    let filters = RolloutFilters { verdict: Some(AnswerVerdict::Right), ..RolloutFilters::default() };
    let right = list(&store, NAME, &found, RolloutListQuery { filters, ..regex }, silent()).await.unwrap();
    assert_eq!(right.matching, 6);
    let mistake = list(&store, NAME, &found, find("(", PatternKind::Regex), silent()).await.unwrap_err();
    assert_eq!(mistake.kind, ErrorKind::Invalid, "{mistake}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_has_its_forks_and_contexts() {
    let (store, found) = stored(ArtifactKind::Trajectories, &rows()).await;
    let one = detail(&store, NAME, &found, 10).await.unwrap();
    assert_eq!((one.row, one.rows, one.rollout.id.as_str()), (10, 18, "step-1/p1/1"));
    assert!(one.rollout.token_ids.is_empty() && one.rollout.messages.len() == 2);
    assert_eq!(one.contexts, [ContextRow { tokens: 0..4, sampled: 2 }]);
    let forks: Vec<(u64, Vec<u64>)> = one
        .forks
        .iter()
        .map(|node| (node.member.row, node.forks.iter().map(|fork| fork.member.row).collect()))
        .collect();
    assert_eq!(forks, [(9, vec![11]), (10, vec![])]);
    let error = detail(&store, NAME, &found, 18).await.unwrap_err();
    assert!(error.message.contains("has no row 18: it has 18 rows"), "{error}");
    let text = message_text(&store, NAME, &found, (10, 1, MessagePart::Content)).await.unwrap();
    assert_eq!(text, "It is number 1 of update 1.");
    assert!(message_text(&store, NAME, &found, (10, 2, MessagePart::Content)).await.is_err());
    let error = message_text(&store, NAME, &found, (10, 1, MessagePart::Reasoning)).await.unwrap_err();
    assert_eq!(error.message, "message 1 has no reasoning");
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_are_counted_after_the_prompt() {
    let texts = [("user", "q"), ("assistant", "shown"), ("user", "r"), ("assistant", "call"), ("tool", "error: no")];
    let messages = texts.into_iter().chain([("assistant", "end")]).map(|(role, text)| Message::new(role, text));
    let row = Trajectory { messages: messages.collect(), turns: 2, tool_errors: 1, ..rollout(0, 0, 1) };
    let none = Trajectory { tool_errors: 0, ..row.clone() };
    let (store, found) = stored(ArtifactKind::Trajectories, &[row, none]).await;
    let one = detail(&store, NAME, &found, 0).await.unwrap();
    assert_eq!((one.prompt_answers, one.failed_turns.into_iter().collect::<Vec<_>>()), (1, vec![0]));
    let other = detail(&store, NAME, &found, 1).await.unwrap();
    assert!(other.failed_turns.is_empty(), "a program may print such a line on purpose");
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_are_those_of_an_update_and_a_problem() {
    let (store, found) = stored(ArtifactKind::Trajectories, &rows()).await;
    let read = async |query: GroupQuery| group(&store, NAME, &found, query).await;
    let several = read(GroupQuery { group: 1, ..GroupQuery::default() }).await.unwrap();
    let steps: Vec<Option<u32>> = several.choices.iter().map(|choice| choice.step).collect();
    assert_eq!((steps, several.members.len()), (vec![Some(0), Some(1), Some(2)], 0));
    let one = read(GroupQuery { group: 1, step: Some(2), near: Some(17), ..GroupQuery::default() }).await.unwrap();
    let members: Vec<(u64, u32, bool)> =
        one.members.iter().map(|member| (member.row, member.rollout.sample, member.is_dropped())).collect();
    assert_eq!(members, [(15, 0, true), (16, 1, false), (17, 2, false)]);
    assert_eq!(one.members[0].advantage, Some(AdvantageRange { mean: -0.5, low: -1.5, high: 0.5 }));
    assert_eq!((one.members[0].sampled, one.members[0].problem.as_str()), (2, "What is 1 + 1?"));
    assert_eq!(one.members[2].last.0, "It is number 2 of update 2.");
    assert_eq!(one.forks.len(), 2);
    assert!(read(GroupQuery { group: 9, ..GroupQuery::default() }).await.unwrap_err().message.contains("no group 9"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_problem_has_its_rollouts_by_update() {
    let (store, found) = stored(ArtifactKind::Trajectories, &rows()).await;
    let history = problem(&store, NAME, &found, "p1").await.unwrap();
    assert_eq!((history.rollouts, history.is_cut, history.steps.len()), (9, false, 3));
    let second = &history.steps[1];
    assert_eq!(second.rollouts.iter().map(|row| row.row).collect::<Vec<_>>(), [9, 10, 11]);
    assert_eq!((second.step, second.right, second.mean_reward), (Some(1), 1, Some(1.0 / 3.0)));
    assert!(problem(&store, NAME, &found, "other").await.unwrap_err().message.contains("no rollouts"));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_kinds_are_records() {
    let (store, found) = stored(ArtifactKind::Table, &rows()).await;
    let error = detail(&store, NAME, &found, 0).await.unwrap_err();
    assert!(error.message.contains("is a table, not trajectories"), "{error}");
    let one = record(&store, NAME, &found, 3).await.unwrap();
    let id = one.cells.iter().find(|(name, _)| name == "id").unwrap();
    assert_eq!((one.rows, id.1.as_str()), (18, Some("step-0/p1/0")));
    assert!(record(&store, NAME, &found, 99).await.is_err());
}
