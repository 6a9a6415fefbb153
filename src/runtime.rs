//! The async runtime of one command: a single thread, the main one.
//!
//! Children are started from this thread, which matters: their bond is to the thread that
//! started them (see `launch`).

use std::future::Future;

use crate::exit_code::Failure;

/// Runs a command's future to its end.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start the async runtime: {error}")))?;
    runtime.block_on(future)
}
