//! A way between clients and a node that can be cut: connections on this machine, passed on byte by byte.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What a way does that is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silence {
    /// Connections end, and new ones end at once.
    Refusing,
    /// Connections stay and swallow everything; new ones are accepted and swallow as well.
    Swallowing,
}

/// The way to one node. It is closed when this is dropped.
#[derive(Debug)]
pub(super) struct Proxy {
    port: u16,
    target: Arc<AtomicU16>,
    silence: Arc<watch::Sender<Option<Silence>>>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Opens a way to a port of this machine.
    ///
    /// # Errors
    /// If no port can be had.
    pub(super) async fn start(target: u16) -> io::Result<Proxy> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let silence = Arc::new(watch::Sender::new(None));
        let state = Arc::clone(&silence);
        let target = Arc::new(AtomicU16::new(target));
        let leads_to = Arc::clone(&target);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let target = leads_to.load(Ordering::Relaxed);
                tokio::spawn(pass_on(client, target, state.subscribe()));
            }
        });
        Ok(Proxy {
            port,
            target,
            silence,
            accepting,
        })
    }

    /// Where clients connect.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Leads new connections to another port.
    pub(super) fn lead_to(&self, target: u16) {
        self.target.store(target, Ordering::Relaxed);
    }

    /// Cuts the way.
    pub(super) fn cut(&self, silence: Silence) {
        self.silence.send_replace(Some(silence));
    }

    /// Makes it whole again, for new connections.
    pub(super) fn join(&self) {
        self.silence.send_replace(None);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn pass_on(
    mut client: TcpStream,
    target: u16,
    mut silence: watch::Receiver<Option<Silence>>,
) {
    let is_cut = |silence: &Option<Silence>| silence.is_some();
    let passing = async {
        if let Ok(mut node) = TcpStream::connect(("127.0.0.1", target)).await {
            let _no_delay = (client.set_nodelay(true), node.set_nodelay(true));
            let _ended = tokio::io::copy_bidirectional(&mut client, &mut node).await;
        }
    };
    let kind = tokio::select! {
        biased;
        kind = silence.wait_for(is_cut) => kind.ok().and_then(|kind| *kind),
        () = passing => return,
    };
    if kind == Some(Silence::Swallowing) {
        // Nothing is read and nothing is answered until the way is whole again; then the connection ends.
        let _closed = silence.wait_for(Option::is_none).await;
    }
}
