//! Computes the keys of an episode's random draws.

use super::job::EpisodeJob;
use trainyard_core::{Chance, Digest};
use trainyard_lm::generate::DrawKey;
use trainyard_tables::Problem;

/// Returns the key of an episode's draws.
pub fn draw_key(chance: &Chance, problem: &Problem, job: &EpisodeJob) -> DrawKey {
    DrawKey { chance: chance.child("draw", &[job.draw]), problem: number_of(problem), sample: u64::from(job.sample) }
}

/// Returns the number of a problem in draws, which depends only on the problem's id.
pub(super) fn number_of(problem: &Problem) -> u64 {
    let digest = Digest::of(problem.id.as_bytes());
    digest
        .as_str()
        .chars()
        .take(16)
        .filter_map(|c| c.to_digit(16))
        .fold(0, |number, digit| (number << 4) | u64::from(digit))
}

/// Returns the key of the context that follows `earlier` other contexts. A sequence counts its turns from 0, so each
/// context needs a separate random source.
pub fn of_context(key: DrawKey, earlier: usize) -> DrawKey {
    if earlier == 0 { key } else { DrawKey { chance: key.chance.child("context", &[earlier as u64]), ..key } }
}
