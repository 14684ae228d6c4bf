//! Collects the shares of this machine that an attempt takes together with its group.

use trainyard_engine::{Grant, MachineShare};

/// Shares of this machine for an attempt and the attempts that start with it on the same executor.
#[derive(Debug, Clone)]
pub(super) struct SlotGroup {
    pub shares: Vec<MachineShare>,
    /// Index of the attempt's share.
    pub at: usize,
    /// Key shared by the group while it runs; `None` for a single attempt.
    pub key: Option<usize>,
}

impl SlotGroup {
    pub fn of(grant: &Grant) -> Self {
        let first = |grant: &Grant| grant.shares.first().cloned();
        if grant.together.is_empty() {
            return Self { shares: first(grant).into_iter().collect(), at: 0, key: None };
        }
        let same_executor = |(_, other): &(usize, &Grant)| other.executor == grant.executor;
        let members: Vec<(usize, MachineShare)> = grant
            .together
            .iter()
            .enumerate()
            .filter(same_executor)
            .filter_map(|(at, other)| Some((at, first(other)?)))
            .collect();
        let at = members.iter().position(|(at, _)| *at == grant.at).unwrap_or(0);
        let key = Some(grant.together.as_ptr() as usize);
        Self { shares: members.into_iter().map(|(_, share)| share).collect(), at, key }
    }
}
