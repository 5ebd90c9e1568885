//! The communicator: what the ranks of a group can say to each other.

use crate::data::{Data, Dtype};
use crate::error::{CommError, Result};
use crate::reduce::ReduceOp;
use std::ops::Range;

/// Keys that users may pass: 0 up to this, exclusive. The rest of the key space belongs to the collectives.
pub const KEYS: u32 = 1 << 20;

/// The largest key that users may pass.
pub const MAX_KEY: u32 = KEYS - 1;

/// A started operation. [`Comm::wait`] ends it and hands its buffer back; one that is never waited for keeps its buffer
/// until the rank's last communicator is dropped.
#[derive(Debug, PartialEq, Eq, Hash)]
#[must_use = "an operation ends with wait"]
pub struct Request(pub(crate) u64);

/// The combination of two payloads in [`Comm::tree_allreduce`]: merges the right one, of higher ranks, into the left one.
pub type Combine<'a> = dyn FnMut(&mut Data, &Data) -> Result<()> + 'a;

/// The rank that failed first in [`Comm::first_failure`], and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Lowest failing rank, as a rank of the world.
    pub rank: usize,
    /// What it reported.
    pub message: String,
}

/// A group of ranks and one rank's place in it.
///
/// * Messages of one sender with one key arrive in the order in which they were sent; different keys are independent.
///   Receives of one peer and key match in the order in which they were posted.
/// * Sends never wait for the receiver to be in a call.
/// * All ranks of a communicator start the same collectives in the same order; they may finish in any order.
/// * Reductions add in rank order, whatever the transport: results are equal to the bit on all ranks, on all
///   transports and in every run.
/// * A communicator stays on the thread that made it (it is not `Send`), as MPI's funneled threading asks for.
/// * A blocked rank advances everything it has outstanding, on all its communicators.
pub trait Comm {
    /// This rank, 0 up to `size`.
    fn rank(&self) -> usize;

    /// Number of ranks.
    fn size(&self) -> usize;

    /// The transport: `solo`, `threads`, `mpi`.
    fn name(&self) -> &'static str;

    /// The rank in the world of rank `peer` of this communicator. `peer` must be below `size`.
    fn global_rank(&self, peer: usize) -> usize;

    /// Starts sending `data` to `peer` (itself allowed) under `key` below [`KEYS`].
    fn isend(&self, peer: usize, key: u32, data: Data) -> Result<Request>;

    /// Starts receiving `len` elements from `peer` under `key` below [`KEYS`]. A message of another type or length
    /// fails in `wait`.
    fn irecv(&self, peer: usize, key: u32, dtype: Dtype, len: usize) -> Result<Request>;

    /// Starts an element-wise reduction over all ranks; `wait` gives the reduced data. All ranks pass equal lengths.
    fn iallreduce(&self, data: Data, op: ReduceOp) -> Result<Request>;

    /// Starts an element-wise reduction that leaves the sums of `counts[r]` consecutive elements on each rank `r`: `wait`
    /// gives `data` with this rank's sums in their place; what it then holds elsewhere is unspecified. All ranks pass
    /// the same `counts`, which add up to the length of `data`.
    fn ireduce_scatter(&self, data: Data, counts: &[usize], op: ReduceOp) -> Result<Request>;

    /// Starts the completion of a payload of which each rank `r` has `counts[r]` consecutive elements: `wait` gives
    /// `data` with the elements of the others in their places. All ranks pass the same `counts`, which add up to
    /// the length of `data`.
    fn iallgatherv(&self, data: Data, counts: &[usize]) -> Result<Request>;

    /// No elements, with room for `len`: for a send, a used buffer of this rank where there is one.
    fn buffer(&self, dtype: Dtype, len: usize) -> Data;

    /// Keeps the buffer of a payload that is no longer needed, for receives and [`Comm::buffer`].
    fn recycle(&self, data: Data);

    /// Advances everything outstanding without blocking. To be called between the parts of a kernel, because some
    /// transports move nothing while no call is running.
    fn progress(&self) -> Result<()>;

    /// Whether `wait` would return at once; advances everything outstanding.
    fn test(&self, request: &Request) -> Result<bool>;

    /// Ends an operation: a receive or collective gives its data; a send gives its buffer back, or an empty one where
    /// the buffer itself went to the receiver.
    fn wait(&self, request: Request) -> Result<Data>;

    /// Element-wise reduction over all ranks.
    fn allreduce(&self, data: Data, op: ReduceOp) -> Result<Data> {
        let request = self.iallreduce(data, op)?;
        self.wait(request)
    }

    /// [`Comm::ireduce_scatter`] from start to end; gives the own sums alone.
    fn reduce_scatter(&self, data: Data, counts: &[usize], op: ReduceOp) -> Result<Data> {
        let request = self.ireduce_scatter(data, counts, op)?;
        Ok(self.wait(request)?.copy(own_part(counts, self.rank())))
    }

    /// Concatenates the data of all ranks in rank order; rank `r` contributes `counts[r]` elements.
    /// All ranks pass the same `counts`.
    fn allgatherv(&self, data: Data, counts: &[usize]) -> Result<Data> {
        let own = own_part(counts, self.rank());
        if data.len() != own.len() {
            let (expected, got) = (own.len(), data.len());
            return Err(CommError::Counts { what: "allgatherv: own count", expected, got });
        }
        let mut whole = Data::zeros(data.dtype(), counts.iter().sum());
        whole.write(own.start, &data);
        let request = self.iallgatherv(whole, counts)?;
        self.wait(request)
    }

    /// Sends the consecutive parts of `data` to the ranks in order and concatenates what they send here.
    /// `send_counts[r]` here equals `recv_counts[rank]` on rank `r`.
    fn alltoallv(&self, data: Data, send_counts: &[usize], recv_counts: &[usize]) -> Result<Data>;

    /// Gives every rank the data of `root`. The others pass a payload of the same type and length, whose content
    /// is ignored.
    fn broadcast(&self, root: usize, data: Data) -> Result<Data>;

    /// Merges the payloads of all ranks by `combine`, along a binomial tree of fixed shape with the lower ranks always
    /// on the left, and gives every rank the result. All payloads have one type and length. For merges that are
    /// not element-wise sums, such as (count, mean, M2).
    fn tree_allreduce(&self, data: Data, combine: &mut Combine<'_>) -> Result<Data>;

    /// Returns when all ranks have called it.
    fn barrier(&self) -> Result<()>;

    /// Tells all ranks whether any of them failed: the lowest failing rank and its message. Collective; ranks without
    /// a failure pass `None`. See [`crate::agree`] for results.
    fn first_failure(&self, failure: Option<&str>) -> Result<Option<Failure>>;

    /// Splits into one communicator for each colour, ordered by `key`, then by rank; `None` takes part and gets none.
    /// Collective.
    fn split(&self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Comm>>>;
}

/// Where the elements of a rank lie; empty where `counts` has none for it.
fn own_part(counts: &[usize], rank: usize) -> Range<usize> {
    let start = counts.iter().take(rank).sum();
    start..start + counts.get(rank).copied().unwrap_or(0)
}
