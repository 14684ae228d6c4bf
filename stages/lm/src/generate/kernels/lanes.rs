//! Implements sixteen `f32` lanes in three instruction sets and detects the instruction sets of the machine.
#![expect(unsafe_code, reason = "vector loads and stores take pointers; callers prove the bounds")]

/// The instruction set of a generator. [`Isa::available`] creates levels other than the portable one only after it has
/// detected their instructions, so calls into feature-gated kernels are sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Isa(pub(super) IsaLevel);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IsaLevel {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

impl Isa {
    /// Returns all instruction sets of this machine, the widest first.
    pub fn available() -> Vec<Self> {
        let mut levels = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
            {
                levels.push(Self(IsaLevel::Avx512));
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                levels.push(Self(IsaLevel::Avx2));
            }
        }
        levels.push(Self(IsaLevel::Portable));
        levels
    }
    /// Returns the widest instruction set of this machine.
    pub fn detect() -> Self {
        Self::available()[0]
    }
    /// Returns `avx512`, `avx2` or `portable`.
    pub fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            IsaLevel::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            IsaLevel::Avx2 => "avx2",
            IsaLevel::Portable => "portable",
        }
    }
}

/// Sixteen lanes. All methods are inlined into kernels that enable the instruction set.
///
/// # Safety
/// The processor must support the instruction set of the implementation. Pointers must be valid for reads or writes of
/// 16 values; they need not be aligned to a vector.
pub(super) trait Lanes {
    /// Rows and 16-column vectors of the largest product tile that fits the registers.
    const ROWS: usize;
    const VECTORS: usize;
    type V: Copy;
    unsafe fn load(from: *const f32) -> Self::V;
    /// Loads sixteen floats from the lower halves of sixteen words, each the upper half of a float (a bfloat16).
    unsafe fn load_low(from: *const u32) -> Self::V;
    /// Loads sixteen floats from the upper halves of sixteen words in the same way.
    unsafe fn load_high(from: *const u32) -> Self::V;
    unsafe fn store(to: *mut f32, v: Self::V);
    unsafe fn splat(x: f32) -> Self::V;
    /// Returns `a * b + c`, rounded once.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
}

/// Sums 16 lanes by a fixed tree.
#[inline(always)]
pub(super) fn tree(lanes: &[f32; 16]) -> f32 {
    let mut a = *lanes;
    for width in [8, 4, 2, 1] {
        for i in 0..width {
            a[i] += a[i + width];
        }
    }
    a[0]
}

pub(super) struct PortableLanes;

impl Lanes for PortableLanes {
    const ROWS: usize = 4;
    const VECTORS: usize = 1;
    type V = [f32; 16];
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::V {
        // SAFETY: the caller's pointer is valid for 16 values.
        unsafe { from.cast::<[f32; 16]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn load_low(from: *const u32) -> Self::V {
        // SAFETY: the caller's pointer is valid for 16 values.
        unsafe { from.cast::<[u32; 16]>().read_unaligned() }.map(|pair| f32::from_bits(pair << 16))
    }
    #[inline(always)]
    unsafe fn load_high(from: *const u32) -> Self::V {
        // SAFETY: the caller's pointer is valid for 16 values.
        unsafe { from.cast::<[u32; 16]>().read_unaligned() }.map(|pair| f32::from_bits(pair & 0xffff_0000))
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, v: Self::V) {
        // SAFETY: the caller's pointer is valid for 16 values.
        unsafe { to.cast::<[f32; 16]>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        [x; 16]
    }
    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
    }
    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] * b[i])
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Lanes;
    use std::arch::x86_64::*;

    pub(in super::super) struct Avx512;

    // SAFETY of all bodies: callers of [`Lanes`] ensure that the processor has the instruction set and that pointers
    // are valid for 16 values.
    impl Lanes for Avx512 {
        const ROWS: usize = 12;
        const VECTORS: usize = 2;
        type V = __m512;
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self::V {
            unsafe { _mm512_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn load_low(from: *const u32) -> Self::V {
            unsafe { _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_loadu_si512(from.cast()))) }
        }
        #[inline(always)]
        unsafe fn load_high(from: *const u32) -> Self::V {
            unsafe {
                let upper = _mm512_set1_epi32(0xffff_0000_u32 as i32);
                _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(from.cast()), upper))
            }
        }
        #[inline(always)]
        unsafe fn store(to: *mut f32, v: Self::V) {
            unsafe { _mm512_storeu_ps(to, v) }
        }
        #[inline(always)]
        unsafe fn splat(x: f32) -> Self::V {
            unsafe { _mm512_set1_ps(x) }
        }
        #[inline(always)]
        unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
            unsafe { _mm512_fmadd_ps(a, b, c) }
        }
        #[inline(always)]
        unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
            unsafe { _mm512_add_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
            unsafe { _mm512_mul_ps(a, b) }
        }
    }

    pub(in super::super) struct Avx2;

    // SAFETY of all bodies: callers of [`Lanes`] ensure that the processor has the instruction set and that pointers
    // are valid for 16 values.
    impl Lanes for Avx2 {
        const ROWS: usize = 6;
        const VECTORS: usize = 1;
        type V = (__m256, __m256);
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self::V {
            unsafe { (_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))) }
        }
        #[inline(always)]
        unsafe fn load_low(from: *const u32) -> Self::V {
            let eight = |from: *const u32| unsafe {
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_loadu_si256(from.cast())))
            };
            (eight(from), eight(from.wrapping_add(8)))
        }
        #[inline(always)]
        unsafe fn load_high(from: *const u32) -> Self::V {
            let eight = |from: *const u32| unsafe {
                let upper = _mm256_set1_epi32(0xffff_0000_u32 as i32);
                _mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256(from.cast()), upper))
            };
            (eight(from), eight(from.wrapping_add(8)))
        }
        #[inline(always)]
        unsafe fn store(to: *mut f32, v: Self::V) {
            unsafe {
                _mm256_storeu_ps(to, v.0);
                _mm256_storeu_ps(to.add(8), v.1);
            }
        }
        #[inline(always)]
        unsafe fn splat(x: f32) -> Self::V {
            unsafe { (_mm256_set1_ps(x), _mm256_set1_ps(x)) }
        }
        #[inline(always)]
        unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
            unsafe { (_mm256_fmadd_ps(a.0, b.0, c.0), _mm256_fmadd_ps(a.1, b.1, c.1)) }
        }
        #[inline(always)]
        unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
            unsafe { (_mm256_add_ps(a.0, b.0), _mm256_add_ps(a.1, b.1)) }
        }
        #[inline(always)]
        unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
            unsafe { (_mm256_mul_ps(a.0, b.0), _mm256_mul_ps(a.1, b.1)) }
        }
    }
}

/// Defines `pub fn $name(isa, args…)`, which runs the generic `$body::<L>(args…)` compiled for the instruction set
/// of `isa`.
macro_rules! kernel {
    ($(#[$meta:meta])* $name:ident = $body:ident($($arg:ident: $type:ty),* $(,)?) $(-> $result:ty)?) => {
        $(#[$meta])*
        pub fn $name(isa: $crate::generate::kernels::Isa, $($arg: $type),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx2,fma")]
            fn avx512($($arg: $type),*) $(-> $result)? {
                $body::<$crate::generate::kernels::lanes::Avx512>($($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($arg: $type),*) $(-> $result)? {
                $body::<$crate::generate::kernels::lanes::Avx2>($($arg),*)
            }
            match isa.0 {
                // SAFETY: `Isa::available` creates this level only if the processor has AVX-512 F, DQ and VL, and every
                // processor with AVX-512 F has AVX2 and FMA.
                #[cfg(target_arch = "x86_64")]
                $crate::generate::kernels::lanes::IsaLevel::Avx512 => unsafe { avx512($($arg),*) },
                // SAFETY: `Isa::available` creates this level only if the processor has AVX2 and FMA.
                #[cfg(target_arch = "x86_64")]
                $crate::generate::kernels::lanes::IsaLevel::Avx2 => unsafe { avx2($($arg),*) },
                $crate::generate::kernels::lanes::IsaLevel::Portable => {
                    $body::<$crate::generate::kernels::lanes::PortableLanes>($($arg),*)
                }
            }
        }
    };
}
pub(super) use kernel;
