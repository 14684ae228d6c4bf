//! Attempts of this machine that outlive their engine.
