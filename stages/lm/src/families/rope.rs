//! Defines rotary positions (Su et al., arXiv 2104.09864): the frequency of each pair of a head's numbers, and the
//! scalings that extend a model's context.
//!
//! Training and generation build their tables from [`Rope::frequencies`]. Formulas and key names are those of Hugging
//! Face's `modeling_rope_utils.py`. [`Rope::read`] accepts both spellings, `rope_parameters` and the older
//! `rope_scaling` with a separate `rope_theta`.

use super::keys::Keys;
use serde_json::{Map, Value, json};
use std::f64::consts::PI;
use trainyard_core::{Error, Result};

/// The rotation of one kind of layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    /// Base θ of the angles position · θ^(-2i/d).
    pub theta: f64,
    /// Share of a head's numbers that rotate, from the first on; the others carry no position.
    pub partial: f64,
    /// Scaling of angles beyond the length that the model was first trained on.
    pub scaling: RopeScaling,
}

/// Scaling of angles. `original` is the length in tokens that the model was first trained on.
#[derive(Debug, Clone, PartialEq)]
pub enum RopeScaling {
    /// No scaling.
    Default,
    /// Every angle divided by `factor`.
    Linear {
        /// At least 1.
        factor: f64,
    },
    /// Changes nothing up to `max_position_embeddings`; for longer sequences the base grows with the length.
    Dynamic {
        /// At least 1.
        factor: f64,
    },
    /// Divides the angles of slow pairs and keeps those of fast pairs (Llama 3.1).
    Llama3 {
        /// Divisor of slow pairs.
        factor: f64,
        /// Pairs with fewer turns than this over `original` tokens are slow.
        low_freq_factor: f64,
        /// Pairs with more turns than this are fast.
        high_freq_factor: f64,
        /// See the type.
        original: usize,
    },
    /// YaRN (Peng et al., arXiv 2309.00071).
    Yarn(Yarn),
    /// LongRoPE (Ding et al., arXiv 2402.13753): a divisor for each pair.
    Longrope {
        /// Divisors of sequences up to `original`.
        short_factor: Vec<f64>,
        /// Divisors of longer sequences. The decoder rejects such sequences, because these divisors would change the
        /// angles of earlier tokens.
        long_factor: Vec<f64>,
        /// See the type.
        original: usize,
        /// Ratio of the longest sequence to `original`.
        factor: f64,
        /// Multiplies cosines and sines; `None` = √(1 + ln factor / ln original).
        attention_factor: Option<f64>,
    },
}

/// Parameters of YaRN.
#[derive(Debug, Clone, PartialEq)]
pub struct Yarn {
    /// Divisor of slow pairs.
    pub factor: f64,
    /// Length in tokens that the model was first trained on.
    pub original: usize,
    /// Multiplies cosines and sines.
    pub attention_factor: f64,
    /// Turns over `original` tokens from which on a pair is unchanged.
    pub beta_fast: f64,
    /// Turns up to which a pair is divided by the full factor.
    pub beta_slow: f64,
    /// Whether the two borders are rounded outwards to the index of a pair.
    pub truncate: bool,
}

/// Keys of a layer's rotation in `config.json`.
#[derive(Debug, Clone, Copy)]
pub struct RopeKeys {
    /// Entry of a `rope_parameters` that is divided by layer types.
    pub layers: &'static str,
    /// Key of the base in the older spelling.
    pub theta: &'static str,
    /// Base if no key gives one.
    pub default_theta: f64,
    /// Whether the older `rope_scaling` applies to these layers.
    pub scaled: bool,
    /// Whether the family supports rotating a part of a head.
    pub partial: bool,
}

/// One rotation for all layers, over the whole head.
pub const ALL_LAYERS: RopeKeys =
    RopeKeys { layers: "full_attention", theta: "rope_theta", default_theta: 10_000.0, scaled: true, partial: false };

impl Rope {
    /// Returns a rotation without scaling, over the whole head.
    pub fn plain(theta: f64) -> Self {
        Self { theta, partial: 1.0, scaling: RopeScaling::Default }
    }
    /// Returns the number of a head's numbers that rotate, which is even.
    pub fn dim(&self, head_dim: usize) -> usize {
        (head_dim as f64 * self.partial) as usize
    }
    /// Returns the longest sequence that has these angles, or `None` if any length has them.
    pub fn limit(&self) -> Option<usize> {
        match self.scaling {
            RopeScaling::Longrope { original, .. } => Some(original),
            _ => None,
        }
    }
    /// Returns the factor on cosines and sines.
    pub fn attention_factor(&self) -> f64 {
        match &self.scaling {
            RopeScaling::Yarn(yarn) => yarn.attention_factor,
            RopeScaling::Longrope { original, factor, attention_factor, .. } => attention_factor.unwrap_or_else(|| {
                if *factor <= 1.0 { 1.0 } else { (1.0 + factor.ln() / (*original as f64).ln()).sqrt() }
            }),
            _ => 1.0,
        }
    }
    /// Returns the angle per position of each rotated pair of a head.
    pub fn frequencies(&self, head_dim: usize) -> Vec<f64> {
        let dim = self.dim(head_dim);
        let plain = (0..dim / 2).map(|i| self.theta.powf(-2.0 * i as f64 / dim as f64));
        match &self.scaling {
            RopeScaling::Default | RopeScaling::Dynamic { .. } => plain.collect(),
            RopeScaling::Linear { factor } => plain.map(|f| f / factor).collect(),
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original } => {
                let stretch = |f: f64| {
                    let turns = *original as f64 * f / (2.0 * PI);
                    let kept = ((turns - low_freq_factor) / (high_freq_factor - low_freq_factor)).clamp(0.0, 1.0);
                    (1.0 - kept) * f / factor + kept * f
                };
                plain.map(stretch).collect()
            }
            RopeScaling::Yarn(yarn) => {
                let (low, high) = yarn.borders(dim, self.theta);
                let stretch = |(i, f): (usize, f64)| {
                    let slow = ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
                    f / yarn.factor * slow + f * (1.0 - slow)
                };
                plain.enumerate().map(stretch).collect()
            }
            RopeScaling::Longrope { short_factor, .. } => plain.zip(short_factor).map(|(f, s)| f / s).collect(),
        }
    }

    /// Reads the rotation in either spelling. Errors name the key.
    pub fn read(keys: &Keys<'_>, place: RopeKeys, head_dim: usize) -> Result<Self> {
        let parameters = object(keys, "rope_parameters")?;
        let nested = parameters.filter(|p| ["full_attention", "sliding_attention"].iter().any(|k| p.contains_key(*k)));
        let parameters = match nested {
            Some(outer) => object(&Keys(outer), place.layers)?,
            None => parameters,
        };
        let older = if place.scaled { object(keys, "rope_scaling")? } else { None };
        let empty = Map::new();
        let own = Keys(parameters.unwrap_or(&empty));
        let theta = own.number_or("rope_theta", keys.number_or(place.theta, place.default_theta)?)?;
        let scaling = Keys(older.or(parameters).unwrap_or(&empty));
        let partial = scaling.number_or("partial_rotary_factor", keys.number_or("partial_rotary_factor", 1.0)?)?;
        if !place.partial && partial != 1.0 {
            let message = format!("config.json: `partial_rotary_factor` = {partial} is not supported in this family");
            return Err(Error::invalid(message).help("use a model without it"));
        }
        let rope = Self { theta, partial, scaling: RopeScaling::read(keys, &scaling)? };
        rope.validate(head_dim)?;
        Ok(rope)
    }
    /// Checks the parameters of the rotation. Errors: parameters that no rotation can have.
    pub fn validate(&self, head_dim: usize) -> Result<()> {
        let dim = self.dim(head_dim);
        if dim == 0 || !dim.is_multiple_of(2) || dim > head_dim {
            return Err(Error::invalid(format!(
                "model config: {dim} of the {head_dim} numbers of a head would rotate (`head_dim` times \
                `partial_rotary_factor`)"
            ))
            .help("rotary embeddings rotate pairs: use an even number"));
        }
        if !(self.theta > 1.0 && self.theta.is_finite()) {
            return Err(Error::invalid(format!("model config: `rope_theta` is {}, not above 1", self.theta)));
        }
        if let RopeScaling::Longrope { short_factor, long_factor, .. } = &self.scaling
            && (short_factor.len() != dim / 2 || long_factor.len() != dim / 2)
        {
            return Err(Error::data(format!(
                "config.json: `short_factor` and `long_factor` have {} and {} numbers, not {}",
                short_factor.len(),
                long_factor.len(),
                dim / 2
            )));
        }
        Ok(())
    }
    /// Returns the rotation as an entry of `rope_parameters`.
    pub fn to_json(&self) -> Value {
        let mut map = self.scaling.to_json();
        map.insert("rope_theta".into(), json!(self.theta));
        if self.partial != 1.0 {
            map.insert("partial_rotary_factor".into(), json!(self.partial));
        }
        map.into()
    }
    /// Returns whether the rotation has no scaling and covers the whole head.
    pub fn is_plain(&self) -> bool {
        self.partial == 1.0 && self.scaling == RopeScaling::Default
    }
}

impl RopeScaling {
    fn read(top: &Keys<'_>, own: &Keys<'_>) -> Result<Self> {
        let kind = match own.present("rope_type").is_some() {
            true => own.text("rope_type")?,
            false if own.present("type").is_some() => own.text("type")?,
            false => "default",
        };
        let factor = || match own.number("factor")? {
            factor if factor >= 1.0 && factor.is_finite() => Ok(factor),
            factor => Err(Error::data(format!("config.json: the `factor` of `{kind}` is {factor}, not 1 or more"))),
        };
        let longest = top.size_or("max_position_embeddings", 2_048)?;
        let original = match top.present("original_max_position_embeddings") {
            Some(_) => top.size("original_max_position_embeddings")?,
            None => own.size_or("original_max_position_embeddings", longest)?,
        };
        match kind {
            "default" => Ok(Self::Default),
            "linear" => Ok(Self::Linear { factor: factor()? }),
            "dynamic" => Ok(Self::Dynamic { factor: factor()? }),
            "llama3" => {
                let (low, high) = (own.number("low_freq_factor")?, own.number("high_freq_factor")?);
                if low >= high || low <= 0.0 {
                    return Err(Error::data(format!(
                        "config.json: `low_freq_factor` {low} is not between 0 and `high_freq_factor` {high}"
                    )));
                }
                Ok(Self::Llama3 { factor: factor()?, low_freq_factor: low, high_freq_factor: high, original })
            }
            "yarn" => Yarn::read(own, factor()?, original).map(Self::Yarn),
            "longrope" | "su" => Ok(Self::Longrope {
                short_factor: own.numbers("short_factor")?,
                long_factor: own.numbers("long_factor")?,
                original,
                factor: own.number_or("factor", longest as f64 / original as f64)?,
                attention_factor: own
                    .present("attention_factor")
                    .map(|_| own.number("attention_factor"))
                    .transpose()?,
            }),
            other => Err(Error::invalid(format!("config.json: the rope_type `{other}` is not supported"))
                .help("use a model with default, linear, dynamic, yarn, llama3 or longrope")),
        }
    }
    /// Returns the scaling as the older `rope_scaling`, without the base.
    pub fn to_json(&self) -> Map<String, Value> {
        let value = match self {
            Self::Default => json!({"rope_type": "default"}),
            Self::Linear { factor } => json!({"rope_type": "linear", "factor": factor}),
            Self::Dynamic { factor } => json!({"rope_type": "dynamic", "factor": factor}),
            Self::Llama3 { factor, low_freq_factor, high_freq_factor, original } => json!({
                "rope_type": "llama3", "factor": factor, "low_freq_factor": low_freq_factor,
                "high_freq_factor": high_freq_factor, "original_max_position_embeddings": original}),
            Self::Yarn(y) => json!({
                "rope_type": "yarn", "factor": y.factor, "original_max_position_embeddings": y.original,
                "attention_factor": y.attention_factor, "beta_fast": y.beta_fast, "beta_slow": y.beta_slow,
                "truncate": y.truncate}),
            Self::Longrope { short_factor, long_factor, original, factor, attention_factor } => json!({
                "rope_type": "longrope", "short_factor": short_factor, "long_factor": long_factor, "factor": factor,
                "original_max_position_embeddings": original, "attention_factor": attention_factor}),
        };
        let entries = value.as_object().into_iter().flatten().filter(|(_, v)| !v.is_null());
        entries.map(|(key, v)| (key.clone(), v.clone())).collect()
    }
}

impl Yarn {
    fn read(own: &Keys<'_>, factor: f64, original: usize) -> Result<Self> {
        let scale = |m: f64| if factor <= 1.0 { 1.0 } else { 0.1 * m * factor.ln() + 1.0 };
        let (m, all) = (own.number_or("mscale", 0.0)?, own.number_or("mscale_all_dim", 0.0)?);
        let default = if m != 0.0 && all != 0.0 { scale(m) / scale(all) } else { scale(1.0) };
        Ok(Self {
            factor,
            original,
            attention_factor: own.number_or("attention_factor", default)?,
            beta_fast: own.number_or("beta_fast", 32.0)?,
            beta_slow: own.number_or("beta_slow", 1.0)?,
            truncate: own.flag_or("truncate", true)?,
        })
    }
    /// Returns the pairs between which the scaling grows from none to the full factor.
    fn borders(&self, dim: usize, theta: f64) -> (f64, f64) {
        let dim = dim as f64;
        let pair = |turns: f64| dim * (self.original as f64 / (turns * 2.0 * PI)).ln() / (2.0 * theta.ln());
        let (low, high) = (pair(self.beta_fast), pair(self.beta_slow));
        let (low, high) = if self.truncate { (low.floor(), high.ceil()) } else { (low, high) };
        let (low, high) = (low.max(0.0), high.min(dim - 1.0));
        (low, if low == high { high + 0.001 } else { high })
    }
}

fn object<'a>(keys: &Keys<'a>, key: &str) -> Result<Option<&'a Map<String, Value>>> {
    keys.present(key).map(|v| v.as_object().ok_or_else(|| Keys::wrong(key, "a map", v))).transpose()
}
