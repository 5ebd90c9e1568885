//! One message on its way: its buffer and its MPI requests.

use crate::call::{check, is_truncation};
use mpi::ffi::{self, MPI_Comm, MPI_Datatype, MPI_Request, MPI_Status};
use shardmark_comm::{Address, CommError, Data, Dtype, Result};
use std::mem::MaybeUninit;
use std::os::raw::{c_int, c_void};

/// A send or receive of a payload in parts of limited length. It owns the buffer until MPI is done with it.
pub struct Transfer {
    way: Way,
    /// Of a receive: no elements, but room for `len`, since there is no use in zeroing what will be overwritten.
    data: Data,
    len: usize,
    address: Address,
    /// The most elements of one part.
    part: usize,
    /// The parts that MPI still works on; handled in order.
    running: Vec<MPI_Request>,
    /// Elements of the parts that have arrived; unused by sends.
    arrived: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Send,
    Receive,
}

impl Transfer {
    /// Starts sending all of `data`.
    pub fn send(comm: MPI_Comm, to: Address, data: Data, part: usize) -> Result<Self> {
        let len = data.len();
        Self { way: Way::Send, data, len, address: to, part, running: Vec::new(), arrived: 0 }.start(comm)
    }

    /// Starts receiving up to `len` elements into a buffer that has room for them.
    pub fn receive(comm: MPI_Comm, from: Address, data: Data, len: usize, part: usize) -> Result<Self> {
        assert!(data.capacity() >= len, "a receive has room for its message");
        Self { way: Way::Receive, data, len, address: from, part, running: Vec::new(), arrived: 0 }.start(comm)
    }

    /// Starts all parts, at least one: an empty payload is an empty message.
    fn start(mut self, comm: MPI_Comm) -> Result<Self> {
        let (base, dtype) = (pointer(&mut self.data), self.data.dtype());
        let (peer, tag, kind) = (self.address.peer as c_int, self.address.tag as c_int, datatype(dtype));
        let mut first = 0;
        loop {
            let count = self.part.min(self.len - first);
            let mut request = MaybeUninit::uninit();
            let started = request.as_mut_ptr();
            // SAFETY: elements `first .. first + count` lie in the buffer, which neither moves nor is touched until the
            // request is complete (`poll`), or else is leaked (`drop`). `count` fits an int since `part` does.
            let code = unsafe {
                let at = base.add(first * dtype.size()).cast::<c_void>();
                match self.way {
                    Way::Send => ffi::MPI_Isend(at, count as c_int, kind, peer, tag, comm, started),
                    Way::Receive => ffi::MPI_Irecv(at, count as c_int, kind, peer, tag, comm, started),
                }
            };
            check(if self.way == Way::Send { "MPI_Isend" } else { "MPI_Irecv" }, code)?;
            // SAFETY: the call succeeded, so it has written the request.
            self.running.push(unsafe { request.assume_init() });
            first += count;
            if first >= self.len {
                return Ok(self);
            }
        }
    }

    /// The buffer, when all parts are through; of a receive, with the elements that came.
    pub fn poll(&mut self) -> Result<Option<Data>> {
        while let Some(request) = self.running.first_mut() {
            let mut done = 0;
            let mut status = MaybeUninit::<MPI_Status>::zeroed();
            // SAFETY: the request is one of ours and not complete.
            let code = unsafe { ffi::MPI_Test(request, &mut done, status.as_mut_ptr()) };
            if is_truncation(code) {
                return Err(self.wrong_length("more".into()));
            }
            check("MPI_Test", code)?;
            if done == 0 {
                return Ok(None);
            }
            self.running.remove(0);
            if self.way == Way::Receive {
                let mut count = 0;
                // SAFETY: the completed test has filled the status.
                let code = unsafe { ffi::MPI_Get_count(status.as_ptr(), datatype(self.data.dtype()), &mut count) };
                check("MPI_Get_count", code)?;
                self.arrived += count.max(0) as usize;
                // A part that is short ends the message; those after it would leave a gap in the buffer.
                if !self.running.is_empty() && !self.arrived.is_multiple_of(self.part) {
                    return Err(self.wrong_length(self.arrived.to_string()));
                }
            }
        }
        let mut data = std::mem::replace(&mut self.data, Data::empty(Dtype::U8));
        if self.way == Way::Receive {
            // SAFETY: all parts but the last are full, so what came lies at the start, written by MPI. There is room for
            // it, since MPI reports what does not fit as an error.
            unsafe { set_len(&mut data, self.arrived.min(self.len)) };
        }
        Ok(Some(data))
    }

    fn wrong_length(&self, got: String) -> CommError {
        CommError::Length { what: self.address.describe_recv(), expected: self.len, got }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if !self.running.is_empty() {
            // MPI may still read or write the buffer: it must stay where it is, for good.
            std::mem::forget(std::mem::replace(&mut self.data, Data::empty(Dtype::U8)));
        }
    }
}

/// The first `len` elements must have been written.
unsafe fn set_len(data: &mut Data, len: usize) {
    // SAFETY: by the caller.
    unsafe {
        match data {
            Data::F32(v) => v.set_len(len),
            Data::F64(v) => v.set_len(len),
            Data::U8(v) => v.set_len(len),
            Data::I32(v) => v.set_len(len),
        }
    }
}

fn pointer(data: &mut Data) -> *mut u8 {
    match data {
        Data::F32(v) => v.as_mut_ptr().cast(),
        Data::F64(v) => v.as_mut_ptr().cast(),
        Data::U8(v) => v.as_mut_ptr(),
        Data::I32(v) => v.as_mut_ptr().cast(),
    }
}

fn datatype(dtype: Dtype) -> MPI_Datatype {
    // SAFETY: constants of the library, set before any call.
    unsafe {
        match dtype {
            Dtype::F32 => ffi::RSMPI_FLOAT,
            Dtype::F64 => ffi::RSMPI_DOUBLE,
            Dtype::U8 => ffi::RSMPI_UINT8_T,
            Dtype::I32 => ffi::RSMPI_INT32_T,
        }
    }
}
