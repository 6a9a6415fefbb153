//! Finds the master of a name by its Sentinels, and notices when they name another one.
//!
//! Invariant: what most of those that answer say is believed, so that one which is wrong or late decides nothing. They are asked
//! again for each connection, and as long as it lasts: a master that was replaced may serve for many seconds more, and what
//! it grants then is lost.

use std::future::{Future, poll_fn};
use std::io;
use std::task::Poll;
use std::time::Duration;

use quorlock_client_rules::MasterQuestion;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{sleep, timeout};

use super::stream::{Stream, Until};
use super::tcp::{self, Addresses};
use super::tls::Tls;

/// A master's host and port.
type Named = (String, u16);

/// Connects to the master of this name within this time, of which the last handshake is no part.
pub(super) async fn connect(
    sentinels: Vec<(String, u16)>,
    master: String,
    tls: Option<Tls>,
    deadline: Duration,
) -> io::Result<Stream> {
    let mut sentinels = Sentinels {
        each: sentinels.into_iter().map(Sentinel::new).collect(),
        master,
        tls: tls.clone(),
        patience: deadline / 2,
    };
    let (named, _) = sentinels.named(false).await?;
    let (host, port) = &named;
    let known = Addresses::default();
    let connecting = tcp::connect(host, *port, tls, &known, deadline / 2);
    let stream = connecting.await.map_err(|error| {
        let text = format!("the Sentinels name {host}:{port}: {error}");
        io::Error::new(error.kind(), text)
    })?;
    let until = Until(Box::pin(sentinels.moved_from(named)));
    Ok(Stream::Master(Box::new(stream), until))
}

struct Sentinels {
    each: Vec<Sentinel>,
    master: String,
    tls: Option<Tls>,
    patience: Duration,
}

/// One of them, with the connection on which it was asked before.
struct Sentinel {
    host: String,
    port: u16,
    stream: Option<Stream>,
}

impl Sentinels {
    /// Whom most of those that answer name; of several, whom the first in the list names. Says how many do. Unless `all` have to
    /// answer, waits for no others once a majority of all agrees.
    async fn named(&mut self, all: bool) -> io::Result<(Named, usize)> {
        let majority = self.majority();
        let (master, tls, patience) = (&self.master, self.tls.as_ref(), self.patience);
        let mut asking: Vec<_> = self
            .each
            .iter_mut()
            .map(|sentinel| Box::pin(sentinel.answer(master, tls, patience)))
            .collect();
        let mut answers: Vec<Option<io::Result<Named>>> = asking.iter().map(|_| None).collect();
        let most = poll_fn(|context| {
            for (asking, answer) in asking.iter_mut().zip(&mut answers) {
                if answer.is_none()
                    && let Poll::Ready(told) = asking.as_mut().poll(context)
                {
                    *answer = Some(told);
                }
            }
            let most = most_named(answers.iter().flatten().flatten());
            let is_decided = most.as_ref().is_some_and(|(_, count)| *count >= majority);
            match is_decided && !all || answers.iter().all(Option::is_some) {
                true => Poll::Ready(most),
                false => Poll::Pending,
            }
        });
        match most.await {
            Some(most) => Ok(most),
            None => Err(nobody(master, answers.into_iter().flatten())),
        }
    }

    fn majority(&self) -> usize {
        self.each.len() / 2 + 1
    }

    /// Waits until a majority of all names another one: fewer may be wrong while the others are late.
    async fn moved_from(mut self, before: Named) -> io::Error {
        loop {
            sleep(ASK_EVERY).await;
            // A question that is given up costs a connection.
            if let Ok((named, count)) = self.named(true).await
                && named != before
                && count >= self.majority()
            {
                let (host, port) = named;
                return io::Error::new(
                    io::ErrorKind::ConnectionAborted,
                    format!("a failover: the Sentinels name {host}:{port} now"),
                );
            }
        }
    }
}

impl Sentinel {
    fn new((host, port): (String, u16)) -> Self {
        Self {
            host,
            port,
            stream: None,
        }
    }

    async fn answer(
        &mut self,
        master: &str,
        tls: Option<&Tls>,
        patience: Duration,
    ) -> io::Result<Named> {
        let silent = || io::Error::new(io::ErrorKind::TimedOut, "no answer in time");
        let asked = timeout(patience, self.ask(master, tls, patience)).await;
        asked.unwrap_or_else(|_| Err(silent())).map_err(|error| {
            let text = format!("{}:{}: {error}", self.host, self.port);
            io::Error::new(error.kind(), text)
        })
    }

    /// Asks on the connection of before, where it still stands: a Sentinel that is asked for long gets no new one each time.
    async fn ask(
        &mut self,
        master: &str,
        tls: Option<&Tls>,
        patience: Duration,
    ) -> io::Result<Named> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let known = Addresses::default();
                tcp::connect(&self.host, self.port, tls.cloned(), &known, patience).await?
            }
        };
        let mut request = Vec::new();
        let mut question = MasterQuestion::ask(master, &mut request);
        stream.write_all(&request).await?;
        stream.flush().await?;
        let mut bytes = [0; READ_BYTES];
        loop {
            let count = stream.read(&mut bytes).await?;
            if count == 0 {
                let text = "it has hung up instead of an answer";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
            }
            let answer = question.receive(&bytes[..count]);
            if let Some(named) = answer.map_err(io::Error::other)? {
                self.stream = Some(stream);
                return Ok(named);
            }
        }
    }
}

/// Whom most of these name, and how many do.
fn most_named<'a>(answers: impl Iterator<Item = &'a Named>) -> Option<(Named, usize)> {
    let mut counts: Vec<(&Named, usize)> = Vec::new();
    for named in answers {
        match counts.iter_mut().find(|(other, _)| *other == named) {
            Some((_, count)) => *count += 1,
            None => counts.push((named, 1)),
        }
    }
    // The last of the largest is the first of the list.
    let most = counts.into_iter().rev().max_by_key(|(_, count)| *count);
    most.map(|(named, count)| (named.clone(), count))
}

/// Why nobody is named. What asking again does not mend is told as such where it holds for all.
fn nobody(master: &str, answers: impl Iterator<Item = io::Result<Named>>) -> io::Error {
    let errors: Vec<io::Error> = answers.filter_map(Result::err).collect();
    let is_odd = |error: &io::Error| error.kind() == io::ErrorKind::InvalidData;
    let kind = match errors.iter().all(is_odd) {
        true => io::ErrorKind::InvalidData,
        false => io::ErrorKind::NotFound,
    };
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let errors = errors.join("; ");
    io::Error::new(
        kind,
        format!("no Sentinel names a master '{master}': {errors}"),
    )
}

/// A failover takes longer, and what the master of before grants in between is lost.
const ASK_EVERY: Duration = Duration::from_secs(1);
const READ_BYTES: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_most_sentinels_say_is_believed_and_of_as_many_the_first() {
        let named = |port| ("db".to_owned(), port);
        let most = |ports: &[u16]| {
            let answers: Vec<Named> = ports.iter().copied().map(named).collect();
            most_named(answers.iter()).map(|((_, port), count)| (port, count))
        };
        assert_eq!(most(&[]), None);
        assert_eq!(most(&[1, 2, 2]), Some((2, 2)));
        assert_eq!(most(&[1, 2]), Some((1, 1)));
        assert_eq!(most(&[3, 1, 2, 1]), Some((1, 2)));
    }
}
