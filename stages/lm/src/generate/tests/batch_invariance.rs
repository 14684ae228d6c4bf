//! Tests that a sequence's tokens and bits do not depend on the other sequences of its batch, on threads or on the
//! instruction set.

use super::*;
use crate::generate::kernels::Isa;

#[test]
fn results_do_not_depend_on_batch_or_threads() {
    for config in variants() {
        let one = request(1000, 11, 25);
        let alone = bits(&generator(&config, 1).generate(vec![one.clone()]).unwrap()[0]);
        for others in [2, 3, 17, 64] {
            for threads in [1, 2] {
                let mut requests: Vec<SequenceRequest> =
                    (0..others).map(|i| request(i, 1 + (i as usize * 5) % 40, 20)).collect();
                let place = requests.len() / 2;
                requests.insert(place, one.clone());
                let among = generator(&config, threads).generate(requests).unwrap();
                assert_eq!(bits(&among[place]), alone, "{} among {others} with {threads} threads", config.family.name);
            }
        }
    }
}

#[test]
fn joining_a_running_batch_changes_nothing() {
    let config = &variants()[1];
    let one = request(1000, 50, 25);
    let alone = bits(&generator(config, 1).generate(vec![one.clone()]).unwrap()[0]);
    let mut generator = generator(config, 2);
    for i in 0..9 {
        generator.add(request(i, 5, 60)).unwrap();
    }
    for _ in 0..7 {
        generator.step().unwrap();
    }
    let id = generator.add(one).unwrap();
    generator.run().unwrap();
    assert_eq!(bits(generator.sequence(id)), alone);
}

#[test]
fn every_instruction_set_gives_the_same_bits() {
    let config = &variants()[1];
    let run = |isa| {
        let mut generator = Generator::with_isa(config, &weights(config), 1, isa).unwrap();
        let states = generator.generate((0..3).map(|i| request(i, 20, 20)).collect()).unwrap();
        states.iter().map(bits).collect::<Vec<_>>()
    };
    for isa in Isa::available() {
        assert_eq!(run(isa), run(Isa::detect()), "{}", isa.name());
    }
}

#[test]
fn group_samples_share_the_prompt_and_equal_single_sequences() {
    let config = &variants()[0];
    let request = request(1, 37, 20);
    let mut group = generator(config, 2);
    let ids = group.add_group(&request, 6).unwrap();
    group.run().unwrap();
    let states: Vec<_> = ids.into_iter().map(|id| bits(&group.remove(id))).collect();
    for (sample, state) in states.iter().enumerate() {
        let draw = DrawKey { sample: sample as u64, ..request.draw };
        let alone = generator(config, 1).generate(vec![SequenceRequest { draw, ..request.clone() }]).unwrap();
        assert_eq!(&bits(&alone[0]), state);
    }
    assert!(states.iter().any(|s| s.0 != states[0].0), "samples must differ");
}
