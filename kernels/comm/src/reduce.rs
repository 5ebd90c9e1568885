//! Element-wise reductions.

use crate::data::Data;

/// How two elements become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReduceOp {
    /// a + b; integers wrap.
    Sum,
    /// The larger; NaN wins over every number, so that it is seen.
    Max,
    /// The smaller; NaN wins over every number.
    Min,
}

/// Which operand a part is: the order matters to the last bit (signed zeros, NaN payloads).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// Reduces `part` into the elements of `whole` from `at` on, as the operand on `side`. Both have one type (arrivals are
/// checked before).
pub(crate) fn reduce_into(whole: &mut Data, at: usize, part: &Data, side: Side, op: ReduceOp) {
    match (whole, part) {
        (Data::F32(a), Data::F32(b)) => apply(&mut a[at..at + b.len()], b, side, op, |x, y| x + y, |x| x.is_nan()),
        (Data::F64(a), Data::F64(b)) => apply(&mut a[at..at + b.len()], b, side, op, |x, y| x + y, |x| x.is_nan()),
        (Data::U8(a), Data::U8(b)) => apply(&mut a[at..at + b.len()], b, side, op, u8::wrapping_add, |_| false),
        (Data::I32(a), Data::I32(b)) => apply(&mut a[at..at + b.len()], b, side, op, i32::wrapping_add, |_| false),
        (a, b) => unreachable!("reduction of {} into {}: arrivals are checked", b.dtype(), a.dtype()),
    }
}

fn apply<T: Copy + PartialOrd>(
    whole: &mut [T],
    part: &[T],
    side: Side,
    op: ReduceOp,
    add: impl Fn(T, T) -> T,
    nan: impl Fn(T) -> bool,
) {
    match op {
        ReduceOp::Sum => zip(whole, part, side, add),
        ReduceOp::Max => zip(whole, part, side, |x, y| if nan(x) || x > y { x } else { y }),
        ReduceOp::Min => zip(whole, part, side, |x, y| if nan(x) || x < y { x } else { y }),
    }
}

/// One loop for each operation and side, so that each vectorises.
fn zip<T: Copy>(whole: &mut [T], part: &[T], side: Side, f: impl Fn(T, T) -> T) {
    match side {
        Side::Left => whole.iter_mut().zip(part).for_each(|(w, &p)| *w = f(p, *w)),
        Side::Right => whole.iter_mut().zip(part).for_each(|(w, &p)| *w = f(*w, p)),
    }
}
