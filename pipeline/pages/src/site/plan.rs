//! Chooses the pages of a site.

use super::map::SiteMap;
use crate::assets;
use crate::links::Links;
use std::collections::BTreeSet;
use trainyard_core::{ArtifactKind, Error, Result, RunId, StageKey};
use trainyard_engine::fold::RunView;
use trainyard_store::Store;
use trainyard_views::find;
use trainyard_views::rollout_sample::{self, RolloutSample};

/// Pages of a site.
pub struct SitePlan {
    /// Run id.
    pub run: RunId,
    /// State of the run.
    pub view: RunView,
    /// Artifacts of the run, each once.
    pub artifacts: Vec<SiteArtifact>,
}

/// Artifact of a site.
pub struct SiteArtifact {
    /// First stage of the run with this artifact.
    pub stage: StageKey,
    /// Digest of the stage.
    pub digest: String,
    /// Output of the stage.
    pub output: String,
    /// Kind of artifact.
    pub kind: ArtifactKind,
    /// Number of rows, if the artifact is a table.
    pub rows: Option<u64>,
    /// Rollouts of the site, if the artifact has any; else the reason why they cannot be read.
    pub sample: Option<Result<RolloutSample, Error>>,
}

impl SiteArtifact {
    /// Returns the rollouts that the site has.
    pub fn sampled(&self) -> Option<&RolloutSample> {
        self.sample.as_ref()?.as_ref().ok()
    }
}

impl SitePlan {
    /// Chooses the pages of a run, with at most `limit` rollouts of each artifact. Errors: invalid (no such run), those
    /// of the store. Rollouts that cannot be read are no error: the site says why.
    pub async fn read(store: &Store, run: &RunId, limit: usize) -> Result<Self> {
        let view = find::view(store, run).await?;
        let mut artifacts = Vec::new();
        let mut seen = BTreeSet::new();
        for stage in &view.stages {
            let Some(digest) = stage.digest.as_ref().map(ToString::to_string) else { continue };
            for (output, summary) in &stage.outputs {
                if !seen.insert((digest.clone(), output.clone())) {
                    continue;
                }
                let mut artifact = SiteArtifact {
                    stage: stage.key().clone(),
                    digest: digest.clone(),
                    output: output.clone(),
                    kind: summary.kind,
                    rows: summary.rows,
                    sample: None,
                };
                if summary.kind == ArtifactKind::Trajectories {
                    artifact.sample = Some(sample(store, run, &artifact, limit).await);
                }
                artifacts.push(artifact);
            }
        }
        Ok(Self { run: run.clone(), view, artifacts })
    }
    /// Returns the paths of the pages that the router renders.
    pub fn rendered(&self) -> Vec<String> {
        let links = Links::from_path("/");
        let mut addresses = vec![links.run(&self.run.0)];
        addresses.extend(self.view.stages.iter().map(|stage| links.stage(&self.run.0, &stage.key().0)));
        for artifact in &self.artifacts {
            addresses.push(links.artifact(&artifact.digest, &artifact.output));
            let rollouts = artifact.sampled().into_iter().flat_map(|sample| &sample.rollouts);
            addresses.extend(rollouts.map(|rollout| links.row(&artifact.digest, &artifact.output, rollout.row)));
        }
        addresses.into_iter().map(|address| format!("/{address}")).collect()
    }
    /// Returns the artifacts with a list of rollouts, and the paths of the lists.
    pub fn lists(&self) -> Vec<(&SiteArtifact, String)> {
        let with_list = self.artifacts.iter().filter(|artifact| artifact.sample.is_some());
        with_list.map(|artifact| (artifact, list_path(artifact))).collect()
    }
    /// Returns the files of all pages and assets.
    pub fn map(&self) -> SiteMap {
        let mut map = SiteMap::default();
        map.add("/");
        for path in self.rendered() {
            map.add(&path);
        }
        for (_, path) in self.lists() {
            map.add_list(&path);
        }
        for (name, ..) in assets::ALL {
            map.add_asset(name);
        }
        map
    }
}

fn list_path(artifact: &SiteArtifact) -> String {
    format!("/{}", Links::from_path("/").rollouts(&artifact.digest, &artifact.output))
}

async fn sample(store: &Store, run: &RunId, artifact: &SiteArtifact, limit: usize) -> Result<RolloutSample> {
    let found = find::artifact(store, &format!("{}/{}", artifact.digest, artifact.output)).await?;
    let name = format!("{run}/{}/{}", artifact.stage, artifact.output);
    rollout_sample::sample(store, &name, &found, limit).await
}
