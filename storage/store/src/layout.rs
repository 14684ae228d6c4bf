//! Defines every path in a store (`docs/design/0004`).
//!
//! Paths are relative to the store's root and use `/`. They contain only characters that disks, buckets and
//! `object_store` spell alike; [`segment`] escapes names from users.

use trainyard_core::{AttemptNumber, Digest, Epoch, RunId, StageKey};

/// Payload files by content.
pub const OBJECTS: &str = "objects";
/// Manifests by stage digest and generation.
pub const ARTIFACTS: &str = "artifacts";
/// Checkpoints by stage digest.
pub const CHECKPOINTS: &str = "checkpoints";
/// Journals and attempts by run.
pub const RUNS: &str = "runs";
/// Schedules: their logs, and one object for each fired tick.
pub const SCHEDULES: &str = "schedules";
/// Claims of runs by plan and selection.
pub const PLANS: &str = "plans";
/// Pins of users, by stage digest and generation.
pub const PINS: &str = "pins";
/// Tags of users, by run.
pub const TAGS: &str = "tags";
/// Notes of users, by the digest of the output.
pub const NOTES: &str = "notes";
/// Claims of computations in progress, by stage digest and generation.
pub const COMPUTING: &str = "computing";
/// Responses of paid services, by the digest of their request.
pub const REQUESTS: &str = "requests";
/// Search indexes of artifacts, by the digest of the indexed output. They are caches: any of them may be removed.
pub const INDEXES: &str = "indexes";
/// Objects of the opening probe, removed immediately after it; leftovers are ignored.
pub const PROBES: &str = "probes";

/// The longest escaped segment; file systems allow 255 bytes, and staged names add a suffix.
const SEGMENT_LIMIT: usize = 160;

/// Returns the path of a payload file.
pub fn object(digest: &Digest) -> String {
    format!("{OBJECTS}/{}/{digest}", digest.shard())
}

/// Returns the path of the record of a completed request.
pub fn request(request: &Digest) -> String {
    format!("{REQUESTS}/{}/{request}.json", request.shard())
}

/// Returns the path of the index of an output's messages.
pub fn message_index(output: &Digest) -> String {
    format!("{INDEXES}/messages/{output}")
}

/// Returns the folder of a stage's manifests.
pub fn manifests(stage: &Digest) -> String {
    format!("{ARTIFACTS}/{}/{stage}", stage.shard())
}

/// Returns the path of one generation's manifest.
pub fn manifest(stage: &Digest, generation: u32) -> String {
    format!("{}/{generation}.json", manifests(stage))
}

/// Returns the folder of a manifest's pin statements.
pub fn pin(stage: &Digest, generation: u32) -> String {
    format!("{PINS}/{}/{stage}/{generation}", stage.shard())
}

/// Returns the folder of the records about a run's tags. It is outside the run's folder, whose newest file gives the
/// run's age.
pub fn tags(run: &RunId) -> String {
    format!("{TAGS}/{}/{}", run.month(), segment(&run.0))
}

/// Returns the folder of the records about an output's notes.
pub fn notes(output: &Digest) -> String {
    format!("{NOTES}/{}/{output}", output.shard())
}

/// Returns the folder of a stage's checkpoints.
pub fn checkpoints(stage: &Digest) -> String {
    format!("{CHECKPOINTS}/{}/{stage}", stage.shard())
}

/// Returns the path of one checkpoint; the step is padded so that names sort by step.
pub fn checkpoint(stage: &Digest, step: u64, attempt: AttemptNumber) -> String {
    format!("{}/{step:012}-{attempt}.json", checkpoints(stage))
}

/// Returns a run's folder.
pub fn run(run: &RunId) -> String {
    format!("{RUNS}/{}/{}", run.month(), segment(&run.0))
}

/// Returns the path of one batch of a run's journal; numbers are padded so that names sort.
pub fn journal(run: &RunId, seq: u64) -> String {
    format!("{}/journal/{seq:010}", self::run(run))
}

/// Returns the folder of a run's summaries.
pub fn summaries(run: &RunId) -> String {
    format!("{}/summary", self::run(run))
}

/// Returns the path of the summary of a run whose journal ended before batch `end`.
pub fn summary(run: &RunId, end: u64) -> String {
    format!("{}/{end:010}", summaries(run))
}

/// Returns the path of the mark that a run is being removed, so that an interrupted removal can be completed.
pub fn removal(run: &RunId) -> String {
    format!("{}/removal", self::run(run))
}

/// Returns the path of the request that the writer of this epoch ends a run.
pub fn cancel(run: &RunId, epoch: Epoch) -> String {
    format!("{}/cancel/{epoch}", self::run(run))
}

/// Returns the folder of the claims of one plan and selection.
pub fn claims(identity: &Digest) -> String {
    format!("{PLANS}/{}/{identity}", identity.shard())
}

/// Returns the path of one claim, which records the run of a plan and its owner. Numbers are padded so that names sort.
pub fn claim(identity: &Digest, number: u64) -> String {
    format!("{}/{number:010}", claims(identity))
}

/// Returns the common prefix of the claims of a generation's computations. Stages have no separate folders here,
/// because on a disk most of the time of a claim would be spent on creating them.
pub fn computing_of(stage: &Digest, generation: u32) -> String {
    format!("{COMPUTING}/{stage}.{generation}")
}

/// Returns the path of one claim on a computation; numbers are padded so that names sort.
pub fn computing(stage: &Digest, generation: u32, number: u32) -> String {
    format!("{}.{number:06}", computing_of(stage, generation))
}

/// Returns the path of the mark that this computation has ended, without a result or otherwise.
pub fn computing_over(stage: &Digest, generation: u32, number: u32) -> String {
    format!("{}-over", computing(stage, generation, number))
}

/// Returns the folder of a run's attempts.
pub fn attempts(run: &RunId) -> String {
    format!("{}/attempts", self::run(run))
}

/// Returns one attempt's folder.
pub fn attempt(run: &RunId, stage: &StageKey, attempt: AttemptNumber) -> String {
    format!("{}/{}/{attempt}", attempts(run), segment(&stage.0))
}

/// Returns the path of a fired tick of a schedule.
pub fn tick(schedule: &str, tick: &str) -> String {
    format!("{SCHEDULES}/{}/{}", segment(schedule), segment(tick))
}

/// Returns the folder of a schedule. Names of ticks begin with a digit or contain a `:`, so they never clash with its
/// subfolders.
pub fn schedule(schedule: &str) -> String {
    format!("{SCHEDULES}/{}", segment(schedule))
}

/// Returns the path of one record of a schedule's log; numbers are padded so that names sort.
pub fn schedule_record(schedule: &str, number: u64) -> String {
    format!("{}/log/{number:010}", self::schedule(schedule))
}

/// Returns the folder of the states of a schedule.
pub fn schedule_states(schedule: &str) -> String {
    format!("{}/state", self::schedule(schedule))
}

/// Returns the path of the state of a schedule after all records before this number.
pub fn schedule_state(schedule: &str, number: u64) -> String {
    format!("{}/{number:010}", schedule_states(schedule))
}

/// Returns the path of the texts of a schedule's files, by their digest.
pub fn schedule_texts(schedule: &str, digest: &Digest) -> String {
    format!("{}/texts/{digest}", self::schedule(schedule))
}

/// Returns a file or folder name for any text: `A-Z a-z 0-9 _ = , -` and inner dots stay, every other byte becomes
/// `@xx`, and long names are truncated and end in a digest. Different texts have different segments.
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
        assert_eq!(message_index(&digest), format!("indexes/messages/{digest}"));
        assert_eq!(manifest(&digest, 2), format!("artifacts/e3/{digest}/2.json"));
        assert_eq!(checkpoint(&digest, 40, 1), format!("checkpoints/e3/{digest}/000000000040-1.json"));
        assert_eq!(tags(&run), "tags/2026-11/20261121-041530-7f3a9c");
        assert_eq!(notes(&digest), format!("notes/e3/{digest}"));
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
    fn unsafe_names_are_escaped() {
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
