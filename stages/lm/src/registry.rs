//! Lists the stage kinds of this crate, one line each, sorted.

use trainyard_api::{DynStage, erase};

/// Returns all stages of the crate.
pub fn stages() -> Vec<Box<dyn DynStage>> {
    vec![erase(crate::stages::tokenize::Tokenize), erase(crate::stages::init::Init), erase(crate::stages::merge::Merge)]
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_stage_file_is_listed() {
        let files = std::fs::read_dir("src/stages").unwrap();
        let names = files.map(|f| f.unwrap().file_name());
        let stages = names.filter(|name| name != "mod.rs" && name != "tests.rs").count();
        assert_eq!(stages, super::stages().len());
    }
}
