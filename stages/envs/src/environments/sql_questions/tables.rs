//! Draws the tables of a generated problem: the staff and their sales.
//!
//! Names and towns are invented. All pays differ, so that the highest and the lowest are unique. Every worker has
//! sales, and there are no nulls and no empty texts.

use crate::environments::names::names;
use crate::tools::sql::DatabaseData;
use serde_json::json;
use std::collections::BTreeMap;
use trainyard_core::chance::PhiloxRng;

/// Description of the tables for the agent.
pub const DESCRIPTION: &str = "staff(id, name, town, age, pay)\nsales(id, seller, item, amount), seller is a staff.id";
const SCHEMA: &str = "CREATE TABLE staff(id INTEGER PRIMARY KEY, name TEXT, town TEXT, age INTEGER, pay INTEGER);\n\
                      CREATE TABLE sales(id INTEGER PRIMARY KEY, seller INTEGER, item TEXT, amount INTEGER);";
const ITEMS: [&str; 5] = ["cups", "figs", "keys", "nuts", "pens"];
/// Number of staff per town.
const STAFF_PER_TOWN: usize = 4;

/// A row of `staff`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaffMember {
    /// Id, from 1.
    pub id: i64,
    /// Unique value.
    pub name: String,
    /// Home town.
    pub town: String,
    /// Age in years.
    pub age: i64,
    /// Unique value.
    pub pay: i64,
}

/// A row of `sales`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sale {
    /// Id, from 1.
    pub id: i64,
    /// Index of the seller in `staff`; the id in the database is one more.
    pub seller: usize,
    /// Sold item.
    pub item: &'static str,
    /// Number of items.
    pub amount: i64,
}

/// All rows of a problem's database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaffTables {
    /// Rows of `staff`.
    pub staff: Vec<StaffMember>,
    /// Rows of `sales`.
    pub sales: Vec<Sale>,
}

impl StaffTables {
    /// Draws `rows` staff, at least two, and twice as many sales.
    pub fn draw(rows: usize, draws: &mut PhiloxRng) -> Self {
        let rows = rows.max(2);
        let towns = (rows / STAFF_PER_TOWN).max(2);
        // Drawn together, so that no person is called like a town.
        let mut all = names(rows + towns, &ITEMS, draws);
        let towns = all.split_off(rows);
        // Unique values: a shuffled range three times as long.
        let mut pays: Vec<i64> = (0..3 * rows as i64).map(|i| 100 + 5 * i).collect();
        draws.shuffle(&mut pays);
        let mut staff = Vec::with_capacity(rows);
        for (i, (name, pay)) in all.into_iter().zip(pays).enumerate() {
            let town = draws.choose(&towns).clone();
            staff.push(StaffMember { id: i as i64 + 1, name, town, age: draws.between(20, 65), pay });
        }
        let mut sales = Vec::with_capacity(2 * rows);
        for i in 0..2 * rows {
            let seller = if i < rows { i } else { draws.below(rows as u64) as usize };
            sales.push(Sale {
                id: i as i64 + 1,
                seller,
                item: draws.choose::<&str>(&ITEMS),
                amount: draws.between(1, 99),
            });
        }
        Self { staff, sales }
    }
    /// Returns the contents of the database that the agent queries.
    pub fn data(&self) -> DatabaseData {
        let staff = self
            .staff
            .iter()
            .map(|w| vec![json!(w.id), json!(w.name), json!(w.town), json!(w.age), json!(w.pay)])
            .collect();
        let sales = self
            .sales
            .iter()
            .map(|s| vec![json!(s.id), json!(self.seller(s).id), json!(s.item), json!(s.amount)])
            .collect();
        let rows = BTreeMap::from([("staff".to_string(), staff), ("sales".to_string(), sales)]);
        DatabaseData { schema: SCHEMA.to_string(), rows }
    }
    /// Returns the seller of a sale.
    pub fn seller(&self, sale: &Sale) -> &StaffMember {
        &self.staff[sale.seller]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use trainyard_core::Chance;

    #[test]
    fn row_counts_match_and_pays_are_unique() {
        for rows in [2, 12, 200] {
            let tables = StaffTables::draw(rows, &mut Chance::new(rows as u64).at("tables", &[]));
            assert_eq!((tables.staff.len(), tables.sales.len()), (rows, 2 * rows));
            assert_eq!(tables.staff.iter().map(|w| w.pay).collect::<BTreeSet<_>>().len(), rows);
            let sellers: BTreeSet<i64> = tables.sales.iter().map(|s| tables.seller(s).id).collect();
            assert_eq!(sellers.len(), rows, "every staff member has a sale");
            let words: BTreeSet<&str> = tables.staff.iter().flat_map(|w| [w.name.as_str(), w.town.as_str()]).collect();
            let towns: BTreeSet<&str> = tables.staff.iter().map(|w| w.town.as_str()).collect();
            assert_eq!(words.len(), rows + towns.len());
            assert_eq!(tables.data().rows["sales"].len(), 2 * rows);
        }
    }
}
