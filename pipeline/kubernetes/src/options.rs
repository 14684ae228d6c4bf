//! What a site file says about a pool on Kubernetes, under `pools[].with`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Options of the executor `kubernetes`: one Job for each attempt, in one namespace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KubernetesOptions {
    /// Image that attempts run in. It holds the program `trainyard`, of the version that starts the run, and whatever
    /// the stages' commands need.
    pub image: String,
    /// The program in the image: a path, or a name that is found there. Without it, the pool's `program`, or
    /// `trainyard`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Namespace of the Jobs. Without it, that of the context, or the one this process runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Context of the kubeconfig. Without it, the current one; where there is no kubeconfig, the service account of the
    /// Pod that this process runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Path of the kubeconfig. Without it, the files that `KUBECONFIG` names, or `~/.kube/config`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<String>,
    /// Service account of the Pods; attempts need none themselves, but it may open a bucket to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// Labels that a node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints of nodes that the Pods put up with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// What the cluster calls a GPU.
    #[serde(default = "gpu_resource")]
    pub gpu_resource: String,
    /// Kueue's local queue. Jobs are created suspended, and Kueue starts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Priority class of the Pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<String>,
    /// Folders that the Pods see beside those of the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Volume>,
    /// Secrets with which the image is pulled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<String>,
    /// Environment variables of the attempts, such as `AWS_ENDPOINT_URL`. They stand in the Job for everybody to read:
    /// credentials belong into a secret.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Secrets whose entries become environment variables, such as the store's credentials.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment_from_secret: Vec<String>,
    /// Labels of the Jobs and their Pods, beside Trainyard's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the Jobs and their Pods, beside Trainyard's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// How long Kubernetes keeps a Job that is over, for its log and its events.
    #[serde(default = "ttl")]
    pub ttl: String,
    /// The Pods see the files of this machine under the same paths, by a volume that this machine mounts too. Then a
    /// store may be a folder there, and sources are not uploaded to the store.
    #[serde(default)]
    pub shared_filesystem: bool,
}

/// A taint that Pods put up with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Toleration {
    /// Key of the taint; without one, every taint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Value of the taint; without one, every value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// What the taint does; without it, whatever it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
}

/// What a taint does to Pods that do not tolerate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// They are not placed there.
    NoSchedule,
    /// They are placed there last.
    PreferNoSchedule,
    /// They are driven out.
    NoExecute,
}

/// A folder that Pods see: exactly one of `claim`, `secret`, `config_map` and `empty_dir`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// Its name among the volumes: lower-case letters, digits and `-`.
    pub name: String,
    /// Absolute path in the Pod.
    pub mount: String,
    /// Name of a persistent volume claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// Name of a secret; its entries are files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Name of a config map; its entries are files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<String>,
    /// A folder that begins empty and goes with the Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_dir: Option<EmptyDir>,
    /// Whether the Pods can only read it.
    #[serde(default)]
    pub read_only: bool,
}

/// A folder that begins empty and goes with the Pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EmptyDir {
    /// Lies in memory, and counts toward the stage's: for `/dev/shm`, which is 64 MiB otherwise.
    pub memory: bool,
    /// The most that it may hold, such as `8GiB`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
}

fn gpu_resource() -> String {
    "nvidia.com/gpu".into()
}

fn ttl() -> String {
    "1d".into()
}
