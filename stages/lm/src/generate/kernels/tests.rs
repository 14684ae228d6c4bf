//! Compares kernels with plain sums in f64, and instruction sets with each other bit for bit.

use super::*;
use crate::generate::cache::KvBlocks;
use proptest::prelude::*;
use trainyard_core::Chance;

fn numbers(place: &str, n: usize) -> Vec<f32> {
    let mut draws = Chance::new(1).at(place, &[n as u64]);
    (0..n).map(|_| draws.normal() as f32).collect()
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|v| v.to_bits()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn products_are_right_and_do_not_depend_on_the_batch(
        rows in 1usize..40, k in 1usize..70, a in 1usize..70, b in 1usize..40, biased: bool
    ) {
        let (x, wa, wb) = (numbers("x", rows * (k + 3)), numbers("a", a * k), numbers("b", b * k));
        let bias_a = numbers("c", a);
        let parts: Vec<(&[f32], Option<&[f32]>)> = vec![(&wa, biased.then_some(&bias_a[..])), (&wb, None)];
        let packed = PackedMatrix::new(k, &parts);
        prop_assert_eq!(packed.columns(), a.next_multiple_of(PANEL) + b.next_multiple_of(PANEL));
        let run = |isa, first: usize, count: usize, accumulate| {
            let mut out = vec![0.5; count * packed.columns()];
            matmul((isa, 1), &packed, (&x[first * (k + 3)..], k + 3), count, accumulate, &mut out);
            out
        };
        let whole = run(Isa::detect(), 0, rows, false);
        for r in 0..rows {
            let row = &whole[r * packed.columns()..][..packed.columns()];
            let first = (0..a).map(|n| (&wa[n * k..][..k], if biased { bias_a[n] } else { 0.0 }));
            let second = (0..b).map(|n| (&wb[n * k..][..k], 0.0));
            for (n, (w, offset)) in first.chain(second).enumerate() {
                let at = if n < a { n } else { a.next_multiple_of(PANEL) + n - a };
                let products = w.iter().zip(&x[r * (k + 3)..]).map(|(w, x)| f64::from(*w) * f64::from(*x));
                let exact: f64 = products.sum::<f64>() + f64::from(offset);
                prop_assert!((f64::from(row[at]) - exact).abs() < 1e-4, "{} {}", row[at], exact);
            }
            prop_assert_eq!(bits(&run(Isa::detect(), r, 1, false)), bits(row));
        }
        for isa in Isa::available() {
            prop_assert_eq!(bits(&run(isa, 0, rows, false)), bits(&whole));
            let added = run(isa, 0, rows, true);
            prop_assert!(added.iter().zip(&whole).all(|(a, w)| (a - w - 0.5).abs() < 1e-4));
            prop_assert_eq!(bits(&added), bits(&run(Isa::detect(), 0, rows, true)));
        }
        for threads in 2..5 {
            let mut out = vec![0.5; rows * packed.columns()];
            matmul((Isa::detect(), threads), &packed, (&x, k + 3), rows, false, &mut out);
            prop_assert_eq!(bits(&out), bits(&whole));
        }
    }

    #[test]
    fn bfloat16_weights_take_half_the_memory_and_change_no_bit(
        rows in 1usize..30, k in 1usize..70, a in 1usize..70, b in 1usize..40, exact: bool
    ) {
        let x = numbers("x", rows * k);
        let mut parts = [numbers("a", a * k), numbers("b", b * k)];
        for w in parts.iter_mut().flatten() {
            *w = f32::from_bits(w.to_bits() & 0xffff_0000);
        }
        // One number that is not a bfloat16 makes the matrix float32.
        if !exact {
            parts[1][b * k - 1] = 0.1;
        }
        let packed = PackedMatrix::new(k, &[(&parts[0], None), (&parts[1], None)]);
        let columns = packed.columns();
        prop_assert_eq!(packed.bytes(), if exact { 2 } else { 4 } * columns * k);
        for isa in Isa::available() {
            let mut out = vec![0.5; rows * columns];
            matmul((isa, 1), &packed, (&x, k), rows, false, &mut out);
            for (r, out) in out.chunks_exact(columns).enumerate() {
                let chain = |w: &[f32]| w.iter().zip(&x[r * k..]).fold(0.0_f32, |sum, (w, x)| x.mul_add(*w, sum));
                let first: Vec<f32> = parts[0].chunks_exact(k).map(chain).collect();
                let second: Vec<f32> = parts[1].chunks_exact(k).map(chain).collect();
                prop_assert_eq!(bits(&out[..a]), bits(&first));
                prop_assert_eq!(bits(&out[a.next_multiple_of(PANEL)..][..b]), bits(&second));
            }
        }
    }

    #[test]
    fn attention_is_softmax_of_products(
        length in 1usize..150, window in 1usize..90, kv_heads in 1usize..3, group in 1usize..3, half in 1usize..13
    ) {
        let first = length.saturating_sub(window);
        let shape = AttentionShape { layer: 1, heads: kv_heads * group, kv_heads, head_dim: 2 * half };
        let d = shape.head_dim;
        let size = length * kv_heads * d;
        let (q, keys, values) = (numbers("q", shape.heads * d), numbers("k", size), numbers("v", size + 1));
        let mut blocks = KvBlocks::default();
        blocks.reserve(length, 2, shape);
        for t in 0..length {
            blocks.write(t, shape, &keys[t * kv_heads * d..], &values[t * kv_heads * d..]);
        }
        let run = |isa| {
            let mut out = vec![0.0; q.len()];
            for (kv, (q, out)) in q.chunks_exact(group * d).zip(out.chunks_exact_mut(group * d)).enumerate() {
                let scratch = &mut AttentionScratch::default();
                attention(isa, (shape, kv), q, blocks.as_slice(), first..length, scratch, out);
            }
            out
        };
        let out = run(Isa::detect());
        for head in 0..shape.heads {
            let at = |t: usize| (t * kv_heads + head / group) * d;
            let product = |t: usize, i: usize| f64::from(q[head * d + i]) * f64::from(keys[at(t) + i]);
            let score = |t: usize| (0..d).map(|i| product(t, i)).sum::<f64>().exp();
            let total: f64 = (first..length).map(score).sum();
            for i in 0..d {
                let exact: f64 = (first..length).map(|t| score(t) / total * f64::from(values[at(t) + i])).sum();
                prop_assert!((f64::from(out[head * d + i]) - exact).abs() < 1e-4);
            }
        }
        for isa in Isa::available() {
            prop_assert_eq!(bits(&run(isa)), bits(&out));
        }
    }
}

#[test]
fn exponentials_are_within_two_units_and_keep_nan() {
    let x: Vec<f32> = (0..200_000).map(|i| -87.0 + i as f32 * (174.0 / 200_000.0)).collect();
    for isa in Isa::available() {
        let mut y = x.clone();
        exp_shifted(isa, &mut y, 0.0);
        for (x, y) in x.iter().zip(&y) {
            let exact = f64::from(*x).exp();
            assert!(((f64::from(*y) - exact) / exact).abs() < 2.4e-7, "exp({x}) = {y}, not {exact}");
        }
        let mut edge = [f32::NAN, f32::NEG_INFINITY, -88.0, 0.0, 89.0, f32::INFINITY];
        exp_shifted(isa, &mut edge, 0.0);
        assert!(edge[0].is_nan());
        assert_eq!(edge[1..], [0.0, 0.0, 1.0, f32::INFINITY, f32::INFINITY]);
    }
}

#[test]
fn norm_and_silu_by_hand_and_alike_everywhere() {
    let mut out = [0.0; 4];
    rms_norm(Isa::detect(), &[1.0, -1.0, 3.0, 1.0], &[1.0, 2.0, 1.0, 0.0], 0.0, &mut out);
    let r = 3f32.sqrt();
    for (a, b) in out.iter().zip([1.0 / r, -2.0 / r, 3.0 / r, 0.0]) {
        assert!((a - b).abs() < 1e-6);
    }
    let mut out = [0.0; 3];
    silu_times(Isa::detect(), &[0.0, 1.0, -1.0], &[5.0, 1.0, 2.0], &mut out);
    for (a, b) in out.iter().zip([0.0, 0.731_058_6, -0.537_882_8]) {
        assert!((a - b).abs() < 1e-6, "{a} {b}");
    }
    let (x, w) = (numbers("x", 203), numbers("w", 203));
    let all = |isa| {
        let (mut a, mut b, mut c) = (vec![0.0; 203], vec![0.0; 203], x.clone());
        rms_norm(isa, &x, &w, 1e-6, &mut a);
        silu_times(isa, &x, &w, &mut b);
        let sum = exp_shifted(isa, &mut c, 0.3);
        (bits(&a), bits(&b), bits(&c), sum.to_bits())
    };
    for isa in Isa::available() {
        assert_eq!(all(isa), all(Isa::detect()), "{}", isa.name());
    }
}
