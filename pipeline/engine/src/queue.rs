//! Orders the admission of stages: by priority, then by fair share, then in file order.
//!
//! Priority is the length of the longest chain of dependent stages, so the critical path is not delayed. Fair share is
//! between stage ids: the id with fewer running attempts is first, so a wide matrix does not starve another stage. A
//! request that was overtaken [`MAX_OVERTAKES`] times closes its pools to others until it is admitted, so large
//! requests do not starve. Waiting stages are grouped by request and id, so the time of a decision grows with the
//! number of distinct requests, not of stages.

use crate::NodeId;
use crate::allocator::{GroupRequest, ResolvedRequest, ResourceAllocator};
use crate::pool::Grant;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of times that a waiting request may be overtaken.
const MAX_OVERTAKES: u32 = 32;

/// Rank of a family in the queue: priority, running attempts of its id, first node in file order.
type Rank = (Reverse<u32>, u32, NodeId);

/// Stages that are ready and wait for a pool, and how many attempts of each stage id run.
#[derive(Debug, Default)]
pub struct StageQueue {
    requests: BTreeMap<GroupRequest, RequestBacklog>,
    /// Running attempts for each stage id.
    running: BTreeMap<String, u32>,
    waiting: usize,
}

/// Waiting nodes with the same request.
#[derive(Debug, Default)]
struct RequestBacklog {
    /// Stage id → its waiting nodes by priority.
    families: BTreeMap<String, BTreeSet<(Reverse<u32>, NodeId)>>,
    order: BTreeSet<(Rank, String)>,
    overtaken: u32,
}

impl RequestBacklog {
    fn rank(&self, id: &str, running: u32) -> Option<Rank> {
        self.families.get(id).and_then(|f| f.first()).map(|(priority, node)| (*priority, running, *node))
    }
    fn unrank(&mut self, id: &str, running: u32) {
        if let Some(rank) = self.rank(id, running) {
            self.order.remove(&(rank, id.to_string()));
        }
    }
    fn enrank(&mut self, id: &str, running: u32) {
        if let Some(rank) = self.rank(id, running) {
            self.order.insert((rank, id.to_string()));
        }
    }
}

impl StageQueue {
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Queues a node. `id` is its stage id.
    pub fn push(&mut self, node: NodeId, id: &str, priority: u32, request: GroupRequest) {
        let running = self.running.get(id).copied().unwrap_or(0);
        let backlog = self.requests.entry(request).or_default();
        backlog.unrank(id, running);
        backlog.families.entry(id.to_string()).or_default().insert((Reverse(priority), node));
        backlog.enrank(id, running);
        self.waiting += 1;
    }

    /// Removes a node without admitting it.
    pub fn remove(&mut self, node: NodeId, id: &str, priority: u32, request: &[Vec<ResolvedRequest>]) {
        let running = self.running.get(id).copied().unwrap_or(0);
        let Some(backlog) = self.requests.get_mut(request) else { return };
        backlog.unrank(id, running);
        if let Some(family) = backlog.families.get_mut(id)
            && family.remove(&(Reverse(priority), node))
        {
            self.waiting -= 1;
        }
        backlog.enrank(id, running);
        self.drop_empty(request, id);
    }

    /// Records that an attempt of this stage id ended.
    pub fn ended(&mut self, id: &str) {
        self.count(id, |n| n.saturating_sub(1));
    }

    /// Admits everything that fits now, in order.
    pub fn admit(&mut self, ledger: &mut ResourceAllocator) -> Vec<(NodeId, Vec<Grant>)> {
        let mut admitted = Vec::new();
        let mut full: BTreeSet<GroupRequest> = BTreeSet::new();
        let mut closed: BTreeSet<usize> = BTreeSet::new();
        loop {
            let candidates = self.requests.iter().filter(|(request, _)| !full.contains(*request));
            let best = candidates.filter_map(|(request, s)| s.order.first().map(|o| (o.clone(), request))).min();
            let Some(((rank, id), request)) = best.map(|(o, request)| (o, request.clone())) else { return admitted };
            // A pool stays closed to a shape unless that shape closed it.
            match ledger.allocate(&request, &closed) {
                Some(grants) => {
                    self.overtake(&request, rank.0, &full);
                    self.remove_admitted(&request, &id, (rank.0, rank.2));
                    admitted.push((rank.2, grants));
                }
                None => {
                    if self.requests.get(&request).is_some_and(|s| s.overtaken >= MAX_OVERTAKES) {
                        closed.extend(ledger.eligible(&request));
                    }
                    full.insert(request);
                }
            }
        }
    }

    /// Counts an overtaking for every shape in `full`, unless the admitted one has a higher priority.
    fn overtake(&mut self, by: &[Vec<ResolvedRequest>], priority: Reverse<u32>, full: &BTreeSet<GroupRequest>) {
        for request in full {
            if let Some(backlog) = self.requests.get_mut(request)
                && request != by
                && backlog.order.first().is_some_and(|((p, ..), _)| *p <= priority)
            {
                backlog.overtaken += 1;
            }
        }
    }

    fn remove_admitted(&mut self, request: &[Vec<ResolvedRequest>], id: &str, admitted: (Reverse<u32>, NodeId)) {
        let running = self.running.get(id).copied().unwrap_or(0);
        if let Some(backlog) = self.requests.get_mut(request) {
            backlog.overtaken = 0;
            backlog.unrank(id, running);
            if let Some(family) = backlog.families.get_mut(id) {
                family.remove(&admitted);
            }
            backlog.enrank(id, running);
        }
        self.waiting -= 1;
        self.drop_empty(request, id);
        self.count(id, |n| n + 1);
    }

    /// Changes the number of running attempts of an id, and with it the rank of its family in every shape.
    fn count(&mut self, id: &str, change: impl Fn(u32) -> u32) {
        let before = self.running.get(id).copied().unwrap_or(0);
        let after = change(before);
        for backlog in self.requests.values_mut().filter(|s| s.families.contains_key(id)) {
            backlog.unrank(id, before);
            backlog.enrank(id, after);
        }
        if after == 0 {
            self.running.remove(id);
        } else {
            self.running.insert(id.to_string(), after);
        }
    }

    fn drop_empty(&mut self, request: &[Vec<ResolvedRequest>], id: &str) {
        if let Some(backlog) = self.requests.get_mut(request) {
            if backlog.families.get(id).is_some_and(BTreeSet::is_empty) {
                backlog.families.remove(id);
            }
            if backlog.families.is_empty() {
                self.requests.remove(request);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::MachinePool;
    use trainyard_spec::plan::ResourceRequest;

    fn request(cpus: u32) -> GroupRequest {
        vec![vec![ResolvedRequest::new(&ResourceRequest { cpus: Some(cpus), ..ResourceRequest::default() }, false)]]
    }
    fn ledger(cpus: u32) -> ResourceAllocator {
        ResourceAllocator::new(vec![MachinePool::of_this_machine(cpus, 0, Vec::new())])
    }
    fn nodes(admitted: &[(NodeId, Vec<Grant>)]) -> Vec<u32> {
        admitted.iter().map(|(n, _)| n.0).collect()
    }

    #[test]
    fn priority_then_fair_share_then_order() {
        let mut queue = StageQueue::default();
        for n in 0..4 {
            queue.push(NodeId(n), "wide", 1, request(1));
        }
        queue.push(NodeId(10), "other", 1, request(1));
        queue.push(NodeId(20), "critical", 7, request(1));
        let mut ledger = ledger(4);
        assert_eq!(nodes(&queue.admit(&mut ledger)), [20, 0, 10, 1]);
        assert_eq!(queue.len(), 2);
    }

    #[test]
    fn a_large_request_is_not_starved_by_small_ones() {
        let mut queue = StageQueue::default();
        let mut ledger = ledger(2);
        queue.push(NodeId(0), "small", 1, request(1));
        let mut running: Vec<(NodeId, Vec<Grant>)> = queue.admit(&mut ledger);
        queue.push(NodeId(1), "large", 1, request(2));
        let mut rounds = 0;
        loop {
            rounds += 1;
            assert!(rounds < 200, "starved");
            // A small request is always waiting while another one runs.
            queue.push(NodeId(100 + rounds), "small", 1, request(1));
            running.extend(queue.admit(&mut ledger));
            if running.iter().any(|(n, _)| *n == NodeId(1)) {
                break;
            }
            let (_, grants) = running.remove(0);
            grants.iter().for_each(|grant| ledger.release(grant));
            queue.ended("small");
            running.extend(queue.admit(&mut ledger));
            if running.iter().any(|(n, _)| *n == NodeId(1)) {
                break;
            }
        }
        assert!(rounds > 10, "small ones may pass it for a while, it took {rounds}");
    }

    #[test]
    fn long_queue_is_admitted_in_order() {
        let mut queue = StageQueue::default();
        let mut ledger = ledger(1);
        let all: Vec<u32> = (0..50_000).collect();
        all.iter().for_each(|n| queue.push(NodeId(*n), "wide", 1, request(1)));
        let mut order = Vec::new();
        while queue.len() > 0 {
            for (node, grants) in queue.admit(&mut ledger) {
                order.push(node.0);
                grants.iter().for_each(|grant| ledger.release(grant));
                queue.ended("wide");
            }
        }
        assert_eq!(order, all);
    }

    #[test]
    fn removed_node_leaves_no_entry() {
        let mut queue = StageQueue::default();
        queue.push(NodeId(0), "a", 1, request(1));
        queue.push(NodeId(1), "a", 1, request(1));
        queue.remove(NodeId(0), "a", 1, &request(1));
        queue.remove(NodeId(0), "a", 1, &request(1));
        assert_eq!(queue.len(), 1);
        assert_eq!(nodes(&queue.admit(&mut ledger(8))), [1]);
        assert!(queue.requests.is_empty());
    }
}
