//! Stage kinds that need only language models.

pub mod init;
#[cfg(test)]
mod tests;
pub mod tokenize;
