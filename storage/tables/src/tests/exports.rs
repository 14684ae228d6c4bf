//! Tests the export of tables for other programs.

use super::*;

#[test]
fn exports_are_csv_and_json_lines() {
    let folder = folder();
    let path = folder.path().join("data.parquet");
    TableBuilder::new()
        .string("text", ["plain", "a,\"b\"\n", ""])
        .f64("x", [Some(0.5), None, Some(f64::NAN)])
        .i64("n", [1, -2, i64::MAX])
        .write(&path)
        .unwrap();
    let (mut csv, mut jsonl) = (Vec::new(), Vec::new());
    assert_eq!(export_csv(&path, None, CsvFormulas::default(), &mut csv).unwrap(), 3);
    assert_eq!(export_jsonl(&path, None, &mut jsonl).unwrap(), 3);
    assert_eq!(
        String::from_utf8(csv).unwrap(),
        "text,x,n\nplain,0.5,1\n\"a,\"\"b\"\"\n\",,-2\n\"\",,9223372036854775807\n"
    );
    let lines: Vec<serde_json::Value> =
        String::from_utf8(jsonl).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines[1], json!({"text": "a,\"b\"\n", "x": null, "n": -2}));
}

#[test]
fn formulas_are_escaped_unless_text_stays_unchanged() {
    let texts = [
        ("=HYPERLINK(\"http://evil\")", "\"'=HYPERLINK(\"\"http://evil\"\")\""),
        ("+1+2", "'+1+2"),
        ("-2+3", "'-2+3"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "\"'\r=1\""),
        ("-", "'-"),
        ("-1.2.3", "'-1.2.3"),
        ("-5", "-5"),
        ("+0.25", "+0.25"),
        ("a=1", "a=1"),
        ("'=1", "'=1"),
        ("", "\"\""),
    ];
    let folder = folder();
    let path = folder.path().join("data.parquet");
    TableBuilder::new().string("=text", texts.map(|(text, _)| text)).i64("n", texts.map(|_| -1)).write(&path).unwrap();
    let export = |formulas| {
        let mut csv = Vec::new();
        export_csv(&path, None, formulas, &mut csv).unwrap();
        String::from_utf8(csv).unwrap()
    };
    let expected: String = texts.iter().map(|(_, cell)| format!("{cell},-1\n")).collect();
    assert_eq!(export(CsvFormulas::Escaped), format!("'=text,n\n{expected}"));
    let unchanged = export(CsvFormulas::Unchanged);
    assert!(unchanged.starts_with("=text,n\n\"=HYPERLINK(\"\"http://evil\"\")\",-1\n+1+2,-1\n"), "{unchanged}");
}

#[test]
fn single_precision_numbers_print_as_they_are_written() {
    let row = Trajectory {
        logprobs: Some(vec![-0.1, f32::NAN]),
        token_ids: vec![1, 2],
        rewards: [("answer".to_string(), 1.0)].into(),
        ..Trajectory::default()
    };
    let folder = folder();
    let path = folder.path().join("t");
    write_trajectories(&path, &[row]).unwrap();
    let shown = &rows_as_json(&path, 0, 1).unwrap()[0];
    assert_eq!(
        (&shown["logprobs"], &shown["rewards"], &shown["status"]),
        (&json!([-0.1, null]), &json!([{"name": "answer", "value": 1.0}]), &json!("ok"))
    );
}

/// Earlier versions wrote a map, which Arrow names otherwise than a list.
#[test]
fn rewards_that_an_older_version_wrote_as_a_map_are_read() {
    use arrow_array::builder::{Float64Builder, MapBuilder, StringBuilder};
    let folder = folder();
    let (new, old) = (folder.path().join("new"), folder.path().join("old"));
    let row = |rewards: &[(&str, f64)]| Trajectory {
        rewards: rewards.iter().map(|(name, value)| (name.to_string(), *value)).collect(),
        ..Trajectory::default()
    };
    let rows = [row(&[("answer", 1.0), ("format", 0.5)]), row(&[]), row(&[("answer", -0.25)])];
    write_trajectories(&new, &rows).unwrap();
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Float64Builder::new());
    for row in &rows {
        for (name, value) in &row.rewards {
            maps.keys().append_value(name);
            maps.values().append_value(*value);
        }
        maps.append(true).unwrap();
    }
    let (_, batches) = read_batches(&new).unwrap();
    let place = batches[0].schema_ref().index_of("rewards").unwrap();
    let mut columns = batches[0].columns().to_vec();
    columns[place] = Arc::new(maps.finish());
    let names = batches[0].schema();
    let fields = names.fields().iter().zip(&columns);
    let fields: Vec<_> = fields.map(|(f, c)| arrow_schema::Field::new(f.name(), c.data_type().clone(), true)).collect();
    let batch = RecordBatch::try_new(Arc::new(arrow_schema::Schema::new(fields)), columns).unwrap();
    write_batches(&old, batch.schema(), &[batch]).unwrap();
    assert!(format!("{}", read_schema(&old).unwrap().field(place).data_type()).starts_with("Map"));
    assert_eq!(read_trajectories(&old).unwrap(), rows);
}

#[test]
fn no_column_of_an_artifact_is_a_map() {
    let types =
        Trajectory::schema(ExtraColumns::ALL).fields().iter().map(|f| f.data_type().to_string()).collect::<String>();
    assert!(!types.contains("Map("), "{types}");
}
