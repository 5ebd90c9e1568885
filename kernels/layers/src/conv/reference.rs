//! The plain convolution in f64, for readers and tests. Frozen: it is never made faster.
//!
//! Arrays are whole and row-major: x and dx `[N, D, H, W, C]`, y and dy `[N, D', H', W', K]`, weight
//! `[K, C, KD, KH, KW]`, bias `[K]`.

use super::Conv;
use shardmark_partition::Shape;

/// Shape of y for a shape of x that the windows fit into.
pub fn out_shape(conv: &Conv, x: Shape) -> Shape {
    let extent = |i: usize| conv.windows[i].out_extent(x[i + 1]).unwrap_or(0);
    [x[0], extent(0), extent(1), extent(2), conv.k]
}

/// Visits every product of the convolution as (index in x, index in weight, index in y).
fn for_each_product(conv: &Conv, x: Shape, mut visit: impl FnMut(usize, usize, usize)) {
    let y = out_shape(conv, x);
    let [kernel_d, kernel_h, kernel_w] = conv.windows.map(|w| w.kernel);
    let input = |i: usize, out: usize, tap: usize| {
        let at = out * conv.windows[i].stride + tap;
        at.checked_sub(conv.windows[i].pad).filter(|&at| at < x[i + 1])
    };
    for n in 0..y[0] {
        for (d, h, w) in positions(y[1], y[2], y[3]) {
            for (kd, kh, kw) in positions(kernel_d, kernel_h, kernel_w) {
                let (Some(xd), Some(xh), Some(xw)) = (input(0, d, kd), input(1, h, kh), input(2, w, kw)) else {
                    continue;
                };
                for c in 0..conv.c {
                    for k in 0..conv.k {
                        let in_x = (((n * x[1] + xd) * x[2] + xh) * x[3] + xw) * x[4] + c;
                        let in_weight = (((k * conv.c + c) * kernel_d + kd) * kernel_h + kh) * kernel_w + kw;
                        let in_y = (((n * y[1] + d) * y[2] + h) * y[3] + w) * y[4] + k;
                        visit(in_x, in_weight, in_y);
                    }
                }
            }
        }
    }
}

fn positions(d: usize, h: usize, w: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..d).flat_map(move |d| (0..h).flat_map(move |h| (0..w).map(move |w| (d, h, w))))
}

/// y.
pub fn forward(conv: &Conv, shape: Shape, x: &[f64], weight: &[f64], bias: &[f64]) -> Vec<f64> {
    let len = out_shape(conv, shape).iter().product();
    let mut y: Vec<f64> = (0..len).map(|i| if conv.bias { bias[i % conv.k] } else { 0.0 }).collect();
    for_each_product(conv, shape, |in_x, in_weight, in_y| y[in_y] += x[in_x] * weight[in_weight]);
    y
}

/// dx, the gradient with respect to x.
pub fn backward_input(conv: &Conv, shape: Shape, dy: &[f64], weight: &[f64]) -> Vec<f64> {
    let mut dx = vec![0.0; shape.iter().product()];
    for_each_product(conv, shape, |in_x, in_weight, in_y| dx[in_x] += dy[in_y] * weight[in_weight]);
    dx
}

/// The gradient with respect to the weight.
pub fn backward_weight(conv: &Conv, shape: Shape, x: &[f64], dy: &[f64]) -> Vec<f64> {
    let mut dw = vec![0.0; conv.k * conv.c * conv.taps()];
    for_each_product(conv, shape, |in_x, in_weight, in_y| dw[in_weight] += x[in_x] * dy[in_y]);
    dw
}

/// The gradient with respect to the bias.
pub fn backward_bias(conv: &Conv, dy: &[f64]) -> Vec<f64> {
    let mut db = vec![0.0; conv.k];
    dy.iter().enumerate().for_each(|(i, g)| db[i % conv.k] += g);
    db
}
