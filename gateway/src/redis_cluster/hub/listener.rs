//! The connection on which servers tell of releases. Each server of a cluster tells of all.
//!
//! Invariant: who waits asks again whenever releases may have been missed: where the connection has ended, where its server does not answer
//! in time, and where its server is no master of the cluster any more.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use quorlock_client_rules::inspection::node_reply::NodeReply;
use quorlock_client_rules::inspection::question::request;
use tokio::time::{Instant, sleep, timeout};

use super::super::link::{Link, Unanswered};
use super::super::slots::Server;
use super::{Hub, said};

/// A connection, and whom it leads to.
pub(super) type Listener = (Server, Link);

impl Hub {
    /// Has servers tell from now on, or no more, what is published on this channel.
    pub(in crate::redis_cluster) async fn listen(
        &self,
        command: &[u8],
        channel: &[u8],
    ) -> Result<(), String> {
        let words = [command, channel];
        let mut heard = self.hear(&self.listener().await?, &words).await;
        if heard.is_err() {
            // Another server may tell.
            heard = self.hear(&self.listener().await?, &words).await;
        }
        match heard? {
            NodeReply::Error(words) => Err(words),
            _ => Ok(()),
        }
    }

    /// Whether releases may have been missed since this was last asked.
    pub(in crate::redis_cluster) fn take_lost_listener(&self) -> bool {
        if let Ok(mut listener) = self.listener.try_lock()
            && listener.as_ref().is_some_and(|(_, link)| !link.is_open())
        {
            *listener = None;
            self.has_lost_listener.set(true);
        }
        self.has_lost_listener.take()
    }

    /// Notices what no request shows: that nothing is told any more, and that servers have come and gone.
    pub(in crate::redis_cluster) async fn upkeep(&self) {
        let mut looked = Instant::now();
        loop {
            sleep(PING_EVERY).await;
            if looked.elapsed() >= LOOK_EVERY {
                let _stays = self.refresh(None).await;
                looked = Instant::now();
            }
            let listener = self.listener.lock().await.clone();
            match listener {
                Some((server, link)) if !self.masters().contains(&server) => {
                    self.give_up(&link).await;
                }
                Some((_, link)) => drop(self.hear(&link, &[b"PING"]).await),
                None => {}
            }
        }
    }

    async fn listener(&self) -> Result<Link, String> {
        let mut listener = self.listener.lock().await;
        if let Some((_, link)) = &*listener {
            if link.is_open() {
                return Ok(link.clone());
            }
            self.has_lost_listener.set(true);
            *listener = None;
        }
        let opening = timeout(self.patience, self.open_listener());
        let (server, link) = opening.await.map_err(|_| said("no answer in time"))??;
        *listener = Some((server, link.clone()));
        Ok(link)
    }

    /// A connection to the master that answers first. The next one is tried a little later, so one that hangs keeps nobody waiting for long.
    async fn open_listener(&self) -> Result<Listener, String> {
        let mut masters = self.masters();
        masters.sort_by_key(|server| self.is_silent(server));
        let mut opening: Vec<_> = masters
            .into_iter()
            .zip(0u32..)
            .map(|(server, before)| {
                Box::pin(async move {
                    if before > 0 {
                        sleep(self.patience / PATIENCE_PARTS * before).await;
                    }
                    match self.open_at(&server).await {
                        Ok(link) => Ok((server, link)),
                        Err(words) => Err(said(format_args!("{server}: {words}"))),
                    }
                })
            })
            .collect();
        let mut reason = said("no master is known");
        let first = poll_fn(|context| {
            let mut first = None;
            opening.retain_mut(|opening| match opening.as_mut().poll(context) {
                Poll::Pending => true,
                Poll::Ready(Ok(listener)) => {
                    first.get_or_insert(listener);
                    false
                }
                Poll::Ready(Err(words)) => {
                    reason = words;
                    false
                }
            });
            match first.is_some() || opening.is_empty() {
                true => Poll::Ready(first),
                false => Poll::Pending,
            }
        })
        .await;
        first.ok_or(reason)
    }

    /// A connection to this server, which answers on it.
    async fn open_at(&self, server: &Server) -> Result<Link, String> {
        let (link, driver) = self.open(server).await?;
        self.drive(driver);
        self.log_in(&link).await?;
        let pong = link.ask(request(&[b"PING"]), 1).await;
        pong.map_err(Unanswered::words)?;
        Ok(link)
    }

    /// What is answered to this. Where that is nothing in time, the connection is given up.
    async fn hear(&self, link: &Link, words: &[&[u8]]) -> Result<NodeReply, String> {
        match timeout(self.patience, link.ask(request(words), 1)).await {
            Ok(Ok(mut replies)) => Ok(replies.pop().expect("each request has a reply")),
            Ok(Err(unanswered)) => Err(said(unanswered.words())),
            Err(_) => {
                self.give_up(link).await;
                Err(said("no answer in time"))
            }
        }
    }

    async fn give_up(&self, link: &Link) {
        let mut listener = self.listener.lock().await;
        if listener.as_ref().is_some_and(|(_, own)| own.is(link)) {
            *listener = None;
            self.has_lost_listener.set(true);
        }
    }
}

/// As clients ask nodes that send messages.
const PING_EVERY: Duration = Duration::from_secs(2);
/// Sooner than all servers of a cluster are replaced, so that a view of it always has some of those of before.
const LOOK_EVERY: Duration = Duration::from_secs(15);
/// After so much of the patience the next master is tried.
const PATIENCE_PARTS: u32 = 5;
