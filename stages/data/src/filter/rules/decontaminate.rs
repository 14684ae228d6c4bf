//! Implements the rule `decontaminate`: rejects rows that overlap an evaluation problem. `data/select` applies the same
//! test to problems.
//!
//! Separate methods find equal problems, copied passages and rephrasings, and each method may reject a row. Without
//! evaluation problems the rule fails, because a pass would look like a clean result.

use crate::filter::rows::RuleRows;
use crate::filter::rule::{FilterRule, RuleColumns, RuleContext, RulePass, RuleVerdict, unwired};
use crate::text::{ngrams, normal};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use trainyard_api::PartOptions;
use trainyard_core::{Error, OptionProblem, Result, WiredInputs};
use trainyard_tables::{MessageColumns, Problem};

/// Method that detects overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OverlapMethod {
    /// Equal canonical forms, or equal words of the question.
    Canonical,
    /// Any shared 13-gram.
    #[serde(rename = "ngram_13")]
    Ngram13,
    /// A given share of the 8-grams.
    #[serde(rename = "coverage_8")]
    Coverage8,
}

/// Rejects rows that overlap an evaluation problem.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Decontaminate {
    /// Methods whose overlap rejects a row. For problems generated from templates use `[canonical]` alone.
    pub methods: Vec<OverlapMethod>,
    /// Share of 8-grams at which `coverage_8` rejects.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub coverage: f64,
}

impl Default for Decontaminate {
    fn default() -> Self {
        Self {
            methods: vec![OverlapMethod::Canonical, OverlapMethod::Ngram13, OverlapMethod::Coverage8],
            coverage: 0.5,
        }
    }
}

impl PartOptions for Decontaminate {
    const KIND: &'static str = "decontaminate";
    const SUMMARY: &'static str = "no overlap with an evaluation problem";
    const DOC: &'static str = "Each of the `methods` may reject:\n\
        `canonical`: the same problem, by equal canonical forms or equal words of the question;\n\
        `ngram_13`: any 13-gram of an evaluation question or reference occurs in the row (2005.14165);\n\
        `coverage_8`: at least the share `coverage` of an evaluation question's 8-grams occurs in the row's question,\n\
        or of the row's 8-grams in one evaluation question (2411.15124).\n\n\
        Needs the input `evaluation`. For problems generated from templates use `canonical` alone: they share n-grams\n\
        by construction. Reasons: same_problem, ngram_13, coverage_8.";
    fn check(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        if self.methods.is_empty() {
            problems.push(
                OptionProblem::new("/methods", "no methods are listed")
                    .help("list at least one of: canonical, ngram_13, coverage_8"),
            );
        }
        problems.extend(OptionProblem::out_of_range(
            "/coverage",
            self.coverage,
            (Bound::Excluded(0.0), Bound::Included(1.0)),
        ));
        problems
    }
}

impl FilterRule for Decontaminate {
    fn kind(&self) -> &'static str {
        Self::KIND
    }
    fn columns(&self) -> RuleColumns {
        RuleColumns::named(&["problem_id", "messages"])
    }
    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        unwired(Self::KIND, "evaluation", inputs)
    }
    fn start<'a>(&'a self, context: &'a RuleContext<'a>) -> Result<Box<dyn RulePass + 'a>> {
        let index = self.index(context.evaluation, "remove the rule from `rules`")?;
        Ok(Box::new(OverlapPass { rule: self, index, problems: context.problems }))
    }
}

struct OverlapPass<'a> {
    rule: &'a Decontaminate,
    index: Index<'a>,
    problems: &'a BTreeMap<String, Problem>,
}

impl RulePass for OverlapPass<'_> {
    fn judge(&mut self, rows: &RuleRows) -> Result<Vec<RuleVerdict>> {
        let (messages, problems) = (rows.messages()?, rows.texts("problem_id")?);
        let (rule, index) = (self.rule, &self.index);
        let judge = |i: usize| {
            let query = OverlapQuery::row(&messages, i, self.problems.get(problems.value(i)));
            match rule.overlap(&query, index) {
                Some((code, id)) => RuleVerdict::reject(code, format!("as in {id}")),
                None => RuleVerdict::Keep,
            }
        };
        Ok((0..rows.len()).into_par_iter().map(judge).collect())
    }
}

impl Decontaminate {
    /// Prepares the comparison of problems with those of `evaluation`. Errors: invalid, if `evaluation` is empty or an
    /// option is invalid.
    pub fn problem_index<'a>(&'a self, evaluation: &'a [Problem]) -> Result<ProblemIndex<'a>> {
        Ok(ProblemIndex { rule: self, index: self.index(evaluation, "leave out `decontaminate`")? })
    }

    /// Returns a description of invalid options, or `None` if the options are valid.
    pub fn fault(&self) -> Option<&'static str> {
        let wrong = self.methods.is_empty() || !(self.coverage > 0.0 && self.coverage <= 1.0);
        wrong.then_some("`methods` must not be empty, and `coverage` must be above 0 and at most 1")
    }

    fn index<'a>(&self, evaluation: &'a [Problem], otherwise: &str) -> Result<Index<'a>> {
        if evaluation.is_empty() {
            return Err(Error::invalid("no evaluation problems to decontaminate against")
                .help(format!("wire input `evaluation`, or {otherwise}")));
        }
        match self.fault() {
            Some(fault) => Err(Error::invalid(fault)),
            None => Ok(Index::new(evaluation)),
        }
    }

    /// Returns the reason code of the first method that finds an overlap and the id of the evaluation problem, or
    /// `None` if no method finds an overlap.
    fn overlap<'a>(&self, compared: &OverlapQuery<'_>, index: &Index<'a>) -> Option<(&'static str, &'a str)> {
        self.methods.iter().find_map(|method| match method {
            OverlapMethod::Canonical => index.canonical(compared).map(|id| ("same_problem", id)),
            OverlapMethod::Ngram13 => index.any_13(compared).map(|id| ("ngram_13", id)),
            OverlapMethod::Coverage8 => index.covering_8(compared, self.coverage).map(|id| ("coverage_8", id)),
        })
    }
}

/// Evaluation problems with which other problems are compared.
pub struct ProblemIndex<'a> {
    rule: &'a Decontaminate,
    index: Index<'a>,
}

impl ProblemIndex<'_> {
    /// Returns whether each problem overlaps an evaluation problem, by its messages, canonical form and reference.
    pub fn overlapping(&self, problems: &[Problem]) -> Vec<bool> {
        let overlaps = |problem: &Problem| self.rule.overlap(&OverlapQuery::problem(problem), &self.index).is_some();
        problems.par_iter().map(overlaps).collect()
    }
}

/// Texts that are compared with the evaluation problems.
struct OverlapQuery<'a> {
    /// Canonical form of the problem; empty if unknown.
    canonical: &'a str,
    question: &'a str,
    /// All texts, including the question.
    texts: Vec<Cow<'a, str>>,
}

impl<'a> OverlapQuery<'a> {
    fn row(messages: &MessageColumns<'a>, row: usize, problem: Option<&'a Problem>) -> Self {
        Self {
            canonical: problem.map_or("", |p| &p.canonical),
            question: messages.question(row),
            texts: messages.of_row(row).map(|(_, content)| Cow::Borrowed(content)).collect(),
        }
    }
    fn problem(problem: &'a Problem) -> Self {
        let messages = problem.messages.iter().map(|m| Cow::Borrowed(m.content.as_str()));
        let texts = messages.chain([Cow::Owned(reference(problem))]).collect();
        Self { canonical: &problem.canonical, question: problem.question(), texts }
    }
}

/// Returns the worked solution without annotations; empty if it is absent.
fn reference(problem: &Problem) -> String {
    problem.reference.as_deref().map(crate::annotation::plain).unwrap_or_default()
}

/// Evaluation problems by canonical form, words and n-grams. Hash maps are used for lookups only, never iterated.
struct Index<'a> {
    problems: &'a [Problem],
    canonical: BTreeMap<&'a str, usize>,
    words: BTreeMap<String, usize>,
    /// 13-gram → the first problem that contains it.
    grams_13: HashMap<u64, usize>,
    /// 8-gram → all problems whose question contains it.
    grams_8: HashMap<u64, Vec<usize>>,
    /// Number of distinct 8-grams in each question.
    count_8: Vec<usize>,
}

impl<'a> Index<'a> {
    fn new(problems: &'a [Problem]) -> Self {
        let mut index = Self {
            problems,
            canonical: BTreeMap::new(),
            words: BTreeMap::new(),
            grams_13: HashMap::new(),
            grams_8: HashMap::new(),
            count_8: Vec::new(),
        };
        for (i, problem) in problems.iter().enumerate() {
            if !problem.canonical.is_empty() {
                index.canonical.entry(&problem.canonical).or_insert(i);
            }
            index.words.entry(normal(problem.question())).or_insert(i);
            for gram in ngrams(problem.question(), 13).into_iter().chain(ngrams(&reference(problem), 13)) {
                index.grams_13.entry(gram).or_insert(i);
            }
            let grams: HashSet<u64> = ngrams(problem.question(), 8).into_iter().collect();
            index.count_8.push(grams.len());
            for gram in grams {
                index.grams_8.entry(gram).or_default().push(i);
            }
        }
        index
    }

    fn id(&self, i: usize) -> &'a str {
        &self.problems[i].id
    }

    fn canonical(&self, compared: &OverlapQuery<'_>) -> Option<&'a str> {
        let form = self.canonical.get(compared.canonical);
        form.or_else(|| self.words.get(&normal(compared.question))).map(|i| self.id(*i))
    }

    fn any_13(&self, compared: &OverlapQuery<'_>) -> Option<&'a str> {
        let mut grams = compared.texts.iter().flat_map(|text| ngrams(text, 13));
        grams.find_map(|gram| self.grams_13.get(&gram)).map(|i| self.id(*i))
    }

    fn covering_8(&self, compared: &OverlapQuery<'_>, share: f64) -> Option<&'a str> {
        let grams: BTreeSet<u64> = ngrams(compared.question, 8).into_iter().collect();
        let mut shared: BTreeMap<usize, usize> = BTreeMap::new();
        for i in grams.iter().filter_map(|g| self.grams_8.get(g)).flatten() {
            *shared.entry(*i).or_insert(0) += 1;
        }
        let covers = |n: usize, of: usize| of > 0 && n as f64 >= share * of as f64;
        shared
            .into_iter()
            .find(|(i, n)| covers(*n, self.count_8[*i]) || covers(*n, grams.len()))
            .map(|(i, _)| self.id(i))
    }
}
