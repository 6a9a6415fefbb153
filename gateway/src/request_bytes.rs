//! Requests out of a client's bytes: arrays of strings.
//!
//! Invariant: whatever comes takes bounded memory, and what is no request ends the connection.

use bytes::{Buf as _, Bytes, BytesMut};

/// A client's bytes, out of which requests are taken one after the other.
#[derive(Debug, Default)]
pub(crate) struct RequestBytes {
    buffer: BytesMut,
}

/// What is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl RequestBytes {
    /// Takes in what was written.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The words of the next request, if it is there.
    ///
    /// # Errors
    /// Where the bytes are no request, or a longer one than any client's.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<Bytes>>, Malformed> {
        let Some((count, mut at)) = number(&self.buffer, 0, b'*')? else {
            return Ok(None);
        };
        if count == 0 || count > WORDS_MAX {
            return Err(Malformed);
        }
        let mut ends = Vec::with_capacity(count);
        for _ in 0..count {
            let Some((length, begin)) = number(&self.buffer, at, b'$')? else {
                return Ok(None);
            };
            let end = begin + length;
            if end > REQUEST_BYTES_MAX {
                return Err(Malformed);
            }
            match self.buffer.get(end..end + 2) {
                None => return Ok(None),
                Some(b"\r\n") => {}
                Some(_) => return Err(Malformed),
            }
            ends.push((begin, end));
            at = end + 2;
        }
        let request = self.buffer.split_to(at).freeze();
        Ok(Some(
            ends.into_iter()
                .map(|(begin, end)| request.slice(begin..end))
                .collect(),
        ))
    }

    /// How many bytes wait.
    pub(crate) fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Forgets all that was written.
    pub(crate) fn clear(&mut self) {
        self.buffer.advance(self.buffer.len());
    }
}

/// The number of a header of this kind, and where what follows it begins.
fn number(bytes: &[u8], at: usize, kind: u8) -> Result<Option<(usize, usize)>, Malformed> {
    let header = bytes.get(at..).unwrap_or_default();
    let Some(end) = header
        .iter()
        .take(HEADER_BYTES_MAX)
        .position(|byte| *byte == b'\n')
    else {
        let may_come = header.len() < HEADER_BYTES_MAX;
        let is_one = header.first().is_none_or(|byte| *byte == kind);
        return if may_come && is_one {
            Ok(None)
        } else {
            Err(Malformed)
        };
    };
    let line = header[..end].strip_suffix(b"\r").ok_or(Malformed)?;
    let digits = line.strip_prefix(&[kind]).ok_or(Malformed)?;
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(digits).map_err(|_| Malformed)?;
    let number = text.parse().ok().filter(|_| is_number);
    let number = number.filter(|number| *number <= REQUEST_BYTES_MAX);
    Ok(Some((number.ok_or(Malformed)?, at + end + 1)))
}

/// A kind, eighteen digits, and the end of the line.
const HEADER_BYTES_MAX: usize = 21;
/// A request for several names has one word for each.
const WORDS_MAX: usize = 1024;
/// More than a client's longest name, token and owner text together.
const REQUEST_BYTES_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> Result<Option<Vec<Bytes>>, Malformed> {
        let mut requests = RequestBytes::default();
        requests.append(bytes);
        requests.next()
    }

    #[test]
    fn a_request_is_taken_once_its_last_byte_is_there() {
        let bytes = b"*2\r\n$3\r\nGET\r\n$4\r\na\r\n\0\r\n*1\r\n$4\r\nPING\r\n";
        let first = 23;
        let mut requests = RequestBytes::default();
        for (count, byte) in bytes.iter().enumerate() {
            requests.append(&[*byte]);
            let words = requests.next().expect("it is a request");
            let words: Option<Vec<Vec<u8>>> =
                words.map(|words| words.iter().map(|word| word.to_vec()).collect());
            let expected = match count + 1 {
                taken if taken == first => Some(vec![b"GET".to_vec(), b"a\r\n\0".to_vec()]),
                taken if taken == bytes.len() => Some(vec![b"PING".to_vec()]),
                _ => None,
            };
            assert_eq!(words, expected, "after {count} bytes");
        }
    }

    #[test]
    fn what_is_no_request_is_refused_before_it_takes_memory() {
        for bytes in [
            &b"PING\r\n"[..],
            b"*0\r\n",
            b"*-1\r\n",
            b"*+1\r\n",
            b"*\r\n",
            b"*1\n$4\r\nPING\r\n",
            b"*1025\r\n",
            b"*99999999999999999999999",
            b"*1\r\n$4194305\r\n",
            b"*1\r\n$-1\r\n",
            b"*1\r\n:4\r\n",
            b"*1\r\n$4\r\nPINGxx",
            b"$4\r\nPING\r\n",
        ] {
            let shown = String::from_utf8_lossy(bytes);
            assert_eq!(read(bytes), Err(Malformed), "{shown}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut requests = RequestBytes::default();
            requests.append(&bytes);
            while let Ok(Some(words)) = requests.next() {
                prop_assert!(!words.is_empty());
            }
        }

        #[test]
        fn what_is_almost_a_request_is_no_panic(text in "[*$]{1}[0-9]{0,5}(\r\n|\n|)[*$]{0,1}[0-9]{0,3}(\r\n){0,1}[a-c]{0,5}") {
            let _is_either = read(text.as_bytes());
        }
    }
}
