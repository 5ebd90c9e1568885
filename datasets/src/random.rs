//! Counter-based random numbers: Philox 4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3").
//!
//! A value is a pure function of the seed and a counter, so results do not depend on the order in which threads draw. The
//! data sets use this published generator, not a hash of our own, so that others can draw the same universes.

/// What a counter is drawn for; the last counter word, so that no two uses share values.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stream {
    /// Fourier modes of the initial field.
    Modes = 1,
    /// Cosmological parameters of a universe.
    Parameters = 2,
    /// Field seed of a universe.
    Fields = 3,
    /// Order of the samples in an epoch.
    Epochs = 4,
}

/// Four random 32-bit words of `seed`, a three-word `counter` and a `stream`.
pub(crate) fn words(seed: u64, counter: [u32; 3], stream: Stream) -> [u32; 4] {
    philox([counter[0], counter[1], counter[2], stream as u32], [seed as u32, (seed >> 32) as u32])
}

/// Two random 64-bit integers.
pub(crate) fn integers(seed: u64, counter: [u32; 3], stream: Stream) -> [u64; 2] {
    let w = words(seed, counter, stream);
    [u64::from(w[0]) << 32 | u64::from(w[1]), u64::from(w[2]) << 32 | u64::from(w[3])]
}

/// Two uniform numbers in the open interval (0, 1), in steps of 2^-53.
pub(crate) fn uniforms(seed: u64, counter: [u32; 3], stream: Stream) -> [f64; 2] {
    integers(seed, counter, stream).map(|i| ((i >> 12) as f64 + 0.5) / (1u64 << 52) as f64)
}

fn philox(mut state: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        state = round(state, key);
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    state
}

fn round([a, b, c, d]: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let first = u64::from(a) * 0xD251_1F53;
    let second = u64::from(c) * 0xCD9E_8D57;
    [(second >> 32) as u32 ^ b ^ key[0], second as u32, (first >> 32) as u32 ^ d ^ key[1], first as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers published with the Random123 library (kat_vectors, philox4x32 with 10 rounds).
    #[test]
    fn philox_matches_its_published_answers() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }
}
