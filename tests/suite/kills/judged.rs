//! Artifacts that a run published, and resources that it left.

use super::processes::Marked;
use super::scene::Place;
use super::server::Server;
use crate::kit::ran;
use std::collections::BTreeMap;
use std::time::Duration;

/// Results of a finished run that must not change.
#[derive(Debug, PartialEq)]
pub struct Published {
    /// Content digests by `stage/port`.
    digests: BTreeMap<String, String>,
    /// Names of all manifests of the store: stage digest and generation.
    pub manifests: Vec<String>,
    /// Final status of every run of the store.
    runs: Vec<String>,
}

impl Published {
    pub fn of(place: &Place<'_>, server: Option<&Server>) -> Self {
        let json = |arguments: &[&str]| ran(place.command(arguments).output().unwrap()).code(0).json();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_string();
        let artifacts = json(&["artifacts", "list", "--format", "json"]);
        let named = |artifact: &serde_json::Value| {
            (text(&artifact["artifact"]).split_once('/').unwrap().1.to_string(), text(&artifact["digest"]))
        };
        let digests = artifacts.as_array().unwrap().iter().map(named).collect();
        let runs = json(&["runs", "list", "--format", "json"]);
        let runs = runs.as_array().unwrap().iter().map(|run| text(&run["status"])).collect();
        Self { digests, manifests: manifests(place, server), runs }
    }

    /// Returns the differences from another result, one line each.
    pub fn differences(&self, expected: &Self) -> Vec<String> {
        let mut found = Vec::new();
        for (name, digest) in &expected.digests {
            if self.digests.get(name) != Some(digest) {
                found.push(format!("{name} is {:?} and not {digest}", self.digests.get(name)));
            }
        }
        if self.digests.len() != expected.digests.len() {
            found.push(format!("{} artifacts and not {}", self.digests.len(), expected.digests.len()));
        }
        // A second generation would be a second publication.
        if self.manifests != expected.manifests {
            found.push(format!("manifests {:?} and not {:?}", self.manifests, expected.manifests));
        }
        // A command that is killed right after the end of its run is followed by a run of hits.
        if self.runs.iter().any(|status| status != "succeeded") {
            found.push(format!("runs that ended as {:?}", self.runs));
        }
        found
    }
}

fn manifests(place: &Place<'_>, server: Option<&Server>) -> Vec<String> {
    let mut names = match server {
        Some(server) => {
            let prefix = format!("{}/artifacts/", place.sandbox.name());
            server.names(&prefix).iter().filter_map(|name| Some(name.strip_prefix(&prefix)?.to_string())).collect()
        }
        None => place.sandbox.files(".trainyard/artifacts"),
    };
    // A local put writes to a temporary name first, which is not a manifest.
    names.retain(|name: &String| name.ends_with(".json"));
    names.sort();
    names
}

/// One stage in the same home: the next user of slots and scratch cleans up after killed processes.
const TIDY: &str = "version: 1\nname: tidy\nstages:\n  tidy: {run: \"true\"}\n";

/// Finds leftovers of a finished run: processes, scratch folders, slots, temporary files.
pub fn leftovers(place: &Place<'_>) -> Vec<String> {
    let marked = Marked::new(&place.home());
    // A process killed on pipes has two seconds to notice it.
    for _ in 0..50 {
        if marked.all().is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let named = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        format!("process {pid}: {}", String::from_utf8_lossy(&line).replace('\0', " "))
    };
    let mut left: Vec<String> = marked.all().iter().map(named).collect();
    place.sandbox.write("tidy.yaml", TIDY);
    ran(place.command(&["run", "tidy.yaml"]).output().unwrap()).code(0);
    for folder in ["home/scratch", "home/slots", "tmp"] {
        let files = place.sandbox.files(folder).into_iter().filter(|file| file != "lock");
        left.extend(files.map(|file| format!("{folder}/{file}")));
        let folders = std::fs::read_dir(place.sandbox.path(folder)).into_iter().flatten().flatten();
        let folders = folders.filter(|entry| entry.path().is_dir());
        left.extend(folders.map(|entry| format!("{folder}/{}", entry.file_name().to_string_lossy())));
    }
    left
}
