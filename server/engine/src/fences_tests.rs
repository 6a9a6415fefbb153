//! The rules of fences, one by one.

use super::*;

fn name(text: &str) -> FenceName {
    FenceName::new(0, text.as_bytes())
}

fn known(value: u64) -> Fences {
    Fences::new(Ceiling::Known(value))
}

#[test]
fn a_name_takes_only_what_is_above_all_that_it_took() {
    let mut fences = known(0);
    assert_eq!(fences.of(&name("a")), 0);
    assert!(fences.take(name("a"), b"first", 1).is_ok());
    assert_eq!(
        fences.take(name("a"), b"second", 1),
        Err(FenceRefusal::TooLow)
    );
    assert!(fences.take(name("a"), b"first", 1).is_ok(), "its own again");
    assert!(fences.take(name("a"), b"second", 7).is_ok());
    assert_eq!(
        fences.take(name("a"), b"first", 1),
        Err(FenceRefusal::TooLow),
        "it was its own, and is behind"
    );
    assert_eq!((fences.of(&name("a")), fences.of(&name("b"))), (7, 0));
    let other_database = FenceName::new(1, b"a");
    assert_eq!(fences.of(&other_database), 0);
}

#[test]
fn a_ceiling_goes_on_record_once_in_a_block() {
    let mut fences = known(0);
    let raised = fences.take(name("a"), b"t", 1).map(|taken| taken.ceiling);
    assert_eq!(raised, Ok(Some(Ceiling::Known(1 + BLOCK))));
    for fence in [2, 3, 1 + BLOCK] {
        let taken = fences.take(name("a"), b"t", fence);
        assert_eq!(taken, Ok(Taken { ceiling: None }));
    }
    let raised = fences.take(name("b"), b"t", 2 + BLOCK);
    let above = Ceiling::Known(2 + 2 * BLOCK);
    assert_eq!(raised.map(|taken| taken.ceiling), Ok(Some(above)));
    assert_eq!(fences.ceiling(), above);
}

#[test]
fn after_a_restart_all_names_go_on_above_the_ceiling() {
    let mut fences = known(500);
    assert_eq!(fences.of(&name("a")), 500);
    assert_eq!(
        fences.take(name("a"), b"t", 500),
        Err(FenceRefusal::TooLow),
        "it may have been taken before"
    );
    assert!(fences.take(name("a"), b"t", 501).is_ok());
}

#[test]
fn no_step_is_longer_than_anybody_counts() {
    let mut fences = known(3);
    let far = 3 + STEP_MAX + 1;
    assert_eq!(
        fences.take(name("a"), b"t", far),
        Err(FenceRefusal::TooHigh)
    );
    assert_eq!(fences.ceiling(), Ceiling::Known(3), "nothing has happened");
    assert!(fences.take(name("a"), b"t", far - 1).is_ok());
    let mut last = known(Ceiling::MAX - 1);
    let raised = last.take(name("a"), b"t", Ceiling::MAX);
    let end = Ceiling::Known(Ceiling::MAX);
    assert_eq!(raised.map(|taken| taken.ceiling), Ok(Some(end)));
}

#[test]
fn what_is_adopted_is_the_floor_and_the_ceiling_where_it_is_the_larger_one() {
    let mut fences = Fences::new(Ceiling::Uncertain(60));
    assert_eq!(fences.adopt(70), Ceiling::Known(70));
    assert_eq!(fences.of(&name("a")), 70);
    let mut fences = known(100);
    assert_eq!(fences.adopt(70), Ceiling::Known(100));
    assert_eq!(fences.of(&name("a")), 100);
    assert_eq!(fences.adopt(170), Ceiling::Known(170));
    assert_eq!(fences.of(&name("a")), 170);
}

/// Whoever floods a node with names gets no memory for it, and no fence is taken twice.
#[test]
fn names_that_are_forgotten_raise_the_floor() {
    let mut fences = known(0);
    let long = vec![b'n'; 1 << 20];
    assert!(fences.take(FenceName::new(0, &long), b"t", 9).is_ok());
    for number in 0..100_u8 {
        let text = [&[number], &*long].concat();
        let fence = 10 + u64::from(number);
        assert!(fences.take(FenceName::new(0, &text), b"t", fence).is_ok());
        assert!(fences.bytes <= BYTES_MAX, "{}", fences.bytes);
    }
    let first = FenceName::new(0, &long);
    assert!(fences.of(&first) >= 9, "at least what it took");
    assert!(fences.order.len() < 40, "{}", fences.order.len());
    assert_eq!(
        fences.take(first, b"t", 9),
        Err(FenceRefusal::TooLow),
        "its own, and forgotten"
    );
}
