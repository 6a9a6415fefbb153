//! Random bytes of the system, which wait for the machine to have some. Nothing else is a source of them here.

use std::io;

use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};

/// Fills `bytes`.
pub(crate) fn fill(bytes: &mut [u8]) -> io::Result<()> {
    for part in bytes.chunks_mut(WHOLE_BYTES_MAX) {
        if retry_on_intr(|| getrandom(&mut *part, GetRandomFlags::empty()))? < part.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

/// A random number.
pub(crate) fn number() -> io::Result<u64> {
    let mut bytes = [0; 8];
    fill(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// As many bytes the kernel gives at once, whatever signals come.
const WHOLE_BYTES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_filled() {
        let (mut first, mut second) = ([0; 1_000], [0; 1_000]);
        fill(&mut first).unwrap();
        fill(&mut second).unwrap();
        for bytes in [first, second] {
            assert!(bytes.chunks(50).all(|part| part.iter().any(|it| *it != 0)));
        }
        assert_ne!(first, second);
        assert_ne!(number().unwrap(), number().unwrap());
    }
}
