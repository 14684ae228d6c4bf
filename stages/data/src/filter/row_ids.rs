//! Keeps the ids of many rows.

/// Ids of rows, by number.
#[derive(Default)]
pub struct RowIds {
    text: String,
    ends: Vec<usize>,
}

impl RowIds {
    /// Adds an id and returns its number.
    pub fn push(&mut self, id: &str) -> u32 {
        self.text.push_str(id);
        self.ends.push(self.text.len());
        (self.ends.len() - 1) as u32
    }
    /// Returns the id of a number that [`RowIds::push`] returned.
    pub fn get(&self, number: u32) -> &str {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[number]]
    }
}
