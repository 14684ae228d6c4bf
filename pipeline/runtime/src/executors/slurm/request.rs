//! Builds the arguments of `sbatch`. Attempts that request equal resources become one array of jobs.

use super::comment::{MEMBERS, comment};
use super::options::SlurmOptions;
use crate::executors::AttemptTask;
use std::path::Path;
use std::time::Duration;

/// Jobs live this much longer than the attempts in them, which end themselves at their timeout.
const SLACK: Duration = Duration::from_secs(300);
/// Maximum bytes of a job's name.
const NAME: usize = 80;

/// Resources of one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JobShape {
    pub nodes: usize,
    pub cpus: u32,
    pub memory: u64,
    pub gpus: usize,
    pub timeout: Option<Duration>,
}

impl JobShape {
    /// Creates a shape of nodes with equal numbers of CPUs.
    #[cfg(test)]
    pub fn plain(nodes: usize, cpus: u32) -> Self {
        Self { nodes, cpus, memory: 0, gpus: 0, timeout: None }
    }
    fn of(task: &AttemptTask) -> Self {
        let share = task.grant.shares.first();
        Self {
            nodes: task.grant.shares.len().max(1),
            cpus: share.map_or(1, |s| s.cpus.max(1)),
            memory: share.map_or(0, |s| s.memory),
            gpus: share.map_or(0, |s| s.gpus.len()),
            timeout: task.timeout,
        }
    }
}

/// Tasks that are submitted as one job, or as one array.
pub(super) struct JobBatch<'a> {
    pub shape: JobShape,
    pub tasks: Vec<&'a AttemptTask>,
}

/// Groups tasks by requested resources, in order.
pub(super) fn batches<'a>(tasks: &[&'a AttemptTask]) -> Vec<JobBatch<'a>> {
    let mut found: Vec<JobBatch<'a>> = Vec::new();
    for task in tasks {
        let shape = JobShape::of(task);
        match found.iter_mut().find(|b| b.shape == shape && b.tasks.len() < MEMBERS) {
            Some(batch) => batch.tasks.push(task),
            None => found.push(JobBatch { shape, tasks: vec![task] }),
        }
    }
    found
}

impl<'a> JobBatch<'a> {
    /// Splits the batch into single jobs.
    pub fn singly(&self) -> Vec<Self> {
        self.tasks.iter().map(|task| Self { shape: self.shape, tasks: vec![task] }).collect()
    }
    /// Returns the name shown in the queue: the stage, or the workflow if the tasks are of several stages.
    pub fn name(&self) -> String {
        let title = |task: &AttemptTask| match self.tasks.len() {
            1 => task.title(),
            _ => format!("{}/{}", task.spec.workflow, task.spec.stage.stage_id()),
        };
        let first = self.tasks.first().map(|task| title(task)).unwrap_or_default();
        let common = self.tasks.iter().all(|task| title(task) == first);
        let name = if common { first } else { self.tasks.first().map(|t| t.spec.workflow.clone()).unwrap_or_default() };
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._/=+-[],".contains(c) { c } else { '_' };
        name.chars().map(plain).take(NAME).collect()
    }
    /// Returns the arguments of `sbatch`. Later flags override earlier ones.
    pub fn arguments(&self, options: &SlurmOptions, log_folder: &Path) -> Vec<String> {
        let JobShape { nodes, cpus, memory, gpus, timeout } = self.shape;
        let keys: Vec<String> = self.tasks.iter().map(|task| task.key()).collect();
        let is_array = keys.len() > 1;
        // In names of files, `%` begins a field.
        let folder = log_folder.display().to_string().replace('%', "%%");
        let mut arguments = vec![
            "--parsable".to_string(),
            format!("--job-name={}", self.name()),
            format!("--comment={}", comment(&keys)),
            format!("--output={folder}/{}", if is_array { "%A_%a.log" } else { "%j.log" }),
            "--no-requeue".into(),
            "--export=ALL".into(),
            format!("--nodes={nodes}"),
            "--ntasks-per-node=1".into(),
            format!("--cpus-per-task={cpus}"),
        ];
        if is_array {
            arguments.push(format!("--array=0-{}", keys.len() - 1));
        }
        if memory > 0 {
            arguments.push(format!("--mem={}M", memory.div_ceil(1 << 20)));
        }
        if gpus > 0 {
            arguments.push(format!("--gres={}:{gpus}", options.gres));
        }
        let limit = options.limit().ok().flatten().or(timeout.map(|t| t.saturating_add(SLACK)));
        if let Some(limit) = limit {
            arguments.push(format!("--time={}", limit.as_millis().div_ceil(60_000)));
        }
        let named = [
            ("partition", &options.partition),
            ("account", &options.account),
            ("qos", &options.qos),
            ("constraint", &options.constraint),
            ("nodelist", &options.nodelist),
            ("exclude", &options.exclude),
        ];
        arguments.extend(named.iter().filter_map(|(name, value)| Some(format!("--{name}={}", value.as_ref()?))));
        arguments.extend(options.extra.iter().cloned());
        arguments
    }
}
