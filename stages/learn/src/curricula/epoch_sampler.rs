//! Deals problems from a shuffled deck without repetition, and reshuffles the deck when it runs out. The order of a
//! pass is a pure function of (seed, name, pass), so the state is three numbers.

use serde::{Deserialize, Serialize};
use trainyard_core::Chance;

/// Position in a deck.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EpochSampler {
    /// Number of finished passes.
    pass: u64,
    /// Number of cards drawn since the start.
    total: u64,
    /// Number of cards drawn in the current pass.
    drawn: usize,
}

impl EpochSampler {
    /// Deals the next `count` cards. A card repeats within them only if the deck runs out. `name` separates decks that
    /// share a seed; `cards` must not change between calls.
    pub fn draw(&mut self, cards: &[usize], count: usize, name: u64, chance: &Chance) -> Vec<usize> {
        let mut dealt = Vec::with_capacity(count);
        while dealt.len() < count && !cards.is_empty() {
            if self.drawn >= cards.len() {
                self.pass += 1;
                self.drawn = 0;
            }
            let mut order = cards.to_vec();
            chance.at("deck", &[name, self.pass]).shuffle(&mut order);
            let take = (count - dealt.len()).min(cards.len() - self.drawn);
            dealt.extend_from_slice(&order[self.drawn..self.drawn + take]);
            self.drawn += take;
            self.total += take as u64;
        }
        dealt
    }
    /// Returns the number of cards drawn since the start.
    pub fn total_drawn(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_deal_every_card_once_and_resume() {
        let cards: Vec<usize> = (10..17).collect();
        let chance = Chance::new(5);
        let mut deck = EpochSampler::default();
        let mut first = deck.draw(&cards, 3, 0, &chance);
        let mut copy: EpochSampler = serde_json::from_str(&serde_json::to_string(&deck).unwrap()).unwrap();
        let rest = deck.draw(&cards, 4, 0, &chance);
        assert_eq!(copy.draw(&cards, 4, 0, &chance), rest);
        first.extend(rest);
        first.sort_unstable();
        assert_eq!(first, cards);
        assert_ne!(deck.draw(&cards, 7, 0, &chance), EpochSampler::default().draw(&cards, 7, 0, &chance));
        assert_eq!(EpochSampler::default().draw(&[], 3, 0, &chance), Vec::<usize>::new());
    }
}
