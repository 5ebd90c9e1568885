//! The exchange of a halo alone.

use crate::clock::{Phases, lap};
use crate::error::TrainError;
use crate::exchange::{Arrival, Outbox, finish, post};
use crate::stage::Route;
use shardmark_comm::Comm;
use shardmark_layers::Float;
use shardmark_partition::{Coords, Cover, Dist, Grid, Region, Shape, Transfer, Window};
use shardmark_tensor::Block;
use std::time::Instant;

/// A tensor split over a grid whose ranks bring each other one voxel around what they own, corners included.
#[derive(Clone, Copy, Debug)]
pub struct HaloExchange {
    grid: Grid,
    transfer: Transfer,
}

impl HaloExchange {
    /// The exchange of a tensor of `shape` on `grid`.
    pub fn new(shape: Shape, grid: Grid) -> Self {
        let dist = Dist::spatial();
        let reads = Cover::inputs(shape, shape, dist, [Window::new(3, 1, 1); 3]);
        HaloExchange { grid, transfer: Transfer { from: Cover::own(shape, dist), to: reads, key: 0 } }
    }

    /// What a rank owns.
    pub fn own(&self, at: &Coords) -> Region {
        self.transfer.from.region(&self.grid, at)
    }

    /// What a rank holds: what it owns, its halo, and the border that sticks out of the tensor.
    pub fn block(&self, at: &Coords) -> Region {
        self.own(at).hull(&self.transfer.to.padded(&self.grid, at))
    }

    /// Bytes that a rank sends.
    pub fn sent_bytes<T: Float>(&self, at: &Coords) -> u64 {
        self.transfer.sends(&self.grid, at).map(|(_, region)| (region.len() * T::BYTES) as u64).sum()
    }

    /// Exchanges all sides of `block`, which covers [`HaloExchange::block`]. Collective.
    ///
    /// # Errors
    /// When communication fails.
    pub fn run<T: Float>(&self, comm: &dyn Comm, block: &mut Block<T>) -> Result<Phases, TrainError> {
        let route = Route::new(&self.transfer, &self.grid, &self.grid.coords(comm.rank()));
        let mut phases = Phases::default();
        let start = Instant::now();
        let pending = post(comm, &route, block, &mut phases)?;
        let mut outbox = Outbox::default();
        finish(comm, pending, block, Arrival::Overwrite, &mut outbox, &mut phases)?;
        let sending = Instant::now();
        outbox.clear(comm)?;
        phases.add_halo(sending.elapsed().as_secs_f64());
        lap(start, &mut phases.step);
        Ok(phases)
    }
}
