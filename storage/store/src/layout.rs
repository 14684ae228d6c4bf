//! Every path of the store, in one place (`docs/design/0004`).
//!
//! Paths are relative to the store's root, with `/`, and contain only characters that disks, buckets and `object_store`
//! spell alike; names from users are escaped by [`segment`].

use trainyard_core::{AttemptNumber, Digest, Epoch, RunId, StageKey};

/// Payload files by content.
pub const OBJECTS: &str = "objects";
/// Manifests by stage digest and generation.
pub const ARTIFACTS: &str = "artifacts";
/// Resume points by stage digest.
pub const CHECKPOINTS: &str = "checkpoints";
/// Journals and attempts by run.
pub const RUNS: &str = "runs";
/// Schedules: their logs, and one object for each fired tick.
pub const SCHEDULES: &str = "schedules";
/// Claims of runs by plan and selection.
pub const PLANS: &str = "plans";
/// What people said must be kept, by stage digest and generation.
pub const PINS: &str = "pins";
/// Who computes a stage now, by stage digest and generation.
pub const COMPUTING: &str = "computing";
/// Answers of services that cost something, by the digest of their request.
pub const REQUESTS: &str = "requests";
/// Objects of the opening probe, removed right after; one that is left over means nothing.
pub const PROBES: &str = "probes";

/// The longest escaped segment; file systems take 255 bytes, and staged names add a suffix.
const SEGMENT_LIMIT: usize = 160;

/// A payload file.
pub fn object(digest: &Digest) -> String {
    format!("{OBJECTS}/{}/{digest}", digest.shard())
}

/// The record of an answered request.
pub fn request(request: &Digest) -> String {
    format!("{REQUESTS}/{}/{request}.json", request.shard())
}

/// The folder of a stage's manifests.
pub fn manifests(stage: &Digest) -> String {
    format!("{ARTIFACTS}/{}/{stage}", stage.shard())
}

/// One generation's manifest.
pub fn manifest(stage: &Digest, generation: u32) -> String {
    format!("{}/{generation}.json", manifests(stage))
}

/// The folder of what was said about a manifest.
pub fn pin(stage: &Digest, generation: u32) -> String {
    format!("{PINS}/{}/{stage}/{generation}", stage.shard())
}

/// The folder of a stage's resume points.
pub fn checkpoints(stage: &Digest) -> String {
    format!("{CHECKPOINTS}/{}/{stage}", stage.shard())
}

/// One resume point; the step is padded so that names sort by step.
pub fn checkpoint(stage: &Digest, step: u64, attempt: AttemptNumber) -> String {
    format!("{}/{step:012}-{attempt}.json", checkpoints(stage))
}

/// A run's folder.
pub fn run(run: &RunId) -> String {
    format!("{RUNS}/{}/{}", run.month(), segment(&run.0))
}

/// One batch of a run's journal; numbers are padded so that names sort.
pub fn journal(run: &RunId, seq: u64) -> String {
    format!("{}/journal/{seq:010}", self::run(run))
}

/// The folder of a run's summaries.
pub fn summaries(run: &RunId) -> String {
    format!("{}/summary", self::run(run))
}

/// The summary of a run whose journal ended in front of batch `end`.
pub fn summary(run: &RunId, end: u64) -> String {
    format!("{}/{end:010}", summaries(run))
}

/// Says that a run is being removed, so that whoever is interrupted there can be followed by somebody else.
pub fn removal(run: &RunId) -> String {
    format!("{}/removal", self::run(run))
}

/// The request that the writer of this epoch ends a run.
pub fn cancel(run: &RunId, epoch: Epoch) -> String {
    format!("{}/cancel/{epoch}", self::run(run))
}

/// The folder of the claims of one plan and selection.
pub fn claims(identity: &Digest) -> String {
    format!("{PLANS}/{}/{identity}", identity.shard())
}

/// One claim: who began which run of a plan. Numbers are padded so that names sort.
pub fn claim(identity: &Digest, number: u64) -> String {
    format!("{}/{number:010}", claims(identity))
}

/// What the names of those begin with who compute a generation of a stage, or did. There is no folder for each stage:
/// making folders is most of what a claim would cost on a disk.
pub fn computing_of(stage: &Digest, generation: u32) -> String {
    format!("{COMPUTING}/{stage}.{generation}")
}

/// One of them; numbers are padded so that names sort.
pub fn computing(stage: &Digest, generation: u32, number: u32) -> String {
    format!("{}.{number:06}", computing_of(stage, generation))
}

/// Says that this computation is over without a result, or not under way any more.
pub fn computing_over(stage: &Digest, generation: u32, number: u32) -> String {
    format!("{}-over", computing(stage, generation, number))
}

/// The folder of a run's attempts.
pub fn attempts(run: &RunId) -> String {
    format!("{}/attempts", self::run(run))
}

/// One attempt's folder.
pub fn attempt(run: &RunId, stage: &StageKey, attempt: AttemptNumber) -> String {
    format!("{}/{}/{attempt}", attempts(run), segment(&stage.0))
}

/// A fired tick of a schedule.
pub fn tick(schedule: &str, tick: &str) -> String {
    format!("{SCHEDULES}/{}/{}", segment(schedule), segment(tick))
}

/// The folder of a schedule. Names of ticks begin with a digit or hold a `:`, so none is that of a folder below.
pub fn schedule(schedule: &str) -> String {
    format!("{SCHEDULES}/{}", segment(schedule))
}

/// One record of a schedule's log; numbers are padded so that names sort.
pub fn schedule_record(schedule: &str, number: u64) -> String {
    format!("{}/log/{number:010}", self::schedule(schedule))
}

/// The folder of the states of a schedule.
pub fn schedule_states(schedule: &str) -> String {
    format!("{}/state", self::schedule(schedule))
}

/// What the records of a schedule's log in front of this number add up to.
pub fn schedule_state(schedule: &str, number: u64) -> String {
    format!("{}/{number:010}", schedule_states(schedule))
}

/// The texts of the files of a schedule, by their digest.
pub fn schedule_texts(schedule: &str, digest: &Digest) -> String {
    format!("{}/texts/{digest}", self::schedule(schedule))
}

/// A file or folder name made of any text: `A-Z a-z 0-9 _ = , -` and inner dots stay, every other byte becomes `@xx`,
/// and long names are cut and end in a digest. Different texts give different segments.
///
/// ```
/// assert_eq!(trainyard_store::layout::segment("rl[seed=1]"), "rl@5bseed=1@5d");
/// ```
pub fn segment(text: &str) -> String {
    let mut name = String::with_capacity(text.len());
    for (i, byte) in text.bytes().enumerate() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'=' | b',' | b'-' => name.push(byte as char),
            b'.' if i > 0 => name.push('.'),
            _ => name.push_str(&format!("@{byte:02x}")),
        }
    }
    if name.is_empty() {
        return "@".to_string();
    }
    if name.len() > SEGMENT_LIMIT {
        name.truncate(SEGMENT_LIMIT - 34);
        name.push_str("@@");
        name.push_str(&Digest::of(text.as_bytes()).as_str()[..32]);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_match_the_design() {
        let digest = Digest::of(b"");
        let run = RunId("20261121-041530-7f3a9c".into());
        assert_eq!(object(&digest), format!("objects/e3/{digest}"));
        assert_eq!(manifest(&digest, 2), format!("artifacts/e3/{digest}/2.json"));
        assert_eq!(checkpoint(&digest, 40, 1), format!("checkpoints/e3/{digest}/000000000040-1.json"));
        assert_eq!(journal(&run, 7), "runs/2026-11/20261121-041530-7f3a9c/journal/0000000007");
        assert_eq!(
            attempt(&run, &StageKey("rl[seed=1]".into()), 2),
            "runs/2026-11/20261121-041530-7f3a9c/attempts/rl@5bseed=1@5d/2"
        );
        assert_eq!(tick("nightly", "2026-11-21T02:00:00Z"), "schedules/nightly/2026-11-21T02@3a00@3a00Z");
        assert_eq!(schedule_record("nightly", 7), "schedules/nightly/log/0000000007");
        assert_eq!(schedule_state("nightly", 64), "schedules/nightly/state/0000000064");
    }

    #[test]
    fn dangerous_names_are_escaped() {
        assert_eq!(segment(".."), "@2e.");
        assert_eq!(segment(""), "@");
        assert_eq!(segment("a/b"), "a@2fb");
        assert!(segment(&"x".repeat(1000)).len() <= SEGMENT_LIMIT);
    }

    proptest! {
        #[test]
        fn segments_are_valid_for_object_store_and_do_not_collide(a in ".{0,200}", b in ".{0,200}") {
            let (left, right) = (segment(&a), segment(&b));
            prop_assert_eq!(object_store::path::Path::from(left.as_str()).to_string(), left.clone());
            prop_assert_eq!(a == b, left == right);
        }
    }
}
