//! Completes words of a command line: names of runs, stages, artifacts, stage kinds and recipes.
//!
//! The script of a shell starts this program with [`VARIABLE`] for every word that it completes. So a completion reads
//! few files, only of a local store, and ends within [`TIME`]; an error yields no names and no message.

use crate::shipped::{self, ShippedFiles};
use clap_complete::CompleteEnv;
use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter as _};
use clap_complete::env::Shells;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;
use trainyard_app::workflow::working_directory;
use trainyard_app::{Access, AppSession, Catalogue, CatalogueBuilder, SessionOptions};
use trainyard_core::{Error, Result};
use trainyard_engine::fold::RunView;
use trainyard_spec::extends::{Loader, TextIndex};
use trainyard_spec::files::absolute;
use trainyard_spec::{FileSystem as _, LocalFileSystem, Sources};
use trainyard_views::find::{self, LATEST, LATEST_SUCCESS};

/// Environment variable with the shell that requests a completion.
const VARIABLE: &str = "TRAINYARD_COMPLETE";
/// Name of the program in scripts.
const PROGRAM: &str = "trainyard";
/// Time limit of reading a store.
const TIME: Duration = Duration::from_millis(500);
/// Maximum number of candidates.
const CANDIDATES: usize = 100;
/// Maximum number of run ids among them, newest first.
const RUNS: usize = 20;
/// Options with a value in the next word, which may stand before the arguments of a command.
const VALUED: [&str; 5] = ["--store", "--site", "--log", "--log-format", "--format"];

/// Catalogue of the program, for stage kinds and site files.
static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();

/// Returns whether a shell started this process for a completion.
pub fn is_requested() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|shell| !shell.is_empty())
}

/// Prints the candidates for the word that the shell completes.
pub fn respond(command: fn() -> clap::Command, builder: CatalogueBuilder) {
    if let Ok(catalogue) = builder.build() {
        let _ = CATALOGUE.set(catalogue);
    }
    let folder = std::env::current_dir().ok();
    let completion = CompleteEnv::with_factory(command).var(VARIABLE).bin(PROGRAM).completer(PROGRAM);
    // A shell cannot show an error while the user types.
    let _ = completion.try_complete(std::env::args_os(), folder.as_deref());
}

/// Returns the script of a shell, which starts `trainyard` for completions. Errors: bug (an unknown shell).
pub fn script(shell: &str) -> Result<String> {
    let unknown = |e: &dyn std::fmt::Display| Error::bug(format!("there is no script for the shell {shell}: {e}"));
    let shells = Shells::builtins();
    let completer = shells.completer(shell).ok_or_else(|| unknown(&"its name is unknown"))?;
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script).map_err(|e| unknown(&e))?;
    let script = String::from_utf8(script).map_err(|e| unknown(&e))?;
    let first = if shell == "zsh" { FIRST_OF_ZSH } else { "" };
    Ok(script.trim_end().to_string() + first)
}

/// Completes with the file itself, if zsh loads it as a function.
const FIRST_OF_ZSH: &str =
    "\nif [[ \"$funcstack[1]\" == _trainyard ]]; then _clap_dynamic_completer_trainyard \"$@\"; fi";

/// Completes a run: its id, `latest` or `latest-success`.
pub fn runs(current: &OsStr) -> Vec<CompletionCandidate> {
    matching(current, run_names(&current.to_string_lossy()))
}

/// Completes an artifact: first its run, then stage and output.
pub fn artifacts(current: &OsStr) -> Vec<CompletionCandidate> {
    let text = current.to_string_lossy();
    let names: Vec<String> = match text.split_once('/') {
        None => run_names(&text).into_iter().map(|run| format!("{run}/")).collect(),
        Some((run, _)) => {
            let view = view(run).unwrap_or_default();
            let stages = view.stages.iter();
            stages.flat_map(|s| s.outputs.keys().map(move |port| format!("{run}/{}/{port}", s.key()))).collect()
        }
    };
    matching(current, names)
}

/// Completes a model: an artifact or a folder.
pub fn models(current: &OsStr) -> Vec<CompletionCandidate> {
    let mut candidates = artifacts(current);
    candidates.extend(PathCompleter::dir().complete(current));
    candidates
}

/// Completes a stage of the run in the command line.
pub fn stages_of_run(current: &OsStr) -> Vec<CompletionCandidate> {
    let words = words();
    let view = run_of(&words).and_then(view).unwrap_or_default();
    matching(current, view.stages.iter().map(|stage| stage.key().0.clone()))
}

/// Completes a stage of the workflow file in the command line.
pub fn stages_of_file(current: &OsStr) -> Vec<CompletionCandidate> {
    let is_file = |word: &String| Path::new(word).extension().is_some_and(|end| end == "yaml" || end == "yml");
    let file = words().into_iter().find(is_file);
    matching(current, file.and_then(|file| stage_names(Path::new(&file))).unwrap_or_default())
}

/// Completes a stage kind, a family, a part or an executor.
pub fn kinds(current: &OsStr) -> Vec<CompletionCandidate> {
    matching(current, CATALOGUE.get().map(Catalogue::all_names).unwrap_or_default())
}

/// Completes a recipe of this build.
pub fn recipes(current: &OsStr) -> Vec<CompletionCandidate> {
    let is_recipe =
        |path: &PathBuf| ShippedFiles.read(path).is_ok_and(|text| text.lines().any(|line| line.starts_with("recipe:")));
    let name = |path: PathBuf| Some(path.file_stem()?.to_string_lossy().into_owned());
    matching(current, shipped::paths().filter(is_recipe).filter_map(name))
}

fn matching(current: &OsStr, names: impl IntoIterator<Item = String>) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let names = names.into_iter().filter(|name| name.starts_with(&*current));
    names.take(CANDIDATES).map(CompletionCandidate::new).collect()
}

/// Returns `latest`, `latest-success`, and the newest runs whose ids begin with `start`.
fn run_names(start: &str) -> Vec<String> {
    let runs = open().and_then(|session| within(&session, session.store.list_runs())).unwrap_or_default();
    let newest = runs.into_iter().rev().map(|run| run.0).filter(|run| run.starts_with(start)).take(RUNS);
    [LATEST, LATEST_SUCCESS].map(String::from).into_iter().chain(newest).collect()
}

fn view(run: &str) -> Option<RunView> {
    let session = open()?;
    within(&session, async {
        let run = find::run(&session.store, run).await?;
        find::view(&session.store, &run).await
    })
}

/// Returns the keys of the stages of a workflow file and its parents.
fn stage_names(file: &Path) -> Option<Vec<String>> {
    let folder = working_directory().ok()?;
    let (mut sources, mut diagnostics, mut texts) = (Sources::default(), Vec::new(), TextIndex::new());
    let mut loader = Loader {
        files: &LocalFileSystem,
        sources: &mut sources,
        diagnostics: &mut diagnostics,
        working_directory: &folder,
        texts: &mut texts,
    };
    let tree = loader.merged(&absolute(&folder, &file.to_string_lossy()), None)?;
    Some(tree.get("stages")?.map()?.iter().map(|entry| entry.key.clone()).collect())
}

/// Opens the store of the command line, if it is on this machine.
fn open() -> Option<AppSession> {
    let (words, catalogue) = (words(), CATALOGUE.get()?);
    let (store, site) = (option(&words, "--store"), option(&words, "--site"));
    let place = SessionOptions { store: store.map(String::from), site: site.map(PathBuf::from) };
    let site = trainyard_app::session::site(&place, catalogue).ok()?;
    let is_remote = place.store.as_ref().or(site.store.as_ref()).is_some_and(|url| url.contains("://"));
    if is_remote { None } else { AppSession::open(&place, Access::Read, catalogue).ok() }
}

fn within<T>(session: &AppSession, read: impl Future<Output = Result<T>>) -> Option<T> {
    let limited = async {
        let slow = |_| Error::retryable("the store is slow");
        tokio::time::timeout(TIME, read).await.map_err(slow)?
    };
    session.block_on(limited).ok()
}

/// Returns the words of the command line that the shell completes, without the name of the program.
fn words() -> Vec<String> {
    let words = std::env::args_os().skip_while(|word| word != "--").skip(2);
    words.map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Returns the value of an option: `--store X` or `--store=X`.
fn option<'a>(words: &'a [String], name: &str) -> Option<&'a str> {
    let joined = words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    joined.or_else(|| words.iter().skip_while(|word| *word != name).nth(1).map(String::as_str))
}

/// Returns the run in a command such as `logs RUN STAGE` or `runs afresh RUN STAGE`.
fn run_of(words: &[String]) -> Option<&str> {
    let mut arguments = Vec::new();
    let mut is_value = false;
    for word in words {
        if !is_value && !word.starts_with('-') {
            arguments.push(word.as_str());
        }
        is_value = VALUED.contains(&word.as_str());
    }
    arguments.get(if arguments.first() == Some(&"runs") { 2 } else { 1 }).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Vec<String> {
        line.split(' ').map(String::from).collect()
    }

    #[test]
    fn the_run_of_a_command_is_its_first_argument() {
        assert_eq!(run_of(&split("logs latest r")), Some("latest"));
        assert_eq!(run_of(&split("runs --store s show 2026 --curves r")), Some("2026"));
        assert_eq!(run_of(&split("explain --format json latest r")), Some("latest"));
        assert_eq!(run_of(&split("runs show")), None);
        assert_eq!(run_of(&[]), None);
    }

    #[test]
    fn options_have_values_in_two_forms() {
        assert_eq!(option(&split("logs --store a latest"), "--store"), Some("a"));
        assert_eq!(option(&split("logs --store=b latest"), "--store"), Some("b"));
        assert_eq!(option(&split("logs --stored latest --store"), "--store"), None);
    }

    #[test]
    fn candidates_begin_with_the_word_and_are_bounded() {
        let names = (0..1000).map(|i| format!("r{i}"));
        assert_eq!(matching(OsStr::new("r"), names.clone()).len(), CANDIDATES);
        let few = matching(OsStr::new("r99"), names);
        assert_eq!(few.iter().map(|c| c.get_value().to_string_lossy().into_owned()).next().as_deref(), Some("r99"));
        assert_eq!(few.len(), 11);
    }

    #[test]
    fn stages_of_a_file_and_its_parents_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("child.yaml");
        std::fs::write(folder.path().join("parent.yaml"), "version: 1\nstages: {one: {uses: noop}}\n").unwrap();
        let child = "version: 1\nextends: ./parent.yaml\nstages: {two: {uses: noop}}\n";
        std::fs::write(&file, child).unwrap();
        let mut names = stage_names(&file).unwrap();
        names.sort();
        assert_eq!(names, ["one", "two"]);
        assert_eq!(stage_names(&folder.path().join("absent.yaml")), None);
    }

    #[test]
    fn scripts_of_all_shells_start_the_program() {
        for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
            let script = script(shell).unwrap();
            assert!(script.contains(VARIABLE) && script.contains(PROGRAM), "{shell}: {script}");
        }
        assert!(script("zsh").unwrap().contains("function _clap_dynamic_completer_trainyard()"));
        assert!(script("sh").is_err());
    }
}
