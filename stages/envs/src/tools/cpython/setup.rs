//! Defines the setup of a worker that runs CPython.

use super::installation::Installation;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Setup sent with the limits in the first frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpythonSetup {
    /// The user's interpreter.
    pub installation: Installation,
    /// A folder of this worker alone, for the folders of its sessions.
    pub scratch: PathBuf,
}
