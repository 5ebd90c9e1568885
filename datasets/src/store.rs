//! Which sample is at which place of which step, and who has it: the arithmetic of a distributed sample store.
//!
//! Ranks of equal spatial coordinates hold equal parts (slabs) of samples; along the sample axis of the grid they are
//! `groups`. The group that reads a sample first keeps its slab; in later epochs groups send slabs to each other instead of
//! reading them again (first-touch caching, as in LBANN's data store; Oyama et al. 2020, section III-B). Every rank computes
//! the same plan from the seed, so nothing is negotiated.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::random::{Stream, integers};

/// The order of samples: each epoch goes through a permutation of its own, in steps of `batch` samples; the samples that do
/// not fill a last step are left out of that epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epochs {
    seed: u64,
    samples: usize,
    batch: usize,
}

impl Epochs {
    /// The order for `seed`; none if there are fewer than `batch` samples or `batch` is 0.
    pub fn new(seed: u64, samples: usize, batch: usize) -> Option<Self> {
        (batch > 0 && samples >= batch).then_some(Self { seed, samples, batch })
    }

    /// Steps of one epoch.
    pub fn steps(&self) -> usize {
        self.samples / self.batch
    }

    /// The samples of global step `step` by their place in the batch; no sample is there twice.
    pub fn batch(&self, step: usize) -> Vec<usize> {
        let mut order = self.order(step / self.steps());
        order.drain(..step % self.steps() * self.batch);
        order.truncate(self.batch);
        order
    }

    /// The permutation of an epoch (Fisher and Yates).
    fn order(&self, epoch: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.samples).collect();
        for i in (1..self.samples).rev() {
            let counter = [i as u32, epoch as u32, (epoch as u64 >> 32) as u32];
            let [random, _] = integers(self.seed, counter, Stream::Epochs);
            // The upper half of the product: uniform in 0..=i but for a bias of i / 2^64.
            order.swap(i, ((u128::from(random) * (i as u128 + 1)) >> 64) as usize);
        }
        order
    }
}

/// Where a group takes a sample's slab from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Its file; `keep` tells that this first reading goes to the store.
    File {
        /// True if it is to be kept.
        keep: bool,
    },
    /// The store of this group (maybe its own).
    Store(usize),
}

/// One sample of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The sample.
    pub sample: usize,
    /// The group whose block of the batch it is in.
    pub group: usize,
    /// Where that group takes it from.
    pub source: Source,
}

/// A slab that travels between groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// The sample.
    pub sample: usize,
    /// Who has it.
    pub from_group: usize,
    /// Who trains on it in this step.
    pub to_group: usize,
    /// Its place in the batch: a key that is unique in the step.
    pub position: usize,
}

/// The plan of a store: first touches of all samples, worked out once.
#[derive(Debug, Clone)]
pub struct Exchange {
    epochs: Epochs,
    groups: usize,
    /// By sample: the step of its first reading and the group that keeps it; none if no store has room for it.
    holders: Vec<Option<(usize, usize)>>,
}

impl Exchange {
    /// The plan for a batch split over `groups` blocks (block g of n over p is `[g n / p, (g + 1) n / p)`, as everywhere),
    /// where every group has room for `capacity` slabs.
    pub fn new(epochs: Epochs, groups: usize, capacity: usize) -> Self {
        let mut plan = Self { epochs, groups, holders: vec![None; epochs.samples] };
        let mut unseen = vec![true; epochs.samples];
        let mut left = epochs.samples;
        let mut room = vec![capacity; groups];
        for step in 0.. {
            if left == 0 || room.iter().all(|&slabs| slabs == 0) {
                break;
            }
            for (position, sample) in epochs.batch(step).into_iter().enumerate() {
                let group = plan.group_of(position);
                if std::mem::take(&mut unseen[sample]) {
                    left -= 1;
                    if room[group] > 0 {
                        room[group] -= 1;
                        plan.holders[sample] = Some((step, group));
                    }
                }
            }
        }
        plan
    }

    /// Places of the batch that are group `group`'s.
    pub fn positions(&self, group: usize) -> Range<usize> {
        group * self.epochs.batch / self.groups..(group + 1) * self.epochs.batch / self.groups
    }

    /// The samples of a step by their place in the batch, and where each comes from.
    pub fn places(&self, step: usize) -> Vec<Place> {
        let source = |sample: usize| match self.holders[sample] {
            Some((first, holder)) if first < step => Source::Store(holder),
            Some((first, _)) => Source::File { keep: first == step },
            None => Source::File { keep: false },
        };
        let batch = self.epochs.batch(step).into_iter().enumerate();
        batch
            .map(|(position, sample)| Place { sample, group: self.group_of(position), source: source(sample) })
            .collect()
    }

    /// The slabs that travel in a step, by their place in the batch. Those that a group reads or has already do not.
    pub fn moves(&self, step: usize) -> Vec<Move> {
        let travels = |(position, place): (usize, Place)| match place.source {
            Source::Store(from_group) if from_group != place.group => {
                Some(Move { sample: place.sample, from_group, to_group: place.group, position })
            }
            _ => None,
        };
        self.places(step).into_iter().enumerate().filter_map(travels).collect()
    }

    /// The group whose block holds a place of the batch.
    fn group_of(&self, position: usize) -> usize {
        // The largest g with g batch / groups <= position, rounded down.
        ((position + 1) * self.groups - 1) / self.epochs.batch
    }
}

/// The slabs that one rank keeps.
#[derive(Debug, Default)]
pub struct Store {
    slabs: BTreeMap<usize, Vec<f32>>,
}

impl Store {
    /// Slabs of at most `slab_len` numbers that fit in `bytes`: the `capacity` of the plan, to be computed from the largest
    /// slab of all ranks so that all plan alike.
    pub fn capacity(bytes: usize, slab_len: usize) -> usize {
        bytes / (slab_len.max(1) * size_of::<f32>())
    }

    /// Keeps the slab of a sample.
    pub fn keep(&mut self, sample: usize, slab: Vec<f32>) {
        self.slabs.insert(sample, slab);
    }

    /// The slab of a sample, if this rank keeps it.
    pub fn get(&self, sample: usize) -> Option<&[f32]> {
        self.slabs.get(&sample).map(Vec::as_slice)
    }

    /// Bytes of the slabs kept.
    pub fn bytes(&self) -> usize {
        self.slabs.values().map(|slab| size_of_val(&slab[..])).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_epoch_is_a_new_permutation() {
        let epochs = Epochs::new(9, 24, 4).unwrap();
        let order = |epoch: usize| (0..6).flat_map(|s| epochs.batch(epoch * 6 + s)).collect::<Vec<_>>();
        for epoch in 0..3 {
            assert_eq!(order(epoch).into_iter().collect::<BTreeSet<_>>().len(), 24);
            assert_ne!(order(epoch), order(epoch + 1));
        }
        assert_ne!(order(0), Epochs::new(8, 24, 4).unwrap().order(0));
        assert!(Epochs::new(9, 3, 4).is_none() && Epochs::new(9, 3, 0).is_none());
    }

    /// Each of 4! orders of four samples comes up equally often: chi^2 with 23 degrees of freedom.
    #[test]
    fn permutations_are_uniform() {
        let epochs = Epochs::new(1, 4, 1).unwrap();
        let mut counts = BTreeMap::new();
        for epoch in 0..4800 {
            *counts.entry(epochs.order(epoch)).or_insert(0.0) += 1.0;
        }
        let chi2: f64 = counts.values().map(|c: &f64| (c - 200.0).powi(2) / 200.0).sum();
        assert!(counts.len() == 24 && chi2 < 55.0, "{chi2}");
    }

    /// Plays the plan with real stores: every group has what it needs, nothing is read twice unless it had no room.
    fn play(samples: usize, batch: usize, groups: usize, capacity: usize) -> (usize, usize) {
        let plan = Exchange::new(Epochs::new(5, samples, batch).unwrap(), groups, capacity);
        let mut stores: Vec<Store> = (0..groups).map(|_| Store::default()).collect();
        let (mut read, mut moved) = (0, 0);
        for step in 0..6 * (samples / batch) {
            let moves = plan.moves(step);
            for (position, place) in plan.places(step).into_iter().enumerate() {
                assert!(plan.positions(place.group).contains(&position));
                let arriving = moves.iter().find(|m| m.position == position);
                match place.source {
                    Source::Store(from) => {
                        assert_eq!(stores[from].get(place.sample), Some(&[place.sample as f32][..]));
                        assert_eq!(
                            arriving.map(|m| (m.from_group, m.to_group)),
                            (from != place.group).then_some((from, place.group))
                        );
                        moved += usize::from(from != place.group);
                    }
                    Source::File { keep } => {
                        assert_eq!(arriving, None);
                        read += 1;
                        if keep {
                            stores[place.group].keep(place.sample, vec![place.sample as f32]);
                        }
                    }
                }
            }
        }
        assert!(stores.iter().all(|store| store.bytes() <= capacity * 4));
        (read, moved)
    }

    #[test]
    fn a_large_store_reads_each_sample_once() {
        for (samples, batch, groups) in [(24, 4, 2), (25, 4, 4), (10, 3, 2), (7, 2, 3), (9, 5, 1), (8, 8, 8)] {
            let (read, moved) = play(samples, batch, groups, samples);
            assert!(read <= samples, "{samples} {batch} {groups}: {read}");
            assert!(read >= samples - batch && (groups == 1) == (moved == 0));
        }
    }

    #[test]
    fn a_small_store_keeps_what_it_has_room_for() {
        let (read, moved) = play(24, 4, 2, 6);
        // Twelve are kept, twelve are read in each of six epochs.
        assert_eq!(read, 12 + 6 * 12);
        assert!(moved > 0);
        assert_eq!(play(24, 4, 2, 0), (6 * 24, 0));
        assert_eq!(Store::capacity(1000, 60), 4);
    }
}
