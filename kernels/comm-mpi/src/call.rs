//! MPI's return codes as errors.

use mpi::ffi;
use shardmark_comm::{CommError, Result};
use std::os::raw::c_int;

/// The error of a call that did not succeed.
pub fn check(what: &'static str, code: c_int) -> Result<()> {
    if code == ffi::MPI_SUCCESS as c_int {
        return Ok(());
    }
    Err(CommError::Transport { what: what.into(), message: text(code) })
}

/// Whether a code says that a message was longer than its receive.
pub fn is_truncation(code: c_int) -> bool {
    if code == ffi::MPI_SUCCESS as c_int {
        return false;
    }
    let mut class = code;
    // SAFETY: writes one int.
    unsafe { ffi::MPI_Error_class(code, &mut class) };
    class == ffi::MPI_ERR_TRUNCATE as c_int
}

/// The library's words for a code.
fn text(code: c_int) -> String {
    let mut buffer = vec![0u8; ffi::MPI_MAX_ERROR_STRING as usize + 1];
    let mut length = 0;
    // SAFETY: the buffer has the room that the standard asks for.
    unsafe { ffi::MPI_Error_string(code, buffer.as_mut_ptr().cast(), &mut length) };
    buffer.truncate(length.max(0) as usize);
    format!("error {code}: {}", String::from_utf8_lossy(&buffer))
}
