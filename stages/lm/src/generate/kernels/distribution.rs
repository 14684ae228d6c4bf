//! Computes passes over the logits of one row.
//!
//! A row is as long as the vocabulary, so each pass runs in wide vectors.
#![expect(unsafe_code, reason = "the kernel macro calls feature-gated code")]

use super::lanes::{Lanes, kernel};

kernel! {
    /// Returns whether no value is NaN or infinite.
    all_finite = all_finite_body(x: &[f32]) -> bool
}

#[inline(always)]
fn all_finite_body<L: Lanes>(x: &[f32]) -> bool {
    x.iter().fold(true, |all, x| all & x.is_finite())
}

kernel! {
    /// Returns the index of the highest value, the first among equals. No value may be NaN.
    first_highest = first_highest_body(x: &[f32]) -> usize
}

#[inline(always)]
fn first_highest_body<L: Lanes>(x: &[f32]) -> usize {
    let mut lanes = [f32::NEG_INFINITY; 16];
    let (chunks, rest) = x.as_chunks::<16>();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane = if x > *lane { x } else { *lane };
        }
    }
    let highest = lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |a, &x| if x > a { x } else { a });
    // A chunk at a time: a search that may end at every value does not vectorize.
    let chunk = chunks.iter().position(|chunk| chunk.iter().fold(false, |any, x| any | (*x == highest)));
    let first = chunk.unwrap_or(chunks.len()) * 16;
    first + x[first..].iter().position(|x| *x == highest).unwrap_or(0)
}

kernel! {
    /// Computes `x[i] = x[i] / divisor - shift` in place.
    divide_and_shift = divide_and_shift_body(x: &mut [f32], divisor: f32, shift: f32)
}

#[inline(always)]
fn divide_and_shift_body<L: Lanes>(x: &mut [f32], divisor: f32, shift: f32) {
    x.iter_mut().for_each(|x| *x = *x / divisor - shift);
}

kernel! {
    /// Returns the sum in double precision: eight lanes by index, then the lanes in order.
    sum_wide = sum_wide_body(x: &[f32]) -> f64
}

#[inline(always)]
fn sum_wide_body<L: Lanes>(x: &[f32]) -> f64 {
    let mut lanes = [0.0f64; 8];
    let (chunks, rest) = x.as_chunks::<8>();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane += f64::from(x);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane += f64::from(x);
    }
    lanes.iter().sum()
}

kernel! {
    /// Returns `Σ masses[i] · x[i]` over the masses above 0, summed as [`sum_wide`] does.
    dot_wide = dot_wide_body(masses: &[f32], x: &[f32]) -> f64
}

#[inline(always)]
fn dot_wide_body<L: Lanes>(masses: &[f32], x: &[f32]) -> f64 {
    assert!(masses.len() == x.len());
    let term = |m: f32, x: f32| if m > 0.0 { f64::from(m) * f64::from(x) } else { 0.0 };
    let mut lanes = [0.0f64; 8];
    let ((chunks, rest), (x_chunks, x_rest)) = (masses.as_chunks::<8>(), x.as_chunks::<8>());
    for (chunk, x) in chunks.iter().zip(x_chunks) {
        for (lane, (&m, &x)) in lanes.iter_mut().zip(chunk.iter().zip(x)) {
            *lane += term(m, x);
        }
    }
    for (lane, (&m, &x)) in lanes.iter_mut().zip(rest.iter().zip(x_rest)) {
        *lane += term(m, x);
    }
    lanes.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::super::Isa;
    use super::*;

    #[test]
    fn the_first_of_the_highest_is_found_at_every_place() {
        for isa in Isa::available() {
            for n in 1..70 {
                for at in 0..n {
                    let mut x: Vec<f32> = (0..n).map(|i| -1.0 - i as f32).collect();
                    x[at] = 3.0;
                    x[n - 1] = x[n - 1].max(if n % 2 == 0 { 3.0 } else { -9.0 });
                    assert_eq!(first_highest(isa, &x), x.iter().position(|v| *v == 3.0).unwrap());
                }
            }
            assert_eq!(first_highest(isa, &[-0.0, 0.0]), 0);
            assert_eq!(first_highest(isa, &[f32::NEG_INFINITY; 20]), 0);
        }
    }

    #[test]
    fn sums_and_checks_are_alike_everywhere() {
        let x: Vec<f32> = (0..203).map(|i| (i as f32 * 0.37).sin()).collect();
        let masses: Vec<f32> = x.iter().map(|x| if *x > 0.5 { 0.0 } else { x.abs() }).collect();
        let unseen: Vec<f32> = x.iter().map(|x| if *x > 0.5 { f32::NEG_INFINITY } else { *x }).collect();
        let exact: f64 = masses.iter().zip(&x).map(|(m, x)| f64::from(*m) * f64::from(*x)).sum();
        for isa in Isa::available() {
            assert!((dot_wide(isa, &masses, &unseen) - exact).abs() < 1e-12);
            let of = |isa| (sum_wide(isa, &x).to_bits(), dot_wide(isa, &masses, &unseen).to_bits());
            assert_eq!(of(isa), of(Isa::detect()), "{}", isa.name());
            assert!(all_finite(isa, &x) && !all_finite(isa, &unseen));
            for bad in [f32::NAN, f32::INFINITY] {
                assert!((0..40).all(|at| {
                    let mut x = vec![1.0; 40];
                    x[at] = bad;
                    !all_finite(isa, &x)
                }));
            }
            let mut y = x.clone();
            divide_and_shift(isa, &mut y, 0.7, 0.3);
            assert!(y.iter().zip(&x).all(|(y, x)| *y == x / 0.7 - 0.3));
        }
    }
}
