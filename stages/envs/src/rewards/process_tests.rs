use super::*;
use crate::rewards::weighted::{RewardList, score_groups};
use crate::rewards::{WeightedReward, family};
use serde_json::json;
use std::sync::Mutex;
use trainyard_core::ErrorKind;

/// Returns the command of a program that responds to a batch with the text of `$rows`, which `work` sets; `$line` is
/// the request.
fn program(work: &str) -> Vec<String> {
    let script = format!(
        r#"read -r hello; echo '{{"type":"ready","protocol":1}}'
        while read -r line; do id=${{line#*:}}; id=${{id%%,*}}; {work}
        printf '{{"id":%s,"result":%s}}\n' "$id" "$rows"; done"#
    );
    ["sh", "-c", &script].map(str::to_string).to_vec()
}

fn rewards(more: Value, log: &ProgramLog) -> Vec<WeightedReward> {
    let mut entry = json!({"kind": "process", "timeout": "5s"});
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut list = json!([{"kind": "answer"}, entry]);
    let mut rewards = RewardList::read(&family(), &mut list).build().unwrap();
    rewards.iter_mut().for_each(|one| one.reward.open(&RewardContext::with_log(log)).unwrap());
    rewards
}

fn score(rewards: &mut [WeightedReward], sizes: &[usize]) -> Result<Vec<Vec<BTreeMap<String, f64>>>> {
    let p = Problem { id: "p".to_string(), ..Problem::default() };
    let row = |n: usize| Trajectory { id: format!("rl/0/p/{n}"), ..Trajectory::default() };
    let groups: Vec<Vec<Trajectory>> = sizes.iter().map(|size| (0..*size).map(row).collect()).collect();
    let members: Vec<Vec<&Trajectory>> = groups.iter().map(|group| group.iter().collect()).collect();
    let correct = [true; 100];
    let groups_to_score: Vec<ScoringGroup<'_>> = members
        .iter()
        .map(|members| {
            let group = GroupView { step: 0, steps: 1, members, correct: &correct[..members.len()], earlier: &[] };
            ScoringGroup { problem: &p, group }
        })
        .collect();
    let totals = score_groups(rewards, &groups_to_score)?;
    Ok(totals.into_iter().map(|group| group.into_iter().map(|total| total.components).collect()).collect())
}

#[test]
fn all_groups_of_a_step_are_sent_together_in_batches() {
    // The value of each item is the number of items in its request, which the program counts by the key `stop_reason`.
    let count = r#"n=$(printf %s "$line" | grep -o '"stop_reason"' | wc -l); rows="["; i=0;
        while [ $i -lt $n ]; do [ $i -gt 0 ] && rows="$rows,"; rows="$rows{\"value\":$n}"; i=$((i+1)); done
        rows="$rows]""#;
    let mut rewards = rewards(json!({"command": program(count), "batch": 4, "name": "counted"}), &null_log());
    assert_eq!(rewards[1].component, "counted");
    let scored = score(&mut rewards, &[3, 1, 2]).unwrap();
    let values: Vec<f64> = scored.concat().iter().map(|total| total["counted"]).collect();
    assert_eq!(values, [4.0, 4.0, 4.0, 4.0, 2.0, 2.0]);
}

#[test]
fn an_outage_is_retryable_and_never_a_low_reward() {
    let mut dying = rewards(json!({"command": program("exit 3")}), &null_log());
    let error = score(&mut dying, &[2]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Retryable);
    assert!(error.message.starts_with("reward `process` (sh -c "), "{error}");
    assert!(error.message.contains("exited with status 3"), "{error}");
}

#[test]
fn an_exception_ends_the_stage_or_is_counted() {
    let rows = r#"rows='[{"value":2},{"error":{"type":"ValueError","message":"bad row","traceback":"line 7"}}]'"#;
    let mut failing = rewards(json!({"command": program(rows)}), &null_log());
    let error = score(&mut failing, &[2]).unwrap_err();
    assert_eq!((error.kind, error.causes().next()), (ErrorKind::Data, Some("line 7")));
    assert!(error.message.contains("episode `rl/0/p/1`: ValueError: bad row"), "{error}");
    assert!(error.help.unwrap().contains("on_error: skip"));
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    let log: ProgramLog = Arc::new(move |_, line: &str| sink.lock().unwrap().push(line.to_string()));
    let mut skipping = rewards(json!({"command": program(rows), "on_error": "skip"}), &log);
    for _ in 0..2 {
        let scored = score(&mut skipping, &[2]).unwrap().concat();
        assert_eq!((scored[0].get("process"), scored[1].get("process")), (Some(&2.0), None));
    }
    assert_eq!(skipping[1].reward.metrics(), [("exceptions", 2.0)]);
    assert_eq!(skipping[1].reward.metrics(), [("exceptions", 0.0)]);
    assert_eq!(lines.lock().unwrap().iter().filter(|line| line.contains("line 7")).count(), 1, "logged once");
}

#[test]
fn invalid_rows_are_rejected() {
    for rows in [r#"rows='[{"score":1}]'"#, r#"rows='[{"value":"high"}]'"#, r#"rows='[{"value":1,"per_turn":[null]}]'"#]
    {
        let mut odd = rewards(json!({"command": program(rows)}), &null_log());
        let error = score(&mut odd, &[1]).unwrap_err();
        assert!(error.kind == ErrorKind::Data && error.message.contains("for a reward"), "{error}");
    }
    assert_eq!(read(&json!({"value": 1, "per_turn": [0.5]})).unwrap().per_turn, [0.5]);
    assert_eq!(read(&json!({"value": null})).unwrap(), Score::not_applicable());
}

#[test]
fn options_are_flattened_and_unknown_ones_are_rejected() {
    let bad = RewardList::read(&family(), &mut json!([{"kind": "process", "comand": ["sh"]}])).problems();
    assert!(bad[0].message.contains("comand"), "{bad:?}");
    let schema = family().members().iter().find(|kind| kind.kind == "process").unwrap().branch();
    assert_eq!(schema["properties"]["command"]["items"]["format"], "command", "{schema}");
    assert_eq!(schema["properties"]["files"]["items"]["format"], "sources");
}
