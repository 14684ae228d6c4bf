//! Areas of the navigation, in order.

/// An area: its name, and the segments of the path of its first page.
pub struct Area {
    /// Name in the navigation and in headings.
    pub name: &'static str,
    /// Segments of the path.
    pub path: &'static [&'static str],
}

/// Runs and their stages.
pub const RUNS: Area = Area { name: "Runs", path: &[] };

/// Artifacts of a run, their rows and lineage.
pub const ARTIFACTS: Area = Area { name: "Artifacts", path: &["artifacts"] };

/// Recipes of published systems.
pub const RECIPES: Area = Area { name: "Recipes", path: &["recipes"] };

/// Stage kinds and parts.
pub const STAGES: Area = Area { name: "Stages", path: &["stages"] };

/// All areas that every server has.
pub const ALL: [Area; 4] = [RUNS, ARTIFACTS, RECIPES, STAGES];

/// Schedules of the daemon.
pub const SCHEDULES: Area = Area { name: "Schedules", path: &["schedules"] };

/// Workflow files of the daemon.
pub const WORKFLOWS: Area = Area { name: "Workflows", path: &["workflows"] };

/// Areas that only a server with a daemon has.
pub const OF_DAEMON: [Area; 2] = [SCHEDULES, WORKFLOWS];
