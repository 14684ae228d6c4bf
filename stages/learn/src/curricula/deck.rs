//! A shuffled deck of problems: dealt without repetition and reshuffled when it runs out. The order of a pass is a pure
//! function of (seed, name, pass), so the state is three numbers.

use serde::{Deserialize, Serialize};
use trainyard_core::Chance;

/// Position in a deck.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Deck {
    /// Number of finished passes.
    pass: u64,
    /// Number of cards drawn since the start.
    total: u64,
    /// Number of cards drawn in the current pass.
    drawn: usize,
}

impl Deck {
    /// Deals the next `count` cards. A card repeats within them only if the deck runs out. `name` separates decks that
    /// share a seed; `cards` must not change between calls.
    pub fn deal(&mut self, cards: &[usize], count: usize, name: u64, chance: &Chance) -> Vec<usize> {
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
    pub fn drawn_in_all(&self) -> u64 {
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
        let mut deck = Deck::default();
        let mut first = deck.deal(&cards, 3, 0, &chance);
        let mut copy: Deck = serde_json::from_str(&serde_json::to_string(&deck).unwrap()).unwrap();
        let rest = deck.deal(&cards, 4, 0, &chance);
        assert_eq!(copy.deal(&cards, 4, 0, &chance), rest);
        first.extend(rest);
        first.sort_unstable();
        assert_eq!(first, cards);
        assert_ne!(deck.deal(&cards, 7, 0, &chance), Deck::default().deal(&cards, 7, 0, &chance));
        assert_eq!(Deck::default().deal(&[], 3, 0, &chance), Vec::<usize>::new());
    }
}
