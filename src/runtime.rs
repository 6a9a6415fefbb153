//! The async runtime of one command: a single thread, the main one.
//!
//! Children are started from this thread, which matters: their bond is to the thread that
//! started them (see `launch`).

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::sleep;

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
    let values = most_of(futures, usize::MAX, Duration::ZERO).await;
    values.into_iter().flatten().collect()
}

/// The same; once so many have ended, the others are given up that have not ended after this time.
pub(crate) async fn most_of<T>(
    futures: impl Iterator<Item = impl Future<Output = T>>,
    enough: usize,
    grace: Duration,
) -> Vec<Option<T>> {
    enum Branch<F, T> {
        Runs(Pin<Box<F>>),
        Ended(Option<T>),
    }
    let mut branches: Vec<_> = futures
        .map(|future| Branch::Runs(Box::pin(future)))
        .collect();
    let mut late = None;
    poll_fn(|context| {
        let mut running = 0;
        for branch in &mut branches {
            if let Branch::Runs(future) = branch {
                match future.as_mut().poll(context) {
                    Poll::Ready(value) => *branch = Branch::Ended(Some(value)),
                    Poll::Pending => running += 1,
                }
            }
        }
        if running > 0 && branches.len() - running < enough {
            return Poll::Pending;
        }
        if running == 0 {
            return Poll::Ready(());
        }
        let late = late.get_or_insert_with(|| Box::pin(sleep(grace)));
        late.as_mut().poll(context)
    })
    .await;
    let value = |branch| match branch {
        Branch::Ended(value) => value,
        Branch::Runs(_) => None,
    };
    branches.into_iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_hangs_is_waited_for_as_long_as_too_few_have_ended_and_no_longer() {
        let after = |ms: u64| async move {
            match ms {
                0 => pending().await,
                ms => sleep(Duration::from_millis(ms)).await,
            }
            ms
        };
        let begun = Instant::now();
        let grace = Duration::from_millis(100);
        let ended = most_of([10, 0, 500, 600, 0].into_iter().map(after), 3, grace).await;
        assert_eq!(ended, [Some(10), None, Some(500), Some(600), None]);
        assert_eq!(begun.elapsed().as_millis(), 700);
        let begun = Instant::now();
        assert_eq!(all_of([7, 900].into_iter().map(after)).await, [7, 900]);
        assert_eq!(begun.elapsed().as_millis(), 900);
    }
}
