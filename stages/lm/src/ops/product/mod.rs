//! Computes matrix products of strided views on one thread, by the `gemm` crate or with the same bits by `avx512`.
//!
//! Callers parallelize over chunks of rows and tiles of weights, whose sizes depend on shapes alone. A product with
//! several threads would compete with the threads of its caller. [`product`] panics if a view reaches beyond its slice.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod matrix;

pub use matrix::MatrixView;

use super::KernelScalar;
use gemm::Parallelism;
#[cfg(target_arch = "x86_64")]
use std::any::TypeId;

/// Returns the same slice if its numbers are float32, else `None`.
#[cfg(target_arch = "x86_64")]
fn single<T: KernelScalar>(data: &mut [T]) -> Option<&mut [f32]> {
    let data = (TypeId::of::<T>() == TypeId::of::<f32>()).then_some(data)?;
    #[expect(unsafe_code, reason = "a slice of a type that has just been found to be f32")]
    // SAFETY: `T` is f32 by its type id, so pointer and length describe the same slice, and the result borrows it
    // mutably.
    Some(unsafe { std::slice::from_raw_parts_mut(data.as_mut_ptr().cast::<f32>(), data.len()) })
}

/// Computes `out = a · b`, or `out += a · b` with `add`. `size` is (rows of out, columns of out, depth), and rows of
/// `out` are `out_row` apart. The product is fastest if `b` has adjacent columns. Panics if a factor or `out` is too
/// small for `size`.
pub fn product<T: KernelScalar>(
    size: (usize, usize, usize),
    a: MatrixView<'_, T>,
    b: MatrixView<'_, T>,
    out: &mut [T],
    out_row: usize,
    add: bool,
) {
    let (m, n, k) = size;
    if m == 0 || n == 0 {
        return;
    }
    assert!(k > 0 && a.holds(m, k) && b.holds(k, n), "a factor of the product is too small for {size:?}");
    assert!(n <= out_row && (m - 1) * out_row + n <= out.len(), "the result of the product is too small for {size:?}");
    #[cfg(target_arch = "x86_64")]
    if let (Some(a), Some(b)) = (a.single(), b.single())
        && avx512::applies(size, a, b)
        && let Some(out) = single(out)
    {
        #[expect(unsafe_code, reason = "calls code for the detected processor")]
        // SAFETY: `applies` has found the instructions and the layout of the factors; the assertions above keep every
        // element inside its slice.
        unsafe {
            avx512::product(size, a, b, out, out_row, add);
        }
        return;
    }
    gemm_product(size, a, b, out, out_row, add);
}

/// Computes [`product`] with the `gemm` crate, after the checks of [`product`].
fn gemm_product<T: KernelScalar>(
    (m, n, k): (usize, usize, usize),
    a: MatrixView<'_, T>,
    b: MatrixView<'_, T>,
    out: &mut [T],
    out_row: usize,
    add: bool,
) {
    #[expect(unsafe_code, reason = "the gemm crate takes raw pointers")]
    // SAFETY: the assertions of `product` keep every element that (m, n, k) and the strides reach inside its slice;
    // `out` is borrowed mutably, so it overlaps neither factor, and with n ≤ out_row its rows do not overlap.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            out_row as isize,
            add,
            a.data.as_ptr(),
            a.column as isize,
            a.row as isize,
            b.data.as_ptr(),
            b.column as isize,
            b.row as isize,
            T::ONE,
            T::ONE,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strided_products_agree_with_the_definition() {
        let at = |i: usize| ((i * 37 % 101) as f64 - 50.0) / 50.0;
        for (m, n, k) in [(1, 1, 1), (3, 5, 7), (64, 24, 33), (17, 96, 24)] {
            let (a_row, b_row, out_row) = (k + 3, n + 1, n + 2);
            let a: Vec<f64> = (0..m * a_row).map(at).collect();
            let b: Vec<f64> = (0..k * b_row).map(|i| at(i + 11)).collect();
            let mut out = vec![1.0; m * out_row];
            product((m, n, k), MatrixView::rows(&a, a_row), MatrixView::rows(&b, b_row), &mut out, out_row, true);
            for i in 0..m {
                for j in 0..n {
                    let exact: f64 = (0..k).map(|d| a[i * a_row + d] * b[d * b_row + j]).sum();
                    assert!((out[i * out_row + j] - 1.0 - exact).abs() < 1e-12);
                }
                assert_eq!(&out[i * out_row + n..(i + 1) * out_row], [1.0, 1.0]);
            }
        }
    }

    /// Covers sizes around the limits of tiles, panels, chains and blocks, and both orders of both factors.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn products_have_the_bits_of_the_gemm_crate() {
        let at = |i: usize| ((i * 7_919 % 1_009) as f32 - 504.0) / 300.0;
        let numbers = |n: usize, shift: usize| (0..n).map(|i| at(i + shift)).collect::<Vec<f32>>();
        let sizes = [
            (2, 2, 3),
            (5, 70, 17),
            (6, 64, 16),
            (7, 65, 33),
            (64, 64, 600),
            (65, 64, 600),
            (97, 257, 513),
            (12, 15, 40),
            (16, 16, 1_100),
            (17, 300, 1_025),
            (130, 33, 512),
            (3, 48, 100),
            (512, 16, 96),
        ];
        let mut taken = 0;
        for (m, n, k) in sizes {
            for orders in 0..4 {
                let (a_size, a_row) = if orders % 2 == 0 { (m * (k + 1), k + 1) } else { (k * (m + 1), m + 1) };
                let (b_size, b_row) = if orders < 2 { (k * (n + 3), n + 3) } else { (n * (k + 3), k + 3) };
                let (a, b) = (numbers(a_size, 0), numbers(b_size, 5));
                let (mut a, mut b) = (MatrixView::rows(&a, a_row), MatrixView::rows(&b, b_row));
                if orders % 2 == 1 {
                    a = a.transposed();
                }
                if orders >= 2 {
                    b = b.transposed();
                }
                taken += usize::from(avx512::applies((m, n, k), a, b));
                for add in [false, true] {
                    let (mut one, mut other) = (numbers(m * (n + 2), 9), numbers(m * (n + 2), 9));
                    product((m, n, k), a, b, &mut one, n + 2, add);
                    gemm_product((m, n, k), a, b, &mut other, n + 2, add);
                    let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    assert!(bits(&one) == bits(&other), "{m} x {n} x {k}, {orders}, {add}");
                }
            }
        }
        assert!(taken > 40 || crate::ops::simd::level() != crate::ops::simd::SimdLevel::V4);
    }

    #[test]
    #[should_panic(expected = "too small")]
    fn view_beyond_its_slice_panics() {
        product((2, 2, 2), MatrixView::rows(&[1.0f32; 3], 2), MatrixView::rows(&[1.0; 4], 2), &mut [0.0; 4], 2, false);
    }
}
