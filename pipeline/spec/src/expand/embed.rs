//! Expands `uses: ./other.yaml`: embeds a workflow in another, once for each instance of the embedding stage.

use super::axes::Coordinate;
use super::params::GivenParam;
use super::{EmbeddingStage, ExpandedWorkflow};
use crate::diagnostic::{Diagnostic, Span, suggest};
use crate::read::{BoundContent, BoundNode, ValueReader};
use crate::workflow::{RawStage, Workflow};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const MAX_EMBEDDING_DEPTH: usize = 16;

impl ExpandedWorkflow<'_> {
    #[expect(clippy::too_many_arguments, reason = "one call site; a struct would only rename the arguments")]
    pub(super) fn embed(
        &mut self,
        space: usize,
        index: usize,
        stage: &RawStage,
        coordinates: &[Coordinate],
        path: &Path,
        span: Span,
        chain: &mut Vec<PathBuf>,
    ) -> Option<usize> {
        if chain.iter().any(|p| p == path) || chain.len() >= MAX_EMBEDDING_DEPTH {
            let names: Vec<String> = chain
                .iter()
                .map(|p| p.as_path())
                .chain([path])
                .map(|p| p.file_name().unwrap_or_default().to_string_lossy().into_owned())
                .collect();
            let d = Diagnostic::error("cycle", span, format!("these files embed each other: {}", names.join(" → ")));
            self.diagnostics
                .push(d.help(format!("embedding goes at most {MAX_EMBEDDING_DEPTH} deep and never in a circle")));
            return None;
        }
        let workflow = self.load(path, Some(span))?;
        let with = self.embed_with(space, stage, coordinates, &workflow)?;
        let home = &self.workflow_instances[space];
        let prefix = format!("{}{}/", home.prefix, stage.id);
        let inherited: Vec<Coordinate> = home.inherited.iter().chain(coordinates).cloned().collect();
        let with: BTreeMap<String, (BoundNode, PathBuf)> = with
            .into_iter()
            .map(|(name, bound)| {
                let folder = self.sources.folder(bound.span).to_path_buf();
                (name, (bound, folder))
            })
            .collect();
        let given = |name: &str| with.get(name).map(|(bound, folder)| GivenParam { bound: bound.clone(), folder });
        let params = self.params(&workflow, &given);
        let parent = Some(EmbeddingStage { workflow: space, stage: index, coordinates: coordinates.to_vec() });
        chain.push(path.to_path_buf());
        let opened = self.open(workflow, prefix, inherited, params, parent, chain);
        chain.pop();
        Some(opened)
    }

    /// Reads the `with` of an embedding stage: values for the child's parameters.
    fn embed_with(
        &mut self,
        space: usize,
        stage: &RawStage,
        coordinates: &[Coordinate],
        child: &Workflow,
    ) -> Option<BTreeMap<String, BoundNode>> {
        let Some(entry) = stage.entry("with") else { return Some(BTreeMap::new()) };
        let bound = self.bind_early(space, coordinates, &entry.value)?;
        let BoundContent::Map(entries) = bound.content else {
            ValueReader { diagnostics: &mut self.diagnostics }.wrong(&bound, "`with`", "a map");
            return None;
        };
        for e in &entries {
            if !child.params.iter().any(|p| p.key == e.key) {
                let d = Diagnostic::error(
                    "unknown-param",
                    e.key_span,
                    format!(
                        "`{}` has no param `{}`",
                        child.path.file_name().unwrap_or_default().to_string_lossy(),
                        e.key
                    ),
                );
                self.diagnostics.push(d.help_if(suggest(&e.key, child.params.iter().map(|p| p.key.as_str()))));
            }
        }
        Some(entries.into_iter().map(|e| (e.key, e.value)).collect())
    }
}
