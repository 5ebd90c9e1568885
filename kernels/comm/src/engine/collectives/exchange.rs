//! Messages to and from several ranks at once: the part that all collectives are made of.

use super::Link;
use crate::data::{Data, Dtype};
use crate::engine::core::Incoming;
use crate::error::Result;
use crate::transport::Transport;

/// Running sends and receives of one collective. Empty parts are sent like any other unless the caller skips them on
/// both sides.
pub struct Exchange<T: Transport> {
    sends: Vec<T::Sending>,
    /// The sender's rank in the communicator with each receive.
    receives: Vec<(usize, Incoming<T>)>,
    /// What came, by rank in the communicator.
    arrived: Vec<Option<Data>>,
    tag: u32,
}

impl<T: Transport> Exchange<T> {
    /// `lane` is one of the collective's tags. On one tag, all ranks send to and receive from any other one in the same
    /// order.
    pub fn new(link: &Link<'_, T>, lane: u32) -> Self {
        let arrived = (0..link.size()).map(|_| None).collect();
        Self { sends: Vec::new(), receives: Vec::new(), arrived, tag: link.tag + lane }
    }

    /// Starts a send to a rank of the communicator.
    pub fn send(&mut self, link: &Link<'_, T>, to: usize, data: Data) -> Result<()> {
        self.sends.push(link.transport.start_send(link.group.address(to, self.tag), data)?);
        Ok(())
    }

    /// Starts a receive from a rank of the communicator.
    pub fn receive(&mut self, link: &Link<'_, T>, from: usize, dtype: Dtype, len: usize) -> Result<()> {
        let incoming = Incoming::start(link.transport, link.pool, link.group.address(from, self.tag), dtype, len)?;
        self.receives.push((from, incoming));
        Ok(())
    }

    /// Puts this rank's own part in, or any other that needs no message.
    pub fn put(&mut self, rank: usize, data: Data) {
        self.arrived[rank] = Some(data);
    }

    /// Takes a part out, if it is there.
    pub fn take(&mut self, rank: usize) -> Option<Data> {
        self.arrived[rank].take()
    }

    /// Looks at everything that runs; true when nothing does.
    pub fn advance(&mut self, link: &Link<'_, T>) -> Result<bool> {
        let transport = link.transport;
        let mut error = None;
        self.sends.retain_mut(|sending| match transport.poll_send(sending) {
            Ok(Some(buffer)) => {
                link.pool.give(buffer);
                false
            }
            Ok(None) => true,
            Err(e) => {
                error = Some(e);
                true
            }
        });
        let arrived = &mut self.arrived;
        self.receives.retain_mut(|(from, incoming)| match incoming.poll(transport) {
            Ok(Some(data)) => {
                arrived[*from] = Some(data);
                false
            }
            Ok(None) => true,
            Err(e) => {
                error = Some(e);
                true
            }
        });
        match error {
            Some(error) => Err(error),
            None => Ok(self.sends.is_empty() && self.receives.is_empty()),
        }
    }

    /// Adds the ranks of the world whose messages are missing.
    pub fn missing(&self, ranks: &mut Vec<usize>) {
        ranks.extend(self.receives.iter().map(|(_, incoming)| incoming.sender()));
    }

    /// All parts that are here, in rank order, as one payload of `len` elements.
    pub fn concatenate(&mut self, dtype: Dtype, len: usize) -> Data {
        let mut whole = Data::with_capacity(dtype, len);
        self.arrived.iter_mut().filter_map(Option::take).for_each(|part| whole.extend(&part));
        whole
    }
}
