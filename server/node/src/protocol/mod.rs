//! The protocol edge: bytes to arguments, replies to bytes. It knows neither commands nor sockets.

mod error;
#[cfg(any(test, fuzzing))]
pub mod for_tests;
mod limits;
mod output;
mod oversized;
pub mod reply;
#[cfg(test)]
mod reply_tests;
mod request;
#[cfg(test)]
mod request_tests;

pub use error::ProtocolError;
pub use limits::Limits;
pub use output::{Charge, Output};
pub use oversized::Oversized;
pub use request::{Arguments, Request, RequestParser};
