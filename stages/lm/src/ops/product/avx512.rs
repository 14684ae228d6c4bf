//! Computes products of float32 matrices with AVX-512, with the same bits as the `gemm` crate.
//!
//! An element is a chain of fused multiply-adds over at most [`DEPTH`] numbers, in order, and the chains are added in
//! order. `gemm` computes the same chains for every product that [`applies`] accepts, so either may compute such a
//! product. This module packs factors faster, above all transposed ones, and reuses its memory.
#![expect(unsafe_code, reason = "vector loads and stores take pointers; `product` has checked the bounds")]

use super::matrix::MatrixView;
use std::arch::x86_64::*;
use std::cell::RefCell;

/// Most fused multiply-adds in one chain.
const DEPTH: usize = 512;
/// Columns of a packed panel: four vectors.
const PANEL: usize = 64;
/// Columns that are packed at once: with [`DEPTH`] rows half a mebibyte, which fits into the L2 cache.
const COLUMNS: usize = 256;
/// Rows of a tile: with the columns of a panel 24 registers of sums.
const TILE: usize = 6;
/// Rows that are packed at once where the first factor is transposed.
const ROWS: usize = 96;
/// Maximum rows of a result for which packing the second factor costs more than it saves, if its columns are adjacent.
const FEW_ROWS: usize = 24;

/// Sixteen numbers on a cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct CacheLine([f32; 16]);

thread_local! {
    /// Packed columns of the second factor, and packed rows of the first.
    static PACKED: RefCell<(Vec<CacheLine>, Vec<CacheLine>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// Returns whether this module computes the product. `gemm` computes the others: those that it sums in another order
/// (narrow results of two factors with adjacent depths, single rows and columns, depths of at most two), and views
/// without adjacent rows or columns, which this module cannot pack.
pub fn applies((m, n, k): (usize, usize, usize), a: MatrixView<'_, f32>, b: MatrixView<'_, f32>) -> bool {
    let dots = a.column == 1 && b.row == 1 && m * n <= 256;
    let strided = (a.column != 1 && a.row != 1) || (b.column != 1 && b.row != 1);
    m > 1 && n > 1 && k > 2 && !dots && !strided && crate::ops::simd::level() == crate::ops::simd::SimdLevel::V4
}

/// Returns the length of the chains in which `gemm` computes a product of this size.
fn chain((m, n, k): (usize, usize, usize)) -> usize {
    if m <= 64 && n <= 64 { k.min(DEPTH) } else { k.div_ceil(k.div_ceil(DEPTH)) }
}

/// Computes `out = a · b`, or `out += a · b` with `add`.
///
/// # Safety
/// [`applies`] returns true for the size and the factors, so the processor has AVX-512 F, BW, DQ and VL, AVX2 and FMA,
/// and the rows or columns of each factor are adjacent. All elements that `size`, the strides and `out_row` reach are
/// inside the slices.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
pub unsafe fn product(
    size: (usize, usize, usize),
    a: MatrixView<'_, f32>,
    b: MatrixView<'_, f32>,
    out: &mut [f32],
    out_row: usize,
    add: bool,
) {
    let ((m, n, k), depth) = (size, chain(size));
    let packs = m > FEW_ROWS || b.column != 1 || n % 16 != 0;
    PACKED.with_borrow_mut(|(columns, rows)| {
        let lines = |n: usize, width: usize| n.next_multiple_of(width) * depth / 16;
        cover(columns, if packs { lines(n.min(COLUMNS), PANEL) } else { 0 });
        cover(rows, if a.column == 1 { 0 } else { lines(m.min(ROWS), TILE) + 1 });
        let (columns, rows) = (columns.as_mut_ptr().cast::<f32>(), rows.as_mut_ptr().cast::<f32>());
        for left in (0..n).step_by(COLUMNS) {
            let width = COLUMNS.min(n - left);
            for first in (0..k).step_by(depth) {
                let length = depth.min(k - first);
                let add = add || first > 0;
                // SAFETY: the packed buffers hold `depth` numbers for every column and row that is packed at once,
                // rounded up to whole panels and tiles. The caller ensures the instructions and that all reached
                // elements are inside their slices.
                unsafe {
                    let b_block = b.data.as_ptr().add(first * b.row + left * b.column);
                    let columns = match (packs, b.column) {
                        (false, _) => PackedColumns { data: b_block, row: b.row, panel: PANEL },
                        (true, 1) => pack_rows(b_block, b.row, (length, width), columns),
                        (true, stride) => pack_columns(b_block, stride, (length, width), columns),
                    };
                    for top in (0..m).step_by(ROWS) {
                        let height = ROWS.min(m - top);
                        let a_block = a.data.as_ptr().add(top * a.row + first * a.column);
                        let out = out.as_mut_ptr().add(top * out_row + left);
                        let block = ProductBlock { height, width, length, columns, out, out_row, add };
                        if a.column == 1 {
                            block.multiply::<false>(a_block, a.row);
                        } else {
                            pack_tiles(a_block, a.column, (length, height), rows);
                            block.multiply::<true>(rows, 1);
                        }
                    }
                }
            }
        }
    });
}

fn cover(buffer: &mut Vec<CacheLine>, lines: usize) {
    if buffer.len() < lines {
        buffer.resize(lines, CacheLine([0.0; 16]));
    }
}

/// Columns of the second factor: rows of a panel are `row` apart, panels begin `panel` apart.
#[derive(Clone, Copy)]
struct PackedColumns {
    data: *const f32,
    row: usize,
    panel: usize,
}

impl PackedColumns {
    /// Returns packed panels `[length][PANEL]`, or one that is as narrow as the columns.
    fn packed(data: *const f32, length: usize, width: usize) -> Self {
        let row = PANEL.min(width.next_multiple_of(16));
        Self { data, row, panel: length * row }
    }
}

/// Some rows of the first factor times columns of the second.
#[derive(Clone, Copy)]
struct ProductBlock {
    height: usize,
    width: usize,
    length: usize,
    columns: PackedColumns,
    out: *mut f32,
    out_row: usize,
    add: bool,
}

impl ProductBlock {
    /// Multiplies the block. `a` is the first factor: row i begins at i · `a_row` and has adjacent numbers, or with
    /// `PACKED` the rows are packed in tiles `[length][TILE]`.
    ///
    /// # Safety
    /// The processor has the instructions of [`product`], and the rows of `a`, the packed columns and the elements of
    /// `out` that the block reaches are inside their allocations.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    unsafe fn multiply<const PACKED: bool>(self, a: *const f32, a_row: usize) {
        for top in (0..self.height).step_by(TILE) {
            for left in (0..self.width).step_by(PANEL) {
                // SAFETY: the caller ensures that the block is inside its allocations, and the tile is a part of the
                // block.
                unsafe {
                    let a = a.add(if PACKED { top * self.length } else { top * a_row });
                    let b = self.columns.data.add(left / PANEL * self.columns.panel);
                    let out = self.out.add(top * self.out_row + left);
                    let tile = Tile { a, a_row, b, out, columns: PANEL.min(self.width - left), block: self };
                    match (self.height - top, tile.columns) {
                        (TILE.., 49..) => tile.multiply::<6, 4, PACKED>(),
                        (TILE.., 33..) => tile.multiply::<6, 3, PACKED>(),
                        (TILE.., 17..) => tile.multiply::<6, 2, PACKED>(),
                        (TILE.., _) => tile.multiply::<6, 1, PACKED>(),
                        (rows, 49..) => tile.few::<4, PACKED>(rows),
                        (rows, 33..) => tile.few::<3, PACKED>(rows),
                        (rows, 17..) => tile.few::<2, PACKED>(rows),
                        (rows, _) => tile.few::<1, PACKED>(rows),
                    }
                }
            }
        }
    }
}

/// A part of the result that the registers hold.
#[derive(Clone, Copy)]
struct Tile {
    a: *const f32,
    a_row: usize,
    b: *const f32,
    out: *mut f32,
    columns: usize,
    block: ProductBlock,
}

impl Tile {
    /// Runs [`Self::multiply`] for fewer rows than a whole tile has.
    ///
    /// # Safety
    /// As for [`Self::multiply`], for `rows` rows.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    unsafe fn few<const N: usize, const PACKED: bool>(self, rows: usize) {
        // SAFETY: the caller ensures the conditions of `multiply` for `rows` rows, and `R` is `rows` in each arm.
        unsafe {
            match rows {
                1 => self.multiply::<1, N, PACKED>(),
                2 => self.multiply::<2, N, PACKED>(),
                3 => self.multiply::<3, N, PACKED>(),
                4 => self.multiply::<4, N, PACKED>(),
                _ => self.multiply::<5, N, PACKED>(),
            }
        }
    }
    /// Multiplies `R` rows of `N` vectors, of which `columns` numbers are written.
    ///
    /// # Safety
    /// The processor has the instructions of [`product`]. `a` holds `R` rows of the block's length, the panel at `b`
    /// holds `N` vectors in each of its rows, and `out` holds `columns` numbers in each of `R` rows.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    unsafe fn multiply<const R: usize, const N: usize, const PACKED: bool>(self) {
        let Self { a, a_row, b, out, columns, block } = self;
        let ProductBlock { length, columns: PackedColumns { row, .. }, out_row, add, .. } = block;
        let mut sums = [[_mm512_setzero_ps(); N]; R];
        for i in 0..length {
            // SAFETY: the caller ensures that row i of the panel holds `N` vectors and that `a` holds number i of each
            // of `R` rows.
            unsafe {
                let mut columns = [_mm512_setzero_ps(); N];
                for (v, column) in columns.iter_mut().enumerate() {
                    *column = _mm512_loadu_ps(b.add(i * row + 16 * v));
                }
                for (r, sums) in sums.iter_mut().enumerate() {
                    let x = _mm512_set1_ps(*a.add(if PACKED { i * TILE + r } else { r * a_row + i }));
                    for (sum, column) in sums.iter_mut().zip(columns) {
                        *sum = _mm512_fmadd_ps(x, column, *sum);
                    }
                }
            }
        }
        for (r, sums) in sums.into_iter().enumerate() {
            for (v, sum) in sums.into_iter().enumerate() {
                let left = columns.saturating_sub(16 * v).min(16);
                let mask = ((1u32 << left) - 1) as __mmask16;
                // SAFETY: the mask covers only numbers below `columns`, and the caller ensures that `out` holds them in
                // `R` rows.
                unsafe {
                    let out = out.wrapping_add(r * out_row + 16 * v);
                    let old = if add { _mm512_maskz_loadu_ps(mask, out) } else { _mm512_setzero_ps() };
                    let new = if add { _mm512_add_ps(sum, old) } else { sum };
                    _mm512_mask_storeu_ps(out, mask, new);
                }
            }
        }
    }
}

/// Packs `length` rows of `width` adjacent numbers, `stride` apart, into panels; the last vector is padded with 0.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn pack_rows(from: *const f32, stride: usize, (length, width): (usize, usize), to: *mut f32) -> PackedColumns {
    let columns = PackedColumns::packed(to, length, width);
    for i in 0..length {
        for left in (0..width).step_by(16) {
            let mask = ((1u32 << (width - left).min(16)) - 1) as __mmask16;
            let at = left / PANEL * columns.panel + i * columns.row + left % PANEL;
            // SAFETY: the mask covers only numbers of row i, and `to` holds `length` aligned rows of the panel.
            unsafe { _mm512_store_ps(to.add(at), _mm512_maskz_loadu_ps(mask, from.add(i * stride + left))) };
        }
    }
    columns
}

/// Packs `width` columns of `length` adjacent numbers, `stride` apart, into panels; columns that are missing in the
/// last vector are 0.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn pack_columns(
    from: *const f32,
    stride: usize,
    (length, width): (usize, usize),
    to: *mut f32,
) -> PackedColumns {
    let packed = PackedColumns::packed(to, length, width);
    for left in (0..width).step_by(16) {
        let panel = to.wrapping_add(left / PANEL * packed.panel + left % PANEL);
        let columns = (width - left).min(16);
        for first in (0..length).step_by(16) {
            let count = (length - first).min(16);
            let mask = ((1u32 << count) - 1) as __mmask16;
            // SAFETY: the loads read only numbers of existing columns, as the mask and `take` ensure, and the stores
            // write the first `count` rows of the panel from `first` on, which `to` holds.
            unsafe {
                let mut block = [_mm512_setzero_ps(); 16];
                for (c, column) in block.iter_mut().enumerate().take(columns) {
                    *column = _mm512_maskz_loadu_ps(mask, from.add((left + c) * stride + first));
                }
                for (i, row) in transposed(block).into_iter().take(count).enumerate() {
                    _mm512_store_ps(panel.add((first + i) * packed.row), row);
                }
            }
        }
    }
    packed
}

/// Packs `length` columns of `height` adjacent numbers, `stride` apart, into tiles.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn pack_tiles(from: *const f32, stride: usize, (length, height): (usize, usize), to: *mut f32) {
    for i in 0..length {
        for top in (0..height).step_by(TILE) {
            // SAFETY: the copies read at most `height` numbers of column i, and `to` holds tiles of `length` columns of
            // `TILE` numbers; the buffers do not overlap.
            unsafe {
                let (from, to) = (from.add(i * stride + top), to.add(top * length + i * TILE));
                if height - top >= TILE {
                    std::ptr::copy_nonoverlapping(from, to, TILE);
                } else {
                    std::ptr::copy_nonoverlapping(from, to, height - top);
                }
            }
        }
    }
}

/// Transposes sixteen rows of sixteen numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
fn transposed(rows: [__m512; 16]) -> [__m512; 16] {
    let mut a = rows;
    for i in (0..16).step_by(2) {
        (a[i], a[i + 1]) = (_mm512_unpacklo_ps(rows[i], rows[i + 1]), _mm512_unpackhi_ps(rows[i], rows[i + 1]));
    }
    let mut b = a;
    for i in (0..16).step_by(4) {
        for j in 0..2 {
            let (low, high) = (_mm512_castps_pd(a[i + j]), _mm512_castps_pd(a[i + j + 2]));
            b[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
            b[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
        }
    }
    // b[4 g + j] now holds column j, j + 4, j + 8, j + 12 of the rows of group g, in its four quarters.
    let mut columns = b;
    for j in 0..4 {
        let low = _mm512_shuffle_f32x4::<0x88>(b[j], b[4 + j]);
        let high = _mm512_shuffle_f32x4::<0x88>(b[8 + j], b[12 + j]);
        columns[j] = _mm512_shuffle_f32x4::<0x88>(low, high);
        columns[8 + j] = _mm512_shuffle_f32x4::<0xdd>(low, high);
        let low = _mm512_shuffle_f32x4::<0xdd>(b[j], b[4 + j]);
        let high = _mm512_shuffle_f32x4::<0xdd>(b[8 + j], b[12 + j]);
        columns[4 + j] = _mm512_shuffle_f32x4::<0x88>(low, high);
        columns[12 + j] = _mm512_shuffle_f32x4::<0xdd>(low, high);
    }
    columns
}
