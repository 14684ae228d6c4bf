//! Contains the stage kinds that need only language models.

pub mod base_model;
pub mod init;
pub mod init_options;
pub mod merge;
#[cfg(test)]
mod tests;
pub mod tokenize;
