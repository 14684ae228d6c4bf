//! Parts that the pages about artifacts share: links between them, cells of tables, mistakes in queries.

mod cells;
mod mistake;
mod tabs;

pub use cells::cell;
pub use mistake::mistake;
pub use tabs::{Tab, tabs};
