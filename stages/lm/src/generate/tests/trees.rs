//! Tests forks, observations and new weights.

use super::*;
use crate::generate::{SequenceFinish, SequenceId};

/// Runs to the end of the turn.
fn finished(generator: &mut Generator, id: SequenceId) -> SequenceFinish {
    generator.run().unwrap();
    generator.sequence(id).finish.unwrap()
}

#[test]
fn a_fork_equals_a_fresh_sequence_with_the_same_prefix() {
    for config in variants() {
        let mut generator = generator(&config, 2);
        let mut request = request(1, 21, 40);
        request.stop_tokens = Vec::new();
        let parent = generator.add(request.clone()).unwrap();
        generator.run().unwrap();
        let before = bits(generator.sequence(parent));
        // Inside the prompt, at its end, on and off block borders, at the very end.
        for at in [5, 16, 21, 22, 32, 40, 61] {
            let draw = DrawKey { sample: at as u64, ..request.draw };
            let prefix = generator.sequence(parent).token_ids[..at].to_vec();
            let fork = generator.fork(parent, at, draw).unwrap();
            let inherited = generator.sequence(fork).sampled_in_turn().len();
            let fresh = SequenceRequest { tokens: prefix, draw, max_new_tokens: 40 - inherited, ..request.clone() };
            let fresh = self::generator(&config, 1).generate(vec![fresh]).unwrap().remove(0);
            generator.run().unwrap();
            let fork = generator.remove(fork);
            assert_eq!(fork.fork_of, Some((parent, at)));
            assert_eq!(fork.token_ids, fresh.token_ids, "fork at {at}");
            for t in at..fork.token_ids.len() {
                assert_eq!(fork.logprobs[t].to_bits(), fresh.logprobs[t].to_bits());
            }
            assert_eq!(bits(&fork).3[..at], before.3[..at]);
        }
        assert_eq!(bits(generator.sequence(parent)), before, "forks must not change their parent");
    }
}

#[test]
fn many_forks_of_a_running_parent_do_not_disturb_each_other() {
    let config = &variants()[0];
    let mut request = request(1, 10, 30);
    request.stop_tokens = Vec::new();
    let run = |forks: u64, threads| {
        let mut generator = generator(config, threads);
        let parent = generator.add(request.clone()).unwrap();
        for _ in 0..9 {
            generator.step().unwrap();
        }
        let draw = |i| DrawKey { sample: 100 + i, ..request.draw };
        let ids: Vec<_> = (0..forks).map(|i| generator.fork(parent, 13, draw(i)).unwrap()).collect();
        generator.run().unwrap();
        (bits(generator.sequence(parent)), ids.iter().map(|id| bits(generator.sequence(*id))).collect::<Vec<_>>())
    };
    let (parent, many) = run(8, 2);
    let (alone, few) = run(1, 1);
    assert_eq!(parent, alone);
    assert_eq!(many[0], few[0]);
    assert!(many.iter().all(|m| m.0[..13] == many[0].0[..13]));
}

#[test]
fn appended_observation_equals_a_prompt_with_all_tokens() {
    for config in variants() {
        let mut generator = generator(&config, 1);
        let id = generator.add(request(3, 9, 12)).unwrap();
        finished(&mut generator, id);
        let observation = [1, 2, 3, 4, 5];
        generator.append(id, &observation, 8).unwrap();
        let all = generator.sequence(id).token_ids.clone();
        assert_eq!(generator.sequence(id).current_turn(), 1);
        finished(&mut generator, id);
        let state = generator.remove(id);
        assert!(!state.loss_mask[all.len() - 1] && state.turn[all.len()] == 1);
        // The draws differ (another turn number), so the numbers are compared by teacher forcing.
        let scored = generator.logprobs_of(&[&state.token_ids], &sampling(1.0)).unwrap().remove(0);
        for t in (0..state.token_ids.len()).filter(|&t| state.loss_mask[t]) {
            assert_eq!(state.logprobs[t].to_bits(), scored.logprobs[t].to_bits());
        }
    }
}

#[test]
fn limits_and_stop_tokens_end_turns() {
    let config = &variants()[0];
    let mut generator = generator(config, 1);
    let prompt_only = generator.add(SequenceRequest { max_new_tokens: 0, ..request(1, 5, 0) }).unwrap();
    assert_eq!(generator.step().unwrap(), [(prompt_only, SequenceFinish::Length)]);
    assert_eq!(generator.sequence(prompt_only).token_ids.len(), 5);
    // Every token stops.
    let stop = SequenceRequest { stop_tokens: (0..VOCABULARY as u32).collect(), ..request(2, 5, 9) };
    let id = generator.add(stop).unwrap();
    let events = generator.step().unwrap();
    let last = *generator.sequence(id).token_ids.last().unwrap();
    assert_eq!(events, [(id, SequenceFinish::Stop(last))]);
    assert!(generator.sequence(id).loss_mask[5], "the stop token belongs to the turn");
    let fork = generator.fork(id, 6, generator_draw()).unwrap();
    assert_eq!(generator.sequence(fork).finish, Some(SequenceFinish::Stop(last)));
    generator.append(fork, &[1], 3).unwrap();
    assert_eq!(generator.running(), 1);
    generator.stop(fork);
    assert_eq!(generator.running(), 0);
    // The last position of the model ends any turn.
    let long = generator.add(SequenceRequest { stop_tokens: Vec::new(), ..request(4, 250, 100) }).unwrap();
    assert_eq!(generator.room(long), 5);
    assert_eq!(finished(&mut generator, long), SequenceFinish::Length);
    assert_eq!(generator.sequence(long).token_ids.len(), 256);
    assert!(generator.append(long, &[1], 1).unwrap_err().message.contains("no position"));
}

fn generator_draw() -> DrawKey {
    DrawKey { chance: Chance::new(9), problem: 0, sample: 0 }
}

#[test]
fn new_weights_mark_new_tokens_only() {
    let config = &variants()[0];
    let mut generator = generator(config, 1);
    let id = generator.add(SequenceRequest { stop_tokens: Vec::new(), ..request(1, 4, 6) }).unwrap();
    for _ in 0..3 {
        generator.step().unwrap();
    }
    let kept = bits(generator.sequence(id));
    let other: Weights = weights(config).into_iter().map(|(n, t)| (n, (t * 0.5).unwrap())).collect();
    generator.update(&other, 4).unwrap();
    generator.run().unwrap();
    let state = generator.remove(id);
    assert_eq!(state.weights_version, [0, 0, 0, 0, 0, 0, 0, 4, 4, 4]);
    assert_eq!(state.token_ids[..7], kept.0);
    // The numbers are not those of the second model alone: the cache is the first model's.
    let fresh = generator.logprobs_of(&[&state.token_ids], &sampling(1.0)).unwrap().remove(0);
    assert_ne!(fresh.logprobs[9].to_bits(), state.logprobs[9].to_bits());
    let again = generator.add(SequenceRequest { stop_tokens: Vec::new(), ..request(1, 4, 6) }).unwrap();
    generator.run().unwrap();
    let mut other = Generator::new(config, &other, 1).unwrap();
    let expected = other.generate(vec![SequenceRequest { stop_tokens: Vec::new(), ..request(1, 4, 6) }]).unwrap();
    assert_eq!(bits(generator.sequence(again)), bits(&expected[0]));
}
