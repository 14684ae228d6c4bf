//! Reads a GGUF file's tensors under Hugging Face's names, in float32.

use crate::checkpoint::expect_finite_input;
use crate::config::ModelConfig;
use crate::decoder::Weights;
use crate::families::Architecture;
use candle_core::quantized::gguf_file::Content;
use candle_core::{Device, Tensor};
use std::io::{Read, Seek};
use trainyard_core::{Error, Result};

/// Checks the header of a file against its config, without reading a tensor. Errors: data, naming the first tensor that
/// is missing or has another shape.
pub(super) fn expect_shapes(config: &ModelConfig, content: &Content) -> Result<()> {
    let tensors = content.tensor_infos.len();
    if tensors < config.num_hidden_layers {
        let layers = config.num_hidden_layers;
        return Err(Error::data(format!("the metadata have {layers} layers, but the file has only {tensors} tensors"))
            .help("fetch the file again"));
    }
    for (name, shape) in config.parameters() {
        let source = source_name(&config.architecture, &name);
        let Some(info) = content.tensor_infos.get(&source) else {
            return Err(Error::data(format!("the tensor `{source}` is missing")).help("fetch the file again"));
        };
        let dims = info.shape.dims();
        if dims != shape {
            return Err(Error::data(format!("`{source}` has shape {dims:?}, the metadata require {shape:?}"))
                .help("fetch the file again"));
        }
    }
    Ok(())
}

/// Reads every tensor that the config requires. The shapes are checked before: only the sizes of a config are known to
/// multiply without overflow.
pub(super) fn weights<R: Read + Seek>(config: &ModelConfig, content: &Content, reader: &mut R) -> Result<Weights> {
    expect_shapes(config, content)?;
    let mut weights = Weights::new();
    for (name, _) in config.parameters() {
        let source = source_name(&config.architecture, &name);
        let failed = |e: candle_core::Error| Error::data(format!("the tensor `{source}` cannot be read: {e}"));
        let tensor = content.tensor(reader, &source, &Device::Cpu).map_err(failed)?;
        let tensor = tensor.dequantize(&Device::Cpu).map_err(failed)?;
        weights.insert(name.clone(), restore(config, &name, tensor).map_err(failed)?);
    }
    expect_finite_input(&weights)?;
    Ok(weights)
}

/// Returns llama.cpp's name of the parameter `name`.
fn source_name(architecture: &Architecture, name: &str) -> String {
    let top = [
        ("model.embed_tokens.weight", "token_embd.weight"),
        ("model.norm.weight", "output_norm.weight"),
        ("lm_head.weight", "output.weight"),
    ];
    if let Some((_, source)) = top.iter().find(|(ours, _)| *ours == name) {
        return source.to_string();
    }
    let (layer, part) = name.trim_start_matches("model.layers.").split_once('.').unwrap_or((name, ""));
    let (part, kind) = part.rsplit_once('.').unwrap_or((part, "weight"));
    let norms = &architecture.norms;
    let source = match part {
        "self_attn.q_proj" => "attn_q",
        "self_attn.k_proj" => "attn_k",
        "self_attn.v_proj" => "attn_v",
        "self_attn.o_proj" => "attn_output",
        "self_attn.q_norm" => "attn_q_norm",
        "self_attn.k_norm" => "attn_k_norm",
        "mlp.gate_proj" => "ffn_gate",
        "mlp.up_proj" => "ffn_up",
        "mlp.down_proj" => "ffn_down",
        norm if Some(norm) == norms.attention_in => "attn_norm",
        norm if Some(norm) == norms.attention_out => "post_attention_norm",
        norm if Some(norm) == norms.mlp_in => "ffn_norm",
        norm if Some(norm) == norms.mlp_out => "post_ffw_norm",
        other => other,
    };
    format!("blk.{layer}.{source}.{kind}")
}

/// Reverses the changes that llama.cpp's converter made to the numbers.
fn restore(config: &ModelConfig, name: &str, tensor: Tensor) -> candle_core::Result<Tensor> {
    let offset = config.architecture.norm_offset;
    if name.ends_with("norm.weight") && offset != 0.0 {
        return tensor - offset;
    }
    let heads = match () {
        () if name.contains(".q_proj.") => config.num_attention_heads,
        () if name.contains(".k_proj.") => config.num_key_value_heads,
        () => return Ok(tensor),
    };
    if config.family.name != "llama" {
        return Ok(tensor);
    }
    // The converter interleaved the two halves of each head: rows 0, d/2, 1, d/2 + 1, …
    let half = config.head_dim / 2;
    let shape = tensor.shape().clone();
    tensor.reshape((heads, half, 2, ()))?.transpose(1, 2)?.contiguous()?.reshape(shape)
}
