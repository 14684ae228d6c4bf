use super::lines::LineReader;
use super::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{Cursor, Write as _};
use std::path::Path;
use trainyard_tables::TableBuilder;

/// Returns line and columns of each row of a file with this name and content, or its error.
fn read(name: &str, bytes: &[u8]) -> Vec<(usize, Result<Value, String>)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    all(open(&path, MAX_FILE_BYTES).unwrap())
}

fn all(rows: RowIter) -> Vec<(usize, Result<Value, String>)> {
    let row = |row: RawRow| (row.line, row.content.columns().map(Value::Object));
    rows.map(|r| row(r.unwrap())).collect()
}

/// Returns the values of column `a`, where every row can be read.
fn values(name: &str, bytes: &[u8]) -> Vec<Value> {
    read(name, bytes).into_iter().map(|(_, row)| row.unwrap()["a"].clone()).collect()
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn read_all(path: &Path, max_bytes: u64) -> trainyard_core::Result<Vec<RawRow>> {
    open(path, max_bytes)?.collect()
}

const LINES: &[u8] = b"{\"a\": 1}\n\n{\"a\": 2}";

#[test]
fn the_same_rows_are_read_from_every_form() {
    let forms: [(&str, Vec<u8>); 13] = [
        ("x.jsonl", LINES.to_vec()),
        ("x.jsonl", b"\xef\xbb\xbf{\"a\": 1}\r\n{\"a\": 2}\r\n".to_vec()),
        ("x.ndjson.gz", gzipped(LINES)),
        ("x.jsonl.zst", zstd::encode_all(LINES, 1).unwrap()),
        // Members of an archive are concatenated, as by `cat a.gz b.gz`.
        ("x", [gzipped(b"{\"a\": 1}\n"), gzipped(b"{\"a\": 2}")].concat()),
        ("x.json", b" [{\"a\": 1},\n {\"a\": 2}]\n".to_vec()),
        ("x.jsonl", b"[{\"a\":1},{\"a\":2}]".to_vec()),
        ("x.json", LINES.to_vec()),
        ("x.json", b"{\"a\": [1, 2], \"b\": [null, {}]}".to_vec()),
        ("x.json", b"{\n  \"version\": 1,\n  \"data\": [{\"a\": 1}, {\"a\": 2}]\n}".to_vec()),
        ("x.json.gz", gzipped(b"{\"rows\": [{\"a\": 1}, {\"a\": 2}]}")),
        ("x.json", b"\xef\xbb\xbf\n{\"a\": 1}\n\n{\"a\": 2}\n".to_vec()),
        ("x.json", b"[\n]".to_vec()),
    ];
    for (name, bytes) in &forms[..12] {
        assert_eq!(values(name, bytes), [1, 2], "{name}: {}", String::from_utf8_lossy(bytes));
    }
    assert_eq!(values(forms[12].0, &forms[12].1), [] as [Value; 0]);
    assert_eq!(read("x.jsonl", LINES).iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(read("a.txt", b"one\r\n\ntwo")[1], (3, Ok(serde_json::json!({"text": "two"}))));
}

#[test]
fn separated_cells_are_rows_below_a_header() {
    let row = |line: usize, columns: Value| (line, Ok(columns));
    let json = serde_json::json!({"a": "1", "b": "x, \"y\"\nz", "c": "0.50"});
    let expected = [row(2, json), row(5, serde_json::json!({"a": " 2", "c": "007"}))];
    let csv = "a,b,c\n1,\"x, \"\"y\"\"\nz\",0.50\n\n 2,,007\n";
    let bytes = |text: &str| text.as_bytes().to_vec();
    for (name, content) in [
        ("x.csv", bytes(csv)),
        ("x.CSV", bytes(csv.trim_end())),
        ("x.csv.gz", gzipped(csv.as_bytes())),
        ("x.csv", bytes(&format!("\u{feff}{csv}"))),
        ("x.csv", bytes("a;b;c\n1;\"x, \"\"y\"\"\nz\";0.50\n\n 2;;007")),
        ("x.tsv", bytes("a\t\"b\"\t c \n1\t\"x, \"\"y\"\"\nz\"\t0.50\n\n 2\t\t007\n")),
    ] {
        assert_eq!(read(name, &content), expected, "{name}: {}", String::from_utf8_lossy(&content));
    }
    let windows = read("x.csv", b"a,b\r\n1,\"2\"\r\n\r\n3,4\r\n");
    assert_eq!(
        windows,
        [row(2, serde_json::json!({"a": "1", "b": "2"})), row(4, serde_json::json!({"a": "3", "b": "4"}))]
    );
    assert!(read("x.csv", b"a,b\n").is_empty() && read("x.csv", b"").is_empty());
    // The index that pandas writes has no name.
    assert_eq!(read("x.csv", b",a\n0,x\n"), [row(2, serde_json::json!({"a": "x"}))]);
}

#[test]
fn cells_with_structures_are_parsed() {
    let cell = |text: &str| {
        let content = format!("a,b\n1,\"{}\"\n", text.replace('"', "\"\""));
        read("x.csv", content.as_bytes()).remove(0).1.unwrap()["b"].clone()
    };
    let messages = r#"[{"role": "user", "content": "q"}]"#;
    assert_eq!(cell(messages), serde_json::json!([{"role": "user", "content": "q"}]));
    assert_eq!(cell(r#"{"ground_truth": 4}"#), serde_json::json!({"ground_truth": 4}));
    assert_eq!(cell(r#"[["q", "a"]]"#), serde_json::json!([["q", "a"]]));
    for text in ["[1, 2]", "[]", "{x", "[{'role': 'user'}]", "12", "true", "null", "\"quoted\""] {
        assert_eq!(cell(text), text);
    }
    let tools = r#"[{"name": "f", "description": "d"}]"#;
    let row = format!("tools\n\"{}\"\n", tools.replace('"', "\"\""));
    assert_eq!(read("x.csv", row.as_bytes()).remove(0).1.unwrap()["tools"], tools, "keys keep their order");
}

#[test]
fn invalid_records_do_not_affect_other_records() {
    let rows = read("x.csv", b"a,b\n1\n1,2,3\n\"x\"y,2\n\xff,2\n3,4\n5,\"6\n7,8\n");
    let reasons: Vec<(usize, &str)> =
        rows.iter().filter_map(|(line, row)| Some((*line, row.as_ref().err()?.as_str()))).collect();
    let cells = |count: usize| format!("the number of cells is {count}, but the header has 2");
    assert_eq!(reasons[..2], [(2, cells(1).as_str()), (3, cells(3).as_str())]);
    assert_eq!(reasons[2], (4, "text follows the closing quote of a cell"));
    assert!(reasons[3].0 == 5 && reasons[3].1.starts_with("not UTF-8"), "{reasons:?}");
    assert_eq!(reasons[4], (7, "a quoted cell has no end; the file may be cut off"));
    assert_eq!((rows.len(), &rows[4]), (6, &(6, Ok(serde_json::json!({"a": "3", "b": "4"})))));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("twice.csv");
    std::fs::write(&path, "a,a\n1,2\n").unwrap();
    let error = open(&path, MAX_FILE_BYTES).err().unwrap();
    assert!(error.message.contains("two columns are named `a`"), "{error}");
}

#[test]
fn one_object_is_a_row_unless_it_holds_rows_or_columns() {
    let one = b"{\n \"messages\": [{\"role\": \"user\", \"content\": \"q\"}]\n}";
    assert_eq!(read("x.json", one).len(), 1);
    assert_eq!(read("x.json", b"{\"a\": [1], \"b\": [1, 2]}").len(), 1);
    assert_eq!(read("x.jsonl", b"{\"a\": [1, 2]}").len(), 1, "a line is a row");
}

#[test]
fn parquet_rows_have_no_null_fields() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    TableBuilder::new()
        .i64("a", 0..2000)
        .optional_string("b", (0..2000).map(|i| (i == 1).then_some("x")))
        .write(&path)
        .unwrap();
    let rows = all(open(&path, MAX_FILE_BYTES).unwrap());
    assert_eq!((rows.len(), rows[1999].0), (2000, 2000));
    assert_eq!(rows[1].1, Ok(serde_json::json!({"a": 1, "b": "x"})));
    assert_eq!(rows[1999].1, Ok(serde_json::json!({"a": 1999})));
}

#[test]
fn invalid_rows_do_not_affect_other_rows() {
    let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
    let bad: [(&[u8], &str); 7] = [
        (b"{\"a\": \"\xff\"}", "not UTF-8"),
        (b"{\"a\": ", "the file may be cut off"),
        (b"{\"a\": NaN}", "expected value"),
        (b"7", "not a JSON object"),
        (b"{\"a\": 1} {\"a\": 2}", "trailing"),
        (b"\0\0\0", "expected value"),
        (&deep, "recursion limit"),
    ];
    for (row, why) in bad {
        let rows = read("x.jsonl", &[&b"{\"a\": 1}\n"[..], row, b"\n{\"a\": 2}\n"].concat());
        let reason = rows[1].1.as_ref().unwrap_err();
        assert!(rows.len() == 3 && reason.contains(why), "{reason}");
        assert_eq!((rows[0].0, rows[2].0, &rows[2].1.as_ref().unwrap()["a"]), (1, 3, &Value::from(2)));
    }
    let list = [&b"[{\"a\": \"\\\\\\\"]}\"}, {\"a\": \xff}, "[..], &deep[..], b", {\"a\": 3}]"].concat();
    let rows = read("x.json", &list);
    assert_eq!(rows.iter().map(|(_, row)| row.is_ok()).collect::<Vec<_>>(), [true, false, false, true]);
    assert_eq!(rows[0].1.as_ref().unwrap()["a"], "\\\"]}");
    assert_eq!(values("x.jsonl", b"{\"a\": 1, \"a\": 2}"), [2], "the last of equal keys counts, as in Python");
}

#[test]
fn truncated_files_are_reported() {
    let rows = read("x.json", b"[{\"a\": 1}, {\"a\": ");
    assert!(rows.len() == 2 && rows[1].1.as_ref().unwrap_err().contains("cut off"));
    assert!(read("x.json", b"{\"a\": [1,\n 2")[0].1.as_ref().unwrap_err().contains("cut off"));
    assert!(read("x.jsonl", b"").is_empty() && read("x.json", b" \n").is_empty());
    let folder = tempfile::tempdir().unwrap();
    let damaged = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        read_all(&path, MAX_FILE_BYTES).err().unwrap().message
    };
    let many = LINES.repeat(9_000);
    let packed = zstd::encode_all(&many[..], 1).unwrap();
    assert!(damaged("a.gz", &gzipped(&many)[..200]).contains("a.gz is cut off or corrupt"));
    assert!(damaged("a.zst", &packed[..packed.len() - 9]).contains("a.zst is cut off or corrupt"));
    assert!(damaged("a.parquet", b"PAR").contains("corrupt, truncated or not a Parquet file"));
    assert!(damaged("a.parquet.gz", &gzipped(b"PAR1")).contains("inside of an archive"));
}

#[test]
fn files_are_limited_by_their_contents() {
    let folder = tempfile::tempdir().unwrap();
    let lines = b"{\"a\": 1}\n".repeat(1_000);
    let cells = b"a,b\n".repeat(1_000);
    let list = [&b"["[..], &b"{\"a\": 1},".repeat(1_000)[..], b"{}]"].concat();
    let object = [&b"{\"a\": [1"[..], &b", 1".repeat(1_000)[..], b"]}"].concat();
    for (name, bytes, size) in [
        ("a.jsonl", lines.clone(), lines.len()),
        ("a.jsonl.gz", gzipped(&lines), lines.len()),
        ("a.jsonl.zst", zstd::encode_all(&lines[..], 1).unwrap(), lines.len()),
        ("a.csv.gz", gzipped(&cells), cells.len()),
        ("a.txt.gz", gzipped(&lines), lines.len()),
        ("a.json.gz", gzipped(&list), list.len()),
        ("b.json.gz", gzipped(&object), object.len()),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        assert!(read_all(&path, size as u64).is_ok(), "{name}");
        for max_bytes in [1, size as u64 - 1] {
            let error = read_all(&path, max_bytes).err().unwrap_or_else(|| panic!("{name}: {max_bytes}"));
            assert!(error.message.contains(name) && error.message.contains("of decompressed data"), "{error}");
            assert!(error.help.is_some_and(|help| help.contains("`max_file_bytes`")), "{name}");
        }
    }
    let path = folder.path().join("a.parquet");
    TableBuilder::new().string("a", vec!["x".repeat(1_000); 500]).write(&path).unwrap();
    assert_eq!(read_all(&path, 10_000_000).unwrap().len(), 500);
    let error = read_all(&path, 400_000).err().unwrap();
    assert!(error.message.contains("a.parquet: more than 390.6 KiB of decoded rows"), "{error}");
}

#[test]
fn empty_lines_are_counted_and_limited() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl.gz");
    let empty = [&b"\n".repeat(5 << 20)[..], LINES].concat();
    std::fs::write(&path, gzipped(&empty)).unwrap();
    let rows = read_all(&path, MAX_FILE_BYTES).unwrap();
    assert_eq!(rows.iter().map(|row| row.line).collect::<Vec<_>>(), [(5 << 20) + 1, (5 << 20) + 3]);
    assert!(read_all(&path, 1 << 20).is_err());
}

#[test]
fn a_line_that_is_too_long_is_skipped() {
    let bytes = Cursor::new([&b"ok\n"[..], &b"x".repeat(99)[..], b"\nok\n"].concat());
    let lines = LineReader::new(Path::new("x"), Box::new(bytes), 1, RowContent::Text).at_most(50);
    let rows = all(Box::new(lines));
    assert_eq!(rows[1].1.as_ref().unwrap_err(), "longer than 50 bytes");
    assert_eq!((rows.len(), rows[2].0), (3, 3));
}

#[test]
fn descriptions_of_tools_keep_the_order_of_their_keys() {
    let row = br#"{"z": {"b": 1, "a": 2}, "tools": [{"name": "f", "description": "d"}]}"#;
    let columns = read("x.jsonl", row).remove(0).1.unwrap();
    assert_eq!(columns["tools"], r#"[{"name": "f", "description": "d"}]"#);
}

#[test]
fn a_row_of_fifty_megabytes_is_read() {
    let big = format!("{{\"a\": \"{}\"}}\n{{\"a\": 2}}", "x".repeat(50 << 20));
    for text in [big.clone(), format!("[{}]", big.replace('\n', ","))] {
        let rows = read("x.jsonl", text.as_bytes());
        let length = |row: &Value| row["a"].as_str().map(str::len);
        assert_eq!(rows[0].1.as_ref().map(length), Ok(Some(50 << 20)));
        assert_eq!(rows[1].1.as_ref().map(|row| row["a"].clone()), Ok(Value::from(2)));
    }
}
