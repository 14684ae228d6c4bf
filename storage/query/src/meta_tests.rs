//! Tests the columns of the keys of `meta`.

use super::*;
use serde_json::json;
use std::path::{Path, PathBuf};
use trainyard_tables::{Problem, write_problems};

fn table(metas: &[Option<&str>]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    let row = |(i, meta): (usize, &Option<&str>)| Problem {
        id: format!("p{i}"),
        meta: meta.map(str::to_string),
        ..Problem::default()
    };
    write_problems(&path, &metas.iter().enumerate().map(row).collect::<Vec<_>>()).unwrap();
    (folder, path)
}

fn run(path: &Path, sql: &str) -> QueryResult {
    query(&[("self", path)], sql, QueryLimits::default()).unwrap_or_else(|e| panic!("{sql}: {e}"))
}

const ROWS: [Option<&str>; 3] = [
    Some(r#"{"quality":1,"lang":"de","checked":true,"tags":["a","b"],"a key's":"x","mixed":1,"by":{"n":1}}"#),
    Some(r#"{"quality":0.25,"lang":null,"mixed":"one"}"#),
    None,
];

#[test]
fn keys_of_meta_are_columns() {
    let (_folder, path) = table(&ROWS);
    let sql =
        "select meta_quality, meta_lang, meta_checked, meta_tags, meta_mixed, meta_by, \"meta_a key's\" from self";
    let result = run(&path, sql);
    let kinds: Vec<&str> = result.columns.iter().map(|column| column.r#type.as_str()).collect();
    assert_eq!(kinds, ["float", "string", "bool", "list", "string", "string", "string"]);
    let first = json!([1.0, "de", true, ["a", "b"], "1", "{\"n\":1}", "x"]);
    let second = json!([0.25, null, null, null, "one", null, null]);
    assert_eq!(json!(result.rows), json!([first, second, [null, null, null, null, null, null, null]]));
    assert_eq!(run(&path, "select json_extract(meta, '$.by.n') as n from self limit 1").rows, [[json!(1)]]);
    assert!(run(&path, "select * from self").columns.iter().any(|column| column.name == "meta_lang"));
}

#[test]
fn filters_see_keys_of_meta_and_errors_name_them() {
    let (_folder, path) = table(&ROWS);
    assert_eq!(filter_mask(&path, "meta_quality > 0.5").unwrap(), [true, false, false]);
    assert_eq!(filter_mask(&path, "meta_checked").unwrap(), [true, false, false]);
    assert_eq!(filter_mask(&path, "meta_lang is null and id <> 'p2'").unwrap(), [false, true, false]);
    let hint = "the column `quality` of the imported source is `meta_quality`";
    assert_eq!(filter_mask(&path, "quality > 0.5").unwrap_err().help.as_deref(), Some(hint));
    let error = query(&[("self", &path)], "select quality from self", QueryLimits::default()).unwrap_err();
    assert_eq!(error.help.as_deref(), Some(hint));
    let help = filter_mask(&path, "qality > 0.5").unwrap_err().help.unwrap();
    assert!(help.starts_with("the columns are: id, messages, ") && help.contains("meta_quality"), "{help}");
}

#[test]
fn text_that_is_no_object_has_no_keys_and_names_are_unique() {
    let (_folder, path) = table(&[Some(r#"{"a":1}"#), Some("text")]);
    assert!(run(&path, "select * from self").columns.iter().all(|column| column.name != "meta_a"));
    let (_folder, path) = table(&[Some(r#"{"Lang":"x","lang":"y"}"#)]);
    assert_eq!(run(&path, "select meta_lang, meta_lang_2 from self").rows, [[json!("x"), json!("y")]]);
    let many: serde_json::Map<String, serde_json::Value> = (0..300).map(|n| (n.to_string(), json!(n))).collect();
    let (_folder, path) = table(&[Some(&json!(many).to_string())]);
    assert!(run(&path, "select * from self").columns.iter().all(|column| !column.name.starts_with("meta_")));
}
