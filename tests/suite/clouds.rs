//! Runs whose store is an Azure container or a Google bucket.
//!
//! `TRAINYARD_TEST_AZ` names a container and a prefix (`az://container/prefix`), and `AZURE_*` how to reach it; without
//! it that test reports that it is skipped. Google is tested with a small server of its interface, described in
//! `storage/store/tests/gcs/server.rs`. Behavior common to all buckets is tested with S3 (`s3.rs`).

#[path = "../../storage/store/tests/gcs/server.rs"]
mod gcs;

use crate::kit::{Ran, Sandbox, ran, skipped};

const CHAIN: &str = r#"
version: 1
name: chain
stages:
  rows:
    uses: data/import
    with: {source: rows.jsonl, format: gsm8k, split: test}
  names:
    with: {rows: "${{ stages.rows.problems }}"}
    run: echo listing; ls ${{ inputs.rows }} > ${{ outputs.o }}/names; env > ${{ outputs.o }}/env
    outputs: {o: {kind: files}}
"#;

const ROWS: &str =
    "{\"question\": \"Ann has 2 figs and buys 3. How many?\", \"answer\": \"2+3 = <<2+3=5>>5\\n#### 5\"}\n";

/// A cloud store, and the environment of its commands.
struct Cloud {
    sandbox: Sandbox,
    environment: Vec<(&'static str, String)>,
}

impl Cloud {
    fn new(prefix: &str, environment: Vec<(&'static str, String)>) -> Self {
        let sandbox = Sandbox::new();
        let url = format!("{}/{}", prefix.trim_end_matches('/'), sandbox.name());
        Self { sandbox: sandbox.with_store(&url), environment }
    }
    #[track_caller]
    fn run(&self, args: &[&str]) -> Ran {
        let mut command = self.sandbox.command(args);
        ran(command.envs(self.environment.iter().map(|(name, value)| (name, value))).output().unwrap())
    }
    /// Runs a chain, reads its outputs, and runs it again; `secrets` are variables that no command may receive.
    #[track_caller]
    fn chain(&self, secrets: &[&str]) {
        let s = &self.sandbox;
        s.write("chain.yaml", CHAIN);
        s.write("rows.jsonl", ROWS);
        self.run(&["run", "chain.yaml"]).code(0);
        self.run(&["run", "chain.yaml"]).code(0).says("rows: hit").says("names: hit");
        self.run(&["artifacts", "show", "latest/rows/problems"]).code(0).prints("Ann has 2 figs");
        self.run(&["logs", "latest", "names"]).code(0);
        let first = self.run(&["runs", "list", "--format", "json"]).code(0).json();
        let first = first.as_array().unwrap().last().unwrap()["run"].as_str().unwrap().to_string();
        self.run(&["logs", &first, "names"]).code(0).prints("listing");
        self.run(&["artifacts", "export", "latest/names/o", "out"]).code(0);
        assert_eq!(s.read("out/names"), "data.parquet\n");
        let given = s.read("out/env");
        for secret in secrets {
            assert!(self.has(secret), "{secret} is not set here, so nothing is tested");
            assert!(!given.contains(&format!("{secret}=")), "the command got {secret}");
        }
        self.run(&["artifacts", "gc", "--keep-last", "1", "--runs-older-than", "1h"])
            .code(0)
            .prints("nothing to remove");
        self.run(&["doctor"]).code(0).prints("is create-only");
        assert!(!s.store().exists(), "nothing may lie in a folder");
    }
    fn has(&self, variable: &str) -> bool {
        self.environment.iter().any(|(name, _)| *name == variable) || std::env::var_os(variable).is_some()
    }
}

#[test]
fn a_chain_runs_on_azure() {
    let Ok(prefix) = std::env::var("TRAINYARD_TEST_AZ") else { return skipped("TRAINYARD_TEST_AZ names no container") };
    Cloud::new(&prefix, Vec::new()).chain(&["AZURE_STORAGE_ACCOUNT_KEY"]);
}

#[test]
fn a_chain_runs_on_a_small_server_of_googles_interface() {
    let environment = vec![
        ("GOOGLE_BASE_URL", gcs::start()),
        ("GOOGLE_ALLOW_HTTP", "true".to_string()),
        ("GOOGLE_BEARER_TOKEN", "any".to_string()),
    ];
    Cloud::new("gs://bucket/runs", environment).chain(&["GOOGLE_BEARER_TOKEN"]);
}

#[test]
fn missing_credentials_are_named_by_their_cloud() {
    let s = Sandbox::new();
    let listed = |url: &str, set: &[(&str, &str)]| {
        let mut command = s.command(&["runs", "list", "--store", url]);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AZURE_") || name.starts_with("GOOGLE_"))
        {
            command.env_remove(name);
        }
        ran(command.env("HOME", s.path("home")).envs(set.iter().copied()).output().unwrap())
    };
    listed("az://container", &[]).code(3).says("cannot connect to the container az://container").says("AZURE_STORAGE");
    let wrong = [("GOOGLE_SERVICE_ACCOUNT", "/none.json")];
    listed("gs://bucket", &wrong)
        .code(3)
        .says("cannot connect to the bucket gs://bucket")
        .says("GOOGLE_SERVICE_ACCOUNT");
}

#[test]
fn a_cloud_out_of_reach_is_one_sentence_with_its_causes() {
    let s = Sandbox::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (google, azure) = (format!("http://127.0.0.1:{free}"), format!("http://127.0.0.1:{free}/account"));
    let environment = [
        ("GOOGLE_BASE_URL", google.as_str()),
        ("GOOGLE_BEARER_TOKEN", "any"),
        ("GOOGLE_ALLOW_HTTP", "true"),
        ("AZURE_STORAGE_ENDPOINT", &azure),
        ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
        ("AZURE_STORAGE_ACCOUNT_KEY", "a2V5"),
        ("AZURE_ALLOW_HTTP", "true"),
    ];
    for url in ["gs://bucket/prefix", "az://container/prefix"] {
        let mut command = s.command(&["runs", "list", "--store", url]);
        let list = ran(command.envs(environment).output().unwrap()).code(3);
        let sentence = format!("error: cannot list {url}/runs: the store cannot be reached\n");
        assert!(list.stderr.starts_with(&sentence), "{}", list.stderr);
        let causes: Vec<&str> = list.stderr.lines().filter(|l| l.trim_start().starts_with("caused by: ")).collect();
        assert!(causes.last().is_some_and(|cause| cause.contains("refused")), "{causes:?}");
    }
}
