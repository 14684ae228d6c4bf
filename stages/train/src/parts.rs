//! Holds the part families that the stages of this crate compose: RL parts, environments, rewards, backends.

use serde_json::Value;
use std::sync::Arc;
use trainyard_api::AnyFamily;
use trainyard_api::family::fill_schema;
use trainyard_envs::rewards::weighted;
use trainyard_lm::backend::registry::{self, Backends};

/// Part families shared by the stages of a build.
#[derive(Clone)]
pub struct TrainParts {
    /// Parts of reinforcement learning: losses, advantages, filters, …
    pub learn: Arc<trainyard_learn::LearnParts>,
    /// Environments, rewards, tools, formats and verifiers.
    pub envs: Arc<trainyard_envs::EnvironmentParts>,
    /// Backends that compute models.
    pub backends: Arc<Backends>,
}

impl Default for TrainParts {
    /// Returns the parts of this workspace.
    fn default() -> Self {
        Self {
            learn: Arc::new(trainyard_learn::LearnParts::standard()),
            envs: Arc::new(trainyard_envs::EnvironmentParts::standard()),
            backends: Arc::new(registry::family()),
        }
    }
}

impl TrainParts {
    /// Fills in the schema of `backend`.
    pub fn fill_backend(&self, schema: &mut Value) {
        fill_schema(schema, self.backends.folder, &self.backends.schema());
    }
    /// Fills in the schemas of `environment` and `backend`.
    pub fn fill_environment(&self, schema: &mut Value) {
        self.fill_backend(schema);
        fill_schema(schema, "environments", &self.envs.environments.schema());
    }
    /// Fills in the schemas of `environment`, `backend`, `rewards`, and of every RL part except the advantage, which
    /// also takes modulations.
    pub fn fill_all(&self, schema: &mut Value) {
        self.fill_environment(schema);
        fill_schema(schema, "rewards", &weighted::schema(&self.envs.rewards));
        for family in self.learn.families() {
            fill_schema(schema, family.folder(), &AnyFamily::schema(family));
        }
    }
}
