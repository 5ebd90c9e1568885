//! A rank's own boxes of the samples of a step: read on first touch, kept, and in later epochs exchanged between sample
//! groups instead of read again.

use crate::error::RankError;
use crate::input::regions;
use shardmark_comm::{Comm, CommExt, agree};
use shardmark_datasets::cosmoflow::{Dataset, Options, Split, Transform};
use shardmark_datasets::store::{Epochs, Exchange, Source, Store};
use shardmark_networks::NetPlan;
use shardmark_partition::{Coords, Dim, Grid, Region, Span};
use shardmark_plan::value;
use shardmark_plan::{Case, machine::Machine};
use shardmark_tensor::Block;
use std::path::Path;

/// Keys of messages that carry samples; those of layers are below.
const KEY: u32 = 1 << 19;
/// Part of the machine's memory that all stores on it may fill together.
const STORE_SHARE: f64 = 0.25;

/// Samples of a dataset as one rank sees them.
pub struct Samples {
    dataset: Dataset,
    labels: Vec<[f32; 4]>,
    validation_labels: Vec<[f32; 4]>,
    /// Mean and inverse standard deviation of each channel; empty if values are taken as they are.
    scales: Vec<(f32, f32)>,
    epochs: Epochs,
    exchange: Exchange,
    store: Store,
    /// Held-out samples are read again by the same ranks in every epoch.
    validation: Store,
    grid: Grid,
    at: Coords,
    batch: usize,
    input: Region,
    target: Region,
}

impl Samples {
    /// Opens a dataset and reads all its labels.
    ///
    /// # Errors
    /// When it cannot be read, its samples are not of the network's shape, or there are fewer than a batch.
    pub fn open(case: &Case, plan: &NetPlan, dir: &Path, at: &Coords) -> Result<Samples, RankError> {
        let transform = match case.transform {
            value::Transform::None | value::Transform::Standard => Transform::None,
            value::Transform::Log1p => Transform::Log1p,
            value::Transform::Contrast => Transform::Contrast,
        };
        let dataset = Dataset::open(dir, Options { transform, cube: None })?;
        let [_, d, h, w, c] = plan.graph.input();
        if dataset.shape() != [c, d, h, w] {
            return Err(RankError::Other(format!(
                "samples of {}: expected [C, D, H, W] = {:?}, got {:?}; set channels and width to the dataset's",
                dir.display(),
                [c, d, h, w],
                dataset.shape()
            )));
        }
        let all = |split, limit: usize| -> Result<Vec<[f32; 4]>, RankError> {
            (0..dataset.len(split).min(limit)).map(|i| Ok(dataset.labels(split, i)?)).collect()
        };
        let labels = all(Split::Train, usize::MAX)?;
        let held_out = dataset.len(Split::Validation);
        if case.validate > held_out {
            let text = "lower validate or make more samples";
            let expected = format!("validate: expected at most the dataset's {held_out} validation samples");
            return Err(RankError::Other(format!("{expected}, got {}; {text}", case.validate)));
        }
        let validation_labels = all(Split::Validation, case.validate)?;
        let epochs = Epochs::new(case.seed, labels.len(), case.batch).ok_or_else(|| {
            RankError::Other(format!(
                "batch: expected at most the dataset's {} training samples, got {}; lower batch or make more samples",
                labels.len(),
                case.batch
            ))
        })?;
        let scales = if case.transform == value::Transform::Standard { scales(&dataset)? } else { Vec::new() };
        let (input, target) = regions(plan, at);
        Ok(Samples {
            scales,
            exchange: Exchange::new(epochs, plan.grid.parts(Dim::N), store_capacity(plan)),
            dataset,
            labels,
            validation_labels,
            epochs,
            store: Store::default(),
            validation: Store::default(),
            grid: plan.grid,
            at: *at,
            batch: case.batch,
            input,
            target,
        })
    }

    /// Whole batches in one pass over the training samples.
    pub fn steps_per_epoch(&self) -> usize {
        self.epochs.steps()
    }

    /// Labels of the held-out samples.
    pub fn validation_labels(&self) -> &[[f32; 4]] {
        &self.validation_labels
    }

    /// Batches that cover the held-out samples; the last may be filled up with repetitions.
    pub fn validation_batches(&self) -> usize {
        self.validation_labels.len().div_ceil(self.batch)
    }

    /// Fills `input` with the samples of a training step and gives their targets. Collective: all ranks get their
    /// samples or none goes on.
    ///
    /// # Errors
    /// When some rank cannot read a sample.
    pub fn load(&mut self, comm: &dyn Comm, step: u64, input: &mut Block<f32>) -> Result<Block<f32>, RankError> {
        let step = step as usize;
        let read = self.read_files(step, input);
        agree(comm, read)?;
        for (position, slab) in self.exchange_slabs(comm, step)? {
            input.unpack(&self.place(position), &slab);
        }
        let chosen = self.epochs.batch(step);
        Ok(self.targets(|n| self.labels[chosen[n]]))
    }

    /// Fills `input` with a batch of held-out samples and gives their targets. Collective.
    ///
    /// # Errors
    /// When some rank cannot read a sample.
    pub fn load_validation(
        &mut self,
        comm: &dyn Comm,
        batch: usize,
        input: &mut Block<f32>,
    ) -> Result<Block<f32>, RankError> {
        let last = self.validation_labels.len() - 1;
        let sample = |n: usize| (batch * self.batch + n).min(last);
        let own = self.input.span(Dim::N);
        let mut result = Ok(());
        for n in own.lo..own.hi {
            let sample = sample(n as usize);
            if self.validation.get(sample).is_none() {
                match self.read(Split::Validation, sample) {
                    Ok(slab) => self.validation.keep(sample, slab),
                    Err(error) => result = Err(error),
                }
            }
            if let Some(slab) = self.validation.get(sample) {
                input.unpack(&self.place(n as usize), slab);
            }
        }
        agree(comm, result)?;
        Ok(self.targets(|n| self.validation_labels[sample(n)]))
    }

    /// Places the samples of a step that this rank has or reads; what it reads first it keeps.
    fn read_files(&mut self, step: usize, block: &mut Block<f32>) -> Result<(), RankError> {
        let own = self.exchange.positions(self.at[0]);
        for (position, place) in self.exchange.places(step).into_iter().enumerate().filter(|(i, _)| own.contains(i)) {
            let region = self.place(position);
            match place.source {
                Source::File { keep } => {
                    let slab = self.read(Split::Train, place.sample)?;
                    block.unpack(&region, &slab);
                    if keep {
                        self.store.keep(place.sample, slab);
                    }
                }
                Source::Store(group) if group == self.at[0] => {
                    if let Some(slab) = self.store.get(place.sample) {
                        block.unpack(&region, slab);
                    }
                }
                Source::Store(_) => {}
            }
        }
        Ok(())
    }

    /// Sends slabs to the groups that train on them in a step, and receives this rank's.
    fn exchange_slabs(&self, comm: &dyn Comm, step: usize) -> Result<Vec<(usize, Vec<f32>)>, RankError> {
        let peer = |group: usize| {
            let mut coords = self.at;
            coords[0] = group;
            self.grid.rank(&coords)
        };
        let slab_len = self.place(self.exchange.positions(self.at[0]).start).len();
        let (mut sends, mut recvs) = (Vec::new(), Vec::new());
        for slab in self.exchange.moves(step) {
            let key = KEY + slab.position as u32;
            if slab.to_group == self.at[0] {
                recvs.push((slab.position, comm.irecv_vec::<f32>(peer(slab.from_group), key, slab_len)?));
            }
            if let Some(values) = self.store.get(slab.sample).filter(|_| slab.from_group == self.at[0]) {
                sends.push(comm.isend_vec(peer(slab.to_group), key, values.to_vec())?);
            }
        }
        let mut arrived = Vec::new();
        for (position, request) in recvs {
            arrived.push((position, comm.wait_vec(request)?));
        }
        comm.wait_all(sends)?;
        Ok(arrived)
    }

    /// This rank's box of a sample, halo and border included.
    fn read(&self, split: Split, sample: usize) -> Result<Vec<f32>, RankError> {
        let [d, h, w] = [Dim::D, Dim::H, Dim::W].map(|dim| {
            let span = self.input.span(dim);
            span.lo..span.hi
        });
        let mut slab = self.dataset.read_region(split, sample, d, h, w)?;
        if !self.scales.is_empty() {
            // The border is transformed as well; the first layer overwrites it with its own.
            for voxel in slab.chunks_exact_mut(self.scales.len()) {
                for (value, (mean, inverse)) in voxel.iter_mut().zip(&self.scales) {
                    *value = (*value - mean) * inverse;
                }
            }
        }
        Ok(slab)
    }

    /// Part of the input block that holds the sample at a place of the batch.
    fn place(&self, position: usize) -> Region {
        self.input.with(Dim::N, Span::new(position as i64, position as i64 + 1))
    }

    fn targets(&self, label: impl Fn(usize) -> [f32; 4]) -> Block<f32> {
        Block::from_fn(self.target, |[n, .., c]| label(n as usize)[c as usize])
    }
}

/// Mean and inverse standard deviation of each channel of the first training sample: the same on all ranks.
fn scales(dataset: &Dataset) -> Result<Vec<(f32, f32)>, RankError> {
    let [channels, d, h, w] = dataset.shape();
    let [d, h, w] = [d, h, w].map(|extent| 0..extent as i64);
    let values = dataset.read_region(Split::Train, 0, d, h, w)?;
    let count = (values.len() / channels) as f64;
    Ok((0..channels)
        .map(|c| {
            let of_channel = || values.iter().skip(c).step_by(channels).map(|&v| f64::from(v));
            let mean = of_channel().sum::<f64>() / count;
            let variance = of_channel().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
            (mean as f32, (1.0 / variance.sqrt().max(f64::MIN_POSITIVE)) as f32)
        })
        .collect())
}

/// Slabs that every group has room for: equal on all ranks, so from the largest slab.
fn store_capacity(plan: &NetPlan) -> usize {
    let slab = |rank: usize| {
        let region = plan.layer(0).x_block(&plan.grid, &plan.grid.coords(rank));
        region.with(Dim::N, Span::new(0, 1)).len()
    };
    let largest = (0..plan.grid.size()).map(slab).max().unwrap_or(0);
    let memory = Machine::here().memory.unwrap_or(1 << 30) as f64 * STORE_SHARE;
    Store::capacity(memory as usize / plan.grid.size(), largest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network;
    use shardmark_comm::threads;
    use shardmark_datasets::cosmoflow::{DatasetSpec, make};

    /// Seven universes of 8^3 to train on, three held out.
    fn dataset(name: &str) -> std::path::PathBuf {
        let dir = std::env::temp_dir().join(format!("shardmark-samples-{name}-{}", std::process::id()));
        let mut spec = DatasetSpec { cells: 8, redshifts: vec![0.0, 1.0], ..DatasetSpec::default() };
        spec.samples = shardmark_datasets::cosmoflow::Samples { train: 7, validation: 3, test: 0 };
        make(&spec, &dir, 2, &mut |_, _| {}).expect("universes");
        dir
    }

    fn case(dir: &Path, grid: &str, batch: usize) -> Case {
        let line = format!(
            "cosmoflow width=8 channels=2 batch={batch} grid={grid} epochs=1 validate=3 transform=contrast input={}",
            dir.display()
        );
        Case::parse(&line).expect("a case")
    }

    /// What a rank ought to hold: every sample of its block read afresh.
    fn expected(samples: &Samples, split: Split, chosen: &[usize]) -> Block<f32> {
        let mut block = Block::zeros(samples.input);
        let own = samples.input.span(Dim::N);
        for n in own.lo..own.hi {
            let slab = samples.read(split, chosen[n as usize]).expect("a readable sample");
            block.unpack(&samples.place(n as usize), &slab);
        }
        block
    }

    #[test]
    fn every_grid_gets_its_samples_in_every_epoch() {
        let dir = dataset("grids");
        for grid in ["1x1x1x1", "2x1x1x1", "3x1x1x1", "2x2x1x1", "1x3x1x2", "5x1x1x1"] {
            let case = case(&dir, grid, 3);
            let plan = network::plan(&case).expect("a plan");
            let result = threads::run(case.ranks, &threads::Options::default(), |comm| {
                let at = plan.grid.coords(comm.rank());
                let mut samples = Samples::open(&case, &plan, &dir, &at)?;
                for step in 0..8 {
                    let mut input = Block::from_fn(samples.input, |_| f32::NAN);
                    let target = samples.load(comm, step, &mut input)?;
                    let chosen = samples.epochs.batch(step as usize);
                    assert_eq!(input, expected(&samples, Split::Train, &chosen), "step {step} on {grid}");
                    let own = target.region().span(Dim::N);
                    for n in own.lo..own.hi {
                        assert_eq!(target.channels([n, 0, 0, 0]), samples.labels[chosen[n as usize]]);
                    }
                }
                let mut input = Block::from_fn(samples.input, |_| f32::NAN);
                samples.load_validation(comm, 0, &mut input)?;
                assert_eq!(input, expected(&samples, Split::Validation, &[0, 1, 2]));
                Ok::<_, RankError>(())
            });
            result.unwrap_or_else(|error| panic!("{grid}: {error}"));
        }
        std::fs::remove_dir_all(dir).expect("removed");
    }

    #[test]
    fn a_broken_sample_stops_all_ranks_with_its_name() {
        let dir = dataset("broken");
        let file = std::fs::read_dir(dir.join("train")).expect("files").next().expect("one").expect("readable").path();
        std::fs::write(&file, b"not HDF5").expect("written");
        let case = case(&dir, "2x1x1x1", 2);
        let plan = network::plan(&case).expect("a plan");
        let result = threads::run(2, &threads::Options::default(), |comm| {
            let at = plan.grid.coords(comm.rank());
            let mut samples = agree(comm, Samples::open(&case, &plan, &dir, &at))?;
            for step in 0..9 {
                let mut input = Block::zeros(samples.input);
                samples.load(comm, step, &mut input)?;
            }
            Ok::<_, RankError>(())
        });
        let message = result.expect_err("refused").to_string();
        assert!(message.contains(&*file.file_name().expect("a name").to_string_lossy()), "{message}");
        std::fs::remove_dir_all(dir).expect("removed");
    }
}
