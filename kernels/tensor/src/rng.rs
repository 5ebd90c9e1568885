//! Counter-based random numbers: a value depends on `(seed, stream, index)` only, never on who asks or in what order.
//!
//! The mixing function is the 64-bit finaliser of SplitMix64 (Steele, Lea, Flood 2014, OOPSLA, section 5), applied in
//! three rounds over seed, stream and index. It is not cryptographic.

/// 64 random bits for a counter.
#[inline]
pub fn bits(seed: u64, stream: u64, index: u64) -> u64 {
    let a = mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15));
    let b = mix(a ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03));
    mix(b.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

#[inline]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Uniform in `[0, 1)` with 53 bits.
#[inline]
pub fn uniform(seed: u64, stream: u64, index: u64) -> f64 {
    (bits(seed, stream, index) >> 11) as f64 / (1u64 << 53) as f64
}

/// Standard normal (Box-Muller on two counters of the stream).
pub fn normal(seed: u64, stream: u64, index: u64) -> f64 {
    let u = 1.0 - uniform(seed, stream, 2 * index);
    let v = uniform(seed, stream, 2 * index + 1);
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// A small integer in `-range..=range`, about a quarter of them zero: sums of products stay exact in f32.
pub fn small_int(seed: u64, stream: u64, index: u64, range: i64) -> f64 {
    let b = bits(seed, stream, index);
    if b & 3 == 0 { 0.0 } else { ((b >> 8) % (2 * range as u64 + 1)) as f64 - range as f64 }
}
