//! New communicators from old ones, and agreement on failures: collectives made of other collectives.

use super::Engine;
use super::group::Group;
use crate::comm::{Comm, Failure};
use crate::error::Result;
use crate::ext::CommExt;
use crate::reduce::ReduceOp;
use crate::transport::{Member, Transport};
use std::cell::Cell;
use std::rc::Rc;

/// Every rank tells all others its colour, key and first free context number; from these, all compute the same groups. The
/// new numbers start at the highest one heard of, so none of the ranks has used them before.
pub(super) fn split<T: Transport + 'static>(
    comm: &Engine<T>,
    color: Option<u32>,
    key: u32,
) -> Result<Option<Box<dyn Comm>>> {
    let mut mine = Vec::with_capacity(13);
    mine.push(u8::from(color.is_some()));
    for number in [color.unwrap_or(0), key, comm.core.next_context.get()] {
        mine.extend(number.to_le_bytes());
    }
    let all = comm.allgatherv_vec(mine, &vec![13; comm.size()])?;
    let number =
        |record: &[u8], at: usize| u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]);
    // (has a colour, colour, key, first free context) of each rank.
    let told: Vec<(bool, u32, u32, u32)> =
        all.chunks(13).map(|r| (r[0] == 1, number(r, 1), number(r, 5), number(r, 9))).collect();

    let mut colors: Vec<u32> = told.iter().filter(|t| t.0).map(|t| t.1).collect();
    colors.sort_unstable();
    colors.dedup();
    let first = told.iter().map(|t| t.3).max().unwrap_or(1);
    comm.core.next_context.set(first + colors.len() as u32);

    let Some(color) = color else {
        let _inside = comm.meet("split");
        comm.core.transport.open(comm.group.context, None)?;
        return Ok(None);
    };
    let mut ranks: Vec<usize> = (0..comm.size()).filter(|&r| told[r].0 && told[r].1 == color).collect();
    ranks.sort_by_key(|&r| (told[r].2, r));
    let rank = ranks.iter().position(|&r| r == comm.rank()).unwrap_or(0);
    // Position among the sorted colours: small, as transports want it, and different for different groups.
    let index = colors.binary_search(&color).unwrap_or(0) as u32;
    let context = first + index;
    {
        let _inside = comm.meet("split");
        comm.core.transport.open(comm.group.context, Some(Member { context, color: index, rank }))?;
    }
    let members = ranks.into_iter().map(|r| comm.global_rank(r)).collect();
    let group = Rc::new(Group { context, rank, members });
    Ok(Some(Box::new(Engine { core: comm.core.clone(), group, started: Cell::new(0) })))
}

/// All ranks learn the lowest failing rank by a reduction, and only if there is one, its message.
pub(super) fn first_failure<T: Transport + 'static>(
    comm: &Engine<T>,
    failure: Option<&str>,
) -> Result<Option<Failure>> {
    let nobody = comm.size();
    // Ordered by rank in the world, which may differ from the order here.
    let order = |rank: usize| comm.global_rank(rank) as i32;
    let mine = if failure.is_some() { order(comm.rank()) } else { i32::MAX };
    let lowest = comm.allreduce_value(mine, ReduceOp::Min)?;
    if lowest == i32::MAX {
        return Ok(None);
    }
    let root = (0..nobody).find(|&r| order(r) == lowest).unwrap_or(0);
    let text = if root == comm.rank() { failure.unwrap_or_default() } else { "" };
    let length = comm.broadcast_vec(root, vec![text.len() as i32])?[0] as usize;
    let bytes = if root == comm.rank() { text.as_bytes().to_vec() } else { vec![0; length] };
    let bytes = comm.broadcast_vec(root, bytes)?;
    Ok(Some(Failure { rank: lowest as usize, message: String::from_utf8_lossy(&bytes).into_owned() }))
}
