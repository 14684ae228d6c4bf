//! Compares each kernel with the same mathematics composed of candle's differentiable operations, in float64.

use super::attention::{AttentionBuffers, Heads};
use super::{attention, gated, head, norm, rotary};
use crate::families::{Activation, Rope};
use candle_core::{D, DType, Device, Tensor, Var};

/// Returns numbers without structure, the same on every run.
fn numbers(n: usize, salt: usize) -> Vec<f64> {
    (0..n).map(|i| (((i + 1) * (salt * 2 + 7)) as f64 * 0.731).sin()).collect()
}

fn var(values: &[f64], shape: &[usize]) -> Var {
    Var::from_tensor(&Tensor::from_slice(values, shape, &Device::Cpu).unwrap()).unwrap()
}

fn flat(t: &Tensor) -> Vec<f64> {
    t.flatten_all().unwrap().to_vec1().unwrap()
}

#[track_caller]
fn close(a: &[f64], b: &[f64]) {
    assert_eq!(a.len(), b.len());
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert!((a - b).abs() <= 1e-10 * (1.0 + b.abs()), "element {i}: {a} is not {b}");
    }
}

/// Returns Σ weights · t, so that every element has its own upstream gradient.
fn probe(t: &Tensor, upstream: &[f64]) -> Tensor {
    let up = Tensor::from_slice(upstream, t.dims(), &Device::Cpu).unwrap();
    (t * up).unwrap().sum_all().unwrap()
}

#[test]
fn rms_norm_and_its_gradient() {
    for (rows, width) in [(1, 1), (3, 5), (4, 24), (7, 96), (2, 130)] {
        let (x, w, dy) = (numbers(rows * width, 1), numbers(width, 2), numbers(rows * width, 3));
        let (vx, vw) = (var(&x, &[rows, width]), var(&w, &[width]));
        let mean = vx.sqr().unwrap().mean_keepdim(D::Minus1).unwrap();
        let expected = vx.broadcast_div(&(mean + 1e-5).unwrap().sqrt().unwrap()).unwrap().broadcast_mul(&vw).unwrap();
        let grads = probe(&expected, &dy).backward().unwrap();

        let (mut y, mut scales, mut again) = (vec![0.0; x.len()], vec![0.0; rows], vec![0.0; x.len()]);
        norm::forward(&x, &w, 1e-5, &mut y, &mut scales);
        norm::recompute(&x, &w, &scales, &mut again);
        close(&y, &flat(&expected));
        assert_eq!(y, again);
        let (mut dx, mut dw) = (vec![1.0; x.len()], vec![0.0; width]);
        norm::backward(&x, &w, &scales, &dy, &mut dx, &mut dw);
        close(&dx.iter().map(|d| d - 1.0).collect::<Vec<_>>(), &flat(grads.get(&vx).unwrap()));
        close(&dw, &flat(grads.get(&vw).unwrap()));
    }
}

#[test]
fn gated_units_and_their_gradients() {
    let (rows, width) = (5, 19);
    let (x, dy) = (numbers(rows * 2 * width, 4), numbers(rows * width, 5));
    let vx = var(&x, &[rows, 2 * width]);
    let (gate, up) = (vx.narrow(1, 0, width).unwrap(), vx.narrow(1, width, width).unwrap());
    // candle's own GELU has a backward with rounded constants
    let z = (&gate * ((gate.sqr().unwrap() * 0.044_715).unwrap() + 1.0).unwrap()).unwrap();
    let z = (z * (8.0 / std::f64::consts::PI).sqrt()).unwrap();
    let gelu = (&gate * (z.neg().unwrap().exp().unwrap() + 1.0).unwrap().recip().unwrap()).unwrap();
    close(&flat(&gelu), &flat(&gate.gelu().unwrap()));
    for (activation, acted) in [(Activation::Silu, gate.silu().unwrap()), (Activation::GeluTanh, gelu)] {
        let expected = (acted * &up).unwrap();
        let grads = probe(&expected, &dy).backward().unwrap();
        let (mut y, mut again, mut dx) = (vec![0.0; dy.len()], vec![0.0; dy.len()], vec![0.0; x.len()]);
        gated::forward(activation, &x, width, &mut y);
        gated::backward(activation, &x, width, &dy, &mut dx, &mut again);
        close(&y, &flat(&expected));
        close(&again, &y);
        close(&dx, &flat(grads.get(&vx).unwrap()));
    }
}

#[test]
fn rotation_by_hand_and_back() {
    let mut angles = rotary::RotaryAngles::default();
    angles.cover(3, &Rope::plain(100.0), 4);
    // dimension pairs (0, 2) and (1, 3) turn by position · 1 and position · 100^(-1/2) = position / 10
    let start = [1.0, 0.0, 0.0, 2.0];
    let mut rows: Vec<f64> = start.repeat(3);
    angles.rotate_rows(&mut rows, 4, 1, 4, false);
    let (c, s) = (2.0f64.cos(), 2.0f64.sin());
    let (c_slow, s_slow) = (0.2f64.cos(), 0.2f64.sin());
    close(&rows[..4], &start);
    close(&rows[8..], &[c, -2.0 * s_slow, s, 2.0 * c_slow]);
    let mut one = start.repeat(2);
    angles.rotate_row(&mut one, 4, 2);
    assert_eq!(one[..4], rows[8..]);
    assert_eq!(one[4..], rows[8..]);
    angles.rotate_rows(&mut rows, 4, 1, 4, true);
    close(&rows, &start.repeat(3));
    // half of a head: the pair (0, 1) turns by position, the rest stays
    angles.cover(3, &Rope { partial: 0.5, ..Rope::plain(100.0) }, 4);
    let mut rows: Vec<f64> = [1.0, 0.0, 3.0, 4.0].repeat(3);
    angles.rotate_rows(&mut rows, 4, 1, 4, false);
    close(&rows[8..], &[c, s, 3.0, 4.0]);
}

/// Returns whether a query does not see a key.
fn hidden(heads: Heads, query: usize, key: usize) -> bool {
    key > query || heads.window.is_some_and(|w| key + w <= query)
}

/// Computes attention of one sequence by composed operations: qkv `[length, width]` to `[length, queries · dim]`.
fn composed_attention(heads: Heads, qkv: &Tensor, length: usize) -> Tensor {
    let group = heads.queries / heads.keys;
    let take = |head: usize| qkv.narrow(1, head * heads.dim, heads.dim).unwrap();
    let penalty = |i: usize| if hidden(heads, i / length, i % length) { f64::NEG_INFINITY } else { 0.0 };
    let mask: Vec<f64> = (0..length * length).map(penalty).collect();
    let mask = Tensor::from_vec(mask, (length, length), &Device::Cpu).unwrap();
    let outs: Vec<Tensor> = (0..heads.queries)
        .map(|h| {
            let (q, k, v) = (take(h), take(heads.queries + h / group), take(heads.queries + heads.keys + h / group));
            let scores = (q.matmul(&k.t().unwrap()).unwrap() * heads.scale).unwrap();
            candle_nn::ops::softmax(&(scores + &mask).unwrap(), D::Minus1)
                .unwrap()
                .matmul(&v.contiguous().unwrap())
                .unwrap()
        })
        .collect();
    Tensor::cat(&outs, 1).unwrap()
}

#[test]
fn attention_and_its_gradient() {
    let mut scratch = AttentionBuffers::default();
    let shapes = [(1, 1, 2), (4, 2, 6), (3, 3, 24), (4, 1, 16)].map(|(q, k, d)| Heads::new(q, k, d));
    let windows = [1, 2, 30, 64, 100, 500].map(|w| Heads { window: Some(w), scale: 0.3, ..Heads::new(2, 1, 4) });
    for heads in shapes.into_iter().chain(windows) {
        let Heads { queries, dim, .. } = heads;
        for length in [1, 2, 63, 64, 65, 131] {
            let (x, dy) = (numbers(length * heads.width(), 6), numbers(length * queries * dim, 7));
            let vx = var(&x, &[length, heads.width()]);
            let expected = composed_attention(heads, &vx, length);
            let grads = probe(&expected, &dy).backward().unwrap();
            let (mut out, mut log_sums, mut dx) =
                (vec![0.0; dy.len()], vec![0.0; length * queries], vec![9.0; x.len()]);
            attention::forward(heads, &x, &mut scratch, &mut out, &mut log_sums);
            attention::backward(heads, &x, &out, &log_sums, &dy, &mut scratch, &mut dx);
            close(&out, &flat(&expected));
            close(&dx, &flat(grads.get(&vx).unwrap()));
        }
    }
}

#[test]
fn logprob_and_entropy_and_their_gradients() {
    let (total, width) = (9, 6);
    for (vocabulary, temperature) in [(2, 1.0), (11, 0.7), (70, 1.3)] {
        let (hidden, weight) = (
            var(&numbers(total * width, 8), &[total, width]),
            var(&numbers(vocabulary * width, 9), &[vocabulary, width]),
        );
        let rows = [0u32, 3, 3, 8, 1];
        let targets: Vec<u32> = (0..5).map(|i| (i * 5 % vocabulary) as u32).collect();
        let (up_p, up_h) = (numbers(5, 10), numbers(5, 11));

        let index = Tensor::from_slice(&rows, 5, &Device::Cpu).unwrap();
        let logits =
            (hidden.index_select(&index, 0).unwrap().matmul(&weight.t().unwrap()).unwrap() / temperature).unwrap();
        let logs = candle_nn::ops::log_softmax(&logits, D::Minus1).unwrap();
        let chosen =
            logs.gather(&Tensor::from_slice(&targets, (5, 1), &Device::Cpu).unwrap(), 1).unwrap().squeeze(1).unwrap();
        let entropy = (logs.exp().unwrap() * &logs).unwrap().sum(1).unwrap().neg().unwrap();
        let loss = (probe(&chosen, &up_p) + probe(&entropy, &up_h)).unwrap();
        let grads = loss.backward().unwrap();

        let (p, h) = head::logprobs(&hidden, &weight, &[], &rows, &targets, temperature).unwrap();
        close(&flat(&p), &flat(&chosen));
        close(&flat(&h), &flat(&entropy));
        let ours = (probe(&p, &up_p) + probe(&h, &up_h)).unwrap().backward().unwrap();
        for v in [&hidden, &weight] {
            close(&flat(ours.get(v).unwrap()), &flat(grads.get(v).unwrap()));
        }
        // without an entropy gradient the shorter path must give the same
        let (ours, grads) = (probe(&p, &up_p).backward().unwrap(), probe(&chosen, &up_p).backward().unwrap());
        close(&flat(ours.get(&weight).unwrap()), &flat(grads.get(&weight).unwrap()));
    }
}

#[test]
fn head_rejects_invalid_rows_and_targets() {
    let t = |rows: usize| Tensor::zeros((rows, 2), DType::F32, &Device::Cpu).unwrap();
    let message = |rows: &[u32], targets: &[u32], temperature| {
        head::logprobs(&t(3), &t(4), &[], rows, targets, temperature).unwrap_err().to_string()
    };
    assert!(message(&[3], &[0], 1.0).contains("row 3 is out of range"));
    assert!(message(&[0], &[4], 1.0).contains("target token 4"));
    assert!(message(&[0], &[0], 0.0).contains("temperature 0"));
    assert!(message(&[0, 1], &[0], 1.0).contains("2 rows and 1 targets"));
}

/// Padding rows have no effect, however large their logits are.
#[test]
fn unused_rows_of_the_head_have_no_probability_and_no_gradient() {
    let (total, width, used) = (4, 6, 7);
    let (hidden, few) = (numbers(total * width, 8), numbers(used * width, 9));
    let mut many: Vec<f64> = few.iter().map(|x| x * 40.0).collect();
    // ids 2 and 3 and the last one are unused: the used rows move to 0, 1, 4, 5, …, 8
    let places = [0, 1, 4, 5, 6, 7, 8];
    many = many.into_iter().cycle().take(10 * width).collect();
    for (row, place) in few.chunks_exact(width).zip(places) {
        many[place * width..(place + 1) * width].copy_from_slice(row);
    }
    let (short_hidden, long_hidden) = (var(&hidden, &[total, width]), var(&hidden, &[total, width]));
    let (short, long) = (var(&few, &[used, width]), var(&many, &[10, width]));
    let (rows, targets) = ([0u32, 3, 1], [2usize, 6, 0]);
    let ids = |t: &dyn Fn(usize) -> usize| targets.map(|i| t(i) as u32);
    let (p, h) = head::logprobs(&short_hidden, &short, &[], &rows, &ids(&|i| i), 0.8).unwrap();
    let (q, g) = head::logprobs(&long_hidden, &long, &[2..4, 9..10], &rows, &ids(&|i| places[i]), 0.8).unwrap();
    close(&flat(&q), &flat(&p));
    close(&flat(&g), &flat(&h));
    let (up_p, up_h) = (numbers(3, 10), numbers(3, 11));
    let theirs = (probe(&p, &up_p) + probe(&h, &up_h)).unwrap().backward().unwrap();
    let ours = (probe(&q, &up_p) + probe(&g, &up_h)).unwrap().backward().unwrap();
    close(&flat(ours.get(&long_hidden).unwrap()), &flat(theirs.get(&short_hidden).unwrap()));
    let (d_long, d_short) = (flat(ours.get(&long).unwrap()), flat(theirs.get(&short).unwrap()));
    for (row, d) in d_long.chunks_exact(width).enumerate() {
        match places.iter().position(|p| *p == row) {
            Some(i) => close(d, &d_short[i * width..(i + 1) * width]),
            None => assert_eq!(d, [0.0; 6]),
        }
    }
}
