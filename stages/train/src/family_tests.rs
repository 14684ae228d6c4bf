//! Tests fine-tuning and RL of every model family, from files to files.

use crate::stages::rl::Rl;
use crate::stages::sft::Sft;
use crate::testing::{
    context_in, demonstrations, digest_of, environment_options, input_model, input_problems, input_trajectories,
    outputs, run_stage, sums, tiny_model,
};
use serde_json::json;
use trainyard_core::Chance;
use trainyard_lm::families::FAMILIES;
use trainyard_lm::{Decoder, ModelConfig, ModelFolder};

/// Returns a random four-layer model of the family; every attention window is shorter than a prompt.
fn model(family: &str) -> ModelFolder {
    let tiny = tiny_model(32, 1, 1);
    let config = ModelConfig::from_json(&json!({
        "model_type": family, "vocab_size": tiny.config.vocab_size, "hidden_size": 32, "intermediate_size": 64,
        "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
        "max_position_embeddings": 256, "tie_word_embeddings": true, "initializer_range": 0.06,
        "use_sliding_window": true, "sliding_window": 8, "max_window_layers": 2, "query_pre_attn_scalar": 8,
        "embedding_multiplier": 2.0, "attention_multiplier": 0.3, "residual_multiplier": 0.7, "logits_scaling": 2.0,
    }))
    .unwrap();
    let weights = Decoder::initialize(&config, &Chance::new(4)).unwrap().weights().unwrap();
    ModelFolder::new(config, weights, tiny.chat, tiny.generation).unwrap()
}

#[test]
fn every_family_is_fine_tuned_and_practices() {
    for family in FAMILIES {
        let folder = tempfile::tempdir().unwrap();
        let mut context = context_in(folder.path(), 2, None);
        input_model(&mut context, folder.path(), "model", &model(family.name));
        input_trajectories(&mut context, folder.path(), "trajectories", &demonstrations(256, 3, 2));
        outputs(&mut context, folder.path(), &["model", "report"]);
        let options = json!({
            "steps": 80, "batch_tokens": 1024, "validation_share": 0.0, "checkpoint_every": 0,
            "optimizer": {"learning_rate": 5e-3},
        });
        run_stage::<Sft>(options, &mut context).unwrap();
        assert!(context.metrics["loss"] < 1.5, "{}: {}", family.name, context.metrics["loss"]);
        let tuned = ModelFolder::load(context.output("model").unwrap()).unwrap();
        assert_eq!(tuned.config.family.name, family.name);

        let folder = tempfile::tempdir().unwrap();
        let mut context = context_in(folder.path(), 2, None);
        input_model(&mut context, folder.path(), "model", &tuned);
        input_problems(&mut context, folder.path(), "problems", &sums(40, 3, 21));
        outputs(&mut context, folder.path(), &["model", "trajectories", "report"]);
        let options = json!({
            "environment": environment_options(), "steps": 2, "problems_per_step": 8, "checkpoint_every": 0,
            "rollout": {"group_size": 8, "max_turn_tokens": 12, "max_episode_tokens": 96},
            "optimizer": {"learning_rate": 2e-3},
        });
        run_stage::<Rl>(options, &mut context).unwrap();
        let practiced = context.output("model").unwrap();
        assert_eq!(ModelFolder::load(practiced).unwrap().config, tuned.config, "{}", family.name);
        assert!(context.metrics["grad_norm"] > 0.0, "{}", family.name);
        let before = tempfile::tempdir().unwrap();
        tuned.save(before.path()).unwrap();
        assert!(digest_of(before.path()) != digest_of(practiced), "{}: nothing was learned", family.name);
    }
}
