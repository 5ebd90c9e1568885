//! Barrier by dissemination: in round k every rank hears from the one 2^k before it
//! (Hensgen, Finkel and Manber 1988, 10.1007/BF01379320).

use super::{Exchange, Link, Machine};
use crate::data::{Data, Dtype};
use crate::error::Result;
use crate::transport::Transport;

pub struct Barrier<T: Transport> {
    exchange: Exchange<T>,
    /// Distance of the next round.
    distance: usize,
}

impl<T: Transport> Barrier<T> {
    pub fn start(link: &Link<'_, T>) -> Result<Self> {
        Ok(Self { exchange: Exchange::new(link, 0), distance: 1 })
    }
}

impl<T: Transport> Machine<T> for Barrier<T> {
    fn advance(&mut self, link: &Link<'_, T>) -> Result<Option<Data>> {
        let (rank, size) = (link.rank(), link.size());
        while self.exchange.advance(link)? {
            if self.distance >= size {
                return Ok(Some(Data::empty(Dtype::U8)));
            }
            self.exchange.receive(link, (rank + size - self.distance) % size, Dtype::U8, 0)?;
            self.exchange.send(link, (rank + self.distance) % size, Data::empty(Dtype::U8))?;
            self.distance *= 2;
        }
        Ok(None)
    }

    fn missing(&self, ranks: &mut Vec<usize>) {
        self.exchange.missing(ranks);
    }
}
