//! The shares that an attempt takes of this machine together with those of its group.

use trainyard_engine::{Grant, Share};

/// What an attempt and those that start with it take of this machine.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub shares: Vec<Share>,
    /// The attempt's own place among them.
    pub at: usize,
    /// The same for all of them, while they run; none for an attempt alone.
    pub key: Option<usize>,
}

impl Group {
    pub fn of(grant: &Grant) -> Self {
        let first = |grant: &Grant| grant.shares.first().cloned();
        if grant.together.is_empty() {
            return Self { shares: first(grant).into_iter().collect(), at: 0, key: None };
        }
        let here = |(_, other): &(usize, &Grant)| other.executor == grant.executor;
        let places: Vec<(usize, Share)> = grant
            .together
            .iter()
            .enumerate()
            .filter(here)
            .filter_map(|(at, other)| Some((at, first(other)?)))
            .collect();
        let at = places.iter().position(|(at, _)| *at == grant.at).unwrap_or(0);
        let key = Some(grant.together.as_ptr() as usize);
        Self { shares: places.into_iter().map(|(_, share)| share).collect(), at, key }
    }
}
