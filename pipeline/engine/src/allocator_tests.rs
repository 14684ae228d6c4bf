use super::*;
use crate::pool::Gpu;

fn machine(name: &str, cpus: u32, gpus: &[u64]) -> PoolMachine {
    let gpus = gpus.iter().zip(0..).map(|(gib, index)| Gpu { index, memory: gib << 30 }).collect();
    PoolMachine { name: name.into(), cpus, memory: 8 << 30, gpus }
}
fn pool(name: &str, priority: i32, tags: &[&str], machines: Vec<PoolMachine>) -> MachinePool {
    MachinePool {
        name: name.into(),
        executor: "local".into(),
        priority,
        tags: tags.iter().map(ToString::to_string).collect(),
        machines,
        several_nodes: true,
        first_heartbeat: trainyard_core::attempt::FIRST_HEARTBEAT,
    }
}
/// Takes the resources of one attempt.
fn take(allocator: &mut ResourceAllocator, alternatives: &[ResolvedRequest]) -> Option<Grant> {
    allocator.allocate(&[alternatives.to_vec()], &none()).map(|mut grants| grants.remove(0))
}
fn request(cpus: u32, gpus: u32) -> ResolvedRequest {
    ResolvedRequest::new(&ResourceRequest { cpus: Some(cpus), gpus, ..ResourceRequest::default() }, false)
}
fn none() -> BTreeSet<usize> {
    BTreeSet::new()
}

#[test]
fn gpus_are_allocated_by_index_and_released() {
    let mut allocator = ResourceAllocator::new(vec![pool("p", 0, &[], vec![machine("m", 8, &[40, 80, 80])])]);
    let large =
        ResolvedRequest::new(&ResourceRequest { gpus: 1, gpu_memory: 60 << 30, ..ResourceRequest::default() }, false);
    let first = take(&mut allocator, std::slice::from_ref(&large)).unwrap();
    assert_eq!(first.shares[0].gpus, [1]);
    let two = take(&mut allocator, &[request(1, 2)]).unwrap();
    assert_eq!(two.shares[0].gpus, [0, 2]);
    assert!(take(&mut allocator, std::slice::from_ref(&large)).is_none());
    assert_eq!(
        allocator.unavailable_reasons(&[vec![large.clone()]]),
        "pool `p` is busy: needs 1 GPU with 60.0 GiB; 0 of 2 are free"
    );
    allocator.release(&first);
    allocator.audit([&two].into_iter());
    assert!(take(&mut allocator, &[large]).is_some());
}

#[test]
fn several_machines_are_all_or_nothing() {
    let mut allocator = ResourceAllocator::new(vec![pool(
        "p",
        0,
        &[],
        vec![machine("a", 4, &[]), machine("b", 4, &[]), machine("c", 2, &[])],
    )]);
    let pair = ResolvedRequest::new(&ResourceRequest { cpus: Some(3), nodes: 2, ..ResourceRequest::default() }, false);
    let one = take(&mut allocator, &[request(2, 0)]).unwrap();
    assert!(take(&mut allocator, std::slice::from_ref(&pair)).is_none(), "only b is free enough");
    allocator.release(&one);
    let both = take(&mut allocator, &[pair]).unwrap();
    assert_eq!(both.shares.iter().map(|s| s.machine.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let three = ResolvedRequest::new(&ResourceRequest { cpus: Some(3), nodes: 3, ..ResourceRequest::default() }, false);
    assert_eq!(allocator.unsatisfiable(&[vec![three]]).unwrap(), "pool `p`: needs 3 machines; 2 are large enough");
}

#[test]
fn alternatives_are_tried_in_order_and_pools_by_priority() {
    let spot = ResolvedRequest::new(
        &ResourceRequest { cpus: Some(4), tags: vec!["spot".into()], ..ResourceRequest::default() },
        false,
    );
    let any = request(4, 0);
    let mut allocator = ResourceAllocator::new(vec![
        pool("spot", 0, &["spot"], vec![machine("s", 4, &[])]),
        pool("own", 5, &[], vec![machine("o", 4, &[])]),
    ]);
    let order = [spot.clone(), any];
    assert_eq!(take(&mut allocator, &order).unwrap().pool, "spot");
    assert_eq!(take(&mut allocator, &order).unwrap().pool, "own");
    assert!(take(&mut allocator, &order).is_none());
    let h100 =
        ResolvedRequest::new(&ResourceRequest { tags: vec!["h100".into()], ..ResourceRequest::default() }, false);
    assert_eq!(
        allocator.unsatisfiable(&[vec![h100]]).unwrap(),
        "pool `own` has no tag `h100`; pool `spot` has no tag `h100`"
    );
}

/// Returns two alternatives, and the order of their placements in three pools after these were deferred.
fn order_after(deferred: &[(usize, &str)]) -> Vec<(usize, usize)> {
    let mut alternatives = [request(4, 0), request(2, 0)];
    deferred.iter().for_each(|(alternative, pool)| defer(&mut alternatives, *alternative, pool));
    placement_order(&alternatives, &["a", "b", "c"])
}

#[test]
fn deferred_placements_come_last_in_turn() {
    assert_eq!(order_after(&[]), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]);
    assert_eq!(order_after(&[(0, "a")]), [(0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 0)]);
    assert_eq!(order_after(&[(0, "b"), (0, "a")]), [(0, 2), (1, 0), (1, 1), (1, 2), (0, 1), (0, 0)]);
    assert_eq!(
        order_after(&[(0, "b"), (0, "a"), (0, "b")]),
        order_after(&[(0, "a"), (0, "b")]),
        "the last time counts"
    );
    let all = [(0, "a"), (0, "b"), (0, "c"), (1, "a"), (1, "b"), (1, "c")];
    assert_eq!(order_after(&all), order_after(&[]), "after a full round everything begins again");
    assert_eq!(order_after(&[(0, "gone"), (7, "a")]), order_after(&[]), "a pool and an alternative that do not exist");
}

#[test]
fn deferred_placement_is_taken_only_if_no_other_has_room() {
    let pools = || vec![pool("a", 5, &[], vec![machine("m", 4, &[])]), pool("b", 0, &[], vec![machine("n", 4, &[])])];
    let mut allocator = ResourceAllocator::new(pools());
    let mut alternatives = [request(4, 0)];
    defer(&mut alternatives, 0, "a");
    let first = take(&mut allocator, &alternatives).unwrap();
    assert_eq!((first.pool.as_str(), first.alternative), ("b", 0));
    assert_eq!(take(&mut allocator, &alternatives).unwrap().pool, "a");
    let any_of = [request(4, 0), request(2, 0)];
    let mut allocator = ResourceAllocator::new(pools());
    let grants: Vec<Grant> = (0..4).map_while(|_| take(&mut allocator, &any_of)).collect();
    assert_eq!(grants.iter().map(|grant| grant.alternative).collect::<Vec<_>>(), [0, 0]);
    allocator.release(&grants[1]);
    take(&mut allocator, &[request(1, 0)]).unwrap();
    assert_eq!(take(&mut allocator, &any_of).unwrap().alternative, 1, "the second alternative is granted as such");
}

#[test]
fn other_runs_reduce_only_what_is_free() {
    let mut allocator = ResourceAllocator::new(vec![pool("p", 0, &[], vec![machine("m", 4, &[])])]);
    assert!(allocator.set_external_usage("p", "m", ExternalUsage { cpus: 3, ..ExternalUsage::default() }));
    assert!(take(&mut allocator, &[request(2, 0)]).is_none());
    assert!(allocator.unsatisfiable(&[vec![request(4, 0)]]).is_none());
    assert!(take(&mut allocator, &[request(1, 0)]).is_some());
}

#[test]
fn a_kind_may_default_to_the_whole_machine() {
    let mut allocator = ResourceAllocator::new(vec![pool("p", 0, &[], vec![machine("m", 6, &[])])]);
    assert_eq!(
        take(&mut allocator, &[ResolvedRequest::new(&ResourceRequest::default(), true)]).unwrap().shares[0].cpus,
        6
    );
    assert!(take(&mut allocator, &[ResolvedRequest::new(&ResourceRequest::default(), false)]).is_none());
}
