//! Runs a transfer on real blocks: pack and send, receive and unpack (or add).

use crate::clock::{Phases, lap};
use crate::error::TrainError;
use crate::stage::Route;
use shardmark_comm::{Comm, CommExt, Request};
use shardmark_layers::Float;
use shardmark_partition::Region;
use shardmark_tensor::Block;
use std::time::Instant;

/// Messages that were sent in the last exchange. To wait for them there would be to wait until the peer looks: an MPI library
/// completes a long send when it is received. When the next exchange's messages are here, it has been.
#[derive(Default)]
pub(crate) struct Outbox(Vec<Request>);

impl Outbox {
    /// Waits for all messages and keeps their buffers.
    pub fn clear(&mut self, comm: &dyn Comm) -> Result<(), TrainError> {
        for request in self.0.drain(..) {
            comm.recycle(comm.wait(request)?);
        }
        Ok(())
    }
}

/// A transfer whose messages are under way.
pub(crate) struct Pending {
    recvs: Vec<(Region, Request)>,
    sends: Vec<Request>,
    posted: Instant,
}

impl Pending {
    /// Whether this rank waits for anything.
    pub fn receives(&self) -> bool {
        !self.recvs.is_empty()
    }

    /// Whether all boxes have arrived. What fails shows when it is waited for.
    pub fn is_there(&self, comm: &dyn Comm) -> bool {
        self.recvs.iter().all(|(_, request)| comm.test(request).unwrap_or(true))
    }
}

/// Posts the receives, packs boxes of `source` and sends them.
pub(crate) fn post<T: Float>(
    comm: &dyn Comm,
    route: &Route,
    source: &Block<T>,
    phases: &mut Phases,
) -> Result<Pending, TrainError> {
    let posted = Instant::now();
    let mut pending = Pending { recvs: Vec::new(), sends: Vec::new(), posted };
    for &(peer, region) in &route.recvs {
        pending.recvs.push((region, comm.irecv_vec::<T>(peer, route.key, region.len())?));
    }
    for (peer, region) in &route.sends {
        let mut packed = comm.buffer_vec::<T>(region.len());
        source.pack_into(region, &mut packed);
        pending.sends.push(comm.isend_vec(*peer, route.key, packed)?);
    }
    if pending.receives() || !pending.sends.is_empty() {
        lap(posted, &mut phases.halo_exposed);
    }
    Ok(pending)
}

/// What happens to boxes that arrive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    Overwrite,
    Add,
}

/// Waits for everything to arrive and places it into `target`; what was sent goes to `outbox`.
pub(crate) fn finish<T: Float>(
    comm: &dyn Comm,
    pending: Pending,
    target: &mut Block<T>,
    arrival: Arrival,
    outbox: &mut Outbox,
    phases: &mut Phases,
) -> Result<(), TrainError> {
    if !pending.receives() && pending.sends.is_empty() {
        return Ok(());
    }
    let start = Instant::now();
    for (region, request) in pending.recvs {
        let values = comm.wait_vec::<T>(request)?;
        match arrival {
            Arrival::Overwrite => target.unpack(&region, &values),
            Arrival::Add => target.add(&region, &values),
        }
        comm.recycle_vec(values);
    }
    outbox.clear(comm)?;
    outbox.0.extend(pending.sends);
    lap(start, &mut phases.halo_exposed);
    lap(pending.posted, &mut phases.halo_total);
    Ok(())
}
