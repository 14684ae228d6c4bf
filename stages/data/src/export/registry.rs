//! Lists the formats of `artifacts export --as`, one line each, sorted.

use super::format::ExportFormat;
use trainyard_api::{Family, PartKind, slot};

const FORMATS: [&dyn ExportFormat; 6] = [
    &super::atif::AtifExport,
    &super::inspect::InspectExport,
    &super::openai::OpenAiExport,
    &super::sharegpt::ShareGptExport,
    &super::trl::TrlExport,
    &super::verl::VerlExport,
];

/// Returns the formats of this crate.
pub fn family() -> Family<&'static dyn ExportFormat> {
    Family::new("export", "export format", FORMATS.into_iter().map(line).collect())
}

/// Returns the registry entry of a format.
pub fn line(format: &'static dyn ExportFormat) -> PartKind<&'static dyn ExportFormat> {
    slot::constant(format.name(), format.summary(), format.doc(), format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_sorted_and_those_of_trainers_have_a_way_back() {
        // Formats of logs, which viewers and programs for trajectories read.
        let logs = ["atif", "inspect"];
        let names: Vec<&str> = FORMATS.iter().map(|format| format.name()).collect();
        assert!(names.is_sorted(), "{names:?}");
        for format in FORMATS {
            let imported = crate::import::registry::names().contains(&format.name());
            assert_eq!(imported, !logs.contains(&format.name()), "import of {}", format.name());
            assert!(!format.forms().is_empty() && !format.summary().is_empty() && !format.doc().is_empty());
        }
    }
}
