//! Defines a shorter way to write a stage kind: one struct that is both the options and the implementation.

use crate::context::StageContext;
use crate::stage::{Ports, PreparedOptions, Stage};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::marker::PhantomData;
use trainyard_core::{DeclaredMetrics, OptionProblem, Result};

/// A stage kind without parts, whose metrics do not depend on its options. The struct holds one option per field and
/// denies unknown ones; doc comments are their documentation. A kind that needs more implements [`Stage`].
pub trait SimpleStage: Serialize + DeserializeOwned + JsonSchema + Send + 'static {
    /// As in [`Stage::NAME`].
    const NAME: &'static str;
    /// As in [`Stage::VERSION`].
    const VERSION: u32 = 1;
    /// As in [`Stage::SUMMARY`].
    const SUMMARY: &'static str;
    /// As in [`Stage::DOC`].
    const DOC: &'static str;
    /// As in [`Stage::EXAMPLE`].
    const EXAMPLE: &'static str = "{}";
    /// As in [`Stage::MAIN_METRIC`].
    const MAIN_METRIC: Option<&'static str> = None;

    /// As in [`Stage::ports`].
    fn ports() -> Ports;
    /// As in [`Stage::metrics`].
    fn metrics() -> DeclaredMetrics {
        DeclaredMetrics::default()
    }
    /// As in [`PreparedOptions::problems`].
    fn problems(&self) -> Vec<OptionProblem> {
        Vec::new()
    }
    /// As in [`Stage::run`].
    fn run(self, context: &mut StageContext) -> Result<()>;
}

/// The stage kind of a [`SimpleStage`].
pub struct SimpleStageKind<S>(PhantomData<fn() -> S>);

impl<S> Default for SimpleStageKind<S> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

/// Parsed options.
pub struct ParsedOptions<S>(S);

impl<S: SimpleStage> Stage for SimpleStageKind<S> {
    type Prepared = ParsedOptions<S>;
    const NAME: &'static str = S::NAME;
    const VERSION: u32 = S::VERSION;
    const SUMMARY: &'static str = S::SUMMARY;
    const DOC: &'static str = S::DOC;
    const EXAMPLE: &'static str = S::EXAMPLE;
    const MAIN_METRIC: Option<&'static str> = S::MAIN_METRIC;

    fn ports(&self) -> Ports {
        S::ports()
    }
    fn metrics(&self) -> DeclaredMetrics {
        S::metrics()
    }
    fn prepare(&self, options: Value) -> Result<ParsedOptions<S>> {
        self.parse(options).map(ParsedOptions)
    }
    fn run(&self, options: ParsedOptions<S>, context: &mut StageContext) -> Result<()> {
        options.0.run(context)
    }
}

impl<S: SimpleStage> PreparedOptions for ParsedOptions<S> {
    type Config = S;
    fn config(&self) -> &S {
        &self.0
    }
    fn problems(&self) -> Vec<OptionProblem> {
        self.0.problems()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::{DynStage, erase};
    use serde::Deserialize;
    use serde_json::json;
    use trainyard_core::MetricInfo;

    /// Counts.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Count {
        /// How far.
        #[serde(default = "ten")]
        to: u64,
    }
    fn ten() -> u64 {
        10
    }
    impl SimpleStage for Count {
        const NAME: &'static str = "count";
        const SUMMARY: &'static str = "counts";
        const DOC: &'static str = "From 0.";
        const MAIN_METRIC: Option<&'static str> = Some("last");
        fn ports() -> Ports {
            Ports { inputs: Vec::new(), outputs: Vec::new() }
        }
        fn metrics() -> DeclaredMetrics {
            vec![MetricInfo::new("last", "number", "The last number.")].into()
        }
        fn problems(&self) -> Vec<OptionProblem> {
            OptionProblem::out_of_range("/to", self.to, 1..).into_iter().collect()
        }
        fn run(self, context: &mut StageContext) -> Result<()> {
            context.metric("last", self.to as f64);
            Ok(())
        }
    }

    #[test]
    fn struct_is_both_options_and_implementation() {
        let stage: Box<dyn DynStage> = erase(SimpleStageKind::<Count>::default());
        let info = stage.info();
        assert_eq!((info.name, info.version, info.doc, info.main_metric), ("count", 1, "From 0.", Some("last")));
        assert_eq!(info.options["properties"]["to"]["description"], "How far.");
        assert_eq!(info.metrics.metrics[0].name, "last");
        assert_eq!(stage.complete(&json!({})).unwrap(), json!({"to": 10}));
        assert_eq!(stage.validate(&json!({"to": 0}))[0].pointer, "/to");
        let unknown = stage.prepare(&json!({"two": 1})).err().unwrap();
        assert!(unknown.message.contains("options of `count`") && unknown.message.contains("`two`"), "{unknown}");
    }
}
