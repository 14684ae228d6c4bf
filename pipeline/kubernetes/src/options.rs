//! Defines the options of a Kubernetes pool, under `pools[].with` of a site file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Options of the executor `kubernetes`: one Job per attempt, in one namespace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KubernetesOptions {
    /// Image that attempts run in. Must contain the program `trainyard`, in the version that starts the run, and the
    /// programs that the stages' commands need.
    pub image: String,
    /// Program in the image: a path, or a name on `PATH`. Default: the pool's `program`, or `trainyard`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Namespace of the Jobs. Default: the namespace of the context, or the one that this process runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Context of the kubeconfig. Default: the current context; without a kubeconfig, the service account of the Pod
    /// that this process runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Path of the kubeconfig. Default: the files in `KUBECONFIG`, or `~/.kube/config`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<String>,
    /// Service account of the Pods. Attempts do not need one for Kubernetes, but it may give them access to a bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// Labels that a node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Node taints that the Pods tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Resource name of a GPU in the cluster.
    #[serde(default = "gpu_resource")]
    pub gpu_resource: String,
    /// Kueue's local queue. Jobs are created suspended, and Kueue starts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Priority class of the Pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<String>,
    /// Volumes mounted into the Pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Volume>,
    /// Secrets for pulling the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<String>,
    /// Environment variables of the attempts, such as `AWS_ENDPOINT_URL`. They are readable in the Job: put credentials
    /// into a secret.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Whether an attempt that requests no GPUs sees none (`CUDA_VISIBLE_DEVICES` is empty), instead of what its image
    /// shows it.
    #[serde(default = "hide_gpus")]
    pub hide_gpus: bool,
    /// Secrets whose entries become environment variables, such as the store's credentials.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment_from_secret: Vec<String>,
    /// Labels of the Jobs and their Pods, in addition to Trainyard's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the Jobs and their Pods, in addition to Trainyard's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// How long Kubernetes keeps a finished Job, with its log and its events.
    #[serde(default = "ttl")]
    pub ttl: String,
    /// Whether the Pods see the files of this machine under the same paths, through a volume that this machine mounts
    /// too. The store may then be a folder there, and sources are not uploaded to the store.
    #[serde(default)]
    pub shared_filesystem: bool,
}

/// Toleration of a node taint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Toleration {
    /// Key of the taint. Default: every taint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Value of the taint. Default: every value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Effect of the taint. Default: every effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
}

/// Effect of a taint on Pods that do not tolerate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// Pods are not scheduled on the node.
    NoSchedule,
    /// The scheduler avoids the node if it can.
    PreferNoSchedule,
    /// Running Pods are evicted from the node.
    NoExecute,
}

/// Volume of a Pod: exactly one of `claim`, `secret`, `config_map` and `empty_dir`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// Name of the volume: lower-case letters, digits and `-`.
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
    /// Empty folder that is deleted with the Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_dir: Option<EmptyDir>,
    /// Whether the mount is read-only.
    #[serde(default)]
    pub read_only: bool,
}

/// Empty folder that is deleted with the Pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EmptyDir {
    /// Whether the folder is in memory and counts toward the stage's memory: for `/dev/shm`, which is 64 MiB otherwise.
    pub memory: bool,
    /// Maximum size, such as `8GiB`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
}

fn hide_gpus() -> bool {
    true
}

fn gpu_resource() -> String {
    "nvidia.com/gpu".into()
}

fn ttl() -> String {
    "1d".into()
}
