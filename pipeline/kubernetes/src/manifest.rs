//! The Job of an attempt, as it is created: a pure function of the pool's options and the attempt.
//!
//! Kubernetes must never start an attempt a second time by itself, since the engine counts and journals attempts:
//! nothing is retried, and a Pod that Kubernetes takes away (preemption, a drained node) fails its Job with the reason.
//! The deadline is that of the Pod, which begins on a node; that of the Job would count the wait for one.

use crate::names::{self, label_value};
use crate::options::{TaintEffect, Toleration, Volume};
use crate::settings::Settings;
use k8s_openapi::api::batch::v1::{
    Job, JobSpec, PodFailurePolicy, PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule,
};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;
use std::time::Duration;
use trainyard_runtime::executors::{MARK, NODE, Task};

/// What a Pod may take to end after it is asked to, in seconds.
pub(crate) const GRACE_SECONDS: i64 = 30;
/// Time beyond a stage's timeout until Kubernetes ends the Pod: the attempt and its engine end it in time, unless the
/// engine is gone and the attempt hangs. It covers pulling the image.
const SLACK: Duration = Duration::from_secs(15 * 60);

/// An attempt, as far as its Job shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Submission {
    /// Name of the Job.
    pub key: String,
    /// The attempt's URL.
    pub url: String,
    /// Workflow and stage.
    pub title: String,
    /// The run.
    pub run: String,
    /// The stage instance.
    pub stage: String,
    /// The attempt's number.
    pub attempt: u32,
    /// Machines that it runs on at the same time.
    pub nodes: u32,
    /// CPUs on each.
    pub cpus: u32,
    /// Bytes of memory on each; 0 = no limit.
    pub memory: u64,
    /// GPUs on each.
    pub gpus: u32,
    /// Limit from its start.
    pub timeout: Option<Duration>,
}

impl Submission {
    /// What there is to say about a task.
    pub fn of(task: &Task) -> Self {
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

/// The variable that holds a Pod's number in its Job.
const INDEX: &str = "TRAINYARD_POD_INDEX";

/// The Job that runs this attempt.
pub(crate) fn job(settings: &Settings, submission: &Submission) -> Job {
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

/// Labels and annotations of the Job and its Pods. Trainyard's own win over those of the pool.
fn metadata(settings: &Settings, submission: &Submission) -> ObjectMeta {
    let mut labels = settings.options.labels.clone();
    let own = [
        (names::MANAGED_BY, names::MANAGER.to_string()),
        (names::KEY, submission.key.clone()),
        (names::RUN, label_value(&submission.run)),
        (names::STAGE, label_value(&submission.stage)),
        (names::ATTEMPT, submission.attempt.to_string()),
    ];
    labels.extend(own.map(|(name, value)| (name.to_string(), value)));
    let mut annotations = settings.options.annotations.clone();
    annotations.insert(names::URL.into(), submission.url.clone());
    annotations.insert(names::TITLE.into(), submission.title.clone());
    ObjectMeta { labels: Some(labels), annotations: Some(annotations), ..ObjectMeta::default() }
}

/// A Pod that was disrupted fails its Job, which then says why even after the Pod is gone. Kubernetes 1.25 to 1.28 want
/// `onPodConditions` in every rule.
fn failed_by_disruption() -> PodFailurePolicy {
    let disrupted = PodFailurePolicyOnPodConditionsPattern { type_: "DisruptionTarget".into(), status: "True".into() };
    let rule = PodFailurePolicyRule {
        action: "FailJob".into(),
        on_pod_conditions: Some(vec![disrupted]),
        ..PodFailurePolicyRule::default()
    };
    PodFailurePolicy { rules: vec![rule] }
}

fn pod(settings: &Settings, submission: &Submission) -> core::PodSpec {
    let options = &settings.options;
    let deadline = submission.timeout.map(|timeout| timeout.saturating_add(SLACK).as_secs());
    let secret = |name: &String| core::LocalObjectReference { name: name.clone() };
    core::PodSpec {
        active_deadline_seconds: deadline.map(|seconds| i32::try_from(seconds).unwrap_or(i32::MAX).into()),
        // An attempt never speaks to Kubernetes; a named account is there for what it opens, and says itself.
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

fn container(settings: &Settings, submission: &Submission) -> core::Container {
    let options = &settings.options;
    let amounts = amounts(settings, submission);
    let from = |name: &String| core::EnvFromSource {
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
        env_from: some(options.environment_from_secret.iter().map(from).collect()),
        resources: Some(core::ResourceRequirements {
            limits: Some(amounts.clone()),
            requests: Some(amounts),
            claims: None,
        }),
        // The end of its output stands in its status then, for errors of a program that could not start.
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        volume_mounts: some(options.volumes.iter().map(mount).collect()),
        ..core::Container::default()
    }
}

/// Requests are limits, so that a node is never promised twice and the scheduler's answer is the engine's.
fn amounts(settings: &Settings, submission: &Submission) -> BTreeMap<String, Quantity> {
    let mut amounts = BTreeMap::from([("cpu".to_string(), Quantity(submission.cpus.to_string()))]);
    if submission.memory > 0 {
        amounts.insert("memory".into(), Quantity(submission.memory.to_string()));
    }
    if submission.gpus > 0 {
        amounts.insert(settings.options.gpu_resource.clone(), Quantity(submission.gpus.to_string()));
    }
    amounts
}

fn environment(settings: &Settings, submission: &Submission) -> Vec<core::EnvVar> {
    let mut environment = settings.environment.clone();
    // Numeric libraries read these when the process starts.
    for name in ["RAYON_NUM_THREADS", "OMP_NUM_THREADS"] {
        environment.insert(name.into(), submission.cpus.to_string());
    }
    if submission.gpus == 0 {
        // Images made for GPUs ask for all that the node has.
        environment.insert("CUDA_VISIBLE_DEVICES".into(), String::new());
    }
    environment.extend(settings.options.environment.clone());
    environment.insert(MARK.into(), submission.url.clone());
    let variable = |(name, value)| core::EnvVar { name, value: Some(value), value_from: None };
    let mut variables: Vec<core::EnvVar> = environment.into_iter().map(variable).collect();
    if submission.nodes > 1 {
        variables.extend(rank(&submission.url));
    }
    variables
}

/// Which Pod of an indexed Job this is. The second variable names the first, so it stands behind it.
fn rank(url: &str) -> [core::EnvVar; 2] {
    let field = core::ObjectFieldSelector {
        api_version: None,
        field_path: "metadata.annotations['batch.kubernetes.io/job-completion-index']".into(),
    };
    let from = core::EnvVarSource { field_ref: Some(field), ..core::EnvVarSource::default() };
    // `$(` would begin the name of a variable.
    let value = format!("$({INDEX}) {}", url.replace("$(", "$$("));
    [
        core::EnvVar { name: INDEX.into(), value: None, value_from: Some(from) },
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

/// A size as people write it here, in bytes. It was judged with the options.
fn size(text: &str) -> Quantity {
    Quantity(trainyard_core::units::parse_size(text).unwrap_or_default().to_string())
}

/// A list, or nothing if it is empty.
fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
