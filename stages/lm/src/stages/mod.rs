//! Stage kinds that need nothing but language models.

pub mod init;
#[cfg(test)]
mod tests;
