//! Compiles a portable loop several times, for wider vectors than the baseline, and picks the widest at run time.
//!
//! The binary targets any x86-64 processor, and the baseline of x86-64 has neither wide vectors nor fused multiply-add.
//! Other architectures run the plain loop.

/// Vector extensions of the running processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SimdLevel {
    /// AVX-512 F, BW, DQ, VL.
    #[cfg(target_arch = "x86_64")]
    V4,
    /// AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    V3,
    Portable,
}

/// Returns the level of the running processor. The standard library caches the detection, so a call costs a few atomic
/// loads.
#[inline]
pub(crate) fn level() -> SimdLevel {
    #[cfg(target_arch = "x86_64")]
    {
        let v3 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let wide = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        if v3 && wide && is_x86_feature_detected!("avx512dq") && is_x86_feature_detected!("avx512vl") {
            return SimdLevel::V4;
        }
        if v3 {
            return SimdLevel::V3;
        }
    }
    SimdLevel::Portable
}

/// Defines a function over `T: KernelScalar` whose body is compiled for each [`SimdLevel`] and dispatched at run time.
macro_rules! vectorized {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        #[cfg_attr(
            target_arch = "x86_64",
            expect(unsafe_code, reason = "calls the copy compiled for the detected processor")
        )]
        $vis fn $name<T: $crate::ops::KernelScalar>($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn portable<T: $crate::ops::KernelScalar>($($arg: $ty),*) $(-> $ret)? $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
            fn v4<T: $crate::ops::KernelScalar>($($arg: $ty),*) $(-> $ret)? {
                portable::<T>($($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn v3<T: $crate::ops::KernelScalar>($($arg: $ty),*) $(-> $ret)? {
                portable::<T>($($arg),*)
            }
            match $crate::ops::simd::level() {
                // SAFETY: `level` returns V4 only if the processor has AVX-512 F, BW, DQ and VL, AVX2 and FMA.
                #[cfg(target_arch = "x86_64")]
                $crate::ops::simd::SimdLevel::V4 => unsafe { v4::<T>($($arg),*) },
                // SAFETY: `level` returns V3 only if the processor has AVX2 and FMA.
                #[cfg(target_arch = "x86_64")]
                $crate::ops::simd::SimdLevel::V3 => unsafe { v3::<T>($($arg),*) },
                $crate::ops::simd::SimdLevel::Portable => portable::<T>($($arg),*),
            }
        }
    };
}
