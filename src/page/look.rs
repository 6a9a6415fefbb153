//! The look at the nodes that a page shows: one for all who watch, and none while nobody does.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::clock;
use crate::inspect::overview::OverviewSource;

/// Who wants a look, as JSON.
pub(super) type Wish = oneshot::Sender<String>;

/// Takes looks for those who wish for one, as long as somebody can. Wishes that come while one is taken get the same.
pub(super) async fn look_on(source: OverviewSource, mut wishes: mpsc::Receiver<Wish>) {
    let mut last: Option<(Duration, String)> = None;
    while let Some(wish) = wishes.recv().await {
        if wish.is_closed() {
            continue;
        }
        let is_fresh = |at: Duration| clock::now().saturating_sub(at) < FRESH;
        let text = match last.take().filter(|(at, _)| is_fresh(*at)) {
            Some(fresh) => last.insert(fresh),
            None => {
                let text = source.overview().await.to_string();
                last.insert((clock::now(), text))
            }
        };
        let _went_away = wish.send(text.1.clone());
    }
}

/// A look is as good as new for this time.
const FRESH: Duration = Duration::from_millis(800);
