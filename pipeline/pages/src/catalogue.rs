//! Plain data of the program's recipes, stage kinds and parts, which the program fills in.

use serde_json::Value;
use std::ops::Deref;
use std::sync::LazyLock;
use trainyard_core::{KindInfo, MetricInfo};

/// Catalogue that is made when a page first shows it.
pub type LazyCatalogue = LazyLock<PageCatalogue, Box<dyn FnOnce() -> PageCatalogue + Send>>;

/// Recipes, stage kinds and parts of the program.
#[derive(Debug, Default)]
pub struct PageCatalogue {
    /// Recipes, sorted by name.
    pub recipes: LazyRecipes,
    /// Stage kinds, sorted by name.
    pub kinds: Vec<KindInfo>,
    /// Parts of all families, sorted by name.
    pub parts: Vec<PartEntry>,
}

impl PageCatalogue {
    /// Returns the stage kind of this name.
    pub fn kind(&self, name: &str) -> Option<&KindInfo> {
        self.kinds.iter().find(|kind| kind.name == name)
    }
    /// Returns the options that the default composition of a stage kind expands to, if the kind has compositions and
    /// the config names none.
    pub fn composition(&self, kind: &KindInfo, config: &Value) -> Option<Value> {
        let options = kind.options.get("properties").and_then(Value::as_object)?;
        let unnamed = options.iter().filter(|(name, _)| config.get(name.as_str()).is_none());
        let mut defaults = unnamed.filter_map(|(_, option)| option.get("default").and_then(Value::as_str));
        defaults.find_map(|default| {
            let is_named = |part: &&PartEntry| {
                let name = part.name.strip_prefix(&part.family).and_then(|rest| rest.strip_prefix('/'));
                name == Some(default) && kind.families.iter().any(|family| *family == part.family)
            };
            let part = self.parts.iter().find(is_named)?;
            serde_json::from_str(part.expands_to.as_ref()?).ok()
        })
    }
}

/// Recipes that are made when a page first shows them, since all their files are compiled.
#[derive(Debug)]
pub struct LazyRecipes(LazyLock<Vec<RecipeEntry>, Box<dyn FnOnce() -> Vec<RecipeEntry> + Send>>);

impl LazyRecipes {
    /// Returns recipes that `make` makes on first use.
    pub fn new(make: impl FnOnce() -> Vec<RecipeEntry> + Send + 'static) -> Self {
        Self(LazyLock::new(Box::new(make)))
    }
}

impl Default for LazyRecipes {
    fn default() -> Self {
        Self::new(Vec::new)
    }
}

impl From<Vec<RecipeEntry>> for LazyRecipes {
    fn from(recipes: Vec<RecipeEntry>) -> Self {
        Self::new(|| recipes)
    }
}

impl Deref for LazyRecipes {
    type Target = [RecipeEntry];

    fn deref(&self) -> &[RecipeEntry] {
        &self.0
    }
}

/// Recipe of a published system.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecipeEntry {
    /// Name of the recipe.
    pub name: String,
    /// Folder of the recipe, as `filters-and-curricula`.
    pub subject: String,
    /// Name of the system.
    pub system: String,
    /// Publication, as `arXiv 2503.14476`.
    pub source: String,
    /// Difference between the treatment and the baseline.
    pub mechanism: String,
    /// Gain that the source claims; empty if it is not judged.
    pub claim: String,
    /// Problems and policy on which the claim is judged; empty if it is not judged.
    pub world: String,
    /// Limits of the recipe.
    pub limits: String,
    /// Result over pooled seeds, or the first number that the mechanism moved; empty if it was not measured.
    pub measured: String,
    /// Checks of the recipe.
    pub checks: Vec<RecipeCheck>,
    /// Reason why the checks cannot be shown.
    pub problem: Option<String>,
    /// Workflow file.
    pub text: String,
}

/// Check of a recipe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecipeCheck {
    /// Stage of the check.
    pub stage: String,
    /// Role of the check: `mechanism`, `guard`, `premise`, `effect` or `placebo`; empty without one.
    pub role: String,
    /// Name of the metric, as `void.difference`.
    pub metric: String,
    /// Required values, as `at least 0.1`.
    pub bound: String,
}

/// Part of a family, such as `losses/clip`.
#[derive(Debug, Clone, Default)]
pub struct PartEntry {
    /// Name of the part, with its family.
    pub name: String,
    /// Family of the part.
    pub family: String,
    /// Summary in one line.
    pub summary: String,
    /// Documentation in Markdown.
    pub doc: String,
    /// Requirements with default options.
    pub needs: Vec<String>,
    /// JSON Schema of the options, `kind` included.
    pub options: Value,
    /// Metrics, by their names in manifests.
    pub metrics: Vec<MetricInfo>,
    /// Options that a named composition expands to, as JSON.
    pub expands_to: Option<String>,
}
