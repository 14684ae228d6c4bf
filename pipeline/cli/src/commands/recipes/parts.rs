//! Names of parts as recipes write them, by folder and kind (`filters/void_turn`), and the files that they stand in.
//!
//! Why here: only the command line sees all registries. Refuses: guessing; a name that no registry holds is a mistake,
//! with the nearest valid one.

use std::path::Path;
use trainyard_core::Catalogue;
use trainyard_data::{filter, synthesize};
use trainyard_envs::{environments, formats, rewards, tools, verifiers};
use trainyard_learn::registry as learn;
use trainyard_spec::diagnostic::suggest;

/// Every part of this build.
pub struct Parts(Vec<Folder>);

/// Parts of one sort.
struct Folder {
    name: &'static str,
    /// Where their files are, from the repository's root.
    homes: &'static [&'static str],
    kinds: Vec<String>,
}

impl Parts {
    /// From the registries; `stages` are the stage kinds.
    pub fn of_this_build(stages: &dyn Catalogue) -> Self {
        fn folder<'k>(
            name: &'static str,
            homes: &'static [&'static str],
            kinds: impl IntoIterator<Item = &'k str>,
        ) -> Folder {
            Folder { name, homes, kinds: kinds.into_iter().map(str::to_string).collect() }
        }
        Self(vec![
            folder("advantages", &["stages/learn/src/advantages"], learn::advantages().names()),
            folder("corrections", &["stages/learn/src/corrections"], learn::corrections().names()),
            folder("curricula", &["stages/learn/src/curricula"], learn::curricula().names()),
            folder("filters", &["stages/learn/src/filters"], learn::filters().names()),
            folder("losses", &["stages/learn/src/losses"], learn::loss_terms().names()),
            folder("modulations", &["stages/learn/src/modulations"], learn::modulations().names()),
            folder("replay", &["stages/learn/src/replay"], learn::replays().names()),
            folder("strategies", &["stages/learn/src/strategies"], learn::strategies().names()),
            folder("environments", &["stages/envs/src/environments"], environments::registry::kinds().names()),
            folder("formats", &["stages/envs/src/formats"], formats::registry::names()),
            folder("rewards", &["stages/envs/src/rewards"], rewards::registry::kinds().names()),
            folder("tools", &["stages/envs/src/tools"], tools::registry::names()),
            folder("verifiers", &["stages/envs/src/verifiers"], verifiers::registry::names()),
            folder("rules", &["stages/data/src/filter"], filter::registry::rules().names()),
            folder("synthesize", &["stages/data/src/synthesize"], synthesize::registry::names()),
            folder("stages", &["stages/train/src/stages", "stages/data/src", "stages/lm/src/stages"], stages.names()),
        ])
    }

    /// What is wrong with a name.
    pub fn problem(&self, part: &str) -> Option<String> {
        let hint = |help: Option<String>| help.map(|h| format!("; {h}")).unwrap_or_default();
        let (folder, kind) = part.split_once('/').unwrap_or((part, ""));
        let Some(folder) = self.0.iter().find(|f| f.name == folder) else {
            let help = hint(suggest(folder, self.0.iter().map(|f| f.name)));
            return Some(format!("part `{part}`: there is no folder of parts `{folder}`{help}"));
        };
        let unknown = !folder.kinds.iter().any(|k| k == kind);
        unknown.then(|| {
            format!(
                "there is no part `{part}` in this build{}",
                hint(suggest(kind, folder.kinds.iter().map(String::as_str)))
            )
        })
    }

    /// The file or folder of a part, from the repository's root; none if it is not found there.
    pub fn file(&self, root: &Path, part: &str) -> Option<String> {
        let (folder, kind) = part.split_once('/')?;
        let homes = self.0.iter().find(|f| f.name == folder)?.homes;
        let stem = kind.rsplit('/').next().unwrap_or(kind).replace('-', "_");
        homes
            .iter()
            .flat_map(|home| [format!("{home}/{stem}.rs"), format!("{home}/{stem}")])
            .find(|path| root.join(path).exists())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up_in_every_registry() {
        let parts = Parts::of_this_build(&crate::wiring::registry().unwrap());
        for good in [
            "filters/void_turn",
            "losses/clip",
            "replay/none",
            "rewards/answer",
            "rules/void_turn",
            "stages/data/filter",
        ] {
            assert_eq!(parts.problem(good), None);
        }
        assert!(parts.problem("filters/voidturn").unwrap().contains("did you mean `void_turn`?"));
        assert!(parts.problem("filter/void_turn").unwrap().contains("did you mean `filters`?"));
        assert!(parts.problem("void_turn").unwrap().contains("no folder of parts"));
    }

    #[test]
    fn every_rl_part_has_its_file() {
        let parts = Parts::of_this_build(&crate::wiring::registry().unwrap());
        let root = Path::new("../..");
        for folder in parts.0.iter().filter(|f| f.homes[0].starts_with("stages/learn")) {
            for kind in &folder.kinds {
                let name = format!("{}/{kind}", folder.name);
                assert_eq!(parts.file(root, &name), Some(format!("stages/learn/src/{name}.rs")));
            }
        }
        assert_eq!(
            parts.file(root, "environments/word-problems"),
            Some("stages/envs/src/environments/word_problems".into())
        );
        assert_eq!(parts.file(root, "stages/data/filter"), Some("stages/data/src/filter".into()));
        assert_eq!(parts.file(root, "filters/absent"), None);
    }
}
