//! Replies that are the same for everybody and long: made once for each protocol, and not copied after that.

use std::sync::{Arc, OnceLock};

use quorlock_engine::{Protocol, Reply};

use crate::protocol::{Output, reply};

/// One of them.
pub(crate) struct MadeOnce {
    make: fn() -> Reply,
    resp2: OnceLock<Arc<[u8]>>,
    resp3: OnceLock<Arc<[u8]>>,
}

impl MadeOnce {
    /// A reply that is made when it is asked for.
    pub(crate) const fn new(make: fn() -> Reply) -> Self {
        Self {
            make,
            resp2: OnceLock::new(),
            resp3: OnceLock::new(),
        }
    }

    /// Its form on the wire.
    pub(crate) fn rendered(&self, protocol: Protocol) -> &Arc<[u8]> {
        let rendered = match protocol {
            Protocol::Resp2 => &self.resp2,
            Protocol::Resp3 => &self.resp3,
        };
        rendered.get_or_init(|| {
            let mut output = Output::default();
            reply::write(&mut output, &(self.make)(), protocol);
            output.runs().flatten().copied().collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static TWO: MadeOnce = MadeOnce::new(|| Reply::Map(vec![(Reply::bulk("a"), Reply::Nil)]));

    #[test]
    fn each_protocol_has_a_form_that_is_made_once() {
        let two = |protocol| Arc::clone(TWO.rendered(protocol));
        assert_eq!(&*two(Protocol::Resp2), b"*2\r\n$1\r\na\r\n$-1\r\n");
        assert_eq!(&*two(Protocol::Resp3), b"%1\r\n$1\r\na\r\n_\r\n");
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            assert!(Arc::ptr_eq(&two(protocol), &two(protocol)));
        }
    }
}
