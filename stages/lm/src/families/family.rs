//! Defines the type of a family, and the reading and writing of keys that several families share.

use super::architecture::{Activation, Architecture, LayerKind};
use super::keys::Keys;
use serde_json::{Map, Value, json};
use trainyard_core::{Error, Result};

/// A family of decoders: reading and writing of its `config.json`.
#[derive(Debug)]
pub struct ModelFamily {
    /// `model_type` in `config.json`.
    pub name: &'static str,
    /// Class name prefix in transformers: `{class}ForCausalLM` and `{class}ForTokenClassification`.
    pub class: &'static str,
    /// Defaults of keys that `config.json` may omit.
    pub defaults: Defaults,
    /// Whether files keep queries, keys and values in one tensor, and gate and up in another (Phi-3).
    pub fused: bool,
    /// Reads the construction from a `config.json`. Errors name the unsupported key.
    pub read: fn(&Keys<'_>, &ConfigSizes) -> Result<Architecture>,
    /// Writes the family's keys, in addition to the keys of all families.
    pub write: fn(&Architecture, &mut Map<String, Value>),
}

/// Values of keys that `config.json` omits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Defaults {
    /// Head dimension; `None` = `hidden_size / num_attention_heads`.
    pub head_dim: Option<usize>,
    /// `rms_norm_eps`.
    pub rms_norm_eps: f64,
    /// `tie_word_embeddings`.
    pub tied: bool,
}

/// Llama's defaults.
pub const DEFAULTS: Defaults = Defaults { head_dim: None, rms_norm_eps: 1e-6, tied: false };

/// Sizes that are read before the architecture.
#[derive(Debug, Clone, Copy)]
pub struct ConfigSizes {
    /// `hidden_size`.
    pub hidden: usize,
    /// `num_hidden_layers`.
    pub layers: usize,
    /// Numbers per head.
    pub head_dim: usize,
}

impl PartialEq for ModelFamily {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Reads the activation of the gate. Errors: an activation other than SiLU and GELU's tanh form.
pub fn activation(keys: &Keys<'_>, key: &str, default: Activation) -> Result<Activation> {
    let found = if keys.present(key).is_some() { keys.text(key)? } else { return Ok(default) };
    [Activation::Silu, Activation::GeluTanh].into_iter().find(|a| a.name() == found).ok_or_else(|| {
        Error::invalid(format!("config.json: `{key}` = \"{found}\" is not supported")).help("use a model without it")
    })
}

/// Returns the window of every layer, or `None` for a layer without one. `sliding_window` applies to the layers that
/// `layer_types` marks, or if the key is absent to the layers for which `sliding` returns true.
pub fn windows(keys: &Keys<'_>, layers: usize, sliding: impl Fn(usize) -> bool) -> Result<Vec<Option<usize>>> {
    let window = keys.present("sliding_window").map(|_| keys.size("sliding_window")).transpose()?;
    let types = match keys.present("layer_types") {
        None => (0..layers).map(|i| window.is_some() && sliding(i)).collect(),
        Some(value) => layer_types(value, layers)?,
    };
    let of = |slides: bool| match (slides, window) {
        (false, _) => Ok(None),
        (true, Some(w)) if w > 0 => Ok(Some(w)),
        (true, _) => Err(Error::data("config.json: some layers have a window, but `sliding_window` is missing or 0")),
    };
    types.into_iter().map(of).collect()
}

/// Returns for every layer whether its attention has a window. Errors: an unknown type, or fewer entries than layers.
fn layer_types(value: &Value, layers: usize) -> Result<Vec<bool>> {
    let list = value.as_array().filter(|l| l.len() >= layers);
    let list = list.ok_or_else(|| Keys::wrong("layer_types", "a list with an entry for each layer", value))?;
    let slides = |kind: &Value| match kind.as_str() {
        Some("full_attention") => Ok(false),
        Some("sliding_attention") => Ok(true),
        _ => Err(Error::invalid(format!("config.json: `layer_types` has {kind}, which is not supported"))
            .help("use a model whose layers are full_attention or sliding_attention")),
    };
    list.iter().take(layers).map(slides).collect()
}

/// Returns layers with these windows and the first rotation.
pub fn sliding_layers(windows: Vec<Option<usize>>) -> Vec<LayerKind> {
    windows.into_iter().map(|window| LayerKind { window, rope: Some(0) }).collect()
}

/// Writes `layer_types` and `sliding_window`.
pub fn write_windows(architecture: &Architecture, map: &mut Map<String, Value>) {
    let name = |slides: bool| if slides { "sliding_attention" } else { "full_attention" };
    let types: Vec<&str> = architecture.layers.iter().map(|l| name(l.window.is_some())).collect();
    map.insert("layer_types".into(), json!(types));
    write_window(architecture, map);
}

/// Writes `sliding_window`: the window of the layers, or null without one.
pub fn write_window(architecture: &Architecture, map: &mut Map<String, Value>) {
    map.insert("sliding_window".into(), json!(architecture.layers.iter().find_map(|l| l.window)));
}

/// Writes the rotations of layers without and with a window, in the newer spelling and the older one.
pub fn write_two_ropes(architecture: &Architecture, map: &mut Map<String, Value>) {
    let [full, sliding] = [0, 1].map(|i| architecture.ropes[i].to_json());
    map.insert("rope_parameters".into(), json!({"full_attention": full, "sliding_attention": sliding}));
}
