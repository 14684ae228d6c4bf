//! `artifacts diff` and `runs diff`: a workflow that ran with two values of a parameter.

use crate::kit::Sandbox;
use serde_json::{Value, json};

const WORKFLOW: &str = r#"
version: 1
name: diffs
params: {factor: {type: string, default: "2"}}
stages:
  chats:
    uses: data/import
    with: {source: chats.jsonl}
  sizes:
    uses: data/frame
    with:
      chats: ${{ stages.chats.trajectories }}
      sql: >-
        ${{ "select answer as id, turns * " + params.factor + " as size from chats where answer <> 'a"
        + params.factor + "'" }}
  sum:
    with: {rows: "${{ stages.sizes.table }}"}
    run: cksum < ${{ inputs.rows }}/data.parquet > ${{ outputs.o }}/sum; printf 1 > ${{ outputs.o }}/same
    outputs: {o: {kind: files}}
  loss:
    run: |
      echo '{"name": "loss", "value": ${{ params.factor }}}' >> "$TRAINYARD_METRICS"
      printf 1 > ${{ outputs.o }}/x
    outputs: {o: {kind: files}}
"#;

fn chat(n: usize) -> String {
    let row = json!({"messages": [
        {"role": "user", "content": format!("question {n}")}, {"role": "assistant", "content": format!("a{n}")},
    ]});
    format!("{row}\n")
}

/// Runs the workflow twice, the second time with `factor: 3`. Returns the ids of the runs.
fn two_runs() -> (Sandbox, String, String) {
    let s = Sandbox::new();
    s.write("chats.jsonl", (0..4).map(chat).collect::<String>());
    s.write("diffs.yaml", WORKFLOW);
    s.run(&["run", "diffs.yaml"]).code(0);
    s.run(&["run", "diffs.yaml", "-p", "factor=3"]).code(0);
    let runs = s.run(&["runs", "list", "--format", "json"]).code(0).json();
    let run = |at: usize| runs[at]["run"].as_str().unwrap().to_string();
    let (a, b) = (run(1), run(0));
    (s, a, b)
}

/// Returns the item of a list whose `stage` has this name.
fn of_stage<'a>(list: &'a Value, stage: &str) -> &'a Value {
    let found = list.as_array().unwrap().iter().find(|item| item["stage"] == stage);
    found.unwrap_or_else(|| panic!("no stage {stage} in {list}"))
}

/// Removes the only file of an artifact from the store, or replaces it by other bytes of its size.
fn damage(s: &Sandbox, artifact: &str, is_removed: bool) {
    let shown = s.run(&["artifacts", "show", artifact, "--format", "json"]).code(0).json();
    let file = &shown["output"]["files"][0];
    let digest = file["digest"].as_str().unwrap();
    let name = s.files(".trainyard/objects").into_iter().find(|name| name.ends_with(digest)).unwrap();
    let path = s.store().join("objects").join(name);
    std::fs::remove_file(&path).unwrap();
    if !is_removed {
        std::fs::write(&path, vec![b'x'; file["size"].as_u64().unwrap() as usize]).unwrap();
    }
}

#[test]
fn runs_differ_by_parameters_stages_and_results() {
    let (s, a, b) = two_runs();
    let found = s.run(&["runs", "diff", &a, "latest", "--format", "json"]).code(0).json();
    assert_eq!((&found["a"]["run"], &found["b"]["run"]), (&json!(a), &json!(b)));
    assert_eq!(found["params"], json!([{"path": "factor", "a": "2", "b": "3"}]));
    assert_eq!((&found["equal"], &found["only_a"]), (&json!(["chats"]), &json!([])));
    assert_eq!(found["changed"].as_array().unwrap().len(), 3, "{found}");
    let sizes = &of_stage(&found["changed"], "sizes")["reasons"];
    assert_eq!((&sizes[0]["reason"], &sizes[0]["changes"][0]["path"]), (&json!("config"), &json!("sql")), "{sizes}");
    assert_eq!(sizes.as_array().unwrap().len(), 1, "{sizes}");
    let because = json!([{"reason": "input", "input": "rows", "stages": ["sizes"]}]);
    assert_eq!(of_stage(&found["changed"], "sum")["reasons"], because);
    let loss = of_stage(&found["results"], "loss");
    let metric = loss["metrics"].as_array().unwrap().iter().find(|metric| metric["name"] == "loss").unwrap();
    assert_eq!((&metric["a"], &metric["b"], &metric["difference"]), (&json!(2.0), &json!(3.0), &json!(1.0)));
    let chats = of_stage(&found["results"], "chats");
    assert_eq!((&chats["status_a"], &chats["status_b"]), (&json!("done"), &json!("hit")));

    let text = s.run(&["runs", "diff", &a, &b]).code(0);
    let text = text.prints("of diffs: succeeded after ").prints("equal stages: chats");
    // As in docs/inspecting.md.
    let changed = "sizes differs\n  config sql\n    \
                   A  select answer as id, turns * 2 as size from chats where answer <> 'a2'\n    \
                   B  select answer as id, turns * 3 as size from chats where answer <> 'a3'\n\
                   sum differs\n  input `rows`, because `sizes` differs\n";
    let text = text.prints("parameter  A  B\nfactor     2  3\n\n").prints(changed);
    text.prints("metrics of loss  A  B  B - A\nloss             2  3     +1");
    s.run(&["runs", "diff", &a, &a]).code(0).prints("are the same run").prints(&a);
    s.run(&["runs", "diff", "none", "latest"]).code(2).says("no run is called `none`");
}

#[test]
fn a_rerun_differs_by_its_generation() {
    let s = Sandbox::new();
    s.write("small.yaml", "version: 1\nname: small\nstages:\n  one: {uses: noop}\n  two: {uses: noop, needs: [one]}\n");
    s.run(&["run", "small.yaml"]).code(0);
    s.run(&["run", "small.yaml", "--new", "--rerun", "one"]).code(0);
    let runs = s.run(&["runs", "list", "--format", "json"]).code(0).json();
    let older = runs[1]["run"].as_str().unwrap();
    let found = s.run(&["runs", "diff", older, "latest", "--format", "json"]).code(0).json();
    let again = json!([{"reason": "generation", "a": 0, "b": 1}]);
    assert_eq!(of_stage(&found["changed"], "one")["reasons"], again, "{found}");
}

#[test]
fn tables_differ_by_config_and_rows() {
    let (s, a, b) = two_runs();
    let names = [format!("{a}/sizes/table"), format!("{b}/sizes/table")];
    let diff = |options: &[&str]| s.run(&[&["artifacts", "diff", &names[0], &names[1]], options].concat()).code(0);
    let found = diff(&["--format", "json"]).json();
    assert_eq!((&found["is_equal"], &found["config"][0]["path"]), (&json!(false), &json!("sql")), "{found}");
    let rows = &found["rows"];
    assert_eq!(rows["key"], "id", "{rows}");
    let counts = ["only_a", "only_b", "equal", "changed"].map(|name| rows[name].as_u64().unwrap());
    assert_eq!(counts, [1, 1, 0, 2]);
    assert_eq!(rows["columns"], json!([{"column": "size", "rows": 2}]));
    let first = &rows["first_changed"][0];
    assert_eq!((&first["key"], &first["cells"]), (&json!("a0"), &json!([{"column": "size", "a": "2", "b": "3"}])));
    assert_eq!((&rows["first_only_a"][0]["key"], &rows["first_only_b"][0]["key"]), (&json!("a3"), &json!("a2")));

    let text = diff(&[]);
    let text = text.prints("rows by `id`: 1 only in A, 1 only in B, 0 equal, 2 changed").prints("size (2)");
    text.prints("a0 (row 0 of A, row 0 of B)\n  size\n    A  2\n    B  3").prints("only in A: a3 (row 2)");
    diff(&["--rows", "1"]).prints("… 1 more changed row;");
}

#[test]
fn files_differ_by_path_and_content() {
    let (s, a, b) = two_runs();
    let names = [format!("{a}/sum/o"), format!("{b}/sum/o")];
    let text = s.run(&["artifacts", "diff", &names[0], &names[1]]).code(0);
    let text = text.prints("files: 0 only in A, 0 only in B, 1 equal, 1 changed").prints("changed    sum");
    text.prints(&format!("{a}/sizes/table")).prints(&format!("{b}/sizes/table"));
    let loss = s.run(&["artifacts", "diff", &format!("{a}/loss/o"), &format!("{b}/loss/o")]).code(0);
    loss.prints("the content is equal").prints("loss     2  3     +1");
}

#[test]
fn the_same_artifact_other_kinds_and_wrong_names_are_said() {
    let (s, a, b) = two_runs();
    let diff = |a: &str, b: &str| s.run(&["artifacts", "diff", a, b]);
    // The second run took the artifact from the cache.
    let (chats_a, chats_b) = (format!("{a}/chats/trajectories"), format!("{b}/chats/trajectories"));
    diff(&chats_a, &chats_b).code(0).prints(&format!("{chats_a} and {chats_b} are the same artifact"));
    let table = format!("{a}/sizes/table");
    let other = diff(&table, &format!("{b}/loss/o")).code(0);
    other.prints("the kinds differ, table and files: only the stages are compared").prints("loss");
    diff(&table, &format!("{b}/sizes/none")).code(2).says("no output `none`");
    diff("nothing", &table).code(2).says("names no artifact");
}

#[test]
fn missing_and_damaged_objects_are_named() {
    let (s, a, b) = two_runs();
    let names = [format!("{a}/sizes/table"), format!("{b}/sizes/table")];
    damage(&s, &names[1], false);
    s.run(&["artifacts", "diff", &names[0], &names[1]]).code(1).says(&format!("{}: ", names[1])).says("corrupt");
    damage(&s, &names[0], true);
    let missing = s.run(&["artifacts", "diff", &names[0], &names[1]]).code(3);
    missing.says(&format!("{}: file `data.parquet`: ", names[0])).says("is missing");
}
