//! Builds the Job manifest of an attempt, as a pure function of the pool's options and the attempt.
//!
//! Kubernetes must never restart an attempt, since the engine counts and journals attempts. The manifest therefore
//! disables retries, and a Pod that Kubernetes removes (preemption, a drained node) fails its Job with the reason. The
//! deadline is set on the Pod, for which it begins on a node; a Job deadline would include the time in the queue.

use crate::names::{self, label_value};
use crate::options::{TaintEffect, Toleration, Volume};
use crate::settings::KubernetesSettings;
use k8s_openapi::api::batch::v1::{
    Job, JobSpec, PodFailurePolicy, PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule,
};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;
use std::time::Duration;
use trainyard_runtime::executors::{AttemptTask, NODE};

/// Termination grace period of a Pod, in seconds.
pub(crate) const GRACE_SECONDS: i64 = 30;
/// Time after a stage's timeout at which Kubernetes ends the Pod. The attempt and its engine enforce the timeout
/// themselves, unless the engine is dead and the attempt hangs. The time covers pulling the image.
const SLACK: Duration = Duration::from_secs(15 * 60);

/// Facts about an attempt that its Job contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobSubmission {
    /// Name of the Job.
    pub key: String,
    pub url: String,
    /// Workflow and stage.
    pub title: String,
    pub run: String,
    pub stage: String,
    pub attempt: u32,
    /// Number of nodes that it runs on concurrently.
    pub nodes: u32,
    /// CPUs per node.
    pub cpus: u32,
    /// Bytes of memory per node; 0 = no limit.
    pub memory: u64,
    /// GPUs per node.
    pub gpus: u32,
    /// Time limit, counted from the start.
    pub timeout: Option<Duration>,
}

impl JobSubmission {
    /// Extracts the submission of a task.
    pub fn of(task: &AttemptTask) -> Self {
        let resources = &task.spec.resources;
        Self {
            key: task.key(),
            url: task.url(),
            title: task.title(),
            run: task.spec.run.0.clone(),
            stage: task.spec.stage.0.clone(),
            attempt: task.spec.attempt,
            nodes: u32::try_from(task.grant.shares.len()).unwrap_or(u32::MAX).max(1),
            cpus: resources.cpus.max(1),
            memory: resources.memory,
            gpus: u32::try_from(resources.gpus.len()).unwrap_or(u32::MAX),
            timeout: task.timeout,
        }
    }
}

/// Environment variable that holds a Pod's index in its Job.
const INDEX: &str = "TRAINYARD_POD_INDEX";

/// Builds the Job of an attempt.
pub(crate) fn job(settings: &KubernetesSettings, submission: &JobSubmission) -> Job {
    let options = &settings.options;
    let mut metadata = metadata(settings, submission);
    let template = core::PodTemplateSpec { metadata: Some(metadata.clone()), spec: Some(pod(settings, submission)) };
    metadata.name = Some(submission.key.clone());
    if let Some(queue) = &options.queue {
        metadata.labels.get_or_insert_default().insert(names::QUEUE.into(), queue.clone());
    }
    let nodes = i32::try_from(submission.nodes).unwrap_or(i32::MAX);
    let spec = JobSpec {
        backoff_limit: Some(0),
        completion_mode: (nodes > 1).then(|| "Indexed".into()),
        completions: Some(nodes),
        parallelism: Some(nodes),
        pod_failure_policy: Some(failed_by_disruption()),
        suspend: options.queue.is_some().then_some(true),
        template,
        ttl_seconds_after_finished: Some(settings.ttl_seconds),
        ..JobSpec::default()
    };
    Job { metadata, spec: Some(spec), status: None }
}

/// Builds labels and annotations of the Job and its Pods. Trainyard's labels override those of the pool.
fn metadata(settings: &KubernetesSettings, submission: &JobSubmission) -> ObjectMeta {
    let mut labels = settings.options.labels.clone();
    let standard = [
        (names::MANAGED_BY, names::MANAGER.to_string()),
        (names::KEY, submission.key.clone()),
        (names::RUN, label_value(&submission.run)),
        (names::STAGE, label_value(&submission.stage)),
        (names::ATTEMPT, submission.attempt.to_string()),
    ];
    labels.extend(standard.map(|(name, value)| (name.to_string(), value)));
    let mut annotations = settings.options.annotations.clone();
    annotations.insert(names::URL.into(), submission.url.clone());
    annotations.insert(names::TITLE.into(), submission.title.clone());
    ObjectMeta { labels: Some(labels), annotations: Some(annotations), ..ObjectMeta::default() }
}

/// Builds the policy by which a disrupted Pod fails its Job, whose condition keeps the reason after the Pod is removed.
/// Kubernetes 1.25 to 1.28 require `onPodConditions` in every rule.
fn failed_by_disruption() -> PodFailurePolicy {
    let disrupted = PodFailurePolicyOnPodConditionsPattern { type_: "DisruptionTarget".into(), status: "True".into() };
    let rule = PodFailurePolicyRule {
        action: "FailJob".into(),
        on_pod_conditions: Some(vec![disrupted]),
        ..PodFailurePolicyRule::default()
    };
    PodFailurePolicy { rules: vec![rule] }
}

fn pod(settings: &KubernetesSettings, submission: &JobSubmission) -> core::PodSpec {
    let options = &settings.options;
    let deadline = submission.timeout.map(|timeout| timeout.saturating_add(SLACK).as_secs());
    let secret = |name: &String| core::LocalObjectReference { name: name.clone() };
    core::PodSpec {
        active_deadline_seconds: deadline.map(|seconds| i32::try_from(seconds).unwrap_or(i32::MAX).into()),
        // An attempt never calls the Kubernetes API. A named service account grants access to other resources and
        // configures its own token.
        automount_service_account_token: options.service_account.is_none().then_some(false),
        containers: vec![container(settings, submission)],
        enable_service_links: Some(false),
        image_pull_secrets: some(options.image_pull_secrets.iter().map(secret).collect()),
        node_selector: (!options.node_selector.is_empty()).then(|| options.node_selector.clone()),
        priority_class_name: options.priority_class.clone(),
        restart_policy: Some("Never".into()),
        service_account_name: options.service_account.clone(),
        termination_grace_period_seconds: Some(GRACE_SECONDS),
        tolerations: some(options.tolerations.iter().map(toleration).collect()),
        volumes: some(options.volumes.iter().map(volume).collect()),
        ..core::PodSpec::default()
    }
}

fn container(settings: &KubernetesSettings, submission: &JobSubmission) -> core::Container {
    let options = &settings.options;
    let amounts = amounts(settings, submission);
    let env_source = |name: &String| core::EnvFromSource {
        secret_ref: Some(core::SecretEnvSource { name: name.clone(), optional: None }),
        ..core::EnvFromSource::default()
    };
    let mount = |volume: &Volume| core::VolumeMount {
        name: volume.name.clone(),
        mount_path: volume.mount.clone(),
        read_only: volume.read_only.then_some(true),
        ..core::VolumeMount::default()
    };
    core::Container {
        name: names::CONTAINER.into(),
        image: Some(options.image.clone()),
        command: Some(settings.command.iter().chain([&submission.url]).cloned().collect()),
        env: Some(environment(settings, submission)),
        env_from: some(options.environment_from_secret.iter().map(env_source).collect()),
        resources: Some(core::ResourceRequirements {
            limits: Some(amounts.clone()),
            requests: Some(amounts),
            claims: None,
        }),
        // The Pod status then contains the end of the output, which explains why a program could not start.
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        volume_mounts: some(options.volumes.iter().map(mount).collect()),
        ..core::Container::default()
    }
}

/// Builds requests equal to limits, so that nodes are not overcommitted and the scheduler and the engine count the
/// same.
fn amounts(settings: &KubernetesSettings, submission: &JobSubmission) -> BTreeMap<String, Quantity> {
    let mut amounts = BTreeMap::from([("cpu".to_string(), Quantity(submission.cpus.to_string()))]);
    if submission.memory > 0 {
        amounts.insert("memory".into(), Quantity(submission.memory.to_string()));
    }
    if submission.gpus > 0 {
        amounts.insert(settings.options.gpu_resource.clone(), Quantity(submission.gpus.to_string()));
    }
    amounts
}

fn environment(settings: &KubernetesSettings, submission: &JobSubmission) -> Vec<core::EnvVar> {
    let mut environment = settings.environment.clone();
    // Numeric libraries read these variables at process start.
    for name in ["RAYON_NUM_THREADS", "OMP_NUM_THREADS"] {
        environment.insert(name.into(), submission.cpus.to_string());
    }
    if submission.gpus == 0 && settings.options.hide_gpus {
        // Images built for GPUs would otherwise use all GPUs of the node.
        environment.insert("CUDA_VISIBLE_DEVICES".into(), String::new());
    }
    environment.extend(settings.options.environment.clone());
    let variable = |(name, value)| core::EnvVar { name, value: Some(value), value_from: None };
    let mut variables: Vec<core::EnvVar> = environment.into_iter().map(variable).collect();
    if submission.nodes > 1 {
        variables.extend(rank(&submission.url));
    }
    variables
}

/// Builds the variables with the index of a Pod in an indexed Job. The second variable refers to the first and must
/// come after it.
fn rank(url: &str) -> [core::EnvVar; 2] {
    let field = core::ObjectFieldSelector {
        api_version: None,
        field_path: "metadata.annotations['batch.kubernetes.io/job-completion-index']".into(),
    };
    let source = core::EnvVarSource { field_ref: Some(field), ..core::EnvVarSource::default() };
    // `$(` would begin a variable reference.
    let value = format!("$({INDEX}) {}", url.replace("$(", "$$("));
    [
        core::EnvVar { name: INDEX.into(), value: None, value_from: Some(source) },
        core::EnvVar { name: NODE.into(), value: Some(value), value_from: None },
    ]
}

fn toleration(toleration: &Toleration) -> core::Toleration {
    let effect = toleration.effect.map(|effect| match effect {
        TaintEffect::NoSchedule => "NoSchedule",
        TaintEffect::PreferNoSchedule => "PreferNoSchedule",
        TaintEffect::NoExecute => "NoExecute",
    });
    core::Toleration {
        key: toleration.key.clone(),
        operator: Some(if toleration.value.is_some() { "Equal" } else { "Exists" }.into()),
        value: toleration.value.clone(),
        effect: effect.map(Into::into),
        toleration_seconds: None,
    }
}

fn volume(volume: &Volume) -> core::Volume {
    let claim = |name: &String| core::PersistentVolumeClaimVolumeSource {
        claim_name: name.clone(),
        read_only: volume.read_only.then_some(true),
    };
    let secret = |name: &String| core::SecretVolumeSource {
        secret_name: Some(name.clone()),
        ..core::SecretVolumeSource::default()
    };
    let config_map =
        |name: &String| core::ConfigMapVolumeSource { name: name.clone(), ..core::ConfigMapVolumeSource::default() };
    let empty = volume.empty_dir.as_ref().map(|dir| core::EmptyDirVolumeSource {
        medium: dir.memory.then(|| "Memory".into()),
        size_limit: dir.size.as_deref().map(size),
    });
    core::Volume {
        name: volume.name.clone(),
        persistent_volume_claim: volume.claim.as_ref().map(claim),
        secret: volume.secret.as_ref().map(secret),
        config_map: volume.config_map.as_ref().map(config_map),
        empty_dir: empty,
        ..core::Volume::default()
    }
}

/// Converts a human-readable size to bytes. The size was validated with the options.
fn size(text: &str) -> Quantity {
    Quantity(trainyard_core::units::parse_size(text).unwrap_or_default().to_string())
}

/// Returns the list, or `None` if it is empty.
fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
