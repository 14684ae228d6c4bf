use super::choose::choose_by_steps;
use super::cut::{cut, first_difference};
use super::pair::{RowPair, side};
use super::*;
use serde_json::json;
use std::collections::BTreeSet;
use trainyard_api::PreparedOptions as _;
use trainyard_core::Chance;
use trainyard_tables::{
    EpisodeStatus, Message, StopReason, TableBuilder, read_batches, read_trajectories, write_batches,
    write_trajectories,
};

/// Returns a rollout of two turns with an observation between: `[prompt, turn 0, observed, turn 1]`, ids as given.
fn rollout(id: &str, problem: &str, turns: [&[u32]; 2], reward: f64) -> Trajectory {
    let parts: [(&[u32], bool, u16); 4] =
        [(&[1, 2], false, 0), (turns[0], true, 0), (&[9], false, 1), (turns[1], true, 1)];
    let mut row = Trajectory {
        id: id.into(),
        problem_id: problem.into(),
        reward,
        prompt_tokens: 2,
        turns: 2,
        messages: ["user", "assistant", "tool", "assistant"].map(|role| Message::new(role, id)).to_vec(),
        ..Trajectory::default()
    };
    for (tokens, in_loss, turn) in parts {
        row.token_ids.extend(tokens);
        row.loss_mask.extend(vec![in_loss; tokens.len()]);
        row.turn.extend(vec![turn; tokens.len()]);
    }
    row.logprobs = Some(vec![-1.0; row.token_ids.len()]);
    row
}

/// Writes rows as files of at most three rows.
fn files(folder: &tempfile::TempDir, all: &[Trajectory]) -> Vec<PathBuf> {
    let write = |(i, rows): (usize, &[Trajectory])| {
        let file = folder.path().join(format!("rows-{i}.parquet"));
        write_trajectories(&file, rows).unwrap();
        file
    };
    all.chunks(3).enumerate().map(write).collect()
}

fn candidates_of(all: &[Trajectory], config: &PairsConfig) -> Result<PairCandidates> {
    let folder = tempfile::tempdir().unwrap();
    let files = files(&folder, all);
    candidates::read(&RowFiles::strict(&files), config, folder.path())
}

/// Returns the pairs that the stage writes, or the error of choosing them.
fn try_paired(all: &[Trajectory], config: &PairsConfig) -> Result<Vec<[Trajectory; 2]>> {
    let folder = tempfile::tempdir().unwrap();
    let files = files(&folder, all);
    let files = RowFiles::strict(&files);
    let candidates = candidates::read(&files, config, folder.path())?;
    let mut chosen = chosen::choose(&files, &candidates, config, || Ok(()))?;
    chosen::sort(&mut chosen, &candidates, &files)?;
    let pairs: Vec<ChosenPair> = chosen.iter().flat_map(|group| group.pairs.iter().copied()).collect();
    let output = folder.path().join("out.parquet");
    let written = output::write(&files, &pairs, config.flip > 0.0, folder.path(), &output, || Ok(()))?;
    let rows = read_trajectories(&output)?;
    let used: BTreeSet<&String> = rows.iter().flat_map(|row| &row.parents).collect();
    assert_eq!((rows.len(), written.sources), (2 * pairs.len(), used.len()));
    Ok(rows.chunks(2).map(|pair| [pair[0].clone(), pair[1].clone()]).collect())
}

fn paired(all: &[Trajectory], config: &PairsConfig) -> Vec<[Trajectory; 2]> {
    try_paired(all, config).unwrap()
}

#[test]
fn right_rows_are_chosen_over_wrong_ones_of_the_same_problem_and_prompt() {
    let mut foreign = rollout("foreign", "a", [&[3], &[4]], 0.0);
    foreign.token_ids[0] = 7;
    let mut lost = rollout("lost", "a", [&[3], &[8]], 0.0);
    lost.status = EpisodeStatus::Infrastructure;
    let all = vec![
        rollout("right", "a", [&[3], &[5]], 1.0),
        rollout("wrong", "a", [&[3], &[6]], 0.0),
        rollout("again", "a", [&[3], &[6]], 0.0),
        rollout("alone", "b", [&[3], &[5]], 1.0),
        foreign,
        lost,
    ];
    let found = candidates_of(&all, &PairsConfig::default()).unwrap();
    assert_eq!((found.read, found.count(), found.repeated, found.left_out), (6, 3, 1, 1));
    let made = paired(&all, &PairsConfig::default());
    assert_eq!(made.len(), 1);
    let [chosen, rejected] = &made[0];
    assert_eq!((&chosen.parents[0], &rejected.parents[0]), (&"right".to_string(), &"wrong".to_string()));
    assert_eq!((chosen.sample, chosen.reward, chosen.rewards[REWARD]), (0, 1.0, 1.0));
    assert_eq!((rejected.sample, rejected.reward, rejected.rewards[REWARD]), (1, 0.0, 0.0));
    assert_eq!((chosen.group, rejected.group, &chosen.token_ids), (0, 0, &vec![1, 2, 3, 9, 5]));
}

#[test]
fn rows_are_compared_by_components_and_by_step_scores() {
    let mut rows = [0.2f32, 0.9].map(|low| {
        let mut row = rollout(&low.to_string(), "a", [&[3], &[low.to_bits()]], 0.5);
        row.step_scores = Some(vec![0.95, low]);
        row.rewards.insert("answer".into(), f64::from(1.0 - low));
        row
    });
    let first = |rows: &[Trajectory], options: Value| {
        let config: PairsConfig = serde_json::from_value(options).unwrap();
        paired(rows, &config).first().map(|pair| pair[0].parents[0].clone())
    };
    assert_eq!(first(&rows, json!({})), None, "equal rewards");
    for by in ["process_min", "process_product", "process_last"] {
        assert_eq!(first(&rows, json!({ "by": by })).unwrap(), "0.9", "{by}");
        assert_eq!(first(&rows, json!({ "by": by, "min_gap": 0.8 })), None);
    }
    assert_eq!(first(&rows, json!({"component": "answer"})).unwrap(), "0.2");
    rows[0].step_scores = None;
    assert_eq!(first(&rows, json!({"by": "process_min"})), None);
    let config = PairsConfig { component: Some("other".into()), ..PairsConfig::default() };
    let error = candidates_of(&rows, &config).unwrap_err();
    assert!(error.message.contains("`other`") && error.help.unwrap().contains("answer"));
}

#[test]
fn steps_are_compared_after_a_common_beginning_by_the_mean_of_what_follows() {
    // After turn `3 3`, two of two rollouts pass; after turn `4`, one of three passes.
    let all = vec![
        rollout("a", "p", [&[3, 3], &[5]], 1.0),
        rollout("b", "p", [&[3, 3], &[6]], 1.0),
        rollout("c", "p", [&[4], &[5]], 1.0),
        rollout("d", "p", [&[4], &[6]], 0.0),
        rollout("e", "p", [&[4], &[7]], 0.0),
    ];
    let step = PairsConfig { cut: PairCut::Step, per_problem: 99, ..PairsConfig::default() };
    let made = paired(&all, &step);
    let tokens: BTreeSet<(Vec<u32>, Vec<u32>)> =
        made.iter().map(|[c, r]| (c.token_ids.clone(), r.token_ids.clone())).collect();
    let after_four = |last: u32| (vec![1, 2, 4, 9, 5], vec![1, 2, 4, 9, last]);
    let expected = BTreeSet::from([(vec![1, 2, 3, 3], vec![1, 2, 4]), after_four(6), after_four(7)]);
    assert_eq!(tokens, expected, "each contrast once, by 1 against 1/3, and by the outcome of the last turn");
    assert_eq!(made.len(), 3);
    let first = made.iter().find(|pair| pair[0].token_ids.len() == 4).unwrap();
    for (row, tokens) in first.iter().zip([4, 3]) {
        assert_eq!((row.messages.len(), row.turns, row.stop_reason), (2, 1, StopReason::End));
        assert_eq!(
            (row.loss_mask.len(), row.turn.len(), row.logprobs.as_ref().unwrap().len()),
            (tokens, tokens, tokens)
        );
    }
    assert!(paired(&all, &PairsConfig { min_gap: 0.7, ..step }).iter().all(|pair| pair[0].token_ids.len() == 5));
}

#[test]
fn rows_that_differ_outside_agent_tokens_are_not_paired() {
    let (a, mut b) = (rollout("a", "p", [&[3], &[5]], 1.0), rollout("b", "p", [&[3], &[6]], 0.0));
    assert_eq!(first_difference(&a, &b), Some((5, 5)));
    b.token_ids[3] = 8;
    assert_eq!(first_difference(&a, &b), None, "the tool answered something else");
    let mut lines = rollout("c", "p", [&[3, 4, 5], &[6]], 1.0);
    lines.step_ends = vec![3, 5, 7];
    let other = Trajectory { token_ids: vec![1, 2, 3, 7, 5, 9, 6], ..lines.clone() };
    assert_eq!(first_difference(&lines, &other), Some((5, 5)), "the second line of the first turn");
    let short = cut(&lines, 5);
    assert_eq!((short.step_ends, short.token_ids, short.messages.len()), (vec![3, 5], vec![1, 2, 3, 4, 5], 2));
    let text = Trajectory { token_ids: Vec::new(), ..lines };
    let config = PairsConfig { cut: PairCut::Step, ..PairsConfig::default() };
    let rows = [text.clone(), text];
    let error = choose_by_steps(&rows, &config, &mut Chance::new(0).at("test", &[])).unwrap_err();
    assert!(error.message.contains("no tokens"), "{error}");
    let error = try_paired(&rows[..1], &config).unwrap_err();
    assert!(error.message.contains("row `c`"), "{error}");
}

#[test]
fn labels_are_exchanged_and_marked() {
    let rows = [rollout("right", "a", [&[3], &[5]], 1.0), rollout("wrong", "a", [&[3], &[6]], 0.0)];
    let pair = RowPair { better: (0, 0), worse: (1, 0) };
    let [chosen, rejected] = pair.sides(true);
    assert_eq!([chosen, rejected], [(1, 0), (0, 0)]);
    let chosen = side(&rows[chosen.0], chosen.1, (4, 0), Some(true));
    let rejected = side(&rows[rejected.0], rejected.1, (4, 1), Some(true));
    assert_eq!((&chosen.parents[0], chosen.reward, chosen.rewards["flipped"]), (&"wrong".to_string(), 1.0, 1.0));
    assert_eq!((rejected.id.as_str(), rejected.group, rejected.reward), ("pair-4-rejected", 4, 0.0));
    let all = PairsConfig { flip: 1.0, ..PairsConfig::default() };
    let made = paired(&rows, &all);
    assert_eq!((made.len(), &made[0][0].parents[0], made[0][1].rewards["flipped"]), (1, &"wrong".to_string(), 1.0));
}

#[test]
fn pairs_are_sorted_by_problem_and_prompt_wherever_their_rows_are() {
    // The prompt of row 8 is sorted before that of row 0.
    let prompt = |mut row: Trajectory, first: u32| {
        row.token_ids[0] = first;
        row
    };
    let row = |id: &str, problem: &str, last: u32, reward: f64| rollout(id, problem, [&[3], &[last]], reward);
    let all = vec![
        prompt(row("b2-right", "b", 5, 1.0), 2),
        row("c-wrong", "c", 5, 0.0),
        row("a-right", "a", 5, 1.0),
        prompt(row("b1-wrong", "b", 5, 0.0), 1),
        row("a-wrong", "a", 6, 0.0),
        row("c-right", "c", 6, 1.0),
        prompt(row("b2-wrong", "b", 6, 0.0), 2),
        row("alone", "d", 5, 1.0),
        prompt(row("b1-right", "b", 6, 1.0), 1),
    ];
    let expected = ["a", "b1", "b2", "c"].map(|name| [format!("{name}-right"), format!("{name}-wrong")]);
    for cut in [PairCut::End, PairCut::Step] {
        let made = paired(&all, &PairsConfig { cut, ..PairsConfig::default() });
        let sources: Vec<[String; 2]> = made.iter().map(|pair| [0, 1].map(|i| pair[i].parents[0].clone())).collect();
        assert_eq!(sources, expected, "{cut:?}");
        assert_eq!(made.iter().map(|pair| pair[1].group).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }
}

#[test]
fn broken_later_files_are_refused_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let rows = [rollout("right", "a", [&[3], &[5]], 1.0), rollout("wrong", "a", [&[3], &[6]], 0.0)];
    let good = files(&folder, &rows).remove(0);
    let refused = |bad: PathBuf| {
        let files = [good.clone(), bad];
        candidates::read(&RowFiles::strict(&files), &PairsConfig::default(), folder.path()).unwrap_err()
    };
    let other = folder.path().join("other.parquet");
    TableBuilder::new().i64("n", 0..3).write(&other).unwrap();
    let error = refused(other);
    assert!(error.message.contains("other.parquet") && error.message.contains("is missing"), "{error}");
    let (schema, batches) = read_batches(&good).unwrap();
    let without = folder.path().join("without.parquet");
    let kept: Vec<usize> = (0..schema.fields().len()).filter(|i| schema.field(*i).name() != "sampling").collect();
    let batch = batches[0].project(&kept).unwrap();
    write_batches(&without, batch.schema(), &[batch]).unwrap();
    let error = refused(without);
    assert!(error.message.contains("without.parquet") && error.message.contains("`sampling`"), "{error}");
}

#[test]
fn options_are_checked() {
    let wrong = PairsConfig { min_gap: 0.0, per_problem: 0, flip: 1.5, ..PairsConfig::default() };
    let wrong = PairsConfig { by: PairCriterion::ProcessMin, component: Some("answer".into()), ..wrong };
    let at: Vec<String> = wrong.problems().into_iter().map(|p| p.pointer).collect();
    assert_eq!(at, ["/min_gap", "/per_problem", "/flip", "/component"]);
    assert_eq!(PairsConfig::default().problems(), []);
}
