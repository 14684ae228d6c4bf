//! Limits the sizes of a new model, before anything is allocated for them.

use crate::config::limits::{self, ModelSizes};
use trainyard_core::OptionProblem;

/// Returns a problem for each size above its limit; without one, a problem if their product is above its limit.
pub(super) fn problems(sizes: &ModelSizes, positions: usize) -> Vec<OptionProblem> {
    let [heads, kv_heads] = sizes.heads;
    let options = [
        ("/layers", "num_hidden_layers", sizes.layers),
        ("/hidden_size", "hidden_size", sizes.hidden),
        ("/intermediate_size", "intermediate_size", sizes.inner),
        ("/heads", "num_attention_heads", heads),
        ("/kv_heads", "num_key_value_heads", kv_heads),
        ("/tokenizer/vocabulary_size", "vocab_size", sizes.vocabulary),
        ("/max_position_embeddings", "max_position_embeddings", positions),
    ];
    let above = |(pointer, key, size): (&str, &str, usize)| {
        let limit = limits::limit(key);
        let message = format!("{size} is more than the limit of {limit}");
        (size > limit).then(|| OptionProblem::new(pointer, message).help("make a smaller model"))
    };
    let above: Vec<OptionProblem> = options.into_iter().filter_map(above).collect();
    if !above.is_empty() {
        return above;
    }
    let problem = |error| OptionProblem { pointer: "/hidden_size".to_string(), ..OptionProblem::from(error) };
    limits::expect_total(sizes).err().map(problem).into_iter().collect()
}
