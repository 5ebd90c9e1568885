//! The parameters of a layer as one payload, and the share of it that a rank updates.

use shardmark_layers::Param;
use shardmark_partition::block;
use std::ops::Range;

/// Parameters of one layer. Each rank sums the gradients of its share of the bucket and updates these parameters, with
/// optimizer state for them only (ZeRO stage 1, Rajbhandari et al. 2020, arXiv 1910.02054, section 5.1); then it sends
/// them to all.
pub(crate) struct Bucket {
    /// Elements of each parameter.
    lens: Vec<usize>,
    /// Elements of each rank's share.
    pub counts: Vec<usize>,
    /// The elements of each parameter that lie in this rank's share.
    pub own: Vec<Range<usize>>,
    /// Number of the first parameter in the optimizer.
    pub slot: usize,
}

/// One of the vectors of a parameter.
pub(crate) type Field<T> = fn(&mut Param<T>) -> &mut Vec<T>;

impl Bucket {
    /// The bucket of parameters of the given lengths, on rank `rank` of `ranks`.
    pub fn new(lens: Vec<usize>, (rank, ranks): (usize, usize), slot: usize) -> Self {
        let total = lens.iter().sum();
        let share = |rank: usize| {
            let span = block(total, ranks, rank);
            span.lo as usize..span.hi as usize
        };
        let mine = share(rank);
        let mut first = 0;
        let own = lens.iter().map(|&len| {
            let at = first;
            first += len;
            let inside = |i: usize| i.clamp(at, at + len) - at;
            inside(mine.start)..inside(mine.end)
        });
        Bucket { own: own.collect(), counts: (0..ranks).map(|rank| share(rank).len()).collect(), lens, slot }
    }

    /// The vectors of all parameters as one: the memory of the first, which the others are appended to. The first is the
    /// weight, beside which the others are small, so almost nothing is copied. Until they are given back, the first is
    /// empty.
    pub fn take<T: Copy>(&self, params: &mut [Param<T>], field: Field<T>) -> Vec<T> {
        let Some((first, others)) = params.split_first_mut() else { return Vec::new() };
        let mut whole = std::mem::take(field(first));
        whole.reserve_exact(self.lens[1..].iter().sum());
        others.iter_mut().for_each(|p| whole.extend_from_slice(field(p)));
        whole
    }

    /// Undoes [`Bucket::take`].
    pub fn give<T: Copy>(&self, params: &mut [Param<T>], field: Field<T>, mut whole: Vec<T>) {
        let Some((first, others)) = params.split_first_mut() else { return };
        let mut at = self.lens[0];
        for (param, len) in others.iter_mut().zip(&self.lens[1..]) {
            field(param).copy_from_slice(&whole[at..at + len]);
            at += len;
        }
        whole.truncate(self.lens[0]);
        *field(first) = whole;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_every_parameter_once() {
        for lens in [vec![7, 3], vec![1], vec![5, 0, 1], vec![0, 0], vec![64, 64, 2]] {
            for ranks in [1, 2, 3, 8, 70] {
                let buckets: Vec<Bucket> = (0..ranks).map(|rank| Bucket::new(lens.clone(), (rank, ranks), 0)).collect();
                for (i, &len) in lens.iter().enumerate() {
                    let covered: Vec<usize> = buckets.iter().flat_map(|b| b.own[i].clone()).collect();
                    assert_eq!(covered, (0..len).collect::<Vec<_>>(), "{lens:?} over {ranks}");
                }
                for (rank, bucket) in buckets.iter().enumerate() {
                    assert_eq!(bucket.own.iter().map(|own| own.len()).sum::<usize>(), bucket.counts[rank]);
                    assert_eq!(bucket.counts, buckets[0].counts);
                }
            }
        }
    }

    #[test]
    fn what_is_taken_comes_back() {
        let param = |len: usize| Param { value: (0..len as u32).collect(), grad: vec![9; len] };
        let mut params = vec![param(4), param(2), param(0), param(1)];
        let bucket = Bucket::new(vec![4, 2, 0, 1], (0, 1), 0);
        let mut whole = bucket.take(&mut params, |p| &mut p.value);
        assert_eq!(whole, [0, 1, 2, 3, 0, 1, 0]);
        whole.iter_mut().for_each(|v| *v += 10);
        bucket.give(&mut params, |p| &mut p.value, whole);
        let values: Vec<Vec<u32>> = params.into_iter().map(|p| p.value).collect();
        assert_eq!(values, [vec![10, 11, 12, 13], vec![10, 11], vec![], vec![10]]);
    }
}
