//! Implements the method `teacher`: a model at an endpoint plays given problems, and the environment's verifier decides
//! which of its episodes become demonstrations.

use super::config::SynthesisConfig;
use super::method::{SynthesisContext, SynthesisMethod, SynthesisOutput};
use super::metrics;
use super::teacher_options::{Teacher, TeacherKeepPolicy};
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_api::StageReport;
use trainyard_api::report::{ReportCell, Table};
use trainyard_chat::ChatClient;
use trainyard_core::{Error, MetricInfo, OptionProblem, Result};
use trainyard_envs::Environment;
use trainyard_envs::environments::{Environments, word_problems};
use trainyard_envs::players::{ModelCallMode, PlayedEpisode, Player, PlayerJob, play};
use trainyard_tables::{Problem, StopReason, Trajectory};

pub struct TeacherMethod;

impl SynthesisMethod for TeacherMethod {
    fn name(&self) -> &'static str {
        "teacher"
    }
    fn summary(&self) -> &'static str {
        "a model at an endpoint plays given problems; right episodes become demonstrations"
    }
    fn metrics(&self) -> Vec<MetricInfo> {
        metrics::teacher()
    }
    fn keeps_given_problems(&self) -> bool {
        true
    }
    fn environment(&self) -> Value {
        word_problems::default_options()
    }
    fn check(&self, config: &SynthesisConfig, _: Option<&dyn Environment>, _: &Environments) -> Vec<OptionProblem> {
        match &config.teacher {
            Some(teacher) => teacher.problems(),
            None => {
                let problem = OptionProblem::new("/teacher", "the method `teacher` needs a model");
                vec![problem.help("add `teacher: {model: {endpoint: URL, model: NAME}}`")]
            }
        }
    }
    fn make(
        &self,
        config: &SynthesisConfig,
        given: Vec<Problem>,
        world: &SynthesisContext<'_>,
    ) -> Result<SynthesisOutput> {
        let teacher = config.teacher.as_ref().ok_or_else(|| Error::bug("a teacher runs without options"))?;
        if given.is_empty() {
            return Err(Error::invalid("method `teacher` needs problems")
                .help("wire input `problems` to the problems that the teacher solves"));
        }
        let lesson = TeacherRun::run(teacher, config.seed, &given, world)?;
        let report = lesson.report(given.len());
        Ok(SynthesisOutput { problems: given, demonstrations: lesson.demonstrations, report })
    }
}

/// Results of all episodes.
#[derive(Default)]
struct TeacherRun {
    demonstrations: Vec<Trajectory>,
    episodes: usize,
    solved: usize,
    /// Episodes by result.
    outcomes: BTreeMap<&'static str, usize>,
    /// Error message of the first failed episode; `None` if no episode failed.
    refused: Option<String>,
}

impl TeacherRun {
    fn run(teacher: &Teacher, seed: u64, given: &[Problem], world: &SynthesisContext<'_>) -> Result<Self> {
        let native = teacher.calls == ModelCallMode::Native;
        let player = Player { environment: world.environment, prompt_environment: world.prompt_environment, native };
        let mut chat = ChatClient::open(world.models, &teacher.model)?;
        let mut lesson = Self::default();
        let mut right: Vec<Vec<Trajectory>> = vec![Vec::new(); given.len()];
        let mut open: Vec<usize> = (0..given.len()).collect();
        // One draw of all problems at a time, so that a solved one is not drawn again.
        for draw in 0..u64::from(teacher.samples) {
            let jobs: Vec<PlayerJob<'_>> =
                open.iter().map(|&at| PlayerJob { problem: &given[at], draw, seed }).collect();
            let before = lesson.episodes;
            let total = before + jobs.len();
            let played = play(&player, &mut chat, &jobs, |done| (world.progress)(before + done, total))?;
            lesson.episodes = total;
            for (&at, played) in open.iter().zip(played) {
                right[at].extend(lesson.record(played, draw));
            }
            if teacher.keep == TeacherKeepPolicy::First {
                open.retain(|&at| right[at].is_empty());
            }
        }
        lesson.solved = right.iter().filter(|episodes| !episodes.is_empty()).count();
        lesson.demonstrations = right.concat();
        Ok(lesson)
    }
    /// Counts an episode by its result. Returns the trajectory if the verifier accepts the answer, else `None`.
    fn record(&mut self, played: PlayedEpisode, draw: u64) -> Option<Trajectory> {
        let PlayedEpisode { mut trajectory, correct, timed_out, failure, .. } = played;
        let end = match (&failure, timed_out, correct, trajectory.stop_reason) {
            (Some(_), ..) => "failed",
            (None, true, ..) => "late",
            (None, false, true, _) => "right",
            (None, false, false, StopReason::Answer) => "wrong",
            _ => "unanswered",
        };
        *self.outcomes.entry(end).or_insert(0) += 1;
        self.refused = self.refused.take().or(failure.map(|error| error.message));
        trajectory.id = format!("{}/{draw}", trajectory.problem_id);
        (end == "right").then_some(trajectory)
    }
    fn report(&self, problems: usize) -> StageReport {
        let mut report = StageReport::new("Demonstrations by a teacher");
        report.summary = format!("{} of {problems} problems were solved, in {} episodes.", self.solved, self.episodes);
        report.metric("teacher_episodes", self.episodes as f64).metric("problems_solved", self.solved as f64);
        let mut table = Table::new("Episodes by end", ["end", "episodes"]);
        for end in metrics::TEACHER_OUTCOMES {
            let count = self.outcomes.get(end).copied().unwrap_or(0) as f64;
            report.metric(format!("teacher_{end}"), count);
            table.row([ReportCell::text(end), ReportCell::Number(count)]);
        }
        report.table(table);
        if let Some(reason) = &self.refused {
            report.note(format!("First failed episode: {reason}"));
        }
        report
    }
}
