//! Implements `trainyard stages [NAME]`, which shows the pages of stage kinds (`rl`), families (`losses`), parts
//! (`losses/clip`, `grpo`) and executors from the catalogue.

use crate::args::{OutputFormat, StagesArgs};
use crate::exit::CliExit;
use crate::output::human::{print_json, print_text, table};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;
use trainyard_api::PartPage;
use trainyard_app::{Catalogue, CatalogueEntry};
use trainyard_core::metric::{DeclaredMetrics, MetricDirection, MetricInfo};
use trainyard_core::{Cardinality, KindInfo, PortInfo, Result, option_list};
use trainyard_runtime::executors::ExecutorKind;

/// Prints a list of all kinds and families, or the page of the given name. Errors: invalid (an unknown or ambiguous
/// name).
pub fn run(args: &StagesArgs, catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    let Some(name) = &args.kind else {
        list(catalogue, args.format)?;
        return Ok(CliExit::Done);
    };
    match (catalogue.find(name)?, args.format) {
        (CatalogueEntry::Stage(info), OutputFormat::Json) => print_json(info)?,
        (CatalogueEntry::Stage(info), OutputFormat::Text) => print_text(&page(info, catalogue)),
        (CatalogueEntry::Part(page), OutputFormat::Json) => print_json(&*page)?,
        (CatalogueEntry::Part(page), OutputFormat::Text) => print_text(&part_page(&page)?),
        (CatalogueEntry::Family(pages), OutputFormat::Json) => print_json(&pages)?,
        (CatalogueEntry::Family(pages), OutputFormat::Text) => print_text(&family(name, &pages)),
        (CatalogueEntry::Executor(kind), OutputFormat::Json) => print_json(&executor_json(kind))?,
        (CatalogueEntry::Executors(kinds), OutputFormat::Json) => {
            print_json(&kinds.iter().map(executor_json).collect::<Vec<_>>())?;
        }
        (CatalogueEntry::Executors(kinds), OutputFormat::Text) => {
            let row = |kind: &ExecutorKind| vec![format!("executors/{}", kind.name), kind.summary.to_string()];
            let rows: Vec<Vec<String>> = kinds.iter().map(row).collect();
            let list = table(&["executor", ""], &rows);
            print_text(&format!("{list}\n\n`trainyard stages executors/NAME` prints the options of one."));
        }
        (CatalogueEntry::Executor(kind), OutputFormat::Text) => print_text(&executor_page(kind)),
    }
    Ok(CliExit::Done)
}

fn list(catalogue: &Catalogue, format: OutputFormat) -> Result<()> {
    let kinds: Vec<&KindInfo> = catalogue.stages().collect();
    if format == OutputFormat::Json {
        return print_json(&kinds);
    }
    let rows: Vec<Vec<String>> = kinds.iter().map(|k| vec![k.name.to_string(), k.summary.to_string()]).collect();
    print_text(&table(&["kind", "summary"], &rows));
    let mut rows: Vec<Vec<String>> =
        catalogue.families().iter().map(|f| vec![f.folder().to_string(), f.kinds().join(", ")]).collect();
    let executors: Vec<&str> = catalogue.executors().iter().map(|kind| kind.name).collect();
    rows.push(vec!["executors".into(), executors.join(", ")]);
    print_text(&format!("\n{}", table(&["family", "parts"], &rows)));
    print_text("\n`trainyard stages NAME` prints the page of a kind, a family or a part.");
    Ok(())
}

fn family(name: &str, pages: &[PartPage]) -> String {
    let rows: Vec<Vec<String>> = pages.iter().map(|p| vec![p.name.clone(), p.summary.to_string()]).collect();
    format!("{}\n\n`trainyard stages {name}/KIND` prints the page of one.", table(&["part", ""], &rows))
}

/// Formats the page of a stage kind as text in the style of Markdown.
fn page(info: &KindInfo, catalogue: &Catalogue) -> String {
    let mut text = format!("{} (version {})\n{}\n\n{}\n", info.name, info.version, info.summary, info.doc.trim());
    ports(&mut text, "inputs", &info.inputs);
    ports(&mut text, "outputs", &info.outputs);
    text.push_str("\noptions\n");
    options(&mut text, &info.options);
    declared(&mut text, &info.metrics);
    let _ = write!(text, "\nexample\n{}", indent(info.example, 2));
    let parts = info.families.iter().flat_map(|folder| catalogue.pages(folder).unwrap_or_default());
    let rows: Vec<Vec<String>> = parts.map(|p| vec![format!("  {}", p.name), p.summary.to_string()]).collect();
    if !rows.is_empty() {
        let _ = write!(
            text,
            "\n\n{}\n`trainyard stages PART` prints its formula, options and source.",
            table(&["parts", ""], &rows)
        );
    }
    text
}

/// Formats the page of a part: documentation, requirements, options and metrics, and the expansion of a composition.
fn part_page(part: &PartPage) -> Result<String> {
    let mut text = format!("{}\n{}\n\n{}\n", part.name, part.summary, part.doc.trim());
    if !part.needs.is_empty() {
        let _ = writeln!(text, "\nneeds\n  {}", part.needs.join(", "));
    }
    let mut part_options = part.options.clone();
    part_options["properties"].as_object_mut().map(|properties| properties.remove("kind"));
    if part_options["properties"].as_object().is_some_and(|properties| !properties.is_empty()) {
        text.push_str("\noptions\n");
        options(&mut text, &part_options);
    }
    metrics(&mut text, "metrics", &part.metrics);
    if let Some(expanded) = &part.expands_to {
        let _ = writeln!(text, "\nexpands to\n{}", indent(&crate::output::human::json(expanded)?, 2));
    }
    Ok(text)
}

fn executor_json(kind: &ExecutorKind) -> Value {
    json!({"name": kind.name, "summary": kind.summary, "options": kind.schema})
}

/// Formats the page of an executor.
fn executor_page(kind: &ExecutorKind) -> String {
    let mut text =
        format!("executors/{}\n{}\n\nA pool of the site file names it as `executor`.", kind.name, kind.summary);
    if kind.schema["properties"].as_object().is_some_and(|properties| !properties.is_empty()) {
        text.push_str(" Its options are under `with`.\n\noptions\n");
        options(&mut text, &kind.schema);
    }
    text
}

/// Formats the metrics of a stage kind. The metrics of its parts are on the pages of the parts.
fn declared(text: &mut String, declared: &DeclaredMetrics) {
    let (parts, own): (Vec<MetricInfo>, Vec<MetricInfo>) =
        declared.metrics.iter().cloned().partition(|m| m.name.contains('.'));
    metrics(text, "metrics", &own);
    if !parts.is_empty() {
        text.push_str("\n  <kind>.<name>: metrics of a part, on the page of the part (`trainyard stages PART`)\n");
    }
    metrics(text, "comparisons", &declared.comparisons);
    if declared.open {
        text.push_str("\n  and those of the stages that are wired to its inputs\n");
    }
}

fn metrics(text: &mut String, title: &str, list: &[MetricInfo]) {
    if list.is_empty() {
        return;
    }
    let row = |m: &MetricInfo| {
        let better = match m.direction {
            MetricDirection::Higher => "higher",
            MetricDirection::Lower => "lower",
            MetricDirection::Neutral => "",
        };
        let over = m.reduce.map(|reduce| format!(" ({})", reduce.describe())).unwrap_or_default();
        vec![format!("  {}", m.name), m.unit.to_string(), better.into(), format!("{}{over}", m.doc)]
    };
    let rows: Vec<Vec<String>> = list.iter().map(row).collect();
    let _ = write!(text, "\n{}\n", table(&[title, "unit", "better", ""], &rows));
}

fn ports(text: &mut String, title: &str, ports: &[PortInfo]) {
    if ports.is_empty() {
        return;
    }
    let rows: Vec<Vec<String>> = ports
        .iter()
        .map(|p| vec![format!("  {}", p.name), p.kind.to_string(), cardinality(p.cardinality).into(), p.doc.into()])
        .collect();
    let _ = write!(text, "\n{}\n", table(&[title, "kind", "how many", ""], &rows));
}

fn cardinality(cardinality: Cardinality) -> &'static str {
    match cardinality {
        Cardinality::One => "one",
        Cardinality::Optional => "optional",
        Cardinality::Many => "many",
    }
}

/// Formats the options of a schema, each with name, type, default and documentation, nested ones indented.
fn options(text: &mut String, schema: &Value) {
    for row in option_list::options(schema) {
        let default = row.default.map(|default| format!(" = {default}")).unwrap_or_default();
        let _ = writeln!(text, "{}{}: {}{default}", "  ".repeat(row.depth + 1), row.name, row.kind);
        if !row.doc.is_empty() {
            let _ = writeln!(text, "{}", indent(&row.doc, 2 * row.depth + 6));
        }
    }
}

fn indent(text: &str, spaces: usize) -> String {
    text.lines().map(|l| format!("{}{l}", " ".repeat(spaces))).collect::<Vec<_>>().join("\n")
}
