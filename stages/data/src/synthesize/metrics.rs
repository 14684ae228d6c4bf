//! Declares the metrics of `data/synthesize`: the counts that all methods have, and those that the methods of this
//! crate add. Reports those of dropped solutions.

use std::collections::BTreeMap;
use trainyard_api::StageReport;
use trainyard_core::MetricInfo;

/// Returns the metrics of every method.
pub fn common() -> Vec<MetricInfo> {
    vec![
        MetricInfo::new("problems", "rows", "Problems of all splits."),
        MetricInfo::new("demonstrations", "rows", "Demonstrations."),
        MetricInfo::new("tool_calls", "calls", "Tool calls of all demonstrations."),
        MetricInfo::new("tool_errors", "calls", "Tool calls of demonstrations that failed."),
    ]
}

/// Returns the metric of a split. The metric is optional, because a split without problems is not reported.
fn of_split(split: &str) -> MetricInfo {
    MetricInfo::new(format!("problems_{split}"), "rows", "Problems of this split.").optional()
}

/// Returns the metrics of the method `procedural`, with these splits.
pub fn procedural<'a>(splits: impl IntoIterator<Item = &'a str>) -> Vec<MetricInfo> {
    let mut list: Vec<MetricInfo> = splits.into_iter().map(of_split).collect();
    list.push(MetricInfo::new(
        "demonstrations_with_mistake",
        "rows",
        "Demonstrations with a mistake from which the agent recovers.",
    ));
    list.extend(coverage());
    list
}

/// Returns the metrics of a user-defined generator, with these splits.
pub fn custom<'a>(splits: impl IntoIterator<Item = &'a str>) -> Vec<MetricInfo> {
    let mut list: Vec<MetricInfo> = splits.into_iter().map(of_split).collect();
    list.extend(coverage());
    list.push(MetricInfo::new("dropped", "rows", "Solutions that became no demonstration."));
    list.extend(dropped(["time_limit", "ended_early", "wrong_answer"]));
    list
}

/// Returns the metrics of the test problems' coverage by the training texts.
fn coverage() -> [MetricInfo; 2] {
    [
        MetricInfo::new(
            "ngram_coverage",
            "share",
            "Share of the n-grams of test questions that occur in training texts.",
        ),
        MetricInfo::new("ngram_covered_problems", "share", "Share of test questions whose n-grams are all covered."),
    ]
}

/// Returns the metrics of dropped solutions, by reason.
fn dropped<const N: usize>(reasons: [&'static str; N]) -> [MetricInfo; N] {
    reasons.map(|reason| {
        let doc = match reason {
            "time_limit" => "Solutions that were dropped because a tool hit its time limit.",
            "ended_early" => "Solutions that were dropped because the episode ended before its script.",
            "disagreement" => "Solutions that were dropped because a calculation does not hold.",
            _ => "Solutions that were dropped for a wrong answer.",
        };
        MetricInfo::new(format!("dropped_{reason}"), "rows", doc).optional()
    })
}

/// Reports the number of dropped solutions, in all and by reason.
pub fn report_dropped(report: &mut StageReport, dropped: &BTreeMap<&'static str, usize>) {
    report.metric("dropped", dropped.values().sum::<usize>() as f64);
    for (reason, count) in dropped {
        report.metric(format!("dropped_{reason}"), *count as f64);
    }
}

/// Returns the metrics of the method `annotated`.
pub fn annotated() -> Vec<MetricInfo> {
    let mut list = vec![
        MetricInfo::new("annotations_executed", "calculations", "Annotated calculations that were executed."),
        MetricInfo::new(
            "annotations_agreeing",
            "calculations",
            "Executed calculations whose result is the annotated one.",
        ),
        MetricInfo::new("dropped", "rows", "Solutions that became no demonstration."),
    ];
    list.extend(dropped(["time_limit", "ended_early", "disagreement", "wrong_answer"]));
    list
}

/// Possible results of a teacher's episode.
pub const TEACHER_OUTCOMES: [&str; 5] = ["right", "wrong", "unanswered", "late", "failed"];

/// Returns the metrics of the method `teacher`.
pub fn teacher() -> Vec<MetricInfo> {
    let docs = [
        "Episodes of the teacher that the verifier accepts.",
        "Episodes of the teacher whose answer is wrong.",
        "Episodes of the teacher that ended without an answer.",
        "Episodes of the teacher in which a call hit its time limit.",
        "Episodes of the teacher that ended because the server refused a request.",
    ];
    let ends =
        TEACHER_OUTCOMES.iter().zip(docs).map(|(end, doc)| MetricInfo::new(format!("teacher_{end}"), "episodes", doc));
    let mut list = vec![
        MetricInfo::new("teacher_episodes", "episodes", "Episodes that the teacher played."),
        MetricInfo::new("problems_solved", "problems", "Given problems that the teacher solved.").higher(),
    ];
    list.extend(ends);
    list.extend(trainyard_chat::metrics());
    list
}
