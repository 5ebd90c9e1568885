//! One message on its way: its buffer and its MPI requests.

use crate::call::{check, is_truncation};
use mpi::ffi::{self, MPI_Comm, MPI_Datatype, MPI_Request, MPI_Status};
use shardmark_comm::{Address, CommError, Data, Dtype, Result};
use std::mem::MaybeUninit;
use std::os::raw::{c_int, c_void};

/// A send or receive of a payload in parts of limited length. It owns the buffer until MPI is done with it.
pub struct Transfer {
    data: Data,
    address: Address,
    /// The parts that MPI still works on; handled in order.
    running: Vec<MPI_Request>,
    /// Elements of the parts that have arrived; unused by sends.
    arrived: usize,
}

/// Which way a transfer goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Send,
    Receive,
}

impl Transfer {
    /// Starts all parts, at least one: an empty payload is an empty message.
    pub fn start(way: Way, comm: MPI_Comm, address: Address, data: Data, part: usize) -> Result<Self> {
        let (len, dtype) = (data.len(), data.dtype());
        let mut transfer = Self { data, address, running: Vec::new(), arrived: 0 };
        let base = pointer(&mut transfer.data);
        let (peer, tag, kind) = (address.peer as c_int, address.tag as c_int, datatype(dtype));
        let mut first = 0;
        loop {
            let count = part.min(len - first);
            let mut request = MaybeUninit::uninit();
            let started = request.as_mut_ptr();
            // SAFETY: elements `first .. first + count` lie in the buffer, which neither moves nor is touched until the
            // request is complete (`poll`), or else is leaked (`drop`). `count` fits an int since `part` does.
            let code = unsafe {
                let at = base.add(first * dtype.size());
                match way {
                    Way::Send => ffi::MPI_Isend(at, count as c_int, kind, peer, tag, comm, started),
                    Way::Receive => ffi::MPI_Irecv(at, count as c_int, kind, peer, tag, comm, started),
                }
            };
            check(if way == Way::Send { "MPI_Isend" } else { "MPI_Irecv" }, code)?;
            // SAFETY: the call succeeded, so it has written the request.
            transfer.running.push(unsafe { request.assume_init() });
            first += count;
            if first >= len {
                return Ok(transfer);
            }
        }
    }

    /// The buffer, when all parts are through; for a receive, as long as what came.
    pub fn poll(&mut self, way: Way) -> Result<Option<Data>> {
        while let Some(request) = self.running.first_mut() {
            let mut done = 0;
            let mut status = MaybeUninit::<MPI_Status>::zeroed();
            // SAFETY: the request is one of ours and not complete.
            let code = unsafe { ffi::MPI_Test(request, &mut done, status.as_mut_ptr()) };
            if code != ffi::MPI_SUCCESS as c_int {
                return Err(self.failed(code));
            }
            if done == 0 {
                return Ok(None);
            }
            if way == Way::Receive {
                let mut count = 0;
                // SAFETY: the completed test has filled the status.
                let code = unsafe { ffi::MPI_Get_count(status.as_ptr(), datatype(self.data.dtype()), &mut count) };
                check("MPI_Get_count", code)?;
                self.arrived += count.max(0) as usize;
            }
            self.running.remove(0);
        }
        let mut data = std::mem::replace(&mut self.data, Data::empty(Dtype::U8));
        if way == Way::Receive {
            data.truncate(self.arrived);
        }
        Ok(Some(data))
    }

    fn failed(&self, code: c_int) -> CommError {
        let expected = self.data.len();
        if is_truncation(code) {
            return CommError::Length { what: self.address.describe_recv(), expected, got: "more".into() };
        }
        check("MPI_Test", code).err().unwrap_or(CommError::Request { got: 0 })
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

fn pointer(data: &mut Data) -> *mut c_void {
    match data {
        Data::F32(v) => v.as_mut_ptr().cast(),
        Data::F64(v) => v.as_mut_ptr().cast(),
        Data::U8(v) => v.as_mut_ptr().cast(),
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
