use super::*;
use trainyard_tables::Trajectory;

/// Returns groups with these rewards; rollouts are named by step, group and position.
fn batch(step: u64, groups: &[&[f64]]) -> Batch {
    let rollout = |id: String, reward: f64| Rollout {
        trajectory: Trajectory { id, reward, ..Trajectory::default() },
        mask: vec![false, true, true],
        ..Rollout::default()
    };
    let group = |(g, rewards): (usize, &&[f64])| Group {
        rollouts: rewards.iter().enumerate().map(|(i, &r)| rollout(format!("{step}/{g}/{i}"), r)).collect(),
        ..Group::default()
    };
    Batch { step, groups: groups.iter().enumerate().map(group).collect() }
}
/// Offers the rollouts with their reward minus the group mean as advantage.
fn offer(part: &mut SelfImitation, step: u64, groups: &[&[f64]]) {
    let batch = batch(step, groups);
    let mean = |g: &&[f64]| g.iter().sum::<f64>() / g.len() as f64;
    let values: Vec<f64> = groups.iter().flat_map(|g| g.iter().map(move |r| r - mean(g))).collect();
    part.offer(&batch, &batch.spread(&values));
}
fn draw(part: &mut SelfImitation, step: u64) -> Vec<ReplayedRollout> {
    part.draw(step, &Chance::new(4))
}
fn ids(drawn: &[ReplayedRollout]) -> Vec<&str> {
    drawn.iter().map(|r| r.rollout.trajectory.id.as_str()).collect()
}
fn kept(part: &SelfImitation) -> Vec<&str> {
    part.state.kept.iter().map(|k| k.rollout.trajectory.id.as_str()).collect()
}
fn ready() -> SelfImitation {
    SelfImitation { warmup: 0, ..SelfImitation::default() }
}

#[test]
fn advantages_above_the_threshold_are_kept_and_the_oldest_leave() {
    let mut part = SelfImitation { capacity: 2, threshold: 0.25, ..ready() };
    offer(&mut part, 0, &[&[1.0, 0.0], &[0.5, 0.0]]);
    assert_eq!(kept(&part), ["0/0/0"], "an advantage of exactly the threshold is not above it");
    offer(&mut part, 1, &[&[0.0, 1.0, 1.0]]);
    assert_eq!(kept(&part), ["1/0/1", "1/0/2"]);
}

#[test]
fn tokens_outside_the_loss_do_not_count() {
    let rollout = Rollout { mask: vec![true, false, true], ..Rollout::default() };
    assert_eq!(advantage(&rollout, &[1.0, -9.0, 0.5]), Some(0.75));
    assert_eq!(advantage(&Rollout { mask: vec![false], ..Rollout::default() }, &[3.0]), None);
}

#[test]
fn rollouts_of_the_current_step_wait_and_old_ones_leave() {
    let mut part = SelfImitation { max_age: 2, ..ready() };
    offer(&mut part, 5, &[&[1.0, 0.0]]);
    assert!(draw(&mut part, 5).is_empty());
    let mut short_lived = part.clone();
    assert_eq!(ids(&draw(&mut short_lived, 7)), ["5/0/0"]);
    assert!(draw(&mut part, 8).is_empty());
    assert!(kept(&part).is_empty());
}

#[test]
fn rollouts_are_rechecked_against_the_median() {
    let mut part = ready();
    offer(&mut part, 0, &[&[1.0, 0.0], &[0.6, 0.0]]);
    let drawn = draw(&mut part.clone(), 1);
    // Group means 0.5 and 0.3: the median is 0.4.
    assert_eq!(ids(&drawn), ["0/0/0", "0/1/0"]);
    let close = |row: &[f64], a: f64| row[0] == 0.0 && row[1..].iter().all(|x| (x - a).abs() < 1e-12);
    assert!(close(&drawn[0].advantages, 0.6) && close(&drawn[1].advantages, 0.2), "{drawn:?}");
    // Means 0.3, 0.5, 0.7, 0.7, 0.7: the median overtakes the second rollout.
    offer(&mut part, 1, &[&[0.7, 0.7], &[0.7, 0.7], &[0.7, 0.7]]);
    assert_eq!(ids(&draw(&mut part, 2)), ["0/0/0"]);
    assert_eq!(kept(&part), ["0/1/0"], "it may return until it is too old");
    // With single rollouts: 0, 0, 0.6, 1.
    let mut part = SelfImitation { baseline: Baseline::Rollouts, ..ready() };
    offer(&mut part, 0, &[&[1.0, 0.0], &[0.6, 0.0]]);
    assert!(close(&draw(&mut part, 1)[0].advantages, 0.7));
    // Only the newest rewards count.
    let mut part = SelfImitation { baseline_capacity: 1, ..ready() };
    offer(&mut part, 0, &[&[1.0, 0.0], &[0.2, 0.0]]);
    assert!(close(&draw(&mut part, 1)[0].advantages, 0.9));
}

#[test]
fn medians() {
    let of = |values: &[f64]| median(&values.iter().copied().collect());
    assert_eq!(of(&[]), None);
    assert_eq!(of(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(of(&[4.0, 1.0, 2.0, 8.0]), Some(3.0));
}

#[test]
fn weight_follows_half_a_cosine() {
    let part = SelfImitation { coefficient: 2.0, warmup: 4, ..SelfImitation::default() };
    let half = 0.5f64.sqrt();
    for (step, weight) in [(0, 0.0), (1, 1.0 - half), (2, 1.0), (3, 1.0 + half), (4, 2.0), (9, 2.0)] {
        assert!((part.weight(step) - weight).abs() < 1e-12, "step {step}");
    }
    assert_eq!(ready().weight(0), 1.0);
}

#[test]
fn buffer_is_unchanged_at_weight_zero() {
    let mut part = SelfImitation { coefficient: 0.0, ..ready() };
    offer(&mut part, 0, &[&[1.0, 0.0]]);
    assert!(draw(&mut part, 1).is_empty());
    assert_eq!(part.metrics(), [("replayed", 0.0), ("weight", 0.0), ("buffer", 1.0)]);
}

#[test]
fn rollouts_are_replayed_once_and_at_most_per_step() {
    let mut part = SelfImitation { per_step: 2, ..ready() };
    offer(&mut part, 0, &[&[1.0, 1.0, 1.0, 1.0, 1.0, 0.0]]);
    let mut seen = Vec::new();
    for (step, count) in [(1, 2), (2, 2), (3, 1), (4, 0)] {
        let drawn = draw(&mut part, step);
        assert_eq!(drawn.len(), count);
        assert_eq!(part.metrics()[0], ("replayed", count as f64));
        assert!(drawn.iter().all(|r| r.weight == 1.0));
        seen.extend(drawn.into_iter().map(|r| r.rollout.trajectory.id));
    }
    seen.sort();
    assert_eq!(seen, ["0/0/0", "0/0/1", "0/0/2", "0/0/3", "0/0/4"]);
    assert_eq!(part.metrics()[2], ("buffer", 0.0));
}

#[test]
fn resuming_from_a_checkpoint_changes_nothing() {
    let fresh = || SelfImitation { per_step: 1, warmup: 6, max_age: 3, capacity: 5, ..SelfImitation::default() };
    let play = |part: &mut SelfImitation, steps: std::ops::Range<u64>| -> Vec<ReplayedRollout> {
        let step = |step: u64| {
            let third = step as f64 / 3.0;
            offer(part, step, &[&[1.0, third, 0.0], &[0.1, 0.7]]);
            draw(part, step)
        };
        steps.flat_map(step).collect()
    };
    let mut whole = fresh();
    play(&mut whole, 0..4);
    let text = whole.save().to_string();
    let mut resumed = fresh();
    resumed.load(serde_json::from_str(&text).unwrap()).unwrap();
    assert_eq!(resumed, whole);
    let rest = play(&mut whole, 4..9);
    assert!(!rest.is_empty());
    assert_eq!(play(&mut resumed, 4..9), rest);
    assert_eq!(resumed.metrics(), whole.metrics());
    assert!(resumed.load(json!({ "kept": 3 })).is_err());
}

#[test]
fn options_have_ranges() {
    for part in [
        SelfImitation { capacity: 0, ..ready() },
        SelfImitation { baseline_capacity: 0, ..ready() },
        SelfImitation { per_step: 0, ..ready() },
        SelfImitation { coefficient: -1.0, ..ready() },
        SelfImitation { threshold: f64::NAN, ..ready() },
    ] {
        assert!(!part.check().is_empty());
    }
    assert_eq!(SelfImitation::default().check(), []);
}
