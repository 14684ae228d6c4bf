//! Tests random histories with collections in between: all data that the model reaches stays, and in the end nothing
//! else does.

use crate::world::{HOUR, Key, World};
use std::collections::BTreeSet;
use std::time::Duration;
use trainyard_core::{Digest, RunId};
use trainyard_store::{GarbagePolicy, JournalReader, layout};

const SEEDS: u64 = 150;
const ACTIONS: u64 = 60;

/// Data that must outlive a collection.
struct Expected {
    manifests: BTreeSet<Key>,
    objects: BTreeSet<Digest>,
    points: BTreeSet<String>,
    journals: BTreeSet<RunId>,
}

impl Expected {
    /// Computes expectations by the model alone, before the collection.
    async fn of(world: &World, policy: &GarbagePolicy) -> Self {
        let ticked: BTreeSet<&RunId> = world.ticks.values().collect();
        let held: Vec<_> = world.runs.iter().filter(|(id, run)| !run.finished || ticked.contains(id)).collect();
        let mut roots: BTreeSet<Key> = held.iter().flat_map(|(_, run)| run.uses.iter().cloned()).collect();
        roots.extend(world.pins.iter().cloned());
        let sound = match policy.keep_last {
            Some(count) => world.last_used(count).await,
            None => world.last_used(usize::MAX).await,
        };
        roots.extend(sound);
        let manifests = world.lineage(roots);
        let mut objects: BTreeSet<Digest> =
            manifests.iter().flat_map(|key| world.made[key].payloads.iter().cloned()).collect();
        for run in world.runs.values().filter(|run| !run.finished) {
            objects.extend(run.results.iter().cloned());
        }
        let young = world.now() - policy.older_than.as_millis() as i64;
        objects.extend(world.written.iter().filter(|(_, at)| **at > young).map(|(digest, _)| digest.clone()));
        let mut points = BTreeSet::new();
        for (digest, all) in &world.points {
            let published = world.made.keys().any(|(made, _)| made == digest);
            if published || policy.runs_older_than.is_some() {
                continue;
            }
            for (step, files) in all {
                points.insert(layout::checkpoint(digest, *step, 1));
                objects.extend(files.iter().cloned());
            }
        }
        let stays = |id: &&RunId| policy.runs_older_than.is_none() || held.iter().any(|(held, _)| held == id);
        let journals = world.runs.keys().filter(stays).cloned().collect();
        Self { manifests, objects, points, journals }
    }
    async fn check(&self, world: &World, seed: u64) {
        for object in &self.objects {
            assert!(world.has(object).await, "seed {seed}: object {object} is gone");
        }
        for key in &self.manifests {
            // Files of replaced manifests stay if a process has needed them since.
            assert!(world.store.get(&layout::manifest(&key.0, key.1)).await.unwrap().is_some(), "seed {seed}: {key:?}");
        }
        let points = world.store.list(layout::CHECKPOINTS).await.unwrap();
        for point in &self.points {
            assert!(points.contains(point), "seed {seed}: {point} is gone");
        }
        for run in &self.journals {
            assert!(world.has_journal(run).await, "seed {seed}: the journal of {run} is not whole");
        }
    }
}

async fn collect(world: &World, policy: &GarbagePolicy) {
    let plan = world.store.garbage_plan(policy).await.unwrap();
    world.store.collect_garbage(&plan).await.unwrap();
}

/// Returns the intact manifests among these keys.
async fn sound(world: &World, keys: &BTreeSet<Key>) -> BTreeSet<Key> {
    let mut sound = BTreeSet::new();
    for key in keys {
        if world.is_sound(key).await {
            sound.insert(key.clone());
        }
    }
    sound
}

async fn history(seed: u64) {
    let mut world = World::new(seed, false).await;
    for action in 0..ACTIONS {
        world.act().await;
        if action % 10 != 9 {
            continue;
        }
        let policy = GarbagePolicy {
            older_than: *world.draws.choose(&[HOUR, 24 * HOUR]),
            keep_last: *world.draws.choose(&[None, Some(1), Some(2)]),
            runs_older_than: *world.draws.choose(&[None, None, Some(50 * HOUR)]),
        };
        let expected = Expected::of(&world, &policy).await;
        let before = sound(&world, &expected.manifests).await;
        collect(&world, &policy).await;
        expected.check(&world, seed).await;
        assert_eq!(sound(&world, &expected.manifests).await, before, "seed {seed}: a reached manifest was given up");
        forget(&mut world, &policy).await;
    }
    only_what_is_reached_is_left(&mut world, seed).await;
}

/// Takes removed runs, checkpoints and objects out of the model. A run is removed completely or not at all.
async fn forget(world: &mut World, policy: &GarbagePolicy) {
    let ids: Vec<RunId> = world.runs.keys().cloned().collect();
    for id in ids {
        if world.store.list(&layout::run(&id)).await.unwrap().is_empty() {
            assert!(policy.runs_older_than.is_some() && world.runs[&id].finished, "run {id} is gone");
            world.runs.remove(&id);
        }
    }
    let objects = world.store.list(layout::OBJECTS).await.unwrap();
    world.written.retain(|digest, _| objects.contains(&layout::object(digest)));
    let left = world.store.list(layout::CHECKPOINTS).await.unwrap();
    for (stage, points) in &mut world.points {
        points.retain(|(step, _)| left.contains(&layout::checkpoint(stage, *step, 1)));
    }
}

/// Checks that once all runs have ended and are old enough, collections leave the last result of every stage with its
/// lineage, and no other data.
async fn only_what_is_reached_is_left(world: &mut World, seed: u64) {
    let open: Vec<RunId> = world.runs.iter().filter(|(_, run)| !run.finished).map(|(id, _)| id.clone()).collect();
    for run in open {
        world.end(&run).await;
    }
    for (stage, generation) in std::mem::take(&mut world.pins) {
        world.store.set_pin(&stage, generation, false, None).await.unwrap();
    }
    // The newest ticks name no run.
    for name in std::mem::take(&mut world.ticks).into_keys() {
        world.store.fire_tick(&name, "99999999999999999999", "{}".into()).await.unwrap();
    }
    world.clock.advance(100 * HOUR);
    let policy = GarbagePolicy { older_than: HOUR, keep_last: None, runs_older_than: Some(2 * HOUR) };
    collect(world, &policy).await;
    forget(world, &policy).await;
    assert!(world.runs.is_empty(), "seed {seed}");
    let policy = GarbagePolicy { keep_last: Some(1), ..policy };
    let last = world.last_used(1).await;
    let lineage = world.lineage(last);
    for _ in 0..2 {
        collect(world, &policy).await;
        world.clock.advance(2 * HOUR);
    }
    assert_eq!(sound(world, &world.made.keys().cloned().collect()).await, lineage, "seed {seed}");
    let expected: BTreeSet<String> =
        lineage.iter().flat_map(|key| &world.made[key].payloads).map(layout::object).collect();
    let objects: BTreeSet<String> = world.store.list(layout::OBJECTS).await.unwrap().into_iter().collect();
    assert_eq!(objects, expected, "seed {seed}");
    for folder in [layout::CHECKPOINTS, layout::RUNS, layout::PROBES] {
        assert_eq!(world.store.list(folder).await.unwrap(), Vec::<String>::new(), "seed {seed}");
    }
    let again = world.store.garbage_plan(&policy).await.unwrap();
    assert!(again.is_empty(), "seed {seed}: {again:?}");
}

#[tokio::test]
async fn only_reachable_data_is_kept() {
    for seed in 0..SEEDS {
        history(seed).await;
    }
}

#[tokio::test]
async fn interrupted_collection_is_completed_by_the_next() {
    for seed in 0..2 {
        let mut world = World::new(seed, true).await;
        for _ in 0..ACTIONS / 2 {
            world.act().await;
        }
        world.clock.advance(Duration::from_secs(3_000_000));
        let policy = GarbagePolicy { older_than: HOUR, keep_last: Some(1), runs_older_than: Some(HOUR) };
        let expected = Expected::of(&world, &policy).await;
        let mut polls = 1;
        loop {
            let plan = world.store.garbage_plan(&policy).await.unwrap();
            // Dropped in the middle, as a killed process ends.
            let collection = world.store.collect_garbage(&plan);
            let done = stop_after(polls, collection).await;
            expected.check(&world, seed).await;
            if done {
                break;
            }
            polls += 1 + polls / 3;
        }
        for run in world.runs.keys().filter(|run| expected.journals.contains(run)) {
            JournalReader::read_all(&world.store, run).await.unwrap();
        }
    }
}

/// Polls a future this often; returns whether it ended.
async fn stop_after<T, E: std::fmt::Debug>(polls: u32, future: impl Future<Output = Result<T, E>>) -> bool {
    let mut future = Box::pin(future);
    for _ in 0..polls {
        if let std::task::Poll::Ready(done) = futures::poll!(future.as_mut()) {
            done.unwrap();
            return true;
        }
        // Without it the runtime lets no other task proceed.
        tokio::task::yield_now().await;
    }
    false
}
