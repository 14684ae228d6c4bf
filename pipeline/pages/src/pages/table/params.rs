//! State of the page of rows, as parameters of its address.

use crate::error::PageError;
use crate::links::query;
use crate::pages::rollout_parts::place::wrong_parameter;

/// Rows of a page.
pub const PAGE: usize = 50;

/// Chosen columns, and the choice of rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowsParams {
    /// Names of the columns to show; empty for the usual ones.
    pub columns: Vec<String>,
    /// SQL expression over one row; empty for all rows.
    pub condition: String,
    /// Number of the first row, or of the first matching row.
    pub from: u64,
    /// Id of a row at which the page begins; empty for none.
    pub id: String,
}

impl RowsParams {
    /// Reads the parameters. Errors: 400 (a number that cannot be read).
    pub fn of(pairs: Vec<(String, String)>) -> Result<Self, PageError> {
        let mut params = Self::default();
        for (name, value) in pairs {
            match name.as_str() {
                "column" if !value.is_empty() => params.columns.push(value),
                "where" => params.condition = value.trim().to_string(),
                "id" => params.id = value.trim().to_string(),
                "from" if !value.is_empty() => {
                    params.from = value.trim().parse().map_err(|_| wrong_parameter("from", "it is not a number"))?;
                }
                _ => {}
            }
        }
        Ok(params)
    }
    /// Returns the parameters of the page from another row on.
    pub fn from(&self, from: u64) -> String {
        let number = from.to_string();
        let columns = self.columns.iter().map(|column| ("column", column.as_str()));
        let condition = Some(("where", self.condition.as_str())).filter(|(_, text)| !text.is_empty());
        let from = Some(("from", number.as_str())).filter(|_| from > 0);
        query(&columns.chain(condition).chain(from).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_kept_in_addresses() {
        let pairs = [("column", "a"), ("column", "b c"), ("where", " n > 1 "), ("from", "50"), ("other", "x")];
        let pairs = pairs.map(|(name, value)| (name.to_string(), value.to_string())).to_vec();
        let params = RowsParams::of(pairs).unwrap();
        assert_eq!((params.columns.len(), params.condition.as_str(), params.from), (2, "n > 1", 50));
        assert_eq!(params.from(100), "?column=a&column=b%20c&where=n%20%3E%201&from=100");
        assert_eq!(RowsParams::default().from(0), "");
        let wrong = RowsParams::of(vec![("from".to_string(), "-1".to_string())]).unwrap_err();
        assert!(wrong.message.contains("`from`"), "{}", wrong.message);
    }
}
