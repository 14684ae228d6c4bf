//! Learns from the rollouts of a step: values, advantages, replay, the update, and the rows that are kept.

use super::collect::RolloutBatch;
use super::critic::Critic;
use super::effects;
use super::parts::RlParts;
use super::report::all_declared;
use super::rollout_stats::RolloutStats;
use super::state::{RlProgress, RlRun};
use super::update::{PolicyUpdate, UpdateReport, UpdateSample};
use trainyard_api::StageContext;
use trainyard_core::{Chance, Result};
use trainyard_learn::{Batch, Group, ReplayedRollout, Rollout, TokenGrid};
use trainyard_tables::Trajectory;

/// Advantages after all modulations, and the targets of the value model before them.
struct AssignedAdvantages {
    advantages: TokenGrid,
    returns: Option<TokenGrid>,
}

/// Replayed rollouts of earlier steps, and the targets of the value model for them.
struct ReplayedRollouts {
    rollouts: Vec<ReplayedRollout>,
    returns: Option<TokenGrid>,
}

impl RlRun<'_> {
    /// Computes values and advantages of the collected rollouts, runs one update on them and on replayed rollouts, adds
    /// the points of all curves, and keeps the rows.
    pub(super) fn learn(
        &self,
        context: &StageContext,
        progress: &mut RlProgress,
        mut collected: RolloutBatch,
    ) -> Result<()> {
        let step = progress.state.step;
        if let Some(critic) = &progress.critic {
            fill_values(critic, &mut collected.batch)?;
        }
        let batch = &collected.batch;
        let assigned = assign(&mut progress.parts, batch);
        let again = replay(&mut progress.parts, batch, &assigned, &self.chance.child("replay", &[step]));
        for term in &mut progress.parts.terms {
            term.begin(batch, self.place(step));
        }
        for (name, value) in effects::metrics(batch, &assigned.advantages) {
            progress.state.curves.point(context, name, step, value)?;
        }
        let rate = progress.trainer.rate();
        let report = self.update(progress, &samples(batch, &assigned, &again))?;
        progress.state.empty_steps += u64::from(report.optimizer_steps == 0);
        progress.state.failures += collected.stats.failures;
        self.measure(context, progress, &collected.stats, batch.groups.len(), &report, rate)?;
        let rows = collected.into_rows(assigned.advantages);
        progress.keep(rows, self.config.keep_rollouts);
        progress.state.step += 1;
        Ok(())
    }

    fn update(&self, progress: &mut RlProgress, samples: &[UpdateSample<'_>]) -> Result<UpdateReport> {
        let update = PolicyUpdate {
            terms: &progress.parts.terms,
            prefixes: &progress.parts.prefixes.terms,
            correction: &*progress.parts.correction,
            recompute: self.policy.sampling_backend.is_some(),
            aggregate: self.config.loss.aggregate,
            horizon: self.config.loss.horizon,
            epochs: self.config.epochs,
            minibatches: self.config.minibatches,
            reuse_by_chance: self.config.reuse_by_chance,
            micro_batch_tokens: self.config.micro_batch_tokens,
            temperature: self.config.rollout.temperature,
            reference: progress.reference.as_ref(),
            chance: self.chance,
            step: progress.state.step,
        };
        update.run(&mut progress.trainer, progress.critic.as_mut(), samples)
    }

    /// Adds the points of all curves for this step.
    fn measure(
        &self,
        context: &StageContext,
        progress: &mut RlProgress,
        tally: &RolloutStats,
        kept: usize,
        report: &UpdateReport,
        rate: f64,
    ) -> Result<()> {
        let step = progress.state.step;
        let curves = &mut progress.state.curves;
        for (name, value) in tally.metrics(kept) {
            curves.point(context, &name, step, value)?;
        }
        for (name, value) in &report.metrics {
            curves.point(context, name, step, *value)?;
        }
        for (name, value) in progress.parts.metrics().into_iter().chain(progress.rewards.metrics()) {
            curves.point(context, &name, step, value)?;
        }
        curves.point(context, "learning_rate", step, rate)?;
        if step == 0 { all_declared(&self.declared, &progress.state) } else { Ok(()) }
    }
}

/// Sets the values of the whole batch.
fn fill_values(critic: &Critic, batch: &mut Batch) -> Result<()> {
    let rows: Vec<&Trajectory> = batch.rollouts().map(|r| &r.trajectory).collect();
    let masks: Vec<&[bool]> = batch.rollouts().map(|r| r.mask.as_slice()).collect();
    let values = critic.values(&rows, &masks)?;
    for (rollout, values) in batch.groups.iter_mut().flat_map(|g| &mut g.rollouts).zip(values) {
        rollout.values = Some(values);
    }
    Ok(())
}

/// Computes the advantages, then applies the modulations.
fn assign(parts: &mut RlParts, batch: &Batch) -> AssignedAdvantages {
    let mut advantages = parts.advantage.assign(batch);
    let returns = parts.advantage.returns(batch, &advantages);
    for modulation in &mut parts.modulations {
        modulation.apply(batch, &mut advantages);
    }
    AssignedAdvantages { advantages, returns }
}

/// Offers the batch to the replay part and draws from it.
fn replay(parts: &mut RlParts, batch: &Batch, assigned: &AssignedAdvantages, chance: &Chance) -> ReplayedRollouts {
    parts.replay.offer(batch, &assigned.advantages);
    let rollouts = parts.replay.draw(batch.step, chance);
    let returns = assigned.returns.as_ref().and_then(|_| returns_of(parts, batch.step, &rollouts));
    ReplayedRollouts { rollouts, returns }
}

/// Computes targets of the value model for replayed rollouts, from the values at the time of sampling.
fn returns_of(parts: &mut RlParts, step: u64, again: &[ReplayedRollout]) -> Option<TokenGrid> {
    let group = |r: &ReplayedRollout| Group {
        problem: r.rollout.problem,
        level: r.rollout.trajectory.level,
        rollouts: vec![r.rollout.clone()],
    };
    let batch = Batch { step, groups: again.iter().map(group).collect() };
    let advantages = parts.advantage.assign(&batch);
    parts.advantage.returns(&batch, &advantages)
}

/// Returns the new rollouts with their advantages, then the replayed ones, each as a separate group.
fn samples<'a>(
    batch: &'a Batch,
    assigned: &'a AssignedAdvantages,
    again: &'a ReplayedRollouts,
) -> Vec<UpdateSample<'a>> {
    let pass_rates: Vec<f64> = batch.groups.iter().map(|g| pass_rate(&g.rollouts)).collect();
    let fresh = batch.rollouts().enumerate().map(|(i, rollout)| UpdateSample {
        rollout,
        advantages: &assigned.advantages[i],
        returns: assigned.returns.as_ref().map(|grid| grid[i].as_slice()),
        weight: 1.0,
        group: rollout.group,
        pass_rate: pass_rates[rollout.group],
    });
    let replayed = again.rollouts.iter().enumerate().map(|(i, r)| UpdateSample {
        rollout: &r.rollout,
        advantages: &r.advantages,
        returns: again.returns.as_ref().map(|grid| grid[i].as_slice()),
        weight: r.weight,
        group: batch.groups.len() + i,
        pass_rate: f64::from(u8::from(r.rollout.correct)),
    });
    fresh.chain(replayed).collect()
}

fn pass_rate(group: &[Rollout]) -> f64 {
    group.iter().filter(|r| r.correct).count() as f64 / group.len().max(1) as f64
}
