//! Activations as plain loops in f64. Frozen: never made faster.

/// `y = x > 0 ? x : slope * x`.
pub fn leaky_relu(slope: f64, x: &[f64]) -> Vec<f64> {
    x.iter().map(|&x| if x > 0.0 { x } else { slope * x }).collect()
}

/// Gradient of [`leaky_relu`] with respect to `x`.
pub fn leaky_relu_gradient(slope: f64, x: &[f64], dy: &[f64]) -> Vec<f64> {
    x.iter().zip(dy).map(|(&x, &dy)| if x > 0.0 { dy } else { slope * dy }).collect()
}

/// `y = scale * tanh(x)`.
pub fn tanh(scale: f64, x: &[f64]) -> Vec<f64> {
    x.iter().map(|&x| scale * x.tanh()).collect()
}

/// Gradient of [`tanh`] with respect to `x`.
pub fn tanh_gradient(scale: f64, x: &[f64], dy: &[f64]) -> Vec<f64> {
    x.iter().zip(dy).map(|(&x, &dy)| dy * scale * (1.0 - x.tanh() * x.tanh())).collect()
}
