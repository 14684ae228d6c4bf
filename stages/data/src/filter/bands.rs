//! Finds the rows that share a band of their MinHash signatures with a row.

use hashbrown::HashTable;

/// Bands of numbered rows. A row takes about 14 bytes per band.
pub struct BandIndex {
    bands: usize,
    /// Keys of the bands of each row.
    keys: Vec<u64>,
    /// For each band, the last row of each key.
    last: Vec<HashTable<u32>>,
    /// For each band of each row, the row before it with the same key, plus 1; 0 for the first such row.
    before: Vec<u32>,
}

impl BandIndex {
    /// Creates an index of rows with this number of bands.
    pub fn new(bands: usize) -> Self {
        Self { bands, keys: Vec::new(), last: (0..bands).map(|_| HashTable::new()).collect(), before: Vec::new() }
    }
    /// Adds the next row. `row` has one key per band.
    pub fn push(&mut self, row: &[u64]) {
        let number = (self.keys.len() / self.bands) as u32;
        self.keys.extend_from_slice(row);
        let (keys, bands) = (&self.keys, self.bands);
        for (band, key) in row.iter().enumerate() {
            let key_of = |other: &u32| keys[*other as usize * bands + band];
            match self.last[band].find_mut(*key, |other| key_of(other) == *key) {
                Some(last) => self.before.push(std::mem::replace(last, number) + 1),
                None => {
                    self.last[band].insert_unique(*key, number, key_of);
                    self.before.push(0);
                }
            }
        }
    }
    /// Returns the rows that share a band with `row`, each once, in order.
    pub fn candidates(&self, row: &[u64]) -> Vec<u32> {
        let mut found = Vec::new();
        for (band, key) in row.iter().enumerate() {
            let at = |other: u32| other as usize * self.bands + band;
            let mut next = self.last[band].find(*key, |other| self.keys[at(*other)] == *key).copied();
            while let Some(other) = next {
                found.push(other);
                next = self.before[at(other)].checked_sub(1);
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_share_a_band_and_come_in_order() {
        let mut index = BandIndex::new(2);
        for row in [[1, 2], [1, 3], [4, 2], [1, 2], [2, 1]] {
            index.push(&row);
        }
        assert_eq!(index.candidates(&[1, 2]), [0, 1, 2, 3]);
        assert_eq!(index.candidates(&[4, 9]), [2]);
        assert_eq!(index.candidates(&[9, 1]), [4]);
        assert_eq!(index.candidates(&[3, 4]), [0; 0]);
        assert_eq!(index.candidates(&[]), [0; 0]);
    }
}
