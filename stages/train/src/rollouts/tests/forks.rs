//! Tests forks, scaffolds and given tokens.

use super::*;

/// Strategy that forks every sequence once after its first tool result, and records its calls.
struct ForkOnce {
    calls: Vec<(u32, u32, u32)>,
    forks: u32,
}
impl RlPart for ForkOnce {
    fn needs(&self) -> Needs {
        Needs { fork: true, ..Needs::NONE }
    }
}
impl Strategy for ForkOnce {
    fn start(&mut self, _: &Draw, _: &ProblemPool, _: u32, _: Progress, _: &Chance) -> Vec<Spawn> {
        Vec::new()
    }
    fn at_turn(&mut self, live: &LiveSequence, _: &GroupBudget, _: &Chance) -> StrategyAction {
        self.calls.push((live.group as u32, live.turn, live.sample));
        assert_eq!(live.entropies.len(), live.turn as usize + 1);
        assert!(!live.entropies.last().unwrap().is_empty());
        if live.turn == 1 && live.forks == 0 {
            self.forks += 1;
            return StrategyAction::Fork { at: live.first, copies: 1 };
        }
        StrategyAction::Continue
    }
}

fn fork_all(problems: &[Problem], limits: EpisodeLimits, threads: usize) -> (Vec<Rollout>, ForkOnce) {
    let model = half_trained();
    let mut generator = model.generator(threads).unwrap();
    let environment = environment();
    let cancel = CancelToken::default();
    let mut strategy = ForkOnce { calls: Vec::new(), forks: 0 };
    let chance = Chance::new(4);
    let sampling = SamplingParams { temperature: 1.0, top_p: 1.0, top_k: 0 };
    let mut driver = RolloutDriver {
        sampler: &mut generator,
        model,
        environment: &*environment,
        limits,
        sampling,
        chance,
        name: "t".into(),
        cancel: &cancel,
    };
    let jobs: Vec<EpisodeJob> = jobs(problems.len(), 2);
    let finished = driver.run_forking(problems, &jobs, ForkScheduler::new(&mut strategy, 4, chance)).unwrap();
    (finished, strategy)
}

#[test]
fn forks_share_their_prefix_and_the_budget_holds() {
    let problems = sums(6, 3, 7);
    let (finished, strategy) = fork_all(&problems, limits(64), 2);
    assert!(strategy.forks > 0);
    for group in 0..6 {
        let members: Vec<&Rollout> = finished.iter().filter(|f| f.trajectory.group == group).collect();
        assert_eq!(
            members.iter().map(|f| f.trajectory.sample).collect::<Vec<_>>(),
            [0, 1, 2, 3],
            "filled up to the budget, by sample"
        );
        for child in members.iter().filter(|f| f.fork_of.is_some()) {
            let parent = members[child.fork_of.unwrap() as usize];
            let (c, p) = (&child.trajectory, &parent.trajectory);
            let at = c.fork_at.unwrap() as usize;
            assert_eq!(c.fork_of.as_ref(), Some(&p.id));
            assert_eq!(c.token_ids[..at], p.token_ids[..at]);
            assert_eq!(c.logprobs.as_ref().unwrap()[..at], p.logprobs.as_ref().unwrap()[..at]);
            assert_eq!(at, child.turns[1].first, "right after the tool result");
            assert!(c.tool_calls >= 1 && c.messages[2].content == p.messages[2].content);
            assert!(child.own_tokens() < child.sampled_tokens());
        }
    }
    // Without forks the roots are unchanged, and the budget is filled from the root.
    let plain = roll(half_trained(), &problems, &jobs(6, 2), limits(64), 2).unwrap();
    for root in plain {
        let t = &root.trajectory;
        assert!(finished.iter().any(|f| f.trajectory.id == t.id && f.trajectory.token_ids == t.token_ids));
    }
}

#[test]
fn strategy_is_called_in_one_order_for_any_batch() {
    let problems = sums(6, 3, 7);
    let (together, calls) = fork_all(&problems, limits(64), 2);
    // Fewer slots than a group has roots, or than whole groups need: waiting sequences must not block the others.
    let lockstep = |running| EpisodeLimits { tool_wait: ToolWait::Batch, ..limits(running) };
    for few in [limits(8), limits(16), limits(1), lockstep(3), lockstep(64)] {
        let (again, calls_again) = fork_all(&problems, few, 1);
        assert_eq!(together, again);
        let of_group = |s: &ForkOnce, g: u32| s.calls.iter().filter(|a| a.0 == g).copied().collect::<Vec<_>>();
        (0..6).for_each(|g| assert_eq!(of_group(&calls, g), of_group(&calls_again, g)));
    }
}

#[test]
fn a_scaffold_is_seen_by_the_sampler_and_not_by_the_record() {
    let problems = sums(6, 3, 7);
    let job = |p: usize, scaffold: &str| EpisodeJob { scaffold: scaffold.to_string(), ..EpisodeJob::root(p, 0) };
    let with: Vec<EpisodeJob> = (0..6).map(|p| job(p, "1+1")).collect();
    let helped = roll(half_trained(), &problems, &with, limits(8), 1).unwrap();
    let plain = roll(half_trained(), &problems, &jobs(6, 1), limits(8), 1).unwrap();
    assert!(
        helped.iter().zip(&plain).any(|(h, p)| h.trajectory.token_ids != p.trajectory.token_ids),
        "the scaffold changes what is sampled"
    );
    let mut generator = half_trained().generator(1).unwrap();
    for (one, p) in helped.iter().zip(&plain) {
        let t = &one.trajectory;
        assert!(one.scaffolded && t.messages[0] == p.trajectory.messages[0]);
        let n = t.prompt_tokens as usize;
        assert_eq!(t.token_ids[..n], p.trajectory.token_ids[..n], "the record begins with the plain prompt");
        for turn in &one.turns {
            assert!(t.loss_mask[turn.first..turn.end].iter().all(|m| *m));
        }
        let sampling = SamplingParams { temperature: 1.0, top_p: 1.0, top_k: 0 };
        let scored = generator.logprobs_of(&[&t.token_ids], &sampling).unwrap();
        for (i, mask) in t.loss_mask.iter().enumerate() {
            assert_eq!(t.logprobs.as_ref().unwrap()[i], if *mask { scored[0].logprobs[i] } else { 0.0 });
        }
    }
}

#[test]
fn a_scaffold_before_a_prompt_without_room_is_no_error() {
    let mut problems = sums(1, 3, 7);
    problems[0].messages[0].content = "1+".repeat(200) + "1?";
    let job = EpisodeJob { scaffold: "1+1".to_string(), ..EpisodeJob::root(0, 0) };
    let one = &roll(half_trained(), &problems, &[job], limits(1), 1).unwrap()[0];
    assert!(one.trajectory.stop_reason == StopReason::Length && one.turns.is_empty() && one.scaffolded);
}

#[test]
fn tokens_of_a_demonstration_are_given_and_scored() {
    let problems = sums(4, 3, 10);
    let roots = roll(half_trained(), &problems, &jobs(4, 4), limits(64), 1).unwrap();
    let (at, root) = roots.iter().enumerate().find(|(_, f)| f.turns.len() > 1).expect("some episode has two turns");
    let first = &root.turns[0];
    let start = EpisodeStart::Prefix(EpisodePrefix {
        turns: vec![root.trajectory.token_ids[first.first..first.end].to_vec()],
        partial: Vec::new(),
        demonstration: "shown".to_string(),
    });
    let job = EpisodeJob { start, ..EpisodeJob::root(at / 4, 9) };
    let one = &roll(half_trained(), &problems, &[job], limits(1), 1).unwrap()[0];
    assert_eq!(one.given, root.turns[1].first);
    let problem = &problems[at / 4].id;
    assert_eq!(one.trajectory.parents, [problem.as_str(), "shown"]);
    assert_eq!(root.trajectory.parents, [problem.as_str()], "it was given no tokens");
    assert!(
        one.sampled_tokens() + (first.end - first.first) == one.trajectory.loss_mask.iter().filter(|m| **m).count()
    );
    // The given tokens were once sampled plainly, so they get exactly the same values.
    let (ours, theirs) = (one.trajectory.logprobs.as_ref().unwrap(), root.trajectory.logprobs.as_ref().unwrap());
    assert_eq!(ours[first.first..first.end], theirs[first.first..first.end]);
}

#[test]
fn lockstep_changes_timing_but_not_results() {
    let problems = sums(6, 3, 7);
    let free = roll(half_trained(), &problems, &jobs(6, 3), limits(64), 2).unwrap();
    let lockstep = EpisodeLimits { tool_wait: ToolWait::Batch, ..limits(64) };
    assert_eq!(free, roll(half_trained(), &problems, &jobs(6, 3), lockstep, 1).unwrap());
    let narrow = EpisodeLimits { tool_wait: ToolWait::Batch, ..limits(4) };
    assert_eq!(free, roll(half_trained(), &problems, &jobs(6, 3), narrow, 1).unwrap());
}
