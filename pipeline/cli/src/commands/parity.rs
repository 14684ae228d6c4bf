//! Implements `trainyard parity FILE`, which compares the RL algorithms of this build with reference values, in
//! float64, with gradients.

use crate::args::{OutputFormat, ParityArgs};
use crate::exit::CliExit;
use crate::output::human::{print_json, print_text, table};
use serde_json::json;
use std::collections::BTreeMap;
use trainyard_core::Result;
use trainyard_core::error::{Context as _, io_error};
use trainyard_learn::parity::{ParityCase, TOLERANCE, check};

/// Recomputes all cases and prints the agreement. Returns exit code 1 if a case does not agree or this build lacks its
/// part.
pub fn run(args: &ParityArgs) -> Result<CliExit> {
    let text = std::fs::read_to_string(&args.file).map_err(|e| io_error(&args.file, &e))?;
    let cases = check(&text).at(args.file.display().to_string())?;
    let agree = cases.iter().filter(|c| c.agrees()).count();
    match args.format {
        OutputFormat::Json => print_json(&json!({"tolerance": TOLERANCE, "cases": cases, "agree": agree}))?,
        OutputFormat::Text => {
            print_text(&table(&["kind", "name", "cases", "agree", "largest error"], &rows(&cases)));
            print_text(&format!("{agree} of {} cases agree within {TOLERANCE:e}", cases.len()));
        }
    }
    Ok(if agree == cases.len() { CliExit::Done } else { CliExit::Failed })
}

/// Returns the table rows, one for each kind and name.
fn rows(cases: &[ParityCase]) -> Vec<Vec<String>> {
    let mut named: BTreeMap<(&str, &str), Vec<&ParityCase>> = BTreeMap::new();
    for case in cases {
        named.entry((&case.kind, &case.name)).or_default().push(case);
    }
    let row = |((kind, name), cases): ((&str, &str), Vec<&ParityCase>)| {
        let largest = cases.iter().map(|c| c.largest_error).try_fold(0.0, |max: f64, e| e.map(|e| max.max(e)));
        let agree = cases.iter().filter(|c| c.agrees()).count();
        let error = largest.map_or_else(|| "no such part".to_string(), |e| format!("{e:.1e}"));
        vec![kind.to_string(), name.to_string(), cases.len().to_string(), agree.to_string(), error]
    };
    named.into_iter().map(row).collect()
}
