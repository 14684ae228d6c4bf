//! Removes unreachable objects from the store, or lists them.

use crate::args::{GcArgs, OutputFormat};
use crate::exit::CliExit;
use crate::output::human::{print_json, print_text, table};
use crate::session::AppSession;
use serde_json::{Value, json};
use std::time::Duration;
use trainyard_core::units::{format_duration, format_size};
use trainyard_core::{Error, Result, RunId};
use trainyard_store::garbage::{Amount, StageSize};
use trainyard_store::{GarbagePlan, GarbagePolicy, GarbageSummary};

/// Minimum age of removed objects. It exceeds the time from an attempt's first stored output to its result, and several
/// times the age at which stored bytes are written again.
const MIN_AGE: Duration = Duration::from_secs(3_600);
/// Maximum number of runs that a note names.
const NAMED: usize = 5;

/// Plans the collection, removes the objects unless it is a dry run, and prints the result.
pub fn run(session: &AppSession, args: &GcArgs, format: OutputFormat) -> Result<CliExit> {
    let policy = policy(session, args)?;
    let (plan, done) = session.block_on(async {
        let plan = session.store.garbage_plan(&policy).await?;
        let done = if args.dry_run { None } else { Some(session.store.collect_garbage(&plan).await?) };
        Ok((plan, done))
    })?;
    match format {
        OutputFormat::Json => print_json(&as_json(&plan, done.as_ref()))?,
        OutputFormat::Text => print_text(&text(&plan, done.as_ref())),
    }
    Ok(CliExit::Done)
}

fn policy(session: &AppSession, args: &GcArgs) -> Result<GarbagePolicy> {
    let min = MIN_AGE.max(session.site.store_outage.saturating_mul(2));
    if args.older_than < min {
        let (given, min) = (format_duration(args.older_than), format_duration(min));
        return Err(Error::invalid(format!("`--older-than {given}` is shorter than {min}")).help(format!(
            "objects younger than {min} (an hour, or twice the site's `store_outage`) may belong to a stage that is \
             about to publish: raise `--older-than`"
        )));
    }
    Ok(GarbagePolicy {
        older_than: args.older_than,
        keep_last: args.keep_last.map(|count| count as usize),
        runs_older_than: args.runs_older_than,
    })
}

fn as_json(plan: &GarbagePlan, done: Option<&GarbageSummary>) -> Value {
    let objects: Vec<Value> = plan.objects.iter().map(|(path, size)| json!({"path": path, "bytes": size})).collect();
    let indexes: Vec<Value> = plan.indexes.iter().map(|(path, size)| json!({"path": path, "bytes": size})).collect();
    let manifests: Vec<Value> = plan
        .manifests
        .iter()
        .map(|(stage, generation)| json!({"stage_digest": stage, "generation": generation}))
        .collect();
    let staged: Vec<Value> =
        plan.staged.iter().map(|(path, size)| json!({"path": path.display().to_string(), "bytes": size})).collect();
    json!({
        "older_than_seconds": plan.policy.older_than.as_secs(),
        "keep_last": plan.policy.keep_last,
        "runs_older_than_seconds": plan.policy.runs_older_than.map(|age| age.as_secs()),
        "objects": objects,
        "indexes": indexes,
        "bytes": plan.bytes(),
        "manifests": manifests,
        "resume_points": plan.resume_points,
        "runs": plan.runs,
        "annotations": plan.annotations,
        "staged": staged,
        "probes": plan.probes,
        "kept": {"objects": plan.kept, "bytes": plan.kept_bytes},
        "young": plan.young,
        "stages": plan.stages,
        "unfinished_runs": plan.unfinished,
        "damaged_runs": plan.damaged,
        "removed": done.map(|done| json!({
            "files": done.files, "bytes": done.bytes, "manifests": done.manifests,
            "resume_points": done.resume_points, "runs": done.runs, "annotations": done.annotations,
        })),
    })
}

fn text(plan: &GarbagePlan, done: Option<&GarbageSummary>) -> String {
    let mut text = String::new();
    if !plan.stages.is_empty() {
        text = sizes(&plan.stages);
        text.push_str("\n\n");
    }
    text.push_str(&format!("{} objects ({}) are kept", plan.kept, format_size(plan.kept_bytes)));
    if plan.young > 0 {
        let age = format_duration(plan.policy.older_than);
        text.push_str(&format!("; {} unreachable ones are younger than {age}", plan.young));
    }
    text.push_str(&holders_text(
        &plan.unfinished,
        "without an end keep the objects that they reached; `trainyard runs cancel` ends one",
    ));
    text.push_str(&holders_text(&plan.damaged, "with a damaged journal keep the objects that its readable part names"));
    text.push('\n');
    text.push_str(&match done {
        _ if plan.is_empty() => "nothing to remove".to_string(),
        Some(done) => format!("removed {}", amounts(done)),
        None => {
            let files = plan.objects.len() + plan.indexes.len() + plan.staged.len() + plan.probes.len();
            let planned = GarbageSummary {
                files: files as u64,
                bytes: plan.bytes(),
                manifests: plan.manifests.len() as u64,
                resume_points: plan.resume_points.len() as u64,
                runs: plan.runs.len() as u64,
                annotations: plan.annotations.len() as u64,
            };
            format!("would remove {}", amounts(&planned))
        }
    });
    if !plan.manifests.is_empty() {
        let age = format_duration(plan.policy.older_than);
        text.push_str(&format!("\nrun `trainyard artifacts gc` again after {age} to remove their files"));
    }
    text
}

/// Formats a table with a row for each stage, and a row for objects without a manifest.
fn sizes(stages: &[StageSize]) -> String {
    let cell = |amount: &Amount| if amount.objects == 0 { "-".to_string() } else { format_size(amount.bytes) };
    let row = |stage: &StageSize| {
        let names = match (&stage.workflow, &stage.stage) {
            (Some(workflow), Some(stage)) => [workflow.clone(), stage.clone()],
            _ => ["-".to_string(), "(attempts, resume points)".to_string()],
        };
        let objects = stage.kept.objects + stage.given_up.objects + stage.garbage.objects;
        let amounts = [&stage.kept, &stage.given_up, &stage.garbage].map(cell);
        names.into_iter().chain([objects.to_string()]).chain(amounts).collect()
    };
    let header = ["workflow", "stage", "objects", "kept", "removed later", "removed now"];
    table(&header, &stages.iter().map(row).collect::<Vec<Vec<String>>>())
}

fn holders_text(runs: &[RunId], what: &str) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let mut names: Vec<&str> = runs.iter().rev().take(NAMED).map(|run| run.0.as_str()).collect();
    if runs.len() > NAMED {
        names.push("…");
    }
    let count = counted(runs.len() as u64, "run");
    format!("\n{count} {what}: {}", names.join(", "))
}

fn amounts(done: &GarbageSummary) -> String {
    let mut parts = vec![format!("{} ({})", counted(done.files, "file"), format_size(done.bytes))];
    let more = [
        (done.manifests, "result"),
        (done.resume_points, "resume point"),
        (done.runs, "run"),
        (done.annotations, "annotation"),
    ];
    parts.extend(more.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| counted(count, what)));
    parts.join(", ")
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_amounts_are_formatted_in_one_line() {
        let done = GarbageSummary { files: 2, bytes: 2_048, manifests: 3, resume_points: 0, runs: 1, annotations: 0 };
        assert_eq!(amounts(&done), "2 files (2.0 KiB), 3 results, 1 run");
    }

    #[test]
    fn holders_are_listed_newest_first() {
        let runs: Vec<RunId> = (0..7).map(|i| RunId(format!("r{i}"))).collect();
        assert_eq!(holders_text(&runs, "wait"), "\n7 runs wait: r6, r5, r4, r3, r2, …");
        assert_eq!(holders_text(&runs[..1], "waits"), "\n1 run waits: r0");
        assert_eq!(holders_text(&[], "wait"), "");
    }
}
