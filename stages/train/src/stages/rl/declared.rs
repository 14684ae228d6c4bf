//! Declares the metrics of the loop of `rl`; rewards and parts declare their own metrics.

use crate::TrainParts;
use crate::programs;
use crate::unreadable::UNREADABLE;
use trainyard_api::Slot;
use trainyard_core::{DeclaredMetrics, MetricInfo, Producers, Reduce};
use trainyard_envs::rewards::RewardList;
use trainyard_learn::compose::ComposedParts;

/// Metric that some samplers cannot provide.
pub const ENTROPY: &str = "entropy";

/// Declares the metrics of any options.
pub fn any(parts: &TrainParts) -> DeclaredMetrics {
    let mut list = common();
    list.extend(validation());
    let names = parts.envs.rewards.names().into_iter().flat_map(|name| [name.to_string(), format!("{name}_<int>")]);
    list.extend(names.map(|name| component(&name)));
    let rewards = &parts.envs.rewards;
    list.extend(rewards.declarable(true).into_iter().map(|metric| metric.prefixed("rewards")));
    let learn = &parts.learn;
    list.extend(learn.curricula.declarable(false));
    list.extend(learn.strategies.declarable(false));
    list.extend(learn.filters.declarable(true));
    list.extend(learn.advantages.declarable(false));
    list.extend(learn.modulations.declarable(true));
    list.extend(learn.replay.declarable(false));
    list.extend(learn.corrections.declarable(false));
    list.extend(learn.losses.declarable(true));
    list.into()
}

/// Declares the metrics of these options; `entropies`: the sampler provides entropies.
pub fn of(composed: &ComposedParts, rewards: &RewardList, producers: &Producers, entropies: bool) -> DeclaredMetrics {
    let mut list = common();
    list.retain(|metric| entropies || metric.name != ENTROPY);
    if producers.get("validation").is_some_and(|list| !list.is_empty()) {
        list.extend(validation());
    }
    list.extend(rewards.components().iter().map(|name| component(name)));
    list.extend(rewards.declared().into_iter().map(over_steps));
    let parts = [
        Slot::declared_metrics(std::slice::from_ref(&composed.curriculum)),
        Slot::declared_metrics(std::slice::from_ref(&composed.strategy)),
        Slot::declared_metrics(&composed.filters),
        Slot::declared_metrics(std::slice::from_ref(&composed.advantage)),
        Slot::declared_metrics(&composed.modulations),
        Slot::declared_metrics(std::slice::from_ref(&composed.replay)),
        Slot::declared_metrics(std::slice::from_ref(&composed.correction)),
        Slot::declared_metrics(&composed.terms),
    ];
    list.extend(parts.concat().into_iter().map(over_steps));
    list.into()
}

/// Sets the default reduction of the parts' metrics, which are reported once per step: the mean over the last tenth of
/// the steps.
fn over_steps(mut metric: MetricInfo) -> MetricInfo {
    metric.reduce.get_or_insert(Reduce::LastTenth);
    metric
}

/// Declares a reward component. The metric is optional, because a component may apply to some rollouts only, or to
/// none.
fn component(name: &str) -> MetricInfo {
    MetricInfo::new(format!("rewards.{name}"), "reward", "Mean of this component of the reward, before its weight.")
        .higher()
        .reduced_by(Reduce::LastTenth)
        .optional()
        .former_name(&format!("reward_{name}"))
}

/// Declares the metrics of every composition.
fn common() -> Vec<MetricInfo> {
    [sampled(), programs(), per_level(), scored(), update_inputs(), update(), counts()].concat()
}

/// Declares metrics of all sampled rollouts.
fn sampled() -> Vec<MetricInfo> {
    use Reduce::{LastTenth, Sum, Whole};
    let pass_rate =
        MetricInfo::new("pass_rate", "share", "Share of sampled rollouts with a right answer, before filters.");
    let pass_rate = pass_rate.higher().reduced_by(LastTenth);
    let turns = MetricInfo::new("turns", "turns per rollout", "Turns that the agent took.").reduced_by(LastTenth);
    let last = |name: &'static str, unit: &'static str, doc: &'static str| {
        MetricInfo::new(name, unit, doc).reduced_by(LastTenth)
    };
    let whole =
        |name: &'static str, unit: &'static str, doc: &'static str| MetricInfo::new(name, unit, doc).reduced_by(Whole);
    vec![
        pass_rate.initial(),
        pass_rate,
        turns.initial(),
        turns,
        last(ENTROPY, "nats per token", "Entropy of the sampling policy at sampled tokens."),
        last("tool_calls", "calls per rollout", "Tool calls."),
        last("tool_errors", "calls per rollout", "Tool calls that failed.").lower(),
        last("tokens", "tokens per rollout", "Sampled tokens."),
        whole(
            "sampled_tokens",
            "tokens per step",
            "Sampled tokens of all rollouts; those that forks share count once.",
        ),
        last("sampled_rollouts", "rollouts per step", "Sampled rollouts without infrastructure failures."),
        last("truncated_share", "share", "Share of rollouts that were cut off at a limit.").lower(),
        last("void_share", "share", "Share of rollouts with a turn that holds neither a tool call nor an answer.")
            .lower(),
        last(UNREADABLE, "share", "Share of rollouts without an answer that the verifier can read.").lower(),
        whole("forked_share", "share", "Share of rollouts that are forks of another one."),
        whole("critical_path_tokens", "tokens per step", "Tokens that must be decoded one after the other.").lower(),
        whole("staleness", "updates", "Updates between the oldest token of a group and its own update.").lower(),
        whole("stale_groups", "groups per step", "Groups left out because they exceed `max_staleness`.").lower(),
        MetricInfo::new("infrastructure_failures", "rollouts", "Rollouts that ended with an infrastructure failure.")
            .lower()
            .reduced_by(Sum),
    ]
}

/// Declares metrics of programs; only the environment `harness` starts them.
fn programs() -> Vec<MetricInfo> {
    programs::declared().map(|metric| metric.reduced_by(Reduce::Whole)).collect()
}

fn per_level() -> Vec<MetricInfo> {
    let doc = "Share of sampled rollouts of this level with a right answer.";
    vec![MetricInfo::new("pass_rate_level_<int>", "share", doc).higher().reduced_by(Reduce::LastTenth)]
}

/// Declares metrics of the rollouts selected by the strategy, before filters.
fn scored() -> Vec<MetricInfo> {
    use Reduce::{LastTenth, Whole};
    let last = |name: &'static str, unit: &'static str, doc: &'static str| {
        MetricInfo::new(name, unit, doc).reduced_by(LastTenth)
    };
    let slope =
        |name: &'static str, unit: &'static str, doc: &'static str| MetricInfo::new(name, unit, doc).reduced_by(Whole);
    let reward = last("reward_mean", "reward", "Mean reward of the rollouts that the strategy kept.").higher();
    let groups = last("kept_groups_share", "share", "Share of groups that the filters left.").higher();
    let distinct = last("distinct_rewards", "rewards per group", "Different rewards within a group.").higher();
    vec![
        reward.initial(),
        reward,
        groups.initial(),
        groups,
        distinct.initial(),
        distinct,
        last("hopeless_groups_share", "share", "Share of groups whose problem was tried before and never passed.")
            .lower(),
        last("distinct_answers", "answers per group", "Different final answers within a group.").higher(),
        last("tokens_per_distinct_answer", "tokens", "Sampled tokens per different answer.").lower(),
        last("tool_calls_per_pass", "calls per rollout", "Tool calls of rollouts with a right answer."),
        slope("reward_per_call", "reward per call", "What one more call changes, among right rollouts of a group."),
        slope(
            "reward_per_error",
            "reward per call",
            "What one more failed call changes, among right rollouts of a group.",
        ),
        slope(
            "reward_per_token",
            "reward per token",
            "What one more token changes, among equally right rollouts of a group.",
        ),
    ]
}

/// Declares metrics of the rollouts and advantages of the update.
fn update_inputs() -> Vec<MetricInfo> {
    use Reduce::{LastTenth, Whole};
    let last = |name: &'static str, unit: &'static str, doc: &'static str| {
        MetricInfo::new(name, unit, doc).reduced_by(LastTenth)
    };
    let whole =
        |name: &'static str, unit: &'static str, doc: &'static str| MetricInfo::new(name, unit, doc).reduced_by(Whole);
    vec![
        last("given_in_update", "share", "Share of the tokens in the loss that come from a demonstration."),
        last("given_learned_share", "share", "Share of the given tokens that are in the loss.").optional(),
        last("trained_rollouts", "rollouts per step", "Rollouts with a token in the loss."),
        last("trained_tokens", "tokens per step", "Tokens in the loss."),
        last("trained_observations", "tokens per step", "Tokens in the loss that belong to none of the agent's turns.")
            .lower(),
        whole("void_in_update", "share", "Share of trained rollouts with a void turn.").lower(),
        last("truncated_in_update", "share", "Share of trained rollouts that were cut off at a limit.").lower(),
        whole("pass_rate_lopsidedness", "share", "Largest |2p − 1| of a group's pass rate p: 0 = half is right.")
            .lower(),
        whole("tool_errors_in_passes", "share", "Share of failed calls among the calls of right trained rollouts.")
            .lower(),
        last("advantage_abs", "advantage", "Mean absolute advantage of a token."),
        last(
            "advantage_in_rollout",
            "advantage",
            "Standard deviation of the advantage over a rollout's tokens, a mean.",
        ),
        last(
            "advantage_between_groups",
            "advantage",
            "Standard deviation over groups of the spread of their advantages.",
        ),
    ]
}

/// Declares metrics of the update itself, which are absent if no step had a token in the loss.
fn update() -> Vec<MetricInfo> {
    use Reduce::{LastTenth, Max, Whole};
    let last = |name: &'static str, unit: &'static str, doc: &'static str| {
        MetricInfo::new(name, unit, doc).reduced_by(LastTenth)
    };
    let mut list = vec![
        last("loss", "loss", "Policy loss of an optimizer step."),
        last("grad_norm", "norm", "Norm of the gradient before it is clipped."),
        MetricInfo::new("grad_norm_max", "norm", "Largest norm of a gradient.").lower().reduced_by(Max),
        MetricInfo::new(
            "kl",
            "nats per token",
            "k3 estimate of the divergence from the policy that the update starts from.",
        )
        .lower()
        .reduced_by(Max),
        last("policy_entropy", "nats per token", "Entropy of the policy at the tokens in the loss."),
        MetricInfo::new("silent_tokens", "share", "Share of the tokens in the loss without a gradient.")
            .reduced_by(Whole),
        MetricInfo::new(
            "given_gradient_share",
            "share",
            "Share of the gradient, by the logits of the tokens in the loss, that acts on tokens of a demonstration.",
        )
        .reduced_by(Whole),
        last("token_weight_spread", "ratio", "Largest over smallest weight of a token in a minibatch."),
        last("optimizer_steps", "updates per step", "Optimizer steps."),
    ];
    list = list.into_iter().map(MetricInfo::optional).collect();
    list.push(last("learning_rate", "rate", "Learning rate at the beginning of the step."));
    list
}

fn counts() -> Vec<MetricInfo> {
    vec![
        MetricInfo::new("steps", "steps", "Completed training steps."),
        MetricInfo::new("empty_steps", "steps", "Steps whose filters dropped all rollouts.").lower(),
    ]
}

/// Declares metrics of greedy episodes on the problems of the input `validation`.
fn validation() -> Vec<MetricInfo> {
    let metric = |name: &'static str, doc: &'static str| MetricInfo::new(name, "share", doc).higher();
    vec![
        metric("validation_accuracy", "Greedy pass rate of the weights that are kept."),
        metric("validation_accuracy_initial", "Greedy pass rate before the first step."),
        metric("validation_accuracy_last", "Greedy pass rate after the last step."),
        MetricInfo::new("validation_best_step", "step", "Step of the weights that are kept."),
    ]
}
