use super::*;
use crate::rewards::reward::score_alone;
use proptest::prelude::*;

fn reward(form: EfficiencyMode) -> ToolEfficiencyReward {
    ToolEfficiencyReward::new(ToolEfficiencyOptions { form, ..ToolEfficiencyOptions::default() })
}

fn problem(id: &str) -> Problem {
    Problem { id: id.to_string(), answer: "7".to_string(), ..Problem::default() }
}

/// Returns a correct episode with `tool_calls` calls.
fn episode(tool_calls: u32) -> Trajectory {
    Trajectory { answer: Some("7".to_string()), tool_calls, ..Trajectory::default() }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-12
}

/// Observes and scores one group of (calls, correct answer).
fn group(reward: &mut ToolEfficiencyReward, id: &str, episodes: &[(u32, bool)]) -> Vec<f64> {
    let rows: Vec<Trajectory> = episodes.iter().map(|(calls, _)| episode(*calls)).collect();
    let members: Vec<&Trajectory> = rows.iter().collect();
    let correct: Vec<bool> = episodes.iter().map(|(_, right)| *right).collect();
    let g = GroupView { step: 0, steps: 1, members: &members, correct: &correct, earlier: &[] };
    reward.observe(&problem(id), &g);
    members.iter().map(|m| reward.score(m, &problem(id), &g).unwrap().value.unwrap()).collect()
}

#[test]
fn values_match_hand_computation() {
    // cos 0, cos(π/3), cos(2π/5); with c = 2: cos(π/4).
    for (m, value) in [(0, 1.0), (1, 0.5), (2, 0.309_016_994_374_947_4)] {
        assert!(near(smooth(m, 1.0), value), "{m}");
    }
    assert!(near(smooth(1, 2.0), 0.5_f64.sqrt()));
    // f = 4/3, 3/2: sin(2π/3), sin(3π/4); below n, sin(π/3).
    assert!(near(optimal(2, 1, 1.0), 0.75_f64.sqrt()) && near(optimal(3, 1, 1.0), 0.5_f64.sqrt()));
    assert!(near(optimal(1, 2, 1.0), 0.75_f64.sqrt()));
}

#[test]
fn fewest_calls_of_a_right_episode_set_the_standard() {
    let mut reward = reward(EfficiencyMode::Optimal);
    // The incorrect episode without calls does not count: n = 1.
    let values = group(&mut reward, "p", &[(1, true), (2, true), (0, false)]);
    assert!(near(values[0], 1.0) && near(values[1], 0.75_f64.sqrt()) && values[2] == 0.0);
    // n = 1 holds for later steps of the same problem and for no other problem.
    assert!(near(group(&mut reward, "p", &[(2, true)])[0], 0.75_f64.sqrt()));
    assert!(near(group(&mut reward, "q", &[(2, true)])[0], 1.0));
    // A better episode lowers n to 0.
    let values = group(&mut reward, "p", &[(0, true), (1, true)]);
    assert!(near(values[0], 1.0) && near(values[1], 0.5));
    assert_eq!(group(&mut reward, "r", &[(0, false), (3, false)]), [0.0, 0.0]);
    assert_eq!(reward.save(), json!({"fewest": {"p": 0, "q": 2}}));
}

#[test]
fn resumed_reward_scores_as_the_uninterrupted_one() {
    let mut reward = reward(EfficiencyMode::Optimal);
    assert!(reward.save().is_null());
    group(&mut reward, "p", &[(1, true)]);
    let mut resumed = ToolEfficiencyReward::new(ToolEfficiencyOptions::default());
    resumed.load(reward.save()).unwrap();
    assert_eq!(group(&mut reward, "p", &[(4, true)]), group(&mut resumed, "p", &[(4, true)]));
    resumed.load(Value::Null).unwrap();
    assert_eq!(group(&mut resumed, "p", &[(4, true)]), [1.0]);
    for broken in [json!({}), json!(3), json!({"fewest": {"p": -1}})] {
        assert_eq!(resumed.load(broken).unwrap_err().kind, trainyard_core::ErrorKind::Data);
    }
}

#[test]
fn wrong_answers_outside_rl_score_zero() {
    let (smooth, optimal, p) = (reward(EfficiencyMode::Smooth), reward(EfficiencyMode::Optimal), problem("p"));
    assert!(near(score_alone(&smooth, &episode(1), &p).value.unwrap(), 0.5));
    assert!(near(score_alone(&optimal, &episode(3), &p).value.unwrap(), 1.0));
    let wrong = Trajectory { answer: None, ..episode(0) };
    assert_eq!(score_alone(&optimal, &wrong, &p).value, Some(0.0));
    let doubled = ToolEfficiencyReward::new(ToolEfficiencyOptions { alpha: 2.0, ..ToolEfficiencyOptions::default() });
    assert!(near(score_alone(&doubled, &episode(3), &p).value.unwrap(), 2.0));
}

#[test]
fn factors_must_be_positive() {
    assert_eq!(ToolEfficiencyOptions::default().check(), []);
    let bad = ToolEfficiencyOptions { alpha: 0.0, smoothing: -1.0, ..ToolEfficiencyOptions::default() };
    assert_eq!(bad.check().iter().map(|p| p.pointer.as_str()).collect::<Vec<_>>(), ["/alpha", "/smoothing"]);
}

proptest! {
    #[test]
    fn value_peaks_at_the_fewest_calls(n in 0_u32..20, more in 1_u32..20, c in 0.1_f64..10.0) {
        prop_assert!(near(optimal(n, n, c), 1.0));
        prop_assert!(optimal(n + more, n, c) < optimal(n + more - 1, n, c));
        prop_assert!(optimal(n + more, n, c) > 0.0);
    }

    #[test]
    fn optimal_depends_only_on_the_ratio_of_counts(m in 0_u32..40, n in 1_u32..40) {
        // f·π/(2n) = π·m/(m + n).
        let angle = PI * f64::from(m) / f64::from(m + n);
        prop_assert!(near(optimal(m, n, 1.0), angle.sin()));
        prop_assert!(near(optimal(2 * m, 2 * n, 1.0), optimal(m, n, 1.0)));
    }

    #[test]
    fn every_call_costs_when_none_is_needed(m in 0_u32..40, c in 0.1_f64..10.0) {
        prop_assert!(smooth(m + 1, c) < smooth(m, c));
        prop_assert_eq!(optimal(m, 0, c), smooth(m, c));
    }
}
