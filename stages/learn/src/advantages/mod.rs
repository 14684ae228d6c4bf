//! From rewards to a number per token. One file per form; the list is in [`crate::registry`].

pub mod discounted_return;
pub mod gae;
pub mod group;
pub mod opo;

pub use discounted_return::DiscountedReturn;
pub use gae::Gae;
pub use group::Group;
pub use opo::Opo;

use trainyard_core::{Error, Result};

/// Refuses what does not lie in 0..=1.
fn share(name: &str, value: f64) -> Result<()> {
    if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(Error::invalid(format!("`{name}` is {value}, but must lie in 0..1"))) }
}
