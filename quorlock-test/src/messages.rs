//! Counts the messages of a stream of RESP, so that a cluster knows how many replies its nodes still owe.
//!
//! Invariant: however the bytes are cut into pieces, each complete top-level value counts once. A push of RESP3 answers no
//! request and does not count. Contents are not looked at.

/// Where in a stream the last piece has ended.
#[derive(Debug, Default)]
pub(crate) struct ValueCounter {
    /// The beginning of a line.
    line: Vec<u8>,
    /// Bytes left of a string that is being passed over.
    skipped: usize,
    /// How many elements each open aggregate still lacks, the innermost last.
    lacking: Vec<usize>,
    /// The outermost aggregate is a push.
    is_push: bool,
}

impl ValueCounter {
    /// How many messages end in this piece.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> usize {
        let mut ended = 0;
        while !bytes.is_empty() {
            if self.skipped > 0 {
                let skipped = self.skipped.min(bytes.len());
                self.skipped -= skipped;
                bytes = &bytes[skipped..];
                if self.skipped == 0 {
                    ended += self.end_value();
                }
                continue;
            }
            let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
                self.line.extend_from_slice(bytes);
                break;
            };
            self.line.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.line);
            ended += self.end_line(&line);
        }
        ended
    }

    fn end_line(&mut self, line: &[u8]) -> usize {
        let Some((kind, rest)) = line.split_first() else {
            return 0;
        };
        self.is_push |= *kind == b'>';
        let length = std::str::from_utf8(rest).ok();
        let length = length.and_then(|text| text.trim_end().parse::<usize>().ok());
        match (kind, length) {
            (b'$' | b'=' | b'!', Some(bytes)) => {
                self.skipped = bytes + 2;
                0
            }
            (b'*' | b'~' | b'>', Some(elements @ 1..)) => {
                self.lacking.push(elements);
                0
            }
            (b'%', Some(pairs @ 1..)) => {
                self.lacking.push(pairs * 2);
                0
            }
            // Also empty aggregates, and nothing, whose length is -1.
            _ => self.end_value(),
        }
    }

    fn end_value(&mut self) -> usize {
        while let Some(lacking) = self.lacking.last_mut() {
            *lacking -= 1;
            if *lacking > 0 {
                return 0;
            }
            self.lacking.pop();
        }
        usize::from(!std::mem::take(&mut self.is_push))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_counts_once_however_it_is_cut() {
        let values = "*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\n+OK\r\n$-1\r\n%1\r\n+a\r\n*2\r\n:1\r\n*0\r\n_\r\n$0\r\n\r\n-ERR\r\n";
        for piece in 1..values.len() {
            let mut messages = ValueCounter::default();
            let pieces = values.as_bytes().chunks(piece);
            let ended: usize = pieces.map(|piece| messages.take(piece)).sum();
            assert_eq!(ended, 7, "pieces of {piece}");
        }
    }

    /// A node that tells a client of a change owes it as much as before.
    #[test]
    fn pushes_do_not_count_as_replies() {
        let push = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n";
        let values = format!("{push}+OK\r\n{push}>0\r\n*1\r\n:1\r\n");
        for piece in 1..values.len() {
            let mut messages = ValueCounter::default();
            let pieces = values.as_bytes().chunks(piece);
            let ended: usize = pieces.map(|piece| messages.take(piece)).sum();
            assert_eq!(ended, 2, "pieces of {piece}");
        }
    }
}
