//! Groups sequences into batches by length and token budget.
//!
//! The time and memory of a step are proportional to its tokens, and batches of equal lengths need the least padding.
//! Sorting is by (length, index), so batches depend only on the lengths.

use std::ops::Range;
use trainyard_core::Chance;

/// Batches of sequences, by index: 4 bytes a sequence and 8 a batch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Batches {
    order: Vec<u32>,
    /// Places of each batch in `order`.
    ranges: Vec<Range<u32>>,
}

impl Batches {
    /// Returns the number of batches.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }
    /// Whether there are no batches.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
    /// Returns the indices of a batch. Panics if there is no such batch.
    pub fn batch(&self, number: usize) -> &[u32] {
        let Range { start, end } = self.ranges[number];
        &self.order[start as usize..end as usize]
    }
    /// Returns the batches in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        (0..self.len()).map(|number| self.batch(number))
    }

    /// Cuts `order` from a place on, so that no batch holds more than `budget` tokens.
    fn cut(&mut self, from: usize, lengths: &[u32], budget: usize) {
        let mut tokens = usize::MAX;
        for (place, &i) in self.order.iter().enumerate().skip(from) {
            let (place, length) = (place as u32, lengths[i as usize] as usize);
            if tokens.saturating_add(length) > budget {
                self.ranges.push(place..place);
                tokens = 0;
            }
            tokens += length;
            self.ranges.last_mut().expect("the first sequence opens a batch").end = place + 1;
        }
    }
}

/// Returns the indices of `lengths`, sorted by length and cut so that no batch holds more than `budget` tokens (a
/// longer sequence gets a separate batch). Within a batch and among batches the order is by (length, index).
pub fn sorted_batches(lengths: &[u32], budget: usize) -> Batches {
    let mut batches = Batches { order: (0..lengths.len() as u32).collect(), ranges: Vec::new() };
    batches.order.sort_unstable_by_key(|&i| (lengths[i as usize], i));
    batches.cut(0, lengths, budget);
    batches
}

/// Returns the batches of [`sorted_batches`] for lists of a few sequences.
pub fn micro_batches(lengths: &[usize], budget: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&i| (lengths[i], i));
    let mut batches: Vec<Vec<usize>> = Vec::new();
    let mut tokens = usize::MAX;
    for i in order {
        if tokens.saturating_add(lengths[i]) > budget {
            batches.push(Vec::new());
            tokens = 0;
        }
        tokens += lengths[i];
        batches.last_mut().expect("the first sequence opens a batch").push(i);
    }
    batches
}

/// Returns the batches of one epoch: sequences are shuffled, sorted by length within windows of about 16 batches and
/// cut by budget; then the batches are shuffled. Each sequence is in exactly one batch.
pub fn epoch_batches(lengths: &[u32], budget: usize, chance: &Chance, epoch: u64) -> Batches {
    let mut draws = chance.at("epoch", &[epoch]);
    let mut order: Vec<u32> = (0..lengths.len() as u32).collect();
    draws.shuffle(&mut order);
    let tokens: usize = lengths.iter().map(|length| *length as usize).sum();
    let mean = (tokens / lengths.len().max(1)).max(1);
    let window = (16 * budget / mean).max(1);
    let mut batches = Batches::default();
    for part in order.chunks(window) {
        let from = batches.order.len();
        batches.order.extend_from_slice(part);
        batches.order[from..].sort_unstable_by_key(|&i| (lengths[i as usize], i));
        batches.cut(from, lengths, budget);
    }
    draws.shuffle(&mut batches.ranges);
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns batches as lists.
    fn lists(batches: &Batches) -> Vec<Vec<usize>> {
        batches.iter().map(|batch| batch.iter().map(|&i| i as usize).collect()).collect()
    }

    /// Returns the batches of an epoch by a plain reference implementation over lists in memory.
    fn reference(lengths: &[usize], budget: usize, chance: &Chance, epoch: u64) -> Vec<Vec<usize>> {
        let mut draws = chance.at("epoch", &[epoch]);
        let mut order: Vec<usize> = (0..lengths.len()).collect();
        draws.shuffle(&mut order);
        let mean = (lengths.iter().sum::<usize>() / lengths.len().max(1)).max(1);
        let mut batches = Vec::new();
        for part in order.chunks((16 * budget / mean).max(1)) {
            let part_lengths: Vec<usize> = part.iter().map(|&i| lengths[i]).collect();
            let mut sorted: Vec<usize> = (0..part.len()).collect();
            sorted.sort_by_key(|&k| (part_lengths[k], part[k]));
            let mut batch: Vec<usize> = Vec::new();
            for i in sorted.into_iter().map(|k| part[k]) {
                if !batch.is_empty() && batch.iter().map(|&j| lengths[j]).sum::<usize>() + lengths[i] > budget {
                    batches.push(std::mem::take(&mut batch));
                }
                batch.push(i);
            }
            batches.push(batch);
        }
        draws.shuffle(&mut batches);
        batches
    }

    #[test]
    fn batches_respect_budget_and_contain_every_sequence() {
        assert_eq!(micro_batches(&[5, 3, 9, 3, 20, 1], 10), [vec![5, 1, 3], vec![0], vec![2], vec![4]]);
        let chance = Chance::new(1);
        let many: Vec<u32> = (0..200).map(|i| 1 + i * 7 % 31).collect();
        let batches = epoch_batches(&many, 64, &chance, 0);
        assert!(batches.iter().all(|b| b.iter().map(|&i| many[i as usize]).sum::<u32>() <= 64));
        let mut all: Vec<u32> = batches.iter().flatten().copied().collect();
        all.sort_unstable();
        assert_eq!(all, (0..200).collect::<Vec<_>>());
        assert_ne!(batches, epoch_batches(&many, 64, &chance, 1));
        assert_eq!(batches, epoch_batches(&many, 64, &chance, 0));
    }

    #[test]
    fn batches_are_those_of_the_reference() {
        let chance = Chance::new(7);
        for case in 0..60 {
            let mut draws = chance.at("case", &[case]);
            let (count, longest, budget) = (draws.below(900), 1 + draws.below(90), 1 + draws.below(400) as usize);
            let lengths: Vec<u32> = (0..count).map(|_| 1 + draws.below(longest) as u32).collect();
            let plain: Vec<usize> = lengths.iter().map(|length| *length as usize).collect();
            for epoch in 0..3 {
                let batches = epoch_batches(&lengths, budget, &chance, epoch);
                assert_eq!(lists(&batches), reference(&plain, budget, &chance, epoch), "case {case}");
            }
            assert_eq!(lists(&sorted_batches(&lengths, budget)), micro_batches(&plain, budget), "case {case}");
        }
    }
}
