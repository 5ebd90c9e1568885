//! One rank that has only itself.

use crate::board::Board;
use crate::comm::Comm;
use crate::data::{Data, Dtype};
use crate::engine::Engine;
use crate::error::{CommError, Result};
use crate::threads::mailbox::{Mailbox, Ticket};
use crate::transport::{Address, Member, Transport};

/// A communicator of one rank. It talks to itself: a receive that no send was started for fails instead of waiting.
pub fn solo() -> impl Comm {
    Engine::world(Solo { mailbox: Mailbox::default() }, 0, 1, Board::new().join(0))
}

struct Solo {
    mailbox: Mailbox,
}

impl Transport for Solo {
    type Sending = Dtype;
    type Receiving = Ticket;
    const RECEIVES_INTO_BUFFERS: bool = false;

    fn name(&self) -> &'static str {
        "solo"
    }

    fn start_send(&self, to: Address, data: Data) -> Result<Dtype> {
        let dtype = data.dtype();
        self.mailbox.deliver((to.context, 0, to.tag), data);
        Ok(dtype)
    }

    fn start_recv(&self, from: Address, _: Data, _: usize) -> Result<Ticket> {
        Ok(self.mailbox.expect((from.context, 0, from.tag)))
    }

    fn poll_send(&self, sending: &mut Dtype) -> Result<Option<Data>> {
        Ok(Some(Data::empty(*sending)))
    }

    fn poll_recv(&self, ticket: &mut Ticket) -> Result<Option<Data>> {
        Ok(self.mailbox.take(ticket))
    }

    fn poke(&self) -> Result<()> {
        Ok(())
    }

    fn epoch(&self) -> u64 {
        self.mailbox.epoch()
    }

    fn park(&self, _: u64, _: u32) -> Result<()> {
        let message = "expected a send of this rank to itself before the wait, got none; start the send first";
        Err(CommError::Transport { what: "solo".into(), message: message.into() })
    }

    fn open(&self, _: u32, _: Option<Member>) -> Result<()> {
        Ok(())
    }

    fn close(&self, _: u32) {}
}
