//! Builds the batch script of a job, which selects the attempt's URL and then replaces itself with the attempt
//! (`exec`).
//!
//! The script is written in bash, because `module` and the profiles of many sites require it. Every value is quoted, so
//! the shell interprets none, except for the pool's option `setup`, which is bash. Secrets are passed only in the
//! environment of `sbatch`, since other users may read scripts.

use super::options::SlurmOptions;
use super::request::JobShape;
use crate::executors::{GPUS, Launcher, MARK, NODE, SUPERVISED};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Exit code of a script that Slurm started a second time. The attempt's files in the store are written once, so
/// another attempt has to take over.
pub(super) const REQUEUED: u32 = 97;

/// Returns the script of a job whose attempts have these URLs: one, or one for each member of an array. On several
/// nodes the attempt starts once on each. The script sets no mark: the attempt makes its own.
pub(super) fn script(
    options: &SlurmOptions,
    launcher: &Launcher,
    shape: JobShape,
    title: &str,
    urls: &[String],
) -> Vec<u8> {
    let mut text = Vec::new();
    let mut line = |parts: &[&[u8]]| {
        parts.iter().for_each(|part| text.extend_from_slice(part));
        text.push(b'\n');
    };
    line(&[b"#!/bin/bash"]);
    line(&[b"# Trainyard: ", title.as_bytes()]);
    line(&[b"if [ \"${SLURM_RESTART_COUNT:-0}\" != 0 ]; then"]);
    line(&[b"  echo 'Slurm started this job again; another attempt takes over' >&2"]);
    line(&[b"  exit ", REQUEUED.to_string().as_bytes()]);
    line(&[b"fi"]);
    // The engine may itself run inside an attempt.
    line(&[b"unset ", SUPERVISED.as_bytes(), b" ", MARK.as_bytes()]);
    let threads = shape.cpus.to_string();
    for name in ["RAYON_NUM_THREADS", "OMP_NUM_THREADS"] {
        line(&[b"export ", name.as_bytes(), b"=", threads.as_bytes()]);
    }
    if hides_gpus(options, shape) {
        line(&[b"export ", GPUS.as_bytes(), b"="]);
    }
    for (name, value) in &options.environment {
        line(&[b"export ", name.as_bytes(), b"=", &quoted(value)]);
    }
    if !options.setup.trim().is_empty() {
        line(&[b"set -e"]);
        line(&[options.setup.trim_end().as_bytes()]);
        line(&[b"set +e"]);
    }
    match urls {
        [one] => line(&[b"trainyard_url=", &quoted(one)]),
        several => {
            line(&[b"case \"$SLURM_ARRAY_TASK_ID\" in"]);
            for (at, url) in several.iter().enumerate() {
                line(&[at.to_string().as_bytes(), b") trainyard_url=", &quoted(url), b" ;;"]);
            }
            line(&[b"esac"]);
        }
    }
    let mut words: Vec<u8> = b"exec".to_vec();
    if shape.nodes > 1 {
        words.extend(on_every_node(shape));
    }
    for word in std::iter::once(launcher.program.as_os_str()).chain(launcher.arguments.iter().map(AsRef::as_ref)) {
        words.push(b' ');
        words.extend(quoted(word));
    }
    line(&[&words, b" \"$trainyard_url\""]);
    text
}

/// Returns whether the attempt must see no GPU: neither the stage nor the pool's own flags request one.
fn hides_gpus(options: &SlurmOptions, shape: JobShape) -> bool {
    let requests_gpus = |flag: &String| ["--gres", "--gpus", "-G"].iter().any(|name| flag.starts_with(name));
    options.hide_gpus && shape.gpus == 0 && !options.extra.iter().any(requests_gpus)
}

/// Returns the prefix that starts the rest of the command once on each node, with its rank and the
/// attempt's URL. Nothing marks `srun` itself as a process of the attempt. A process that fails records the error in
/// the store and exits with 0, so that the first process can report the error. A killed process cannot do so, and
/// `srun` then ends all processes.
fn on_every_node(shape: JobShape) -> Vec<u8> {
    let JobShape { nodes, cpus, .. } = shape;
    format!(
        " srun --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 --cpus-per-task={cpus} --kill-on-bad-exit=1 \
         --wait=0 \
         bash -c 'export {NODE}=\"$SLURM_PROCID $0\"; exec \"$@\"' \"$trainyard_url\""
    )
    .into_bytes()
}

/// Quotes a word for the shell.
fn quoted(word: impl AsRef<OsStr>) -> Vec<u8> {
    let mut text = vec![b'\''];
    for byte in word.as_ref().as_bytes() {
        match byte {
            b'\'' => text.extend(b"'\\''"),
            byte => text.push(*byte),
        }
    }
    text.push(b'\'');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::process::{Command, Output, Stdio};

    fn options(setup: &str) -> SlurmOptions {
        let environment = [("NASTY".to_string(), "a'b \"$HOME\"\n`id`".to_string())].into();
        SlurmOptions { setup: setup.into(), environment, ..SlurmOptions::default() }
    }

    /// Runs a script whose program prints its last argument and its environment.
    fn runs(setup: &str, urls: &[&str], env: &[(&str, &str)]) -> Output {
        let show = "printf '%s|%s|%s|%s' \"$1\" \"${TRAINYARD_ATTEMPT-}\" \"$NASTY\" \"$OMP_NUM_THREADS\"";
        let mut launcher = Launcher::new("sh");
        launcher.arguments = vec!["-c".into(), show.into(), "it's".into()];
        let urls: Vec<String> = urls.iter().map(|url| (*url).to_string()).collect();
        let text = script(&options(setup), &launcher, JobShape::plain(1, 3), "a/b", &urls);
        let mut bash = Command::new("bash");
        bash.envs(env.iter().copied()).env(SUPERVISED, "x").env(MARK, "another attempt");
        let mut child = bash.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&text).unwrap();
        child.wait_with_output().unwrap()
    }
    fn printed(output: &Output) -> String {
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    #[test]
    fn values_are_quoted_for_the_shell() {
        let url = "file:///a b/$(touch x)'\"#runs/2026-11/r/attempts/s[x='1']/1";
        let output = runs("", &[url], &[]);
        assert_eq!(printed(&output), format!("{url}||a'b \"$HOME\"\n`id`|3"));
    }

    #[test]
    fn array_member_uses_its_url() {
        let output = runs("", &["u0", "u1", "u2"], &[("SLURM_ARRAY_TASK_ID", "1")]);
        assert!(printed(&output).starts_with("u1||"), "{output:?}");
        let single = runs("", &["u0"], &[("SLURM_ARRAY_TASK_ID", "1")]);
        assert!(printed(&single).starts_with("u0||"), "{single:?}");
    }

    #[test]
    fn setup_runs_first_and_its_failure_fails_the_job() {
        let output = runs("NASTY=fine\nexport OMP_NUM_THREADS=8", &["u"], &[]);
        assert_eq!(printed(&output), "u||fine|8");
        let output = runs("sh -c 'exit 9'\necho late", &["u"], &[]);
        assert_eq!((output.status.code(), printed(&output).as_str()), (Some(9), ""));
    }

    #[test]
    fn attempt_without_gpus_sees_none() {
        let exported = |options: &SlurmOptions, gpus: usize| {
            let shape = JobShape { gpus, ..JobShape::plain(1, 1) };
            let text = script(options, &Launcher::new("true"), shape, "a/b", &["u".to_string()]);
            String::from_utf8(text).unwrap().lines().any(|line| line == "export CUDA_VISIBLE_DEVICES=")
        };
        let plain = || SlurmOptions::default();
        assert!(exported(&plain(), 0));
        assert!(!exported(&plain(), 2), "Slurm gives the indices");
        assert!(!exported(&SlurmOptions { hide_gpus: false, ..plain() }, 0));
        assert!(!exported(&SlurmOptions { extra: vec!["--gres=gpu:1".into()], ..plain() }, 0));
        assert!(exported(&SlurmOptions { extra: vec!["--exclusive".into()], ..plain() }, 0));
    }

    #[test]
    fn restart_by_slurm_is_refused() {
        let output = runs("", &["u"], &[("SLURM_RESTART_COUNT", "1")]);
        assert_eq!((output.status.code(), printed(&output).as_str()), (Some(97), ""));
        assert!(String::from_utf8_lossy(&output.stderr).contains("another attempt takes over"));
    }

    /// A `srun` that starts its command once for each task, as Slurm's does.
    const SRUN: &str = "#!/bin/bash\nfor n in 0 1 2; do\n  words=(\"$@\")\n  while [[ \"${words[0]}\" == --* ]]; do \
        words=(\"${words[@]:1}\"); done\n  SLURM_PROCID=$n \"${words[@]}\"; echo\ndone\n";

    #[test]
    fn processes_on_several_nodes_know_their_rank() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let srun = folder.path().join("srun");
        std::fs::write(&srun, SRUN).unwrap();
        std::fs::set_permissions(&srun, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut launcher = Launcher::new("sh");
        launcher.arguments = vec![
            "-c".into(),
            "printf '%s|%s|%s' \"$TRAINYARD_NODE\" \"$1\" \"${TRAINYARD_ATTEMPT-none}\"".into(),
            "it's".into(),
        ];
        let shape = JobShape::plain(3, 2);
        let text = script(&options(""), &launcher, shape, "a/b", &["u 'x'".to_string()]);
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
        let mut bash = Command::new("bash");
        let mut child = bash.env("PATH", path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&text).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(printed(&output), "0 u 'x'|u 'x'|none\n1 u 'x'|u 'x'|none\n2 u 'x'|u 'x'|none\n");
    }
}
