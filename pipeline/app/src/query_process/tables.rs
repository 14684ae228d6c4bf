//! Names the tables that a statement reads, and bounds its memory.

use crate::machine;
use trainyard_core::Result;
use trainyard_query::table_names;

/// Name in statements of the artifact that a query is about.
pub const SELF: &str = "self";
/// Memory limit of a statement if the memory of this machine is unknown.
const MEMORY: u64 = 4 << 30;

/// Returns the tables that a statement reads, by their names in it: `artifact`, which is `self`, and those that it
/// names; the former only if the statement reads it, or reads no artifact. Errors: invalid (no SELECT).
pub fn tables_of(artifact: &str, statement: &str) -> Result<Vec<(String, String)>> {
    let named = table_names(statement)?;
    let others: Vec<&String> = named.iter().filter(|name| name.contains('/')).collect();
    let reads_self = named.iter().any(|name| name.eq_ignore_ascii_case(SELF)) || others.is_empty();
    let of_self = reads_self.then(|| (SELF.to_string(), artifact.to_string()));
    Ok(of_self.into_iter().chain(others.into_iter().map(|name| (name.clone(), name.clone()))).collect())
}

/// Returns half of this machine's memory, or `MEMORY` if it is unknown.
pub fn usual_memory() -> u64 {
    match machine::memory() {
        0 => MEMORY,
        all => all / 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_read_self_unless_they_name_only_others() {
        let tables = |sql| tables_of("r/s/rows", sql).unwrap();
        let own = (SELF.to_string(), "r/s/rows".to_string());
        let other = ("latest/a/b".to_string(), "latest/a/b".to_string());
        assert_eq!(tables("select * from SELF"), std::slice::from_ref(&own));
        assert_eq!(tables("select 1"), std::slice::from_ref(&own));
        assert_eq!(tables("select * from latest/a/b"), std::slice::from_ref(&other));
        assert_eq!(tables("select * from self join latest/a/b p on true"), [own, other]);
        assert!(tables_of("r/s/rows", "delete from self").is_err());
    }
}
