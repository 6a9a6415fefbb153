//! Numbers of 80 bits: the expected texts are those of Redis 7.0.15 on x86-64.

use proptest::prelude::*;

use super::*;

fn number(text: &str) -> ExtendedNumber {
    match ExtendedNumber::parse(text.as_bytes()) {
        Some(ParsedNumber::Finite(number)) => number,
        other => panic!("{text}: {other:?}"),
    }
}

fn sum(one: &str, two: &str) -> String {
    number(one).plus(number(two)).expect("it is finite").text()
}

#[test]
fn sums_are_rounded_to_64_bits_and_shown_with_17_digits() {
    for (one, two, expected) in [
        ("0.1", "0.2", "0.3"),
        ("10.5", "0.1", "10.6"),
        ("3.0e3", "200", "3200"),
        ("0", "123456789.123456789", "123456789.12345678899873747"),
        ("0", "36893488147419103233", "36893488147419103232"),
        ("0", "18446744073709551617", "18446744073709551616"),
        ("0", "18446744073709551619", "18446744073709551620"),
        ("18446744073709551615", "0", "18446744073709551615"),
        ("0", "0.333333333333333333333333333", "0.33333333333333333"),
        ("0", "1e-20", "0"),
        ("0", "-1e-20", "0"),
        ("-1.5", "1.5", "0"),
        ("-0.0", "-0.0", "0"),
        ("0x1p3", "0x.8", "8.5"),
        (".5", "5.", "5.5"),
        ("-1", "0.25", "-0.75"),
        ("0.25", "-1", "-0.75"),
        ("1e17", "1e-7", "100000000000000000"),
        // Half way between two numbers, but for a bit or a digit far below.
        (
            "0x1p127",
            "0x8000000000000001",
            "170141183460469231750134047789593657344",
        ),
        (
            "0x8000000000000002p64",
            "-0x8000000000000001",
            "170141183460469231750134047789593657344",
        ),
        (
            "0",
            "0x8000000000000000800000000000000001",
            "43556142965880123328034316234135976280064",
        ),
        (
            "0",
            "10889035741470030831418283248175288418305",
            "10889035741470030832008579058533994070016",
        ),
        (
            "0",
            "18446744073709551617.0000000000000000000000000001",
            "18446744073709551618",
        ),
    ] {
        assert_eq!(sum(one, two), expected, "{one} + {two}");
    }
}

#[test]
fn the_range_has_two_ends() {
    assert_eq!(number("1e4932").text().len(), 4933);
    for text in [
        "1e4933",
        "1e5000",
        "1e-5000",
        "1e-4960",
        "0x1p16384",
        "0x1p-16447",
        "1e999999999999",
    ] {
        assert_eq!(ExtendedNumber::parse(text.as_bytes()), None, "{text}");
    }
    for text in [
        "0x1p16383",
        "0x1p-16445",
        "1e-4950",
        "0e999999999999",
        "0x0p-99999999999",
    ] {
        assert!(ExtendedNumber::parse(text.as_bytes()).is_some(), "{text}");
    }
    let largest = number("1.1e4932");
    assert_eq!(largest.plus(largest), None);
    assert_eq!(
        number("0x1p-16445")
            .plus(number("-0x1p-16445"))
            .map(ExtendedNumber::text),
        Some("0".into())
    );
}

#[test]
fn small_numbers_are_small_doubles() {
    for (text, double) in [("1e-310", 1e-310), ("-0x1p-1074", -5e-324), ("1e-400", 0.0)] {
        assert_eq!(number(text).to_double(), double, "{text}");
    }
}

#[test]
fn zeros_in_front_count_for_nothing() {
    let zeros = "0".repeat(5100);
    assert_eq!(number(&format!("{zeros}1e4930")).text().len(), 4931);
    assert_eq!(number(&format!(".{zeros}1e5101")).text(), "1");
}

#[test]
fn other_texts_are_no_numbers() {
    for text in [
        "", ".", "-", "+", "e5", "1e", "1e+", "0x", "0x.", "0x1p", "1_0", "--1", "1 ", " 1", "nan",
        "-nan", "infinit", "1.2.3", "1f", "\u{0}", "1\u{0}",
    ] {
        assert_eq!(ExtendedNumber::parse(text.as_bytes()), None, "{text:?}");
    }
    assert_eq!(ExtendedNumber::parse(&[b'1'; TEXT_BYTES_MAX]), None);
    for text in ["inf", "-INF", "+infinity"] {
        assert_eq!(
            ExtendedNumber::parse(text.as_bytes()),
            Some(ParsedNumber::Infinite)
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whole numbers of 62 bits are exact, as are their sums.
    #[test]
    fn whole_numbers_are_exact(one in -(1_i64 << 61)..1_i64 << 61, two in -(1_i64 << 61)..1_i64 << 61) {
        prop_assert_eq!(sum(&one.to_string(), &two.to_string()), (one + two).to_string());
    }

    /// A double has 53 bits: read here and shown, it is read back as the same. Written with all its
    /// digits: the shortest text is another number, which would be rounded here and once more there.
    #[test]
    fn doubles_survive(value in -1e30..1e30_f64) {
        prop_assume!(value.abs() > 1e-1);
        let text = number(&format!("{value:.100e}")).text();
        prop_assert_eq!(text.parse::<f64>(), Ok(value));
    }

    /// Sums of decimal fractions are what they are on paper.
    #[test]
    fn decimal_fractions_add_up(one in 0..700_u64, two in 0..700_u64) {
        let text = |hundredths: u64| {
            let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        };
        prop_assert_eq!(sum(&text(one), &text(two)), text(one + two));
    }
}
