//! Generates questions about the tables, each with the query that answers it.
//!
//! | level | query |
//! |---|---|
//! | 1 | a count with a condition |
//! | 2 | a sum, maximum or minimum with a condition |
//! | 3 | the name on top of an order, with a condition |
//! | 4 | a count or sum over a join, with two conditions |
//! | 5 | how many groups of a join reach a total |
//!
//! The generator computes the answer from the rows in Rust, so that tests can check the gold query against it.
//! Conditions are drawn from rows, so at least one row matches, and there are no floats or ties. Every problem has its
//! own tables. The canonical form is the query and the digest of the tables.

use super::tables::{DESCRIPTION, Sale, StaffMember, StaffTables};
use serde_json::json;
use std::collections::BTreeMap;
use trainyard_core::chance::PhiloxRng;
use trainyard_core::{Chance, Digest};
use trainyard_tables::{Message, Problem};

/// Highest level; the lowest is 1.
pub const MAX_LEVEL: u32 = 5;

/// A generated question with its tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlQuestion {
    /// Level, from 1.
    pub level: u32,
    /// The question in words.
    pub text: String,
    /// The gold query.
    pub query: String,
    /// Correct answer.
    pub answer: String,
    /// Tables of the question.
    pub tables: StaffTables,
}

impl SqlQuestion {
    /// Returns question number `index` of a level under the seed of `chance`, about `rows` staff. `level` is clamped to
    /// 1..=[`MAX_LEVEL`].
    pub fn at(rows: usize, level: u32, index: u64, chance: &Chance) -> Self {
        let level = level.clamp(1, MAX_LEVEL);
        let mut draws = chance.at("sql-question", &[u64::from(level), index]);
        let tables = StaffTables::draw(rows, &mut draws);
        let SqlQuestionDraft { text, query, answer } = match level {
            1 => count(&tables, &mut draws),
            2 => aggregate(&tables, &mut draws),
            3 => top(&tables, &mut draws),
            4 => join(&tables, &mut draws),
            _ => groups(&tables, &mut draws),
        };
        Self { level, text, query, answer, tables }
    }
    /// Returns the question as a problem.
    pub fn problem(&self) -> Problem {
        let data = json!(self.tables.data());
        let canonical = format!("{}|{}", self.query, Digest::of(data.to_string().as_bytes()).short());
        let kind = if self.level == 3 { "text" } else { "numeric" };
        Problem {
            id: format!("sql{}-{}", self.level, Digest::of(canonical.as_bytes()).short()),
            messages: vec![Message::new("user", format!("{DESCRIPTION}\n{}", self.text))],
            answer: self.answer.clone(),
            verifier: json!({"kind": kind, "database": data}).to_string(),
            environment: "sql-questions".to_string(),
            level: self.level,
            source: "sql-questions".to_string(),
            split: String::new(),
            canonical,
            reference: Some(self.query.clone()),
            meta: None,
            parents: Vec::new(),
        }
    }
    /// Returns the query with a mistake that SQLite reports: an unknown table or a misplaced word.
    pub fn mistake(&self, draws: &mut PhiloxRng) -> String {
        if draws.below(2) == 0 {
            self.query.replace("staff", "staffs")
        } else {
            self.query.replacen("SELECT ", "SELECT FROM ", 1)
        }
    }
}

/// A question before its tables are attached.
struct SqlQuestionDraft {
    text: String,
    query: String,
    answer: String,
}

impl SqlQuestionDraft {
    fn new(text: String, query: String, answer: impl ToString) -> Self {
        Self { text, query, answer: answer.to_string() }
    }
}

/// Condition on the staff.
enum StaffCondition {
    Town(String),
    Age(i64),
    Pay(i64),
}

impl StaffCondition {
    /// Returns a condition that holds for this row.
    fn of(worker: &StaffMember, draws: &mut PhiloxRng) -> Self {
        match draws.below(3) {
            0 => Self::Town(worker.town.clone()),
            1 => Self::Age(worker.age),
            _ => Self::Pay(worker.pay),
        }
    }
    fn draw(tables: &StaffTables, draws: &mut PhiloxRng) -> Self {
        Self::of(draws.choose(&tables.staff), draws)
    }
    fn holds(&self, worker: &StaffMember) -> bool {
        match self {
            Self::Town(town) => worker.town == *town,
            Self::Age(age) => worker.age >= *age,
            Self::Pay(pay) => worker.pay >= *pay,
        }
    }
    fn sql(&self) -> String {
        match self {
            Self::Town(town) => format!("town = '{town}'"),
            Self::Age(age) => format!("age >= {age}"),
            Self::Pay(pay) => format!("pay >= {pay}"),
        }
    }
    /// Returns the condition in words, after `staff who` or `How many staff`.
    fn words(&self) -> String {
        match self {
            Self::Town(town) => format!("live in {town}"),
            Self::Age(age) => format!("are {age} or older"),
            Self::Pay(pay) => format!("earn {pay} or more"),
        }
    }
    fn staff<'a>(&self, tables: &'a StaffTables) -> Vec<&'a StaffMember> {
        tables.staff.iter().filter(|w| self.holds(w)).collect()
    }
}

fn count(tables: &StaffTables, draws: &mut PhiloxRng) -> SqlQuestionDraft {
    let condition = StaffCondition::draw(tables, draws);
    let text = format!("How many staff {}?", condition.words());
    SqlQuestionDraft::new(
        text,
        format!("SELECT COUNT(*) FROM staff WHERE {}", condition.sql()),
        condition.staff(tables).len(),
    )
}

fn aggregate(tables: &StaffTables, draws: &mut PhiloxRng) -> SqlQuestionDraft {
    let condition = StaffCondition::draw(tables, draws);
    let column = *draws.choose(&["age", "pay"]);
    let values = condition.staff(tables).into_iter().map(|w| if column == "age" { w.age } else { w.pay });
    let (word, function, answer) = match draws.below(3) {
        0 => ("total", "SUM", Some(values.sum::<i64>())),
        1 => ("highest", "MAX", values.max()),
        _ => ("lowest", "MIN", values.min()),
    };
    let text = format!("What is the {word} {column} of staff who {}?", condition.words());
    let query = format!("SELECT {function}({column}) FROM staff WHERE {}", condition.sql());
    // At least the row that the condition was drawn from matches.
    SqlQuestionDraft::new(text, query, answer.unwrap_or(0))
}

fn top(tables: &StaffTables, draws: &mut PhiloxRng) -> SqlQuestionDraft {
    let condition = StaffCondition::draw(tables, draws);
    let staff = condition.staff(tables);
    let highest = draws.below(2) == 0;
    let found = if highest { staff.iter().max_by_key(|w| w.pay) } else { staff.iter().min_by_key(|w| w.pay) };
    let (word, order) = if highest { ("highest", " DESC") } else { ("lowest", "") };
    let text = format!("Who has the {word} pay of staff who {}?", condition.words());
    let query = format!("SELECT name FROM staff WHERE {} ORDER BY pay{order} LIMIT 1", condition.sql());
    SqlQuestionDraft::new(text, query, found.map_or("", |w| w.name.as_str()))
}

fn join(tables: &StaffTables, draws: &mut PhiloxRng) -> SqlQuestionDraft {
    let sale = draws.choose(&tables.sales);
    let condition = StaffCondition::of(tables.seller(sale), draws);
    let matches = |s: &&Sale| s.item == sale.item && condition.holds(tables.seller(s));
    let sales = tables.sales.iter().filter(matches);
    let (phrase, value, answer) = if draws.below(2) == 0 {
        (format!("How many sales of {} are", sale.item), "COUNT(*)", sales.count() as i64)
    } else {
        (
            format!("What is the total amount of sales of {}", sale.item),
            "SUM(amount)",
            sales.map(|s| s.amount).sum::<i64>(),
        )
    };
    let tail =
        format!("FROM sales JOIN staff ON staff.id = seller WHERE item = '{}' AND {}", sale.item, condition.sql());
    SqlQuestionDraft::new(
        format!("{phrase} by staff who {}?", condition.words()),
        format!("SELECT {value} {tail}"),
        answer,
    )
}

fn groups(tables: &StaffTables, draws: &mut PhiloxRng) -> SqlQuestionDraft {
    let by_town = draws.below(2) == 0;
    let by_amount = draws.below(2) == 0;
    let mut totals: BTreeMap<&str, i64> = BTreeMap::new();
    for sale in &tables.sales {
        let seller = tables.seller(sale);
        // Names are as unique as ids.
        let group = if by_town { seller.town.as_str() } else { seller.name.as_str() };
        *totals.entry(group).or_insert(0) += if by_amount { sale.amount } else { 1 };
    }
    let totals: Vec<i64> = totals.into_values().collect();
    let minimum = *draws.choose(&totals);
    let (subjects, column) = if by_town { ("towns", "town") } else { ("staff", "name") };
    let (condition, value) = if by_amount {
        (format!("sales of {minimum} or more in total"), "SUM(amount)")
    } else {
        (format!("{minimum} sales or more"), "COUNT(*)")
    };
    let text = format!("How many {subjects} have {condition}?");
    let inner = format!(
        "SELECT {column} FROM sales JOIN staff ON staff.id = seller GROUP BY {column} HAVING {value} >= {minimum}"
    );
    SqlQuestionDraft::new(
        text,
        format!("SELECT COUNT(*) FROM ({inner})"),
        totals.iter().filter(|total| **total >= minimum).count(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::sql::{QueryFailure, SqlDatabase, SqlLimits, StatementBudget};
    use std::collections::BTreeSet;

    const LIMITS: SqlLimits = SqlLimits { steps: 1_000_000, rows: 10, output_bytes: 1_000 };

    fn load(tables: &StaffTables) -> SqlDatabase {
        let budget = StatementBudget::within(std::time::Duration::from_secs(600));
        SqlDatabase::load(&tables.data(), LIMITS, budget).unwrap()
    }

    fn questions(rows: usize, level: u32, count: u64) -> impl Iterator<Item = (SqlQuestion, SqlDatabase)> {
        (0..count).map(move |index| {
            let question = SqlQuestion::at(rows, level, index, &Chance::new(3));
            let database = load(&question.tables);
            (question, database)
        })
    }

    #[test]
    fn gold_queries_give_the_answers_on_a_real_database() {
        let mut canonical = BTreeSet::new();
        for rows in [2, 12, 60] {
            for level in 1..=MAX_LEVEL {
                for (question, database) in questions(rows, level, 40) {
                    assert_eq!(
                        database.query(&question.query).as_ref(),
                        Ok(&question.answer),
                        "{} {}",
                        question.text,
                        question.query
                    );
                    assert!(!question.answer.is_empty() && question.answer != "0", "{}", question.query);
                    let problem = question.problem();
                    assert_eq!(problem.level, level);
                    assert!(canonical.insert(problem.canonical) || rows == 2, "tables of {rows} rows rarely repeat");
                }
            }
        }
    }

    #[test]
    fn levels_differ_in_the_form_of_their_queries() {
        let shape = |query: &str| {
            (query.contains("JOIN"), query.contains("GROUP BY"), query.contains("ORDER BY"), query.contains("(*)"))
        };
        for level in 1..=MAX_LEVEL {
            for (question, _) in questions(12, level, 20) {
                let (join, group, order, count) = shape(&question.query);
                assert_eq!((join, group, order), (level >= 4, level == 5, level == 3), "{}", question.query);
                assert_eq!(count && !join, level == 1, "{}", question.query);
            }
        }
    }

    #[test]
    fn mistakes_are_database_errors() {
        let mut draws = Chance::new(1).at("mistakes", &[]);
        let mut errors = BTreeSet::new();
        for level in 1..=MAX_LEVEL {
            for (question, database) in questions(12, level, 10) {
                match database.query(&question.mistake(&mut draws)) {
                    Err(QueryFailure::Query(message)) => errors.insert(message),
                    other => panic!("{}: {other:?}", question.query),
                };
            }
        }
        assert_eq!(errors.into_iter().collect::<Vec<_>>(), ["near \"FROM\": syntax error", "no such table: staffs"]);
    }

    /// Tests three staff and four sales, whose answers were computed by hand.
    #[test]
    fn conditions_and_groups_match_their_words() {
        let worker = |id: i64, town: &str, age: i64, pay: i64| StaffMember {
            id,
            name: format!("W{id}"),
            town: town.to_string(),
            age,
            pay,
        };
        let staff = vec![worker(1, "Tarvo", 30, 200), worker(2, "Tarvo", 40, 300), worker(3, "Belu", 40, 100)];
        let sale = |id: i64, seller: usize, amount: i64| Sale { id, seller, item: "figs", amount };
        let tables = StaffTables { staff, sales: vec![sale(1, 0, 5), sale(2, 1, 7), sale(3, 1, 1), sale(4, 2, 9)] };
        let who = |condition: StaffCondition| condition.staff(&tables).iter().map(|w| w.id).collect::<Vec<_>>();
        assert_eq!(who(StaffCondition::Town("Tarvo".to_string())), [1, 2]);
        assert_eq!(who(StaffCondition::Age(40)), [2, 3]);
        assert_eq!(who(StaffCondition::Pay(200)), [1, 2]);
        let database = load(&tables);
        // Tarvo sold 13 in three sales, Belu 9 in one.
        let of_groups: BTreeSet<(String, String)> = (0..200)
            .map(|i| groups(&tables, &mut Chance::new(8).at("g", &[i])))
            .map(|question| {
                assert_eq!(database.query(&question.query).as_ref(), Ok(&question.answer));
                (question.text, question.answer)
            })
            .collect();
        for (text, answer) in [
            ("How many towns have sales of 9 or more in total?", "2"),
            ("How many towns have sales of 13 or more in total?", "1"),
            ("How many towns have 3 sales or more?", "1"),
            ("How many staff have sales of 8 or more in total?", "2"),
            ("How many staff have 1 sales or more?", "3"),
        ] {
            assert!(of_groups.contains(&(text.to_string(), answer.to_string())), "{text}: {of_groups:?}");
        }
    }
}
