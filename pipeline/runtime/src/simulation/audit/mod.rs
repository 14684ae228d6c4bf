//! The auditors. Some look at every change of the store as it happens ([`Ledger`]), the others at what is there when
//! everything is over ([`at_the_end`]). They read the store behind all wires, so no fault misleads them.

mod end;
mod journal;
mod ledger;
#[cfg(test)]
mod tests;

pub use end::{Outcome, at_the_end, outcome_of};
pub use ledger::Ledger;
