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

/// `acc[i] = op(acc[i], other[i])`; both of one type and length (arrivals are checked before).
pub(crate) fn reduce_into(acc: &mut Data, other: &Data, op: ReduceOp) {
    match (acc, other) {
        (Data::F32(a), Data::F32(b)) => apply(a, b, op, |x, y| x + y, |x| x.is_nan()),
        (Data::F64(a), Data::F64(b)) => apply(a, b, op, |x, y| x + y, |x| x.is_nan()),
        (Data::U8(a), Data::U8(b)) => apply(a, b, op, u8::wrapping_add, |_| false),
        (Data::I32(a), Data::I32(b)) => apply(a, b, op, i32::wrapping_add, |_| false),
        (a, b) => unreachable!("reduction of {} into {}: arrivals are checked", b.dtype(), a.dtype()),
    }
}

fn apply<T: Copy + PartialOrd>(a: &mut [T], b: &[T], op: ReduceOp, add: fn(T, T) -> T, nan: fn(T) -> bool) {
    debug_assert_eq!(a.len(), b.len());
    // One match outside the loop: each arm is a loop that vectorises.
    match op {
        ReduceOp::Sum => a.iter_mut().zip(b).for_each(|(x, &y)| *x = add(*x, y)),
        ReduceOp::Max => a.iter_mut().zip(b).for_each(|(x, &y)| *x = if nan(*x) || *x > y { *x } else { y }),
        ReduceOp::Min => a.iter_mut().zip(b).for_each(|(x, &y)| *x = if nan(*x) || *x < y { *x } else { y }),
    }
}
