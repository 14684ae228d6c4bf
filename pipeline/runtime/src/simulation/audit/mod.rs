//! Audits a simulation. Some auditors check every change of the store as it happens ([`Ledger`]), others check the
//! objects at the end ([`at_the_end`]). Auditors bypass the faulty connections, so no fault misleads them.

mod end;
mod journal;
mod ledger;
#[cfg(test)]
mod tests;

pub use end::{Outcome, at_the_end, outcome_of};
pub use ledger::Ledger;
