//! Contains the stage kinds that need only language models.

pub mod init;
pub mod merge;
#[cfg(test)]
mod tests;
pub mod tokenize;
