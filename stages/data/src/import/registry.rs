//! Lists the formats of `data/import`, one line each, sorted.

use super::format::ImportFormat;
use trainyard_api::{Family, PartKind, slot};

const FORMATS: [&dyn ImportFormat; 11] = [
    &super::alpaca::AlpacaImport,
    &super::gsm8k::Gsm8k,
    &super::gsm8k_solutions::Gsm8kSolutions,
    &super::jsonl::JsonLines,
    &super::openai::OpenAiImport,
    &super::preferences::Preferences,
    &super::sharegpt::ShareGptImport,
    &super::tau2::Tau2,
    &super::toolrl::ToolRlImport,
    &super::trl::TrlImport,
    &super::verl::VerlImport,
];

/// Returns the formats of this crate.
pub fn family() -> Family<&'static dyn ImportFormat> {
    Family::new("import", "import format", FORMATS.into_iter().map(line).collect())
}

/// Returns the registry entry of a format.
pub fn line(format: &'static dyn ImportFormat) -> PartKind<&'static dyn ImportFormat> {
    slot::constant(format.name(), format.summary(), format.doc(), format)
}

/// Returns the format called `name`, or `None` if this crate has no such format.
#[cfg(test)]
pub fn format(name: &str) -> Option<&'static dyn ImportFormat> {
    FORMATS.into_iter().find(|f| f.name() == name)
}

/// Returns all names, sorted.
#[cfg(test)]
pub fn names() -> Vec<&'static str> {
    FORMATS.iter().map(|f| f.name()).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn formats_are_sorted_and_every_file_is_listed() {
        let names = super::names();
        assert!(names.is_sorted(), "{names:?}");
        let folder = "src/import";
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let stem = path.file_stem().unwrap().to_str().unwrap().to_string();
            let is_part = path.extension().is_some_and(|e| e == "rs")
                && !["mod", "registry", "format", "chat", "tests"].contains(&stem.as_str());
            assert!(!is_part || names.contains(&stem.as_str()), "`{stem}.rs` is not in the registry");
        }
    }
}
