//! Base models by their names on the hub, from a server of the same shape on loopback.

use crate::kit::{Ran, Sandbox, ran};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

const FIRST: &str = "1111111111111111111111111111111111111111";
const SECOND: &str = "2222222222222222222222222222222222222222";

const SMALL: &str = "version: 1\nname: small\nstages:\n  base: {uses: model/init, with: {hidden_size: 32, heads: 2, \
                     layers: 1, intermediate_size: 64}}\n";
const NAMED: &str = r#"version: 1
name: named
stages:
  data:
    uses: data/synthesize
    with: {method: procedural, splits: {demonstrations: {levels: {1: 8}}, rl: {levels: {1: 4}}}}
  base: {uses: model/init, with: {from: tiny/model}}
  sft:
    uses: sft
    with:
      model: ${{ stages.base.model }}
      trajectories: ["${{ stages.data.demonstrations }}"]
      epochs: 1
  evaluate:
    uses: evaluate
    with:
      models: ["${{ stages.sft.model }}"]
      names: [tuned]
      problems: ${{ stages.data.problems }}
      problems_limit: 2
      samples: 0
      sampling: {max_turn_tokens: 4}
"#;

/// Serves the files of a folder as the model `tiny/model`, whose branch `main` is at the commit in `commit`.
fn serve(folder: PathBuf, commit: Arc<Mutex<String>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let Some(first) = lines.next() else { continue };
            let path = first.split([' ', '?']).nth(1).unwrap_or("").to_string();
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            let (status, body) = if let Some(revision) = path.strip_prefix("/api/models/tiny/model/revision/") {
                let commit = if revision == "main" { commit.lock().unwrap().clone() } else { revision.to_string() };
                let files: Vec<_> = folder.read_dir().unwrap().map(Result::unwrap).collect();
                let siblings: Vec<_> = files
                    .iter()
                    .map(|file| {
                        serde_json::json!({
                            "rfilename": file.file_name().into_string().unwrap(),
                            "size": file.metadata().unwrap().len(),
                        })
                    })
                    .collect();
                (200, serde_json::json!({"sha": commit, "siblings": siblings}).to_string().into_bytes())
            } else {
                let name = path.strip_prefix("/tiny/model/resolve/").and_then(|rest| rest.split_once('/'));
                let content = name.and_then(|(_, name)| std::fs::read(folder.join(name)).ok());
                content.map_or((if path.contains("/gated/") { 401 } else { 404 }, Vec::new()), |bytes| (200, bytes))
            };
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            let _ = (&stream).write_all(&[head.into_bytes(), body].concat());
        }
    });
    endpoint
}

fn run(s: &Sandbox, endpoint: &str, offline: &str, command: &str, file: &str) -> Ran {
    let mut process = s.command(&[command, file]);
    process.env("HF_ENDPOINT", endpoint).env("HF_HUB_CACHE", s.path("hub")).env("HF_HUB_OFFLINE", offline);
    ran(process.env_remove("HF_TOKEN").output().unwrap())
}

#[test]
fn a_base_model_is_fetched_by_its_name_and_its_commit_is_part_of_the_digest() {
    let s = Sandbox::new();
    s.write("small.yaml", SMALL);
    s.run(&["run", "small.yaml"]).code(0);
    s.run(&["artifacts", "export", "latest/base/model", "model"]).code(0);
    let commit = Arc::new(Mutex::new(FIRST.to_string()));
    let endpoint = serve(s.path("model"), commit.clone());
    s.write("named.yaml", NAMED);
    run(&s, &endpoint, "0", "run", "named.yaml").code(0).says("evaluate: done").says("accuracy_tuned");
    assert!(s.path(&format!("hub/models--tiny--model/snapshots/{FIRST}/config.json")).is_file());
    // Offline, the cached commit counts.
    let again = run(&s, "http://127.0.0.1:1", "1", "run", "named.yaml").code(0);
    again.says("base: hit").says("sft: hit").says("evaluate: hit");
    *commit.lock().unwrap() = SECOND.to_string();
    let changed = run(&s, &endpoint, "0", "run", "named.yaml").code(0);
    assert!(!changed.stderr.contains("base: hit"), "{}", changed.stderr);
    assert!(s.path(&format!("hub/models--tiny--model/snapshots/{SECOND}/config.json")).is_file());
    // A path that exists wins: without the hub, the folder is read.
    std::fs::create_dir(s.path("tiny")).unwrap();
    std::fs::rename(s.path("model"), s.path("tiny/model")).unwrap();
    run(&s, "http://127.0.0.1:1", "0", "run", "named.yaml").code(0);
}

#[test]
fn a_name_that_is_no_model_names_the_path_and_the_hub() {
    let s = Sandbox::new();
    let endpoint = serve(s.path("none"), Arc::default());
    for (name, texts) in
        [("foo/bar", ["no file or folder", "no such model"]), ("gated/model", ["no access", "HF_TOKEN"])]
    {
        s.write("x.yaml", NAMED.replace("tiny/model", name));
        run(&s, &endpoint, "0", "check", "x.yaml").code(2).says(texts[0]).says(texts[1]).says("x.yaml:7:");
    }
}
