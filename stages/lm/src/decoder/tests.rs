//! Tests the whole decoder against composed operations, finite differences and hand arithmetic, and its guarantees on
//! bits.

use super::{Decoder, Weights};
use crate::batch::SequenceBatch;
use crate::config::ModelConfig;
use crate::families::{Rope, find};
use crate::optimizer::{AdamW, AdamWConfig, Gradients};
use candle_core::{D, DType, Device, Tensor};
use std::collections::BTreeMap;
use trainyard_core::Chance;

/// Returns three shapes that together cover every option: tied embeddings, biases, grouped keys, query/key norms, wide
/// heads.
pub(super) fn shapes() -> Vec<ModelConfig> {
    let mut llama = ModelConfig::llama(13, 8, 12, 2, 2, 2);
    (llama.architecture.attention_bias, llama.architecture.output_bias) = (true, true);
    let mut qwen2 = ModelConfig::llama(11, 12, 10, 2, 6, 2);
    (qwen2.family, qwen2.tie_word_embeddings) = (find("qwen2").unwrap(), false);
    qwen2.architecture.attention_bias = true;
    let mut qwen3 = ModelConfig::llama(9, 8, 14, 3, 4, 2).as_qwen3();
    (qwen3.head_dim, qwen3.architecture.ropes) = (6, vec![Rope::plain(1e6)]);
    [llama, qwen2, qwen3].map(|c| ModelConfig { initializer_range: 0.5, ..c }).to_vec()
}

/// Returns weights without any 0 or 1, in float64.
fn double(config: &ModelConfig, seed: u64) -> Decoder {
    let chance = Chance::new(seed);
    let weights = config.parameters().into_iter().map(|(name, shape)| {
        let mut draws = chance.at(&name, &[]);
        let center = if name.ends_with("norm.weight") { 1.0 } else { 0.0 };
        let values: Vec<f64> = (0..shape.iter().product::<usize>()).map(|_| center + 0.4 * draws.normal()).collect();
        (name, Tensor::from_vec(values, shape, &Device::Cpu).unwrap())
    });
    Decoder::from_weights(config, weights.collect()).unwrap()
}

pub(super) fn batch_of(lengths: &[usize], vocabulary: usize) -> SequenceBatch {
    let sequence = |(i, n): (usize, &usize)| (0..*n).map(|t| ((i * 7 + t * t + 3 * t) % vocabulary) as u32).collect();
    SequenceBatch::new(lengths.iter().enumerate().map(sequence).collect()).unwrap()
}

/// Computes a loss over log-probabilities and entropies of every token but the first of each sequence, each with a
/// different weight.
fn loss(decoder: &Decoder, batch: &SequenceBatch) -> Tensor {
    let (mut rows, mut targets) = (Vec::new(), Vec::new());
    for (i, sequence) in batch.sequences().iter().enumerate() {
        for (t, token) in sequence.iter().enumerate().skip(1) {
            rows.push(batch.row(i, t - 1));
            targets.push(*token);
        }
    }
    let hidden = decoder.hidden(batch).unwrap();
    let (logprobs, entropies) = decoder.logprobs(&hidden, &rows, &targets, 0.9).unwrap();
    let weight = |salt: usize| {
        let values: Vec<f64> = (0..rows.len()).map(|i| ((i + salt) as f64 * 1.7).sin()).collect();
        Tensor::from_vec(values, rows.len(), &Device::Cpu).unwrap().to_dtype(decoder.dtype()).unwrap()
    };
    let sum = ((logprobs * weight(1)).unwrap() + (entropies * weight(2)).unwrap()).unwrap().sum_all().unwrap();
    (sum / rows.len() as f64).unwrap()
}

pub(super) fn flat(t: &Tensor) -> Vec<f64> {
    t.flatten_all().unwrap().to_dtype(DType::F64).unwrap().to_vec1().unwrap()
}

#[track_caller]
fn close(a: &Tensor, b: &Tensor, what: &str) {
    for (i, (a, b)) in flat(a).iter().zip(flat(b)).enumerate() {
        assert!((a - b).abs() <= 1e-9 * (1.0 + b.abs()), "{what}, element {i}: {a} is not {b}");
    }
}

/// Computes the decoder by its definition, one sequence at a time, with candle operations that have a backward.
fn composed_hidden(decoder: &Decoder, tokens: &[u32]) -> Tensor {
    let (c, p) = (decoder.config(), |n: &str| decoder.parameters().get(n).map(|v| v.as_tensor().clone()));
    let n = tokens.len();
    let norm = |x: &Tensor, w: &Tensor| {
        let mean = (x.sqr().unwrap().mean_keepdim(D::Minus1).unwrap() + c.rms_norm_eps).unwrap();
        x.broadcast_div(&mean.sqrt().unwrap()).unwrap().broadcast_mul(w).unwrap()
    };
    let half = c.head_dim / 2;
    let theta = c.architecture.ropes[0].theta;
    let angle = |i: usize| (i / half) as f64 * theta.powf(-2.0 * (i % half) as f64 / c.head_dim as f64);
    let table = |f: fn(f64) -> f64| {
        Tensor::from_vec((0..n * half).map(|i| f(angle(i))).collect::<Vec<_>>(), (n, half), &Device::Cpu).unwrap()
    };
    let (cos, sin) = (table(f64::cos), table(f64::sin));
    let turn = |x: &Tensor| {
        let (a, b) = (x.narrow(1, 0, half).unwrap(), x.narrow(1, half, half).unwrap());
        let low = ((&a * &cos).unwrap() - (&b * &sin).unwrap()).unwrap();
        Tensor::cat(&[low, ((&b * &cos).unwrap() + (&a * &sin).unwrap()).unwrap()], 1).unwrap()
    };
    let mask: Vec<f64> = (0..n * n).map(|i| if i % n > i / n { f64::NEG_INFINITY } else { 0.0 }).collect();
    let mask = Tensor::from_vec(mask, (n, n), &Device::Cpu).unwrap();
    let index = Tensor::from_slice(tokens, n, &Device::Cpu).unwrap();
    let mut x = p("model.embed_tokens.weight").unwrap().index_select(&index, 0).unwrap();
    for i in 0..c.num_hidden_layers {
        let q = |name: &str| p(&format!("model.layers.{i}.{name}"));
        let linear = |x: &Tensor, name: &str| {
            let y = x.matmul(&q(&format!("{name}.weight")).unwrap().t().unwrap()).unwrap();
            q(&format!("{name}.bias")).map_or_else(|| y.clone(), |b| y.broadcast_add(&b).unwrap())
        };
        let normed = norm(&x, &q("input_layernorm.weight").unwrap());
        let all = ["q", "k", "v"].map(|name| linear(&normed, &format!("self_attn.{name}_proj")));
        let head = |which: usize, h: usize| {
            let y = all[which].narrow(1, h * c.head_dim, c.head_dim).unwrap().contiguous().unwrap();
            let name = ["self_attn.q_norm.weight", "self_attn.k_norm.weight", ""][which];
            let y = q(name).map_or_else(|| y.clone(), |w| norm(&y, &w));
            if which < 2 { turn(&y) } else { y }
        };
        let group = c.num_attention_heads / c.num_key_value_heads;
        let outs: Vec<Tensor> = (0..c.num_attention_heads)
            .map(|h| {
                let scores = (head(0, h).matmul(&head(1, h / group).t().unwrap()).unwrap()
                    / (c.head_dim as f64).sqrt())
                .unwrap();
                candle_nn::ops::softmax(&(scores + &mask).unwrap(), D::Minus1)
                    .unwrap()
                    .matmul(&head(2, h / group))
                    .unwrap()
            })
            .collect();
        x = (x + linear(&Tensor::cat(&outs, 1).unwrap(), "self_attn.o_proj")).unwrap();
        let normed = norm(&x, &q("post_attention_layernorm.weight").unwrap());
        let inner = (linear(&normed, "mlp.gate_proj").silu().unwrap() * linear(&normed, "mlp.up_proj")).unwrap();
        x = (x + linear(&inner, "mlp.down_proj")).unwrap();
    }
    norm(&x, &p("model.norm.weight").unwrap())
}

#[test]
fn hidden_states_and_all_gradients_agree_with_composed_operations() {
    for config in shapes() {
        let decoder = double(&config, 5);
        let batch = batch_of(&[1, 5, 70, 3], config.vocab_size);
        let hidden = decoder.hidden(&batch).unwrap();
        let parts: Vec<Tensor> = batch.sequences().iter().map(|s| composed_hidden(&decoder, s)).collect();
        let expected = Tensor::cat(&parts, 0).unwrap();
        close(&hidden, &expected, "hidden");
        let upstream: Vec<f64> = (0..hidden.elem_count()).map(|i| (i as f64 * 0.37).cos()).collect();
        let upstream = Tensor::from_vec(upstream, hidden.shape(), &Device::Cpu).unwrap();
        let ours = (&hidden * &upstream).unwrap().sum_all().unwrap().backward().unwrap();
        let theirs = (&expected * &upstream).unwrap().sum_all().unwrap().backward().unwrap();
        for (name, var) in decoder.parameters().iter().filter(|(n, _)| *n != "lm_head.weight") {
            close(ours.get(var).expect(name), theirs.get(var).expect(name), name);
        }
    }
}

#[test]
fn gradients_agree_with_finite_differences_of_the_whole_model() {
    const STEP: f64 = 1e-5;
    for config in shapes() {
        let decoder = double(&config, 6);
        let batch = batch_of(&[4, 9, 2], config.vocab_size);
        let grads = loss(&decoder, &batch).backward().unwrap();
        for (name, var) in decoder.parameters() {
            let gradient = flat(grads.get(var).expect(name));
            let start = var.as_detached_tensor().copy().unwrap();
            let values = flat(&start);
            let picks = [0, values.len() / 3, values.len() / 2, values.len() - 1];
            for place in picks {
                let at = |shift: f64| {
                    let mut moved = values.clone();
                    moved[place] += shift;
                    var.set(&Tensor::from_vec(moved, var.shape(), &Device::Cpu).unwrap()).unwrap();
                    loss(&decoder, &batch).to_scalar::<f64>().unwrap()
                };
                let slope = (at(STEP) - at(-STEP)) / (2.0 * STEP);
                assert!(
                    (slope - gradient[place]).abs() < 1e-7 + 1e-5 * slope.abs(),
                    "{name}[{place}]: {slope} is not {}",
                    gradient[place]
                );
            }
            var.set(&start).unwrap();
        }
    }
}

/// One token, one layer, one head of width 2: attention returns the value itself, so the result can be derived by hand.
#[test]
fn a_tiny_model_gives_the_numbers_derived_by_hand() {
    let config = ModelConfig { rms_norm_eps: 1e-12, ..ModelConfig::llama(2, 2, 1, 1, 1, 1) };
    let values: [(&str, &[f64]); 11] = [
        ("embed_tokens.weight", &[3.0, 4.0, 1.0, 0.0]),
        ("norm.weight", &[1.0, 2.0]),
        ("layers.0.input_layernorm.weight", &[1.0, 1.0]),
        ("layers.0.post_attention_layernorm.weight", &[1.0, 1.0]),
        ("layers.0.self_attn.q_proj.weight", &[1.0, 2.0, 3.0, 4.0]),
        ("layers.0.self_attn.k_proj.weight", &[4.0, 3.0, 2.0, 1.0]),
        ("layers.0.self_attn.v_proj.weight", &[0.0, 1.0, 1.0, 0.0]),
        ("layers.0.self_attn.o_proj.weight", &[5.0, 0.0, 0.0, 5.0]),
        ("layers.0.mlp.gate_proj.weight", &[1.0, 0.0]),
        ("layers.0.mlp.up_proj.weight", &[0.0, 1.0]),
        ("layers.0.mlp.down_proj.weight", &[10.0, 0.0]),
    ];
    let shapes: BTreeMap<String, Vec<usize>> = config.parameters().into_iter().collect();
    let weights: Weights = values
        .iter()
        .map(|(n, v)| {
            (format!("model.{n}"), Tensor::from_slice(v, shapes[&format!("model.{n}")].clone(), &Device::Cpu).unwrap())
        })
        .collect();
    let decoder = Decoder::from_weights(&config, weights).unwrap();
    let hidden = decoder.hidden(&SequenceBatch::new(vec![vec![0]]).unwrap()).unwrap();
    // embedding (3, 4), root mean square √12.5; the value swaps the two, the output multiplies by 5: + 5 · (4, 3) /
    // √12.5
    let r = 12.5f64.sqrt();
    let (a, b) = (3.0 + 20.0 / r, 4.0 + 15.0 / r);
    let s = ((a * a + b * b) / 2.0).sqrt();
    let (gate, up) = (a / s, b / s);
    let a = a + 10.0 * gate / (1.0 + (-gate).exp()) * up;
    let s = ((a * a + b * b) / 2.0).sqrt();
    let expected = [a / s, 2.0 * b / s];
    for (x, e) in flat(&hidden).iter().zip(expected) {
        assert!((x - e).abs() < 1e-9, "{x} is not {e}");
    }
    // logits (3x + 4y, x) at temperature 2
    let z = [(3.0 * expected[0] + 4.0 * expected[1]) / 2.0, expected[0] / 2.0];
    let (logprob, entropy) = decoder.logprobs(&hidden, &[0], &[1], 2.0).unwrap();
    let log_sum = (z[0].exp() + z[1].exp()).ln();
    let h: f64 = z.iter().map(|z| -(z - log_sum).exp() * (z - log_sum)).sum();
    assert!((flat(&logprob)[0] - (z[1] - log_sum)).abs() < 1e-9 && (flat(&entropy)[0] - h).abs() < 1e-9);
}

pub(super) fn single(config: &ModelConfig) -> Decoder {
    Decoder::initialize(config, &Chance::new(3)).unwrap()
}

#[test]
fn first_step_moves_every_parameter() {
    for config in shapes() {
        let decoder = single(&config);
        let before = decoder.weights().unwrap();
        let grads = loss(&decoder, &batch_of(&[20, 31, 7], config.vocab_size)).backward().unwrap();
        let gradients = Gradients::collect(decoder.parameters(), grads).unwrap();
        AdamW::new(decoder.parameters(), AdamWConfig::default()).step(&gradients, 1e-2).unwrap();
        for (name, after) in decoder.weights().unwrap() {
            assert!(gradients.get(&name).unwrap().iter().any(|g| *g != 0.0), "{name} has no gradient");
            assert!(flat(&after) != flat(&before[&name]), "{name} has not moved");
        }
    }
}

fn bits(weights: &Weights) -> Vec<u32> {
    weights.values().flat_map(|t| t.flatten_all().unwrap().to_vec1::<f32>().unwrap()).map(f32::to_bits).collect()
}

fn train(decoder: &Decoder, optimizer: &mut AdamW, steps: std::ops::Range<usize>) {
    for step in steps {
        let batch = batch_of(&[40 + step, 3, 90, 17, 64, 65, 30], decoder.config().vocab_size);
        let grads = loss(decoder, &batch).backward().unwrap();
        optimizer.step(&Gradients::collect(decoder.parameters(), grads).unwrap(), 1e-2).unwrap();
    }
}

#[test]
fn saving_and_loading_between_steps_changes_no_bit() {
    let folder = std::env::temp_dir().join(format!("trainyard-resume-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for config in shapes() {
        let straight = single(&config);
        let mut optimizer = AdamW::new(straight.parameters(), AdamWConfig::default());
        train(&straight, &mut optimizer, 0..2);
        crate::checkpoint::save_model(&folder, &config, &straight.weights().unwrap()).unwrap();
        optimizer.save(&folder.join("optimizer.safetensors")).unwrap();
        train(&straight, &mut optimizer, 2..4);

        let (read, weights) = crate::checkpoint::load_model(&folder).unwrap();
        let resumed = Decoder::from_weights(&read, weights).unwrap();
        let mut optimizer = AdamW::new(resumed.parameters(), AdamWConfig::default());
        optimizer.load(&crate::checkpoint::load_tensors(&folder.join("optimizer.safetensors")).unwrap()).unwrap();
        assert_eq!(optimizer.steps(), 2);
        train(&resumed, &mut optimizer, 2..4);
        assert_eq!(bits(&straight.weights().unwrap()), bits(&resumed.weights().unwrap()));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    for config in shapes() {
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let decoder = single(&config);
                train(&decoder, &mut AdamW::new(decoder.parameters(), AdamWConfig::default()), 0..3);
                bits(&decoder.weights().unwrap())
            })
        };
        let one = run(1);
        assert_eq!(one, run(2));
        assert_eq!(one, run(5));
    }
}

#[test]
fn sequences_do_not_depend_on_their_batch() {
    for config in shapes() {
        let decoder = single(&config);
        let together = batch_of(&[33, 80, 5, 64], config.vocab_size);
        let hidden = decoder.hidden(&together).unwrap();
        for (i, sequence) in together.sequences().iter().enumerate() {
            let alone = decoder.hidden(&SequenceBatch::new(vec![sequence.clone()]).unwrap()).unwrap();
            let range = together.range(i);
            let part = hidden.narrow(0, range.start, range.len()).unwrap();
            for (a, b) in flat(&part).iter().zip(flat(&alone)) {
                assert!((a - b).abs() < 1e-5, "{a} {b}");
            }
            // causal: a changed last token changes the last row alone
            let mut changed = sequence.clone();
            *changed.last_mut().unwrap() = (changed.last().unwrap() + 1) % config.vocab_size as u32;
            let other = decoder.hidden(&SequenceBatch::new(vec![changed]).unwrap()).unwrap();
            let kept = (sequence.len() - 1) * config.hidden_size;
            assert_eq!(flat(&alone)[..kept], flat(&other)[..kept]);
            assert!(flat(&alone)[kept..] != flat(&other)[kept..]);
        }
    }
}

#[test]
fn inference_gives_the_bits_of_training() {
    for config in shapes() {
        let decoder = single(&config);
        let batch = batch_of(&[33, 80, 5], config.vocab_size);
        let (with, without) = (decoder.hidden(&batch).unwrap(), decoder.hidden_no_grad(&batch).unwrap());
        assert_eq!(flat(&with), flat(&without));
        // a smaller pass reuses the buffers of a larger one
        let small = batch_of(&[6], config.vocab_size);
        assert_eq!(flat(&decoder.hidden(&small).unwrap()), flat(&single(&config).hidden(&small).unwrap()));
    }
}

#[test]
fn two_graphs_of_one_step_add_up() {
    let config = &shapes()[0];
    let decoder = single(config);
    let (first, second) = (batch_of(&[9, 4], config.vocab_size), batch_of(&[5, 12, 2], config.vocab_size));
    let (a, b) = (loss(&decoder, &first), loss(&decoder, &second));
    let both = Gradients::collect(decoder.parameters(), (&a + &b).unwrap().backward().unwrap()).unwrap();
    let mut sum = Gradients::collect(decoder.parameters(), a.backward().unwrap()).unwrap();
    sum.add(&Gradients::collect(decoder.parameters(), b.backward().unwrap()).unwrap()).unwrap();
    for name in decoder.parameters().keys() {
        for (x, y) in both.get(name).unwrap().iter().zip(sum.get(name).unwrap()) {
            assert!((x - y).abs() < 1e-5, "{name}: {x} {y}");
        }
    }
}
