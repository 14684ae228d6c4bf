//! Resolves a name to a stage kind (`rl`), a family (`losses`), a part (`losses/clip`, or `clip` if the name is unique)
//! or an executor.

use super::Catalogue;
use trainyard_api::PartPage;
use trainyard_core::{Error, KindInfo, Result, StageKinds as _};
use trainyard_runtime::executors::ExecutorKind;
use trainyard_spec::diagnostic::suggest;

/// Names of the folders of stages and executors, which are no families of parts.
const STAGES: &str = "stages";
const EXECUTORS: &str = "executors";

/// Result of a lookup.
pub enum CatalogueEntry<'a> {
    Stage(&'a KindInfo),
    Part(Box<PartPage>),
    Family(Vec<PartPage>),
    Executor(&'a ExecutorKind),
    Executors(&'a [ExecutorKind]),
}

impl Catalogue {
    /// Resolves a name. Errors: invalid, with the nearest names, or with all full names if a bare name is ambiguous.
    pub fn find(&self, name: &str) -> Result<CatalogueEntry<'_>> {
        if let Some(info) = self.kind(name.strip_prefix("stages/").unwrap_or(name)) {
            return Ok(CatalogueEntry::Stage(info));
        }
        if let Some(pages) = self.pages(name) {
            return Ok(CatalogueEntry::Family(pages));
        }
        if name == EXECUTORS {
            return Ok(CatalogueEntry::Executors(self.executors()));
        }
        let full = self.names_of(name);
        match full.as_slice() {
            [] => Err(self.unknown(name)),
            [one] => Ok(self.entry(one)),
            several => Err(Error::invalid(format!("`{name}` is the name of several parts"))
                .help(format!("use one of: {}", several.join(", ")))),
        }
    }
    /// Returns all stage kinds, families and full names of parts and executors that [`Catalogue::find`] resolves.
    pub fn all_names(&self) -> Vec<String> {
        let folders = self.folders();
        let kinds = self.names().into_iter().map(str::to_string);
        let families = folders.iter().map(|(folder, _)| (*folder).to_string()).filter(|folder| folder != STAGES);
        kinds.chain(families).chain(full_names(&folders).filter(|name| !name.starts_with("stages/"))).collect()
    }
    /// Returns an error message if the full name of a part, stage or executor (`filters/void_turn`,
    /// `stages/data/filter`) does not exist.
    pub fn problem(&self, name: &str) -> Option<String> {
        let hint = |help: Option<String>| help.map(|h| format!("; {h}")).unwrap_or_default();
        let (folder, kind) = name.split_once('/').unwrap_or((name, ""));
        let folders = self.folders();
        let Some((_, kinds)) = folders.iter().find(|(known, _)| *known == folder) else {
            let help = hint(suggest(folder, folders.iter().map(|(folder, _)| *folder)));
            return Some(format!("part `{name}`: there is no folder of parts `{folder}`{help}"));
        };
        let unknown = !kinds.contains(&kind);
        unknown
            .then(|| format!("there is no part `{name}` in this build{}", hint(suggest(kind, kinds.iter().copied()))))
    }

    /// Returns the full names that a name may mean; a full name means itself.
    fn names_of(&self, name: &str) -> Vec<String> {
        let all = self.folders();
        let all = all.iter().flat_map(|(folder, kinds)| kinds.iter().map(move |kind| (*folder, *kind)));
        all.map(|(folder, kind)| (format!("{folder}/{kind}"), kind))
            .filter(|(full, kind)| full == name || *kind == name)
            .map(|(full, _)| full)
            .collect()
    }
    /// Returns the entry of a full name, which must exist.
    fn entry(&self, full: &str) -> CatalogueEntry<'_> {
        let (folder, kind) = full.split_once('/').unwrap_or((full, ""));
        let executor = self.executors().iter().find(|executor| folder == EXECUTORS && executor.name == kind);
        let page = || self.pages(folder).into_iter().flatten().find(|page| page.kind == kind);
        match (executor, self.kind(kind).filter(|_| folder == STAGES)) {
            (Some(executor), _) => CatalogueEntry::Executor(executor),
            (None, Some(info)) => CatalogueEntry::Stage(info),
            (None, None) => {
                page().map_or_else(|| CatalogueEntry::Family(Vec::new()), |page| CatalogueEntry::Part(Box::new(page)))
            }
        }
    }
    /// Returns every folder with the names in it.
    fn folders(&self) -> Vec<(&'static str, Vec<&str>)> {
        let mut folders: Vec<(&'static str, Vec<&str>)> =
            self.families().into_iter().map(|family| (family.folder(), family.kinds())).collect();
        folders.push((EXECUTORS, self.executors().iter().map(|executor| executor.name).collect()));
        folders.push((STAGES, self.names()));
        folders
    }
    fn unknown(&self, name: &str) -> Error {
        let folders = self.folders();
        let full: Vec<String> = full_names(&folders).collect();
        let bare = folders.iter().flat_map(|(folder, kinds)| kinds.iter().copied().chain([*folder]));
        let near = suggest(name, bare.chain(full.iter().map(String::as_str)));
        let list = "`trainyard stages` lists stage kinds and folders of parts";
        let help = near.map_or_else(|| list.to_string(), |near| format!("{near} {list}"));
        Error::invalid(format!("there is no stage kind or part `{name}`")).help(help)
    }
}

/// Returns the full names of everything in the folders.
fn full_names(folders: &[(&'static str, Vec<&str>)]) -> impl Iterator<Item = String> {
    folders.iter().flat_map(|(folder, kinds)| kinds.iter().map(move |kind| format!("{folder}/{kind}")))
}
