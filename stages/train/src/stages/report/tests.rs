use super::*;
use trainyard_api::report::{Curve, ReportCell, Table};

fn sample(title: &str) -> StageReport {
    let mut report = StageReport::new(title);
    report.summary = "On 300 <test> problems & more.".into();
    report.estimate("accuracy", 0.5, Some((0.44, 0.56)), 300).metric("loss", 1.25);
    let mut table = Table::new("Accuracy", ["model", "accuracy"]);
    table.row([ReportCell::text("rl | \"best\""), ReportCell::interval(0.5, Some((0.44, 0.56)))]);
    table.row([ReportCell::text("sft"), ReportCell::Empty]);
    report.table(table);
    let line = |n: u32, slope: f64| (0..n).map(move |i| (f64::from(i), 2.0 - slope * f64::from(i))).collect::<Vec<_>>();
    report
        .curve(Curve::new("Loss", "step", "nats").with("train", line(1_000, 0.001)).with("validation", line(10, 0.1)));
    report.note("Clustered by problem.");
    report
}

#[test]
fn the_page_is_self_contained_and_escaped() {
    let html = html::page("Quick <start>", "A summary.", &[sample("Evaluation"), sample("Evaluation")]).unwrap();
    assert!(html.contains("<title>Quick &lt;start&gt;</title>"));
    assert!(html.contains("On 300 &lt;test&gt; problems &amp; more."));
    assert!(html.contains("0.500") && html.contains("[0.440, 0.560]"));
    for outside in ["<script", "<link", "src=", "url(", "@import", "https://"] {
        assert!(!html.contains(outside), "{outside}");
    }
    // The only address is the name of the SVG namespace.
    assert_eq!(html.matches("http://").count(), html.matches("http://www.w3.org/2000/svg").count());
    assert_eq!(html.matches("<svg").count(), 2);
    let ids: Vec<&str> = html.split(" id=\"").skip(1).filter_map(|t| t.split('"').next()).collect();
    let unique: std::collections::BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(ids.len(), unique.len(), "{ids:?}");
}

#[test]
fn drawings_are_accessible_bounded_and_well_formed() {
    let svg = svg::standalone(&sample("Evaluation").curves[0]);
    assert!(svg.contains("role=\"img\"") && svg.contains("<title id=\"curve-title\">Loss</title>"));
    assert!(svg.contains("train goes from 2 to 1.001 at step 999"));
    let points = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap().split(' ').count();
    assert!(points <= 300, "{points}");
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
    assert_eq!(svg.matches("<g").count(), svg.matches("</g>").count());
    assert_eq!(svg.matches("<circle").count(), 10);
}

#[test]
fn a_single_point_is_drawn() {
    let svg = svg::curve(&Curve::new("One", "step", "").with("a", [(3.0, 0.0)]), "one");
    assert!(!svg.contains("NaN") && svg.contains("<circle"));
}

#[test]
fn markdown_tables_keep_their_columns() {
    let text = markdown::page("T", "", &[sample("Evaluation")]);
    assert!(text.starts_with("# T\n\n## Evaluation\n"));
    assert!(
        text.contains("| model | accuracy |\n| --- | --: |\n| rl \\| \"best\" | 0.500 [0.440, 0.560] |\n| sft |  |\n")
    );
    assert!(text.contains("| accuracy | 0.500 [0.440, 0.560] |"));
}

#[test]
fn equal_metric_names_get_prefixes() {
    let joined = merge::merge("All", "", &[sample("SFT"), sample("RL run"), StageReport::new("Empty")]);
    assert_eq!(joined.metrics.keys().collect::<Vec<_>>(), ["1.accuracy", "1.loss", "2.accuracy", "2.loss"]);
    assert_eq!(joined.tables[1].title, "RL run: Accuracy");
    let twins = merge::merge("All", "", &[sample("SFT"), sample("SFT")]);
    assert!(twins.metrics.contains_key("2.loss"));
    joined.validate().unwrap();
}

#[test]
fn a_joined_report_has_the_names_that_its_reports_declare() {
    use trainyard_core::{Comparison, MetricInfo, Producer};
    let producer = |metrics: Vec<MetricInfo>| Producer { declared: Some(metrics.into()), ..Producer::default() };
    let metric = |name: &str| MetricInfo::new(name, "share", "A share.");
    let reports = [
        producer(vec![metric("loss"), metric("steps"), metric("best").optional()]),
        producer(vec![metric("steps"), metric("kl"), metric("best")]),
    ];
    let declared = merge::declared(&reports);
    let names: Vec<&str> = declared.metrics.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(names, ["loss", "1.steps", "2.steps", "kl"], "which report has `best` is not known");
    assert!(!declared.open && merge::declared(&[Producer::default()]).open, "reports of commands are unknown");
    let mut compared = sample("Compared");
    compared.comparisons.push(Comparison { difference: Some(0.5), ..Comparison::of("accuracy") });
    let joined = merge::merge("All", "", &[compared.clone(), StageReport::new("Empty")]);
    assert_eq!(joined.comparisons[0].metric, "accuracy", "next to a metric of that name");
    let twice = merge::merge("All", "", &[compared.clone(), compared]);
    assert_eq!(twice.comparisons[1].metric, "2.accuracy");
}

#[test]
fn all_files_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let reports = [sample("Evaluation")];
    let config = ReportConfig::default();
    write(&config, &reports, &merge::merge("R", "", &reports), folder.path()).unwrap();
    for name in ["report.html", "report.md", "report.json", "curve-01.svg"] {
        assert!(folder.path().join(name).is_file(), "{name}");
    }
    assert_eq!(StageReport::read(folder.path()).unwrap().curves.len(), 1);
}

#[test]
fn a_sweep_is_a_section_and_sections_are_titled_by_their_axes() {
    use crate::testing::{context_in, input, input_trajectories, outputs, run_stage};
    use serde_json::json;
    use trainyard_tables::{EpisodeStatus, Message, Trajectory};
    let folder = tempfile::tempdir().unwrap();
    let mut context = context_in(folder.path(), 1, None);
    outputs(&mut context, folder.path(), &["report"]);
    let mut instances = Vec::new();
    for (lr, seed, loss) in [(0.01, 1, 1.0), (0.01, 2, 3.0), (0.1, 1, 5.0)] {
        let mut report = StageReport::new("Training");
        report.metric("loss", loss);
        input(&mut context, folder.path(), "reports", ArtifactKind::Report, |path| report.write(path).unwrap());
        let axes = json!([{"axis": "lr", "value": lr}, {"axis": "seed", "value": seed}]);
        instances.push(json!({"name": format!("sft[lr={lr},seed={seed}]"), "axes": axes}));
    }
    let episode = |id: &str, reward: f64| Trajectory {
        id: id.into(),
        reward,
        status: EpisodeStatus::Ok,
        messages: vec![Message::new("user", format!("Question {id}"))],
        ..Trajectory::default()
    };
    let episodes = [episode("a", 0.0), episode("b", 0.0), episode("c", 1.0), episode("d", 1.0)];
    input_trajectories(&mut context, folder.path(), "trajectories", &episodes);
    let options = json!({"title": "All", "instances": instances, "params": {"steps": 60}});
    run_stage::<JoinReports>(options.clone(), &mut context).unwrap();
    assert_eq!(context.metrics.keys().collect::<Vec<_>>(), ["1.loss", "2.loss", "3.loss"], "places of the reports");
    let out = context.output("report").unwrap();
    let joined = StageReport::read(out).unwrap();
    let titles: Vec<&str> = joined.tables.iter().map(|table| table.title.as_str()).collect();
    let shown = |id: &str, reward: u32| format!("Sample episodes: {id}, reward {reward}");
    let expected = [
        "Sweep of sft over lr: sft over lr".to_string(),
        shown("d", 1),
        shown("b", 0),
        shown("c", 1),
        "Params and digests: Params".into(),
        "Params and digests: Reports".into(),
    ];
    assert_eq!(titles, expected);
    let row = &joined.tables[0].rows[0];
    assert_eq!(row[..3], [0.01, 2.0, 2.0].map(ReportCell::Number), "rate, seeds, mean loss");
    assert_eq!(joined.curves[0].series[0].points, [[0.01, 2.0], [0.1, 5.0]]);
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    let places: Vec<usize> = ["<h2 id=\"sweep-of-sft", "Training [lr=0.01,seed=1]</h2>", ">Sample episodes</h2>"]
        .map(|text| page.find(text).unwrap_or_else(|| panic!("`{text}`")))
        .to_vec();
    assert!(places.is_sorted(), "{places:?}");
    // More instances than reports are refused.
    let mut fewer = options;
    fewer["instances"].as_array_mut().unwrap().pop();
    assert!(run_stage::<JoinReports>(fewer, &mut context).unwrap_err().message.contains("2 instances"));
}
