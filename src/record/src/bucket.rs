//! Sizes to buckets and back. Depends on nothing.
//!
//! Bucket `k` holds the sizes in `(2^(k-1), 2^k]`: upper-inclusive, as Prometheus and OTLP have them, so that 4096 falls
//! under "at most 4 KiB" and buckets of any two records add up exactly.

/// The number of buckets: upper bounds 1 (with size 0), 2, 4, ... 2^40 bytes (1 TiB), and one for all that is larger.
pub const BUCKETS: usize = 42;

/// The bucket of a request of `bytes` bytes; less than [`BUCKETS`].
#[inline(always)]
#[must_use]
pub const fn bucket_of(bytes: usize) -> usize {
    // The number of bits of bytes-1 is the exponent of the next power of two.
    let k = u64::BITS.wrapping_sub((bytes as u64).saturating_sub(1).leading_zeros()) as usize;
    if k < BUCKETS {
        k
    } else {
        BUCKETS - 1
    }
}

/// The largest size, in bytes, that falls into `bucket`; `u64::MAX` for the last bucket and beyond.
#[must_use]
pub const fn upper_bound(bucket: usize) -> u64 {
    if bucket < BUCKETS - 1 {
        1 << bucket
    } else {
        u64::MAX
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edges() {
        for (size, bucket) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (4096, 12), (4097, 13)] {
            assert_eq!(bucket_of(size), bucket, "size {size}");
        }
        assert_eq!(bucket_of(1 << 40), BUCKETS - 2);
        assert_eq!(bucket_of((1 << 40) + 1), BUCKETS - 1);
        assert_eq!(bucket_of(usize::MAX), BUCKETS - 1);
    }

    proptest! {
        #[test]
        fn a_size_lies_between_the_bounds_of_its_bucket(shift in 0u32..64, noise: u64) {
            let size = noise >> shift;
            let k = bucket_of(size as usize);
            prop_assert!(size <= upper_bound(k));
            prop_assert!(k == 0 || size > upper_bound(k - 1));
        }
    }
}
