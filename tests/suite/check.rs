//! `check` reports all mistakes of a file at once, with file:line:column, a snippet and the nearest valid name.

use crate::kit::Sandbox;

/// Samples: a file with mistakes and the expected texts of its diagnostics.
pub const SAMPLES: &[(&str, &str, &[&str])] = &[
    (
        "unknown key",
        "version: 1\nname: x\nstages:\n  a:\n    uses: noop\n    timeouts: 3s\n",
        &["timeouts", "timeout", "x.yaml:6:5"],
    ),
    (
        "duplicate key",
        "version: 1\nname: x\nname: y\nstages:\n  a: {uses: noop}\n",
        &["duplicate", "name", "x.yaml:3:1"],
    ),
    (
        "wrong type",
        "version: 1\nname: x\nstages:\n  a:\n    uses: sft\n    with: {model: 3, seed: many}\n",
        &["seed", "x.yaml:6:"],
    ),
    (
        "cycle",
        "version: 1\nname: x\nstages:\n  a: {uses: noop, needs: [c]}\n  b: {uses: noop, needs: [a]}\n  \
         c: {uses: noop, needs: [b]}\n",
        &["cycle", "a", "b", "c"],
    ),
    ("missing input", "version: 1\nname: x\nstages:\n  a:\n    uses: sft\n", &["model", "x.yaml:4:"]),
    (
        "wrong port kind",
        "version: 1\nname: x\nstages:\n  p:\n    uses: data/synthesize\n  a:\n    uses: sft\n    \
         with: {model: \"${{ stages.p.problems }}\", trajectories: \"${{ stages.p.demonstrations }}\"}\n",
        &["problems", "model", "x.yaml:8:"],
    ),
    (
        "parameter out of range",
        "version: 1\nname: x\nparams:\n  n: {type: int, default: 9, max: 5}\nstages:\n  a: {uses: noop}\n",
        &["9", "5", "x.yaml:4:"],
    ),
    ("no such stage kind", "version: 1\nname: x\nstages:\n  a: {uses: nop}\n", &["nop", "noop", "x.yaml:4:"]),
    (
        "no pool has it",
        "version: 1\nname: x\nstages:\n  a: {run: \"true\", resources: {gpus: 8, tags: [h100]}}\n",
        &["h100", "x.yaml:4:"],
    ),
    (
        "missing file",
        "version: 1\nname: x\nstages:\n  a:\n    uses: data/import\n    with: {source: nowhere.jsonl, format: gsm8k}\n",
        &["nowhere.jsonl", "x.yaml:6:"],
    ),
    (
        "invalid location of a model on the hub",
        "version: 1\nname: x\nstages:\n  a:\n    uses: model/init\n    \
         with: {from: \"hf://o@main\"}\n",
        &["`hf://o@main` is not a model of the hub", "hf://OWNER/NAME", "x.yaml:6:18"],
    ),
    (
        "invalid location on the hub",
        "version: 1\nname: x\nstages:\n  a: {uses: data/import, with: {source: \"hf://o/n@main\"}}\n",
        &["`hf://o/n@main` is not a data set of the hub", "hf://datasets/OWNER/NAME", "x.yaml:4:"],
    ),
    (
        "missing file that an environment names, in a stage of data",
        "version: 1\nname: x\nstages:\n  a:\n    uses: data/synthesize\n    \
         with: {method: annotated, environment: {kind: customer-service, policy: nowhere.md}}\n",
        &["nowhere.md", "x.yaml:6:"],
    ),
    (
        "unknown stage in a reference",
        "version: 1\nname: x\nstages:\n  aa: {uses: noop}\n  b: {uses: noop, needs: [ab]}\n",
        &["ab", "aa", "x.yaml:5:"],
    ),
    (
        "wrong options deep inside a stage, all at their places",
        "version: 1\nname: x\nstages:\n  r:\n    uses: rl\n    with:\n      rollout: {group_size: many}\n      \
         loss: {aggregate: mean}\n      environment: {kind: word-problems, limits: {time_millis: soon}}\n",
        &["x.yaml:7:29", "x.yaml:8:25", "x.yaml:9:64"],
    ),
    (
        "wrong ranges of parts, all at their places",
        "version: 1\nname: x\nstages:\n  r:\n    uses: rl\n    with:\n      \
         filters: [{kind: accuracy_band, low: 0.9, high: 0.1}]\n      loss: {terms: [{kind: clip, dual_clip: 0.5}]}\n",
        &["x.yaml:7:44", "x.yaml:8:46"],
    ),
    ("tags are refused", "version: 1\nname: !!str x\nstages:\n  a: {uses: noop}\n", &["tag", "x.yaml:2:"]),
    (
        "no reward, and a turn longer than its episode",
        "version: 1\nname: x\nstages:\n  r:\n    uses: rl\n    with:\n      rewards: []\n      \
         rollout: {max_turn_tokens: 4096, max_episode_tokens: 100}\n",
        &["nothing is learned", "x.yaml:7:", "4096 is more than `max_episode_tokens`, which is 100", "x.yaml:8:"],
    ),
    (
        "a learning rate that cannot train",
        "version: 1\nname: x\nstages:\n  s:\n    uses: sft\n    with:\n      optimizer: {learning_rate: 5}\n",
        &["learning_rate", "at most 1", "x.yaml:7:"],
    ),
    (
        "validation without validation problems",
        "version: 1\nname: x\nstages:\n  d: {uses: data/synthesize, with: {method: procedural}}\n  \
         m: {uses: model/init}\n  r:\n    uses: rl\n    with:\n      model: ${{ stages.m.model }}\n      \
         problems: ${{ stages.d.problems }}\n      validate_every: 5\n",
        &["`validation` is not wired", "x.yaml:11:"],
    ),
    (
        "an environment that does not fit the problems, behind a selection, before its producer in the file",
        "version: 1\nname: x\nstages:\n  r:\n    uses: rl\n    with:\n      model: ${{ stages.m.model }}\n      \
         problems: ${{ stages.t.problems }}\n      environment: {kind: math-problems}\n  e:\n    uses: evaluate\n    \
         with: {models: [\"${{ stages.m.model }}\"], problems: \"${{ stages.c.problems }}\"}\n  \
         t: {uses: data/select, with: {problems: [\"${{ stages.d.problems }}\"], splits: [test]}}\n  \
         d: {uses: data/synthesize, with: {method: procedural}}\n  \
         c: {uses: data/synthesize, with: {method: procedural, environment: countdown}}\n  m: {uses: model/init}\n",
        &[
            "made for `word-problems`, but this stage plays `math-problems`",
            "set `environment: {kind: word-problems}`",
            "x.yaml:9:",
            "made for `countdown`, but this stage plays `word-problems`",
        ],
    ),
    (
        "columns that no table of the kind has",
        "version: 1\nname: x\nstages:\n  d: {uses: data/synthesize, with: {method: procedural}}\n  s:\n    \
         uses: data/select\n    with:\n      problems: [\"${{ stages.d.problems }}\"]\n      \
         where: levle < 3 and lang = 'de'\n  \
         f:\n    uses: data/filter\n    with:\n      trajectories: [\"${{ stages.d.demonstrations }}\"]\n      \
         rules: [{kind: expression, keep: \"quality > 0.5\"}]\n",
        &[
            "x.yaml:9:14",
            "problems have no column `levle`",
            "did you mean `level`?",
            "problems have no column `lang`",
            "x.yaml:14:40",
            "trajectories have no column `quality`",
            "is `meta_quality`; the columns are: id, problem_id",
        ],
    ),
    (
        "an option of another rule, and one of another program",
        "version: 1\nname: x\nstages:\n  f:\n    uses: data/filter\n    \
         with: {rules: [{kind: expression, where: level < 3}]}\n  \
         r:\n    uses: rl\n    with: {temperature: 0.7}\n  e:\n    uses: evaluate\n    with: {top_p: 0.9}\n",
        &["x.yaml:6:39", "valid here: keep", "write `rollout: {temperature: …}`", "write `sampling: {top_p: …}`"],
    ),
    (
        "a chat template that is no file, a name of a file in its place, and one for a new model",
        "version: 1\nname: x\nstages:\n  a: {uses: model/init, with: {template: {file: nowhere.jinja}}}\n  \
         b: {uses: model/init, with: {template: own.jinja}}\n  \
         c: {uses: model/init, with: {template: {file: x.yaml}}}\n",
        &[
            "there is no file or folder",
            "nowhere.jinja",
            "x.yaml:4:",
            "x.yaml:5:42",
            "valid here: chatml, compact, or a map with `file`",
            "x.yaml:6:",
            "those of a built-in template",
        ],
    ),
    (
        "mistakes behind a param, an unknown kind and an unknown option",
        "version: 1\nname: x\nstages:\n  d: {uses: data/synthesize, with: {method: procedural}}\n  m:\n    \
         uses: model/init\n    with: {hiden_size: 96, heads: 5}\n  r:\n    uses: grpo\n    with: \
         {model: \"${{ stages.m.model }}\", num_generations: 8}\n    resources: {tags: [h100]}\n  e:\n    \
         uses: evaluate\n    with: {models: [\"${{ stages.nope.model }}\"], problems: \"${{ params.x }}\", \
         samples: eight}\n    resources: {tags: [h100]}\n    checks: [{metric: acc, min: 0.5}]\n",
        &[
            "x.yaml:7:12",
            "96 is not an even multiple of 5 heads",
            "x.yaml:9:11",
            "write `uses: rl` with `algorithm: grpo`",
            "stage `r` gets no `problems`",
            "write `rollout: {group_size: …}`",
            "x.yaml:11:5",
            "there is no stage `nope`",
            "there is no param `x`",
            "x.yaml:14:",
            "found the text `eight`",
            "x.yaml:15:5",
            "reports no metric `acc`",
        ],
    ),
];

#[test]
fn each_mistake_is_located_with_its_fix() {
    for (mistake, text, expected) in SAMPLES {
        let s = Sandbox::new();
        s.write("x.yaml", text);
        let ran = s.run(&["check", "x.yaml"]);
        assert_eq!(ran.code, 2, "{mistake}: {}{}", ran.stdout, ran.stderr);
        for word in *expected {
            assert!(ran.stderr.contains(word), "{mistake}: lacks `{word}`\n{}", ran.stderr);
        }
    }
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let s = Sandbox::new();
    s.write(
        "x.yaml",
        "version: 1\nname: x\nstages:\n  a: {uses: nop}\n  b: {uses: noop, needs: [zz]}\n  \
         c: {uses: noop, timeout: 5}\n",
    );
    let ran = s.run(&["check", "x.yaml", "--format", "json"]).code(2);
    let found = ran.json();
    let lines: Vec<u64> =
        found["diagnostics"].as_array().unwrap().iter().map(|d| d["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [4, 5, 6], "{found}");
}

#[test]
fn unknown_executor_is_found_before_anything_runs() {
    let s = Sandbox::new();
    s.write("trainyard.yaml", "version: 1\npools:\n  - {name: big, executor: mainframe}\n");
    s.write("x.yaml", "version: 1\nname: x\nstages:\n  a: {uses: noop}\n");
    for command in ["check", "plan", "run"] {
        s.run(&[command, "x.yaml"]).code(2).says("3:27").says("unknown-executor").says("valid here: local");
    }
}

#[test]
fn files_that_are_not_workflows_are_rejected_with_advice() {
    let s = Sandbox::new();
    s.write("latin.yaml", b"version: 1\nname: caf\xe9\n");
    s.run(&["check", "latin.yaml"]).code(2).says("save it as UTF-8");
    let big = s.write("big.yaml", "");
    std::fs::OpenOptions::new().write(true).open(big).unwrap().set_len(65 << 20).unwrap();
    s.run(&["check", "big.yaml"]).code(2).says("keep data in separate files");
}

#[test]
fn yaml_bomb_is_rejected_quickly() {
    let s = Sandbox::new();
    let mut text = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for level in 1..12 {
        let previous = vec![format!("*a{}", level - 1); 10].join(",");
        text.push_str(&format!("a{level}: &a{level} [{previous}]\n"));
    }
    s.write("bomb.yaml", text);
    s.run(&["check", "bomb.yaml"]).code(2).says("alias");
    s.write("deep.yaml", "[".repeat(100_000));
    s.run(&["check", "deep.yaml"]).code(2);
}

#[test]
fn valid_file_is_confirmed() {
    let s = Sandbox::new();
    s.write("x.yaml", "version: 1\nname: x\nstages:\n  a: {uses: noop}\n");
    s.run(&["check", "x.yaml"]).code(0).prints("x.yaml");
}

/// Problems with a column `lang`, and the stages that read them.
const OWN_PROBLEMS: &str = r#"
version: 1
name: own
stages:
  data: {uses: data/import, with: {source: own.jsonl}}
  german: {uses: data/select, with: {problems: ["${{ stages.data.problems }}"], where: "meta_lng = 'de'"}}
  model: {uses: model/init, with: {max_position_embeddings: 64}}
  evaluate:
    uses: evaluate
    with: {models: ["${{ stages.model.model }}"], problems: "${{ stages.german.problems }}"}
"#;

#[test]
fn first_rows_of_a_local_source_tell_columns_and_environment() {
    let s = Sandbox::new();
    s.write("own.jsonl", "{\"question\": \"1+1?\", \"answer\": 2, \"lang\": \"de\"}\n");
    s.write("x.yaml", OWN_PROBLEMS);
    let ran = s.run(&["check", "x.yaml"]).code(2);
    let ran = ran.says("made for `math-problems`, but this stage plays `word-problems`");
    let ran = ran.says("no column for `meta_lng`").says("did you mean `meta_lang`? they give: meta_lang");
    ran.says("x.yaml:10:").says("768 tokens, but the context of the model holds 64");
    let right = OWN_PROBLEMS.replace("meta_lng", "meta_lang").replace(
        "problems: \"${{ stages.german",
        "sampling: {max_turn_tokens: 32, max_episode_tokens: 64}, environment: {kind: math-problems}, \
         problems: \"${{ stages.german",
    );
    s.write("x.yaml", right);
    let ran = s.run(&["check", "x.yaml"]).code(0);
    assert!(!ran.stderr.contains("warning"), "{}", ran.stderr);
}

#[test]
fn limit_above_the_context_of_the_model_is_a_warning_with_both_numbers() {
    let s = Sandbox::new();
    s.write(
        "x.yaml",
        "version: 1\nname: x\nstages:\n  d: {uses: data/synthesize, with: {method: procedural}}\n  \
         m: {uses: model/init, with: {max_position_embeddings: 64}}\n  s:\n    uses: sft\n    with:\n      \
         model: ${{ stages.m.model }}\n      trajectories: [\"${{ stages.d.demonstrations }}\"]\n      \
         max_tokens: 2048\n",
    );
    let ran = s.run(&["check", "x.yaml"]).code(0).says("x.yaml:11:");
    ran.says("2048 tokens, but the context of the model holds 64").says("`max_position_embeddings`");
}

#[test]
fn endpoints_are_asked_only_with_connect() {
    let s = Sandbox::new();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let text = format!(
        "version: 1\nname: x\nstages:\n  d: {{uses: data/synthesize, with: {{method: procedural}}}}\n  e:\n    \
         uses: evaluate\n    with:\n      problems: ${{{{ stages.d.problems }}}}\n      \
         endpoints: {{served: {{model: {{endpoint: \"{url}\", model: m}}}}}}\n"
    );
    s.write("x.yaml", &text);
    s.run(&["check", "x.yaml"]).code(0);
    let ran = s.run(&["check", "x.yaml", "--connect"]).code(2).says("x.yaml:9:");
    ran.says("the endpoint of `e` does not answer").says("start the server");
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let open = format!("http://{}", server.local_addr().unwrap());
    let served = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = server.accept().unwrap();
        let _ = stream.read(&mut [0; 1024]).unwrap();
        let body = b"{\"data\": []}";
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
    });
    s.write("x.yaml", text.replace(&url, &open));
    s.run(&["check", "x.yaml", "--connect"]).code(0);
    served.join().unwrap();
}
