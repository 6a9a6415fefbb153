//! What a program has handed over to be called, of which nothing can be shown.

use std::fmt;

#[derive(Clone)]
pub(crate) struct Opaque<T>(pub(crate) T);

impl<T> fmt::Debug for Opaque<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("..")
    }
}
