//! Groups sequences into batches by length and token budget.
//!
//! The time and memory of a step are proportional to its tokens, and batches of equal lengths need the least padding.
//! Sorting is by (length, index), so batches depend only on the lengths.

use trainyard_core::Chance;

/// Returns the indices of `lengths`, sorted by length and cut so that no batch holds more than `budget` tokens (a
/// longer sequence gets a separate batch). Within a batch and among batches the order is by (length, index).
pub fn micro_batches(lengths: &[usize], budget: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&i| (lengths[i], i));
    cut(&order, lengths, budget)
}

fn cut(order: &[usize], lengths: &[usize], budget: usize) -> Vec<Vec<usize>> {
    let mut batches: Vec<Vec<usize>> = Vec::new();
    let mut tokens = usize::MAX;
    for &i in order {
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
pub fn epoch_batches(lengths: &[usize], budget: usize, chance: &Chance, epoch: u64) -> Vec<Vec<usize>> {
    let mut draws = chance.at("epoch", &[epoch]);
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    draws.shuffle(&mut order);
    let mean = (lengths.iter().sum::<usize>() / lengths.len().max(1)).max(1);
    let window = (16 * budget / mean).max(1);
    let mut batches: Vec<Vec<usize>> = order
        .chunks(window)
        .flat_map(|w| {
            let mut sorted = w.to_vec();
            sorted.sort_by_key(|&i| (lengths[i], i));
            cut(&sorted, lengths, budget)
        })
        .collect();
    draws.shuffle(&mut batches);
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_respect_budget_and_contain_every_sequence() {
        let lengths = [5, 3, 9, 3, 20, 1];
        assert_eq!(micro_batches(&lengths, 10), [vec![5, 1, 3], vec![0], vec![2], vec![4]]);
        let chance = Chance::new(1);
        let many: Vec<usize> = (0..200).map(|i| 1 + i * 7 % 31).collect();
        let batches = epoch_batches(&many, 64, &chance, 0);
        assert!(batches.iter().all(|b| b.iter().map(|&i| many[i]).sum::<usize>() <= 64));
        let mut all: Vec<usize> = batches.iter().flatten().copied().collect();
        all.sort_unstable();
        assert_eq!(all, (0..200).collect::<Vec<_>>());
        assert_ne!(batches, epoch_batches(&many, 64, &chance, 1));
        assert_eq!(batches, epoch_batches(&many, 64, &chance, 0));
    }
}
