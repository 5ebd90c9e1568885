//! How many ranks a comparison of grids (`check`, `verify`) takes.

use crate::PlanError;
use crate::case::conflict;

/// Most ranks: the networks that are compared are small, and each rank is a thread or a process of its own, usually all
/// on one machine.
pub const MOST: usize = 256;

/// Refuses too many ranks, and none; `place` and `text` are where the number was written and how.
///
/// # Errors
/// [`PlanError::Conflict`] with the limit.
pub fn allow(ranks: usize, place: &str, text: &str) -> Result<usize, PlanError> {
    if (1..=MOST).contains(&ranks) { Ok(ranks) } else { refuse(place, text) }
}

/// Reads a number of ranks.
///
/// # Errors
/// [`PlanError::Conflict`] if it is no number, or too large.
pub fn read(place: &str, text: &str) -> Result<usize, PlanError> {
    text.parse().map_or_else(|_| refuse(place, text), |ranks| allow(ranks, place, text))
}

fn refuse(place: &str, text: &str) -> Result<usize, PlanError> {
    conflict(place, &format!("1 to {MOST} ranks"), text, "stay in that range: small grids are compared")
}
