//! Which problems come next. One file per curriculum; the list is in [`crate::registry`].

pub mod deck;
pub mod levels;
pub mod uniform;

pub use deck::Deck;
pub use levels::Levels;
pub use uniform::Uniform;
