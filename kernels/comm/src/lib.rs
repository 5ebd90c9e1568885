//! What ranks say to each other.
//!
//! [`Comm`] is the communicator: point to point, collectives, split; [`CommExt`] adds typed vectors. Transports:
//! [`solo()`] (one rank), [`threads`] (ranks are threads of this process) and, in its own crate, MPI. [`Counted`] counts
//! what goes through any of them. [`Watchdog`] finds calls that do not return, [`agree`] makes ranks fail
//! together, and [`conformance`] is the one suite that every transport passes.
//!
//! A transport brings point-to-point messages only ([`Transport`]); [`Engine`] builds the communicator on it,
//! with the same collective algorithms, and so the same bits, for all.

mod agree;
mod board;
mod comm;
pub mod conformance;
mod counted;
mod data;
mod engine;
mod error;
mod ext;
mod forward;
mod pause;
mod reduce;
mod solo;
pub mod threads;
mod transport;
mod watchdog;

pub use agree::{AgreeError, agree};
pub use board::{Board, Doing, Inside, Operation, RankState, Slot};
pub use comm::{Combine, Comm, Failure, KEYS, MAX_KEY, Request};
pub use counted::{Collective, Counted, Counts, Direction, Message, Tally};
pub use data::{Data, Dtype, Elem};
pub use engine::Engine;
pub use error::{CommError, Result};
pub use ext::CommExt;
pub use pause::spin;
pub use reduce::ReduceOp;
pub use solo::solo;
pub use transport::{Address, Member, Transport};
pub use watchdog::{HangReport, Watchdog};
