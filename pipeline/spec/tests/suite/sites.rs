//! Tests site files: amounts, defaults, mistakes.

use crate::compiles::Memory;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use trainyard_core::Error;
use trainyard_spec::plan::ResourceRequest;
use trainyard_spec::site::{Durability, ExecutorOptions, Recipient, Site, SiteContext, SiteGpu, SitePool, read};

/// Returns the schema of executor options, as derived from a struct.
fn slurm() -> Value {
    json!({
        "type": "object",
        "properties": {
            "partition": {"type": "string"},
            "account": {"type": ["string", "null"]},
            "nice": {"type": "integer", "format": "int32"},
            "modules": {"type": "array", "items": {"type": "string"}},
        },
        "additionalProperties": false,
    })
}

fn tracker() -> Value {
    let options = json!({"kind": {"const": "board"}, "folder": {"type": "string"}});
    let branch = json!({"type": "object", "properties": options, "required": ["kind"], "additionalProperties": false});
    json!({"oneOf": [{"type": "string", "enum": ["board"]}, branch]})
}

fn parse(text: &str) -> (Option<Site>, Vec<String>) {
    let check_store = |url: &str| {
        if url.starts_with("s3:/b") { Err(Error::invalid("not a store URL").help("write s3://b")) } else { Ok(()) }
    };
    let orphans = json!({"orphans": {"enum": ["stop", "keep"]}});
    let local = json!({"type": "object", "properties": orphans, "additionalProperties": false});
    let slurm = slurm();
    let surroundings = SiteContext {
        this_machine: &SitePool::local(2, 8 << 30, Vec::new()),
        executors: &[
            ExecutorOptions { name: "local", schema: &local, several_nodes: false },
            ExecutorOptions { name: "slurm", schema: &slurm, several_nodes: true },
        ],
        tracker: &tracker(),
        check_store,
    };
    let (site, diagnostics, sources) =
        read(&Memory::of(&[("/s/trainyard.yaml", text)]), Path::new("/s/trainyard.yaml"), surroundings);
    (site, diagnostics.iter().map(|d| sources.line(d)).collect())
}

#[test]
fn a_site_is_read() {
    let (site, diagnostics) = parse(
        "store: data/store\nstore_outage: 90s\nslots: /srv/slots\n\
         secrets: {HF_TOKEN: env:HF_TOKEN}\ndurability: fsync\npools:\n  \
         - {name: here}\n  - {name: big, executor: slurm, cpus: 64, memory: 512GiB, gpus: [0, {index: 3, memory: \
         40GiB}], gpu_memory: 80GiB, nodes: 4, tags: [h100], priority: 5}\n\
         notifications: [{webhook: \"https://example.org/hook\"}]\n",
    );
    assert_eq!(diagnostics, [""; 0]);
    let site = site.unwrap();
    assert_eq!(site.store.as_deref(), Some("/s/data/store"));
    assert_eq!((site.durability, site.store_outage), (Durability::Fsync, Duration::from_secs(90)));
    assert_eq!(site.pools.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["big", "here"], "by priority");
    assert_eq!(site.pools[0].gpus, [SiteGpu { index: 0, memory: 80 << 30 }, SiteGpu { index: 3, memory: 40 << 30 }]);
    assert_eq!((site.pools[1].cpus, site.pools[1].memory), (2, 8 << 30), "the amounts of this machine");
    assert_eq!(site.notifications[0].on, ["failed"]);
    assert_eq!(site.slots.as_deref(), Some(Path::new("/srv/slots")));
}

#[test]
fn store_outage_has_a_default() {
    assert_eq!(parse("version: 1\n").0.unwrap().store_outage, Duration::from_secs(600));
    let (site, diagnostics) = parse("store_outage: soon\n");
    assert!(site.is_none());
    assert!(
        diagnostics[0].starts_with("/s/trainyard.yaml:1:15: error[wrong-value]: `store_outage`"),
        "{diagnostics:?}"
    );
}

#[test]
fn a_wrong_store_url_is_reported_at_its_place() {
    let (site, diagnostics) = parse("store: s3:/bucket/x\n");
    assert!(site.is_none());
    assert_eq!(diagnostics, ["/s/trainyard.yaml:1:8: error[wrong-value]: not a store URL; write s3://b"]);
}

#[test]
fn all_mistakes_of_a_site_are_reported() {
    let (site, diagnostics) = parse(
        "stor: x\ndurability: fsyncc\nsecrets: {A: plain}\npools:\n  - {name: a, cpus: 0}\n  \
         - {name: a, memory: lots}\n  - {tags: [x]}\nnotifications: [{on: [done], webhook: example.org}]\n",
    );
    assert!(site.is_none());
    assert_eq!(
        diagnostics.join("\n"),
        "/s/trainyard.yaml:1:1: error[unknown-key]: the site file has no key `stor`; did you mean `store`?\n\
         /s/trainyard.yaml:2:13: error[wrong-value]: `durability` cannot be `fsyncc`; did you mean `fsync`?\n\
         /s/trainyard.yaml:5:21: error[out-of-range]: `cpus` is 0, but must be at least 1\n\
         /s/trainyard.yaml:6:23: error[wrong-value]: `memory`: `lots` is not a size: write a number with B, kB, MB, \
         GB, TB, KiB, MiB, GiB or TiB, as in `40GiB`\n\
         /s/trainyard.yaml:7:5: error[missing-key]: a pool has no `name`\n\
         /s/trainyard.yaml:6:5: error[duplicate-name]: two pools are called `a`\n\
         /s/trainyard.yaml:3:14: error[wrong-value]: `plain` is not a secret provider; name an environment variable: \
         `env:A`\n\
         /s/trainyard.yaml:8:23: error[wrong-value]: `on` cannot be `done`; valid here: succeeded, failed, cancelled, \
         recovered, gate, missed, broken\n\
         /s/trainyard.yaml:8:39: error[wrong-value]: `webhook` is not an address; write `https://…`, or \
         `env:WEBHOOK` for an address in an environment variable"
    );
}

#[test]
fn a_notification_has_one_form() {
    let (site, diagnostics) =
        parse("notifications:\n  - {on: [missed, gate], slack: env:SLACK}\n  - {command: [page, oncall]}\n");
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let notifications = site.unwrap().notifications;
    assert_eq!(notifications[0].on, ["missed", "gate"]);
    assert_eq!(notifications[0].to, Recipient::Slack("env:SLACK".into()));
    assert_eq!(notifications[1].to, Recipient::Command(vec!["page".into(), "oncall".into()]));
    let (site, diagnostics) =
        parse("notifications:\n  - {slack: env:SLACK, webhook: env:HOOK}\n  - {on: [failed]}\n  - {command: []}\n");
    assert!(site.is_none());
    assert_eq!(
        diagnostics.join("\n"),
        "/s/trainyard.yaml:2:5: error[misplaced-key]: a notification has both `webhook` and `slack`; write one \
         notification for each\n\
         /s/trainyard.yaml:3:5: error[missing-key]: a notification has no `webhook`; add a recipient: `webhook`, \
         `slack` or `command`\n\
         /s/trainyard.yaml:4:15: error[wrong-value]: `command` names no program; write a program and its arguments, as \
         in `[/usr/local/bin/page, oncall]`"
    );
}

#[test]
fn unknown_executor_is_reported_at_its_pool() {
    let (site, diagnostics) = parse(
        "pools:\n  - {name: here, executor: locl}\n  - {name: big, executor: kubernetes, nodes: 0}\n  \
         - {name: far, executor: slurm}\n",
    );
    assert!(site.is_none());
    assert_eq!(
        diagnostics.join("\n"),
        "/s/trainyard.yaml:2:28: error[unknown-executor]: this build has no executor `locl`; did you mean `local`?\n\
         /s/trainyard.yaml:3:27: error[unknown-executor]: this build has no executor `kubernetes`; valid here: local, \
         slurm\n\
         /s/trainyard.yaml:3:46: error[out-of-range]: `nodes` is 0, but must be at least 1"
    );
}

#[test]
fn first_heartbeat_is_a_duration_of_some_seconds() {
    let first = |text: &str| parse(text).0.map(|site| site.pools[0].first_heartbeat);
    assert_eq!(first("pools: [{name: far, executor: slurm}]\n"), Some(Duration::from_secs(600)));
    let slow = "pools: [{name: far, executor: slurm, first_heartbeat: 45m}]\n";
    assert_eq!(first(slow), Some(Duration::from_secs(2_700)));
    let (site, diagnostics) = parse("pools: [{name: far, executor: slurm, first_heartbeat: 5s}]\n");
    assert!(site.is_none());
    assert!(diagnostics[0].contains("error[out-of-range]: `first_heartbeat` is 5.0s"), "{diagnostics:?}");
}

#[test]
fn non_local_pool_defaults_to_one_cpu() {
    let (site, diagnostics) = parse("pools: [{name: far, executor: slurm}]\n");
    assert_eq!(diagnostics, [""; 0]);
    assert_eq!(
        site.unwrap().pools,
        [SitePool {
            name: "far".into(),
            executor: "slurm".into(),
            several_nodes: true,
            ..SitePool::local(1, 0, Vec::new())
        }]
    );
}

#[test]
fn options_of_an_executor_are_read_by_their_declared_types() {
    let (site, diagnostics) = parse(
        "orphan_timeout: 2h\npools:\n  - name: far\n    executor: slurm\n    program: /opt/trainyard\n    with: \
         {partition: 7, nice: 1e2, modules: [cuda, 12.4]}\n",
    );
    assert_eq!(diagnostics, [""; 0]);
    let site = site.unwrap();
    assert_eq!(site.orphan_timeout, Duration::from_secs(7_200));
    assert_eq!(site.pools[0].program.as_deref(), Some("/opt/trainyard"));
    assert_eq!(site.pools[0].with, json!({"partition": "7", "nice": 100, "modules": ["cuda", "12.4"]}));
    let plain = parse("pools: [{name: here}]\n").0.unwrap();
    assert_eq!((plain.orphan_timeout.as_secs(), &plain.pools[0].with), (3_600, &json!({})));
    assert_eq!(plain.pools[0].program, None);
}

#[test]
fn wrong_options_of_an_executor_are_reported_at_their_places() {
    let (site, diagnostics) = parse(
        "orphan_timeout: never\npools:\n  - {name: a, executor: slurm, with: {partitoin: gpu, nice: low}}\n  \
         - {name: b, executor: slurm, with: gpu}\n  - {name: c, with: {partition: gpu}}\n",
    );
    assert!(site.is_none());
    let found = diagnostics.join("\n");
    let expected = [
        "/s/trainyard.yaml:1:17: error[wrong-value]: `orphan_timeout`: ",
        "/s/trainyard.yaml:3:39: error[unknown-option]: there is no option `partitoin`; did you mean `partition`?",
        "/s/trainyard.yaml:3:61: error[wrong-type]: `nice` must be a whole number, found the text `low`",
        "/s/trainyard.yaml:4:38: error[wrong-type]: `with` must be a map of options of `slurm`, found `gpu`",
        "/s/trainyard.yaml:5:22: error[unknown-option]: there is no option `partition`; valid here: orphans",
    ];
    for line in expected {
        assert!(found.contains(line), "{line}\n{found}");
    }
    assert_eq!(diagnostics.len(), expected.len(), "{found}");
}

#[test]
fn trackers_are_validated_by_their_schema() {
    let (site, diagnostics) = parse("tracking: [board, {kind: board, folder: curves}]\n");
    assert_eq!(diagnostics, [""; 0]);
    let site = site.unwrap();
    assert_eq!(site.tracking, [json!("board"), json!({"kind": "board", "folder": "curves"})]);
    assert_eq!(site.folder.as_deref(), Some(Path::new("/s")));
    let (site, diagnostics) = parse("tracking:\n  - {kind: board, foldr: curves}\n  - wandbox\n");
    assert!(site.is_none());
    assert_eq!(diagnostics.len(), 2, "{diagnostics:?}");
    assert!(diagnostics[0].contains("foldr") && diagnostics[0].contains(":2:"), "{diagnostics:?}");
    assert!(diagnostics[1].contains(":3:"), "{diagnostics:?}");
}

#[test]
fn missing_required_option_is_reported_at_the_pool() {
    let schema = json!({"type": "object", "properties": {"image": {"type": "string"}}, "required": ["image"]});
    let executors = [ExecutorOptions { name: "kubernetes", schema: &schema, several_nodes: true }];
    let this_machine = SitePool::local(2, 8 << 30, Vec::new());
    let surroundings = SiteContext {
        this_machine: &this_machine,
        executors: &executors,
        tracker: &tracker(),
        check_store: |_| Ok(()),
    };
    let text = "pools:\n  - {name: far, executor: kubernetes}\n";
    let files = Memory::of(&[("/s/trainyard.yaml", text)]);
    let (site, diagnostics, sources) = read(&files, Path::new("/s/trainyard.yaml"), surroundings);
    assert!(site.is_none());
    let lines: Vec<String> = diagnostics.iter().map(|d| sources.line(d)).collect();
    let expected =
        "/s/trainyard.yaml:2:5: error[missing-option]: the options of `kubernetes` lacks `image`".to_string();
    assert_eq!(lines, [expected]);
}

#[test]
fn misfit_lists_all_shortfalls() {
    let pool =
        SitePool { gpus: vec![SiteGpu { index: 0, memory: 24 << 30 }], ..SitePool::local(2, 8 << 30, Vec::new()) };
    let ask = ResourceRequest {
        cpus: Some(4),
        memory: 16 << 30,
        gpus: 1,
        gpu_memory: 40 << 30,
        nodes: 2,
        tags: vec!["a".into(), "b".into()],
    };
    assert_eq!(pool.misfit(&ask).len(), 5);
    assert!(pool.misfit(&ResourceRequest { gpus: 1, ..ResourceRequest::default() }).is_empty());
}
