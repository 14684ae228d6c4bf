//! Defines a strided view of a matrix.

#[cfg(target_arch = "x86_64")]
use crate::ops::KernelScalar;
#[cfg(target_arch = "x86_64")]
use std::any::TypeId;

/// A matrix inside a slice: element (i, j) is `data[i · row + j · column]`.
#[derive(Debug, Clone, Copy)]
pub struct MatrixView<'a, T> {
    /// The numbers; views may overlap and leave gaps.
    pub data: &'a [T],
    /// Distance in `data` from one row to the next.
    pub row: usize,
    /// Distance in `data` from one column to the next.
    pub column: usize,
}

impl<'a, T> MatrixView<'a, T> {
    /// Creates a view of rows one after another, `stride` apart.
    pub fn rows(data: &'a [T], stride: usize) -> Self {
        Self { data, row: stride, column: 1 }
    }
    /// Returns the same numbers with rows and columns exchanged, without a copy.
    pub fn transposed(self) -> Self {
        Self { data: self.data, row: self.column, column: self.row }
    }
    /// Returns whether a matrix of this size is inside the slice.
    pub(super) fn holds(&self, rows: usize, columns: usize) -> bool {
        let offset = |count: usize, stride: usize| count.checked_sub(1)?.checked_mul(stride);
        let last = offset(rows, self.row).and_then(|row| row.checked_add(offset(columns, self.column)?));
        last.is_some_and(|last| last < self.data.len())
    }
}

#[cfg(target_arch = "x86_64")]
impl<'a, T: KernelScalar> MatrixView<'a, T> {
    /// Returns the same view if its numbers are float32, else `None`.
    pub(super) fn single(self) -> Option<MatrixView<'a, f32>> {
        let data = (TypeId::of::<T>() == TypeId::of::<f32>()).then_some(self.data)?;
        #[expect(unsafe_code, reason = "a slice of a type that has just been found to be f32")]
        // SAFETY: `T` is f32 by its type id, so pointer, length and lifetime describe the same slice.
        let data = unsafe { std::slice::from_raw_parts(data.as_ptr().cast::<f32>(), data.len()) };
        Some(MatrixView { data, row: self.row, column: self.column })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_overflow_are_outside_of_the_slice() {
        let data = [0.0_f32; 6];
        let view = MatrixView::rows(&data, 3);
        assert!(view.holds(2, 3) && view.transposed().holds(3, 2));
        assert!(!view.holds(2, 4) && !view.holds(3, 1) && !view.holds(0, 1) && !view.holds(1, 0));
        // The products and their sum wrap around to 0, 2 and 5.
        assert!(!MatrixView::rows(&data, 1 << 63).holds(3, 1));
        assert!(!MatrixView::rows(&data, 1 << 63).holds(3, 3));
        assert!(!MatrixView::rows(&data, usize::MAX).holds(2, 7));
    }
}
