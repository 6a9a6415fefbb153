//! The async runtime of one command: a single thread, the main one.
//!
//! Children are started from this thread, which matters: their bond is to the thread that
//! started them (see `launch`).

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use crate::exit_code::Failure;

/// Runs a command's future to its end.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start the async runtime: {error}")))?;
    runtime.block_on(future)
}

/// Carries all of them out at once.
pub(crate) async fn all_of<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    enum Branch<F, T> {
        Runs(Pin<Box<F>>),
        Ended(Option<T>),
    }
    let mut branches: Vec<_> = futures
        .map(|future| Branch::Runs(Box::pin(future)))
        .collect();
    poll_fn(|context| {
        let mut is_over = true;
        for branch in &mut branches {
            if let Branch::Runs(future) = branch {
                match future.as_mut().poll(context) {
                    Poll::Ready(value) => *branch = Branch::Ended(Some(value)),
                    Poll::Pending => is_over = false,
                }
            }
        }
        if is_over {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    let value = |branch| match branch {
        Branch::Ended(value) => value,
        Branch::Runs(_) => None,
    };
    branches.into_iter().filter_map(value).collect()
}
