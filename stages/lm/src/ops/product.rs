//! Matrix products on strided views, over the `gemm` crate on one thread.
//!
//! Callers parallelize over chunks of rows and tiles of weights, chosen from shapes alone; a product that split itself
//! over threads would compete with that. Views that reach beyond their slice panic.

use super::Scalar;
use gemm::Parallelism;

/// A matrix inside a slice: element (i, j) is `data[i · row + j · column]`.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a, T> {
    /// The numbers; views may overlap and leave gaps.
    pub data: &'a [T],
    /// Distance in `data` from one row to the next.
    pub row: usize,
    /// Distance in `data` from one column to the next.
    pub column: usize,
}

impl<'a, T> Matrix<'a, T> {
    /// Rows one after another, `stride` apart.
    pub fn rows(data: &'a [T], stride: usize) -> Self {
        Self { data, row: stride, column: 1 }
    }
    /// The same numbers with rows and columns exchanged; nothing is copied.
    pub fn transposed(self) -> Self {
        Self { data: self.data, row: self.column, column: self.row }
    }
    fn holds(&self, rows: usize, columns: usize) -> bool {
        (rows - 1) * self.row + (columns - 1) * self.column < self.data.len()
    }
}

/// `out = a · b`, or `out += a · b` with `add`. `size` is (rows of out, columns of out, depth); `out` has rows
/// `out_row` apart. Fastest where `b` has adjacent columns.
pub fn product<T: Scalar>(
    size: (usize, usize, usize),
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
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
    #[expect(unsafe_code, reason = "the gemm crate takes raw pointers")]
    // SAFETY: the assertions above keep every element that (m, n, k) and the strides reach inside its slice; `out` is
    // borrowed mutably, so it overlaps neither factor, and with n ≤ out_row its rows do not overlap each other.
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
            product((m, n, k), Matrix::rows(&a, a_row), Matrix::rows(&b, b_row), &mut out, out_row, true);
            for i in 0..m {
                for j in 0..n {
                    let exact: f64 = (0..k).map(|d| a[i * a_row + d] * b[d * b_row + j]).sum();
                    assert!((out[i * out_row + j] - 1.0 - exact).abs() < 1e-12);
                }
                assert_eq!(&out[i * out_row + n..(i + 1) * out_row], [1.0, 1.0]);
            }
        }
    }

    #[test]
    #[should_panic(expected = "too small")]
    fn a_view_beyond_its_slice_is_refused() {
        product((2, 2, 2), Matrix::rows(&[1.0f32; 3], 2), Matrix::rows(&[1.0; 4], 2), &mut [0.0; 4], 2, false);
    }
}
