//! Until when a certificate is valid, read from its bytes, and what an operator is told of it.
//!
//! It finds one field and checks nothing else: whether a certificate is good is decided by who connects. Bytes that are no
//! certificate have no end.

/// When a certificate ends, in seconds since 1970. `None` where its bytes do not say so.
pub(super) fn end_of(certificate: &[u8]) -> Option<i64> {
    let mut outer = Der(certificate).value(SEQUENCE)?;
    let mut fields = outer.value(SEQUENCE)?;
    if fields.tag() == Some(VERSION) {
        fields.value(VERSION)?;
    }
    fields.value(INTEGER)?;
    // The algorithm of the signature, and who has signed it.
    fields.value(SEQUENCE)?;
    fields.value(SEQUENCE)?;
    let mut validity = fields.value(SEQUENCE)?;
    let (_, _begin) = validity.next()?;
    match validity.next()? {
        (UTC_TIME, digits) => {
            let two = number(digits.0.get(..2)?)?;
            let century = if two < 50 { 2000 } else { 1900 };
            seconds(century + two, digits.0.get(2..)?)
        }
        (GENERALIZED_TIME, digits) => seconds(number(digits.0.get(..4)?)?, digits.0.get(4..)?),
        _ => None,
    }
}

/// What there is to say at this time of a certificate that ends at that one; nothing while it is good for long enough.
pub(super) fn remark(end: i64, now: i64) -> Option<String> {
    let left = end.saturating_sub(now);
    let days = match left.unsigned_abs() / 86_400 {
        0 => "less than a day".to_owned(),
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    };
    let remedy = "put a new one in its place and send SIGHUP; clients stay connected";
    match left {
        ..=0 => Some(format!(
            "the certificate ended {days} ago, and clients that check it refuse this node: {remedy}"
        )),
        _ if left <= NOTICE_SECONDS => Some(format!(
            "the certificate ends in {days}, and clients that check it refuse this node from then on: {remedy}"
        )),
        _ => None,
    }
}

/// Values of the distinguished encoding, one after the other.
#[derive(Clone, Copy)]
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    fn tag(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// The next value, which has this tag.
    fn value(&mut self, tag: u8) -> Option<Der<'a>> {
        let (found, value) = self.next()?;
        (found == tag).then_some(value)
    }

    fn next(&mut self) -> Option<(u8, Der<'a>)> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // How many bytes the length has. A certificate is shorter than 2^24 bytes.
            0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                let length = bytes
                    .iter()
                    .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
                (length, rest)
            }
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, Der(value)))
    }
}

/// The seconds of a year and the digits MMDDHHMMSSZ.
fn seconds(year: i64, digits: &[u8]) -> Option<i64> {
    let [pairs @ .., b'Z'] = digits else {
        return None;
    };
    let parts: Option<Vec<i64>> = pairs.chunks(2).map(number).collect();
    let [month, day, hour, minute, second] = parts?[..] else {
        return None;
    };
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || pairs.len() != 10 {
        return None;
    }
    // Years that begin in March have their odd day at the end.
    let (year, month) = match month {
        1 | 2 => (year - 1, month + 9),
        _ => (year, month - 3),
    };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    Some((days - DAYS_TO_1970) * 86_400 + hour * 3_600 + minute * 60 + second)
}

fn number(digits: &[u8]) -> Option<i64> {
    let digit = |digit: &u8| digit.is_ascii_digit().then(|| i64::from(digit - b'0'));
    let mut digits = digits.iter().map(digit);
    digits.try_fold(0, |number, digit| Some(number * 10 + digit?))
}

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// From the first of March of the year 0.
const DAYS_TO_1970: i64 = 719_468;
/// From so long before the end on it is said at each start and each time the files are read: 14 days.
const NOTICE_SECONDS: i64 = 14 * 86_400;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    use super::*;

    const NODE: &str = include_str!("../../../testkit/certificates/node.pem");
    const EXPIRED: &str = include_str!("../../../testkit/certificates/expired-node.pem");

    fn der(text: &str) -> Vec<u8> {
        let read = CertificateDer::from_pem_slice(text.as_bytes());
        read.unwrap().to_vec()
    }

    #[test]
    fn the_end_is_that_of_the_certificate_in_both_notations() {
        assert_eq!(end_of(&der(EXPIRED)), Some(1_609_459_200));
        assert_eq!(end_of(&der(NODE)), Some(4_733_510_400));
        assert_eq!(seconds(2024, b"0229235959Z"), Some(1_709_251_199));
        assert_eq!(seconds(1970, b"0101000000Z"), Some(0));
    }

    #[test]
    fn bytes_that_are_cut_off_or_changed_have_no_end_or_another_one() {
        let whole = der(NODE);
        for length in 0..whole.len() {
            assert_eq!(end_of(&whole[..length]), None, "{length}");
            for byte in [0, 0x30, 0x7f, 0x80, 0x84, 0xff] {
                let mut changed = whole.clone();
                changed[length] = byte;
                let _any = end_of(&changed);
            }
        }
        for digits in [
            &b"0229235959"[..],
            b"1329235959Z",
            b"02292359Z",
            b"022923595\xffZ",
        ] {
            assert_eq!(seconds(2024, digits), None);
        }
    }

    #[test]
    fn an_operator_is_told_from_fourteen_days_before_the_end_on() {
        let day = 86_400;
        assert_eq!(remark(100 * day, 86 * day - 1), None);
        let soon = remark(100 * day, 86 * day).unwrap();
        assert!(soon.contains("ends in 14 days"), "{soon}");
        let last = remark(100 * day, 100 * day - 1).unwrap();
        assert!(last.contains("ends in less than a day"), "{last}");
        let over = remark(100 * day, 101 * day).unwrap();
        assert!(over.contains("ended 1 day ago"), "{over}");
    }
}
