//! What the log says of handshakes that failed: at most one line a minute and kind, whatever clients do.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorlock_engine::RawTime;
use quorlock_node::core::clients::Address;
use rustls::{AlertDescription, Error, InvalidMessage, PeerIncompatible};

use crate::clock::Clock;

/// The lines of a node.
pub(super) struct Failures {
    clock: Arc<dyn Clock>,
    kinds: Mutex<[Written; KINDS]>,
}

/// When the last line of a kind was written, and how many were left out since.
#[derive(Clone, Copy, Default)]
struct Written {
    at: Option<RawTime>,
    left_out: u64,
}

/// Why a handshake failed, as far as an operator does something else about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    NotTls,
    NothingInCommon,
    NoCertificate,
    BadCertificate,
    RefusedByClient,
    Other,
}

const KINDS: usize = 6;

impl Failures {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let kinds = Mutex::default();
        Self { clock, kinds }
    }

    /// Says why a client is closed, unless this was said of another one within the minute.
    pub(super) fn note(&self, client: &Address, error: &Error) {
        let kind = Kind::of(error);
        let mut kinds = self.kinds.lock().expect("none of its holders can panic");
        if let Some(left_out) = kinds[kind as usize].admit(self.clock.raw()) {
            let advice = kind.advice();
            let more = match left_out {
                0 => String::new(),
                count => format!("; {count} more of this kind since the last line"),
            };
            tracing::warn!("TLS: closed client addr={client}: {error}{advice}{more}");
        }
    }
}

impl Written {
    /// How many lines were left out before this one, if it is to be written.
    fn admit(&mut self, now: RawTime) -> Option<u64> {
        let is_recent = |at: RawTime| now.saturating_since(at) < LINE_EVERY;
        if self.at.is_some_and(is_recent) {
            self.left_out += 1;
            return None;
        }
        self.at = Some(now);
        Some(std::mem::take(&mut self.left_out))
    }
}

impl Kind {
    fn of(error: &Error) -> Self {
        match error {
            Error::InvalidMessage(InvalidMessage::InvalidContentType) => Self::NotTls,
            Error::PeerIncompatible(
                PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon,
            ) => Self::Other,
            Error::PeerIncompatible(_) => Self::NothingInCommon,
            Error::NoCertificatesPresented => Self::NoCertificate,
            Error::InvalidCertificate(_) => Self::BadCertificate,
            Error::AlertReceived(alert) if *alert != AlertDescription::CloseNotify => {
                Self::RefusedByClient
            }
            _ => Self::Other,
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Self::NotTls => ": what it sent is no TLS. Plain clients use the directive port",
            Self::NothingInCommon => ": see tls-protocols",
            Self::NoCertificate => {
                ": it showed no certificate. Give it one of an authority in tls-ca-cert-file, or set tls-auth-clients optional"
            }
            Self::BadCertificate => {
                ": its certificate is not accepted; tls-ca-cert-file names the authorities that are"
            }
            Self::RefusedByClient => {
                ": the client does not accept this node's certificate, or what it was asked for"
            }
            Self::Other => "",
        }
    }
}

const LINE_EVERY: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_one_line_a_minute_which_counts_those_left_out() {
        let mut written = Written::default();
        let at = |seconds: u64| RawTime::from_nanos(seconds * 1_000_000_000);
        assert_eq!(written.admit(at(1)), Some(0));
        assert_eq!(written.admit(at(60)), None);
        assert_eq!(written.admit(at(60)), None);
        assert_eq!(written.admit(at(61)), Some(2));
        assert_eq!(written.admit(at(200)), Some(0));
    }

    #[test]
    fn what_an_operator_does_something_else_about_is_another_kind() {
        let plain = Error::InvalidMessage(InvalidMessage::InvalidContentType);
        assert_eq!(Kind::of(&plain), Kind::NotTls);
        assert_eq!(
            Kind::of(&Error::NoCertificatesPresented),
            Kind::NoCertificate
        );
        let refused = Error::AlertReceived(AlertDescription::UnknownCA);
        assert_eq!(Kind::of(&refused), Kind::RefusedByClient);
    }
}
