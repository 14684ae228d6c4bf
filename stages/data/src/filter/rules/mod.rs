//! The rules of `data/filter`, a file for each.

pub mod answer;
pub mod decontaminate;
pub mod diversity;
pub mod exact_duplicates;
pub mod execution;
pub mod expression;
pub mod format;
pub mod http;
pub mod judge;
pub mod language;
pub mod near_duplicates;
pub mod pass_rate;
pub mod pattern;
pub mod personal_data;
pub mod process;
pub mod rank;
pub mod registry;
pub mod repetition;
pub mod symbols;
pub mod tokens;
pub mod void_turn;
