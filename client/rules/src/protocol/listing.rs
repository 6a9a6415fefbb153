//! Listing the locks of a node, and publishing: what is asked, and what the replies mean.
//!
//! Lists come as one string, which is as long as the locks of a page need: every field of it has its length before it.

use std::time::Duration;

use bytes::Bytes;
use redis_protocol::resp2::types::OwnedFrame;

use super::meaning::{number, refusal};
use crate::answer::{KeptLock, NodePage};
use crate::outcome::Cause;
use crate::token::{TOKEN_BYTES_MAX, Token};
use crate::votes::Identity;

/// The names of some strings, behind the cursor with which to go on. Every server understands it.
const PAGE_SCRIPT: &[u8] =
    b"local r = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3], 'TYPE', 'string') \
local t = {#r[1] .. ':' .. r[1]} for _, k in ipairs(r[2]) do \
if #k <= tonumber(ARGV[4]) then t[#t + 1] = #k .. ':' .. k end end return table.concat(t)";

/// Under which token each of these is held, and how long in milliseconds; two empty fields where it is not.
const COMPARE_SCRIPT: &[u8] = b"local t = {} for _, k in ipairs(KEYS) do \
local v, p = redis.pcall('GET', k), redis.call('PTTL', k) \
if type(v) == 'string' and #v > 0 and #v <= tonumber(ARGV[1]) and p > 0 then p = string.format('%.0f', p) \
t[#t + 1] = #v .. ':' .. v .. #p .. ':' .. p else t[#t + 1] = '0:0:' end end return table.concat(t)";

/// Which of these keys there are, in the same form: a token and a time that say nothing, or two empty fields. What is held by
/// readers, or has no end, is not free.
const EXISTING_SCRIPT: &[u8] = b"local t = {} for i, k in ipairs(KEYS) do \
t[i] = redis.call('EXISTS', k) == 1 and '1:-1:1' or '0:0:' end return table.concat(t)";

/// The words that ask for a page from this cursor on.
pub(crate) fn page_words(cursor: u64, pattern: &Bytes) -> Vec<Bytes> {
    vec![
        Bytes::from_static(b"EVAL"),
        Bytes::from_static(PAGE_SCRIPT),
        Bytes::from_static(b"0"),
        Bytes::from(cursor.to_string()),
        pattern.clone(),
        Bytes::from(KEYS_PER_PAGE.to_string()),
        Bytes::from(NAME_BYTES_MAX.to_string()),
    ]
}

/// The words that ask for the tokens of these.
pub(crate) fn compare_words(names: &[Bytes]) -> Vec<Bytes> {
    let first = [
        Bytes::from_static(b"EVAL"),
        Bytes::from_static(COMPARE_SCRIPT),
        Bytes::from(names.len().to_string()),
    ];
    let last = Bytes::from(TOKEN_BYTES_MAX.to_string());
    first
        .into_iter()
        .chain(names.iter().cloned())
        .chain([last])
        .collect()
}

/// The words that ask which of these there are.
pub(crate) fn existing_words(names: impl ExactSizeIterator<Item = Bytes>) -> Vec<Bytes> {
    let first = [
        Bytes::from_static(b"EVAL"),
        Bytes::from_static(EXISTING_SCRIPT),
        Bytes::from(names.len().to_string()),
    ];
    first.into_iter().chain(names).collect()
}

pub(crate) fn page(reply: &OwnedFrame) -> Result<NodePage, Cause> {
    let names = || {
        let mut names = fields(reply)?;
        let cursor = std::str::from_utf8(names.first()?).ok()?.parse().ok()?;
        names.remove(0);
        Some(NodePage { cursor, names })
    };
    names().ok_or_else(|| refusal(reply))
}

pub(crate) fn compared(
    reply: &OwnedFrame,
    by: &Identity,
) -> Result<(Identity, Vec<KeptLock>), Cause> {
    let held = |pair: &[Bytes]| {
        let left = std::str::from_utf8(&pair[1]).ok()?.parse().ok()?;
        Some((
            Token::from_bytes(pair[0].clone()),
            Duration::from_millis(left),
        ))
    };
    let fields = fields(reply).filter(|fields| fields.len() % 2 == 0);
    let fields = fields.ok_or_else(|| refusal(reply))?;
    Ok((by.clone(), fields.chunks_exact(2).map(held).collect()))
}

/// What a reply to PUBLISH means.
pub(crate) fn published(reply: &OwnedFrame, by: &Identity) -> Result<(Identity, u64), Cause> {
    let count = number(reply).ok_or_else(|| refusal(reply))?;
    Ok((by.clone(), count))
}

/// The fields of a list; none where it is cut.
fn fields(reply: &OwnedFrame) -> Option<Vec<Bytes>> {
    let OwnedFrame::BulkString(text) = reply else {
        return None;
    };
    let (mut rest, mut fields) = (Bytes::copy_from_slice(text), Vec::new());
    while !rest.is_empty() {
        let colon = rest.iter().position(|byte| *byte == b':')?;
        let digits = rest.split_to(colon);
        let length: usize = std::str::from_utf8(&digits).ok()?.parse().ok()?;
        let _colon = rest.split_to(1);
        if length > rest.len() {
            return None;
        }
        fields.push(rest.split_to(length));
    }
    Some(fields)
}

/// With names of some kilobytes a page has less than what is kept of a string.
const KEYS_PER_PAGE: usize = 50;
/// Longer names are left out.
const NAME_BYTES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
    use std::sync::Arc;

    use super::*;

    fn bulk(text: &str) -> OwnedFrame {
        OwnedFrame::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn a_page_is_a_cursor_and_names_and_one_that_is_cut_is_none() {
        let whole = "2:171:a3:b:c";
        let told = page(&bulk(whole)).unwrap();
        assert_eq!(
            (told.cursor, told.names),
            (17, vec!["a".into(), "b:c".into()])
        );
        assert_eq!(page(&bulk("1:0")).unwrap().names, [""; 0]);
        for odd in ["", "2:171:a3:b:", "x", "1:x", "3:1", "-1:0"] {
            assert!(page(&bulk(odd)).is_err(), "{odd:?}");
        }
        assert!(page(&OwnedFrame::Integer(1)).is_err());
    }

    #[test]
    fn which_keys_there_are_is_told_in_the_form_of_a_comparison() {
        let names = ["a", "b"].map(Bytes::from);
        assert_eq!(existing_words(names.into_iter())[2..], ["2", "a", "b"]);
        let by = Identity::new(Arc::from("n"), 0);
        let (_, told) = compared(&bulk("1:-1:10:0:"), &by).unwrap();
        assert!(told.len() == 2 && told[0].is_some() && told[1].is_none());
    }

    #[test]
    fn tokens_are_told_with_the_time_that_is_left() {
        let by = Identity::new(Arc::from("n"), 0);
        let (_, held) = compared(&bulk("1:t5:298870:0:"), &by).unwrap();
        let first = (Token::from("t"), Duration::from_millis(29_887));
        assert_eq!(held, [Some(first), None]);
        assert!(compared(&bulk("1:t"), &by).is_err());
        assert_eq!(published(&OwnedFrame::Integer(3), &by).unwrap().1, 3);
        assert!(published(&OwnedFrame::Null, &by).is_err());
    }
}
