//! What nodes may say where their members change, and what is done or refused then.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use super::*;
use crate::inspection::node_reply::NodeReply;

/// What a node says: `5`, `5 6 n5`, `5!` where locks may last, nothing, or `-` where it is away.
fn facts(text: &&str) -> Result<NodeFacts, &'static str> {
    let mut words = text.trim_end_matches('!').split(' ');
    let (size, next) = (words.next().unwrap(), words.next().unwrap_or("0"));
    let about = words.next().unwrap_or_default();
    let wait = if text.ends_with('!') { 7 } else { 0 };
    let info = format!(
        "run_id:a\r\nquorlock_cluster_size:{size}\r\nquorlock_cluster_size_next:{next}\r\nquorlock_cluster_size_wait_ms:{wait}\r\nquorlock_cluster_size_about:{about}\r\n"
    );
    match *text {
        "-" => Err("refused"),
        _ => Ok(NodeFacts::read(&NodeReply::Text(info.into_bytes())).unwrap()),
    }
}

fn on<T>(
    said: &[&str],
    judge: impl FnOnce(&[Asked<'_>]) -> Result<T, MembersRefusal>,
) -> Result<T, String> {
    let facts: Vec<_> = said.iter().map(facts).collect();
    let labels = ["n0", "n1", "n2", "n3", "n4"].iter();
    let nodes = labels
        .zip(&facts)
        .map(|(label, facts)| (*label, facts.as_ref().map_err(|why| *why)));
    judge(&nodes.collect::<Vec<_>>())
        .map_err(|refusal| format!("{}; {}", refusal.what, refusal.remedy))
}

/// What it came to, and the size or a part of the refusal that it should be.
type Checked<'a> = (Result<String, String>, Result<&'a str, &'a str>);

fn check(outcomes: &[Checked<'_>]) {
    for (number, (outcome, expected)) in outcomes.iter().enumerate() {
        match (outcome, expected) {
            (Ok(size), Ok(expected)) => assert_eq!(size, expected, "{number}"),
            (Err(why), Err(part)) => assert!(why.contains(part), "{number}: {why}"),
            _ => panic!("{number}: {outcome:?} and not {expected:?}"),
        }
    }
}

#[test]
fn a_node_is_added_that_goes_by_the_list_with_it_where_all_others_go_by_the_one_without() {
    // The last one is the node that joins.
    let add = |said: &[&str]| {
        on(said, |nodes| {
            let (joining, listed) = nodes.split_last().unwrap();
            size_to_add(listed, joining).map(|step| step.size)
        })
    };
    check(&[
        (add(&["3", "3", "3", "4"]), Ok("3 4 n3")),
        (add(&["3 4 n3", "3", "3 4 n3", "4"]), Ok("3 4 n3")),
        (
            add(&["3 4 n9", "3", "3 4 n9", "4"]),
            Err("is in a change about n9"),
        ),
        (
            add(&["3 4", "3", "3 4", "4"]),
            Err("about a node that was not named"),
        ),
        (
            add(&["3", "3", "3", "3"]),
            Err("goes by 3, and the list with it has 4"),
        ),
        (
            add(&["3", "3", "3", "4 3"]),
            Err("goes by 4 and 3, and the list"),
        ),
        (add(&["3", "3", "3", "255"]), Err("goes by removed")),
        (add(&["3", "-", "3", "4"]), Err("cannot be asked")),
        (add(&["3", "3", "3", "-"]), Err("cannot be asked")),
        (add(&["3", "0", "3", "4"]), Err("no number")),
        (add(&["3", "2 3 n1", "3", "4"]), Err("goes by 2 and 3")),
        (add(&["3", "3 2 n0", "3", "4"]), Err("goes by 3 and 2")),
        (add(&["3", "3!", "3", "4"]), Err("may last 7 ms more")),
        (add(&["3 4 n3!", "3 4 n3", "3 4 n3", "4!"]), Ok("3 4 n3")),
    ]);
}

#[test]
fn a_node_is_removed_that_hears_nothing_of_the_list_without_it_and_may_be_away() {
    let remove = |said: &[&str], leaving| {
        on(said, |nodes| {
            size_to_remove(nodes, leaving).map(|step| format!("{} on {:?}", step.size, step.nodes))
        })
    };
    check(&[
        (remove(&["3", "3", "3"], 1), Ok("3 2 n1 on [0, 2]")),
        (remove(&["3", "-", "3"], 1), Ok("3 2 n1 on [0, 2]")),
        (remove(&["3 2 n1", "3", "3"], 1), Ok("3 2 n1 on [0, 2]")),
        // Given up while it was ended.
        (remove(&["3", "255", "3"], 1), Ok("3 2 n1 on [0, 2]")),
        (remove(&["2", "255", "3"], 1), Ok("3 2 n1 on [2]")),
        (remove(&["2", "255", "2"], 1), Err("go by 2 already")),
        (remove(&["2", "3", "3"], 1), Err("does not say that it is")),
        (remove(&["2", "-", "3"], 1), Err("does not say that it is")),
        (remove(&["2", "3", "255"], 0), Err("n2 goes by removed")),
        // No third node would know of the other removal.
        (
            remove(&["2", "2"], 1),
            Err("of two nodes the one that goes is stopped"),
        ),
        (remove(&["2", "-"], 1), Ok("2 1 n1 on [0]")),
        // Another one, which is away, beside the one that has begun.
        (
            remove(&["3", "-", "3 2 n0"], 1),
            Err("is in a change about n0"),
        ),
        (
            remove(&["3 2 n1", "3 2 n1", "3"], 1),
            Err("is to go, and goes by other numbers"),
        ),
        (remove(&["3", "3", "-"], 1), Err("n2 cannot be asked")),
        (
            remove(&["3", "-", "-"], 1),
            Err("one may be removed, once the other one is replaced"),
        ),
        (remove(&["3", "3", "3!"], 1), Err("may last 7 ms more")),
        (remove(&["3", "3!", "3"], 1), Err("may last 7 ms more")),
        (remove(&["3", "3", "3 4 n9"], 1), Err("goes by 3 and 4")),
        (remove(&["1"], 0), Err("the only node")),
    ]);
}

#[test]
fn a_change_ends_with_the_new_list_again_and_again() {
    let end_of = |said: &[&str], removed| {
        on(said, |nodes| {
            size_to_end(nodes, removed).map(|step| step.size)
        })
    };
    let end = |said: &[&str]| end_of(said, None);
    check(&[
        (end(&["3 4 n3", "3 4 n3", "3 4 n3", "4"]), Ok("4")),
        (end(&["3 4 n3", "3 4 n3", "3 4 n3", "-"]), Ok("4")),
        (end(&["4", "3 4 n3", "4", "4"]), Ok("4")),
        (end(&["4", "4", "4", "4"]), Ok("4")),
        (end(&["4 3 n9", "4 3 n9", "4 3 n9"]), Ok("3")),
        (end(&["4 3", "4 3", "4 3"]), Ok("3")),
        (end_of(&["4 3 n9", "4 3 n9", "4 3 n9"], Some("n9")), Ok("3")),
        (
            end_of(&["4 3 n9", "4 3 n9", "4 3 n9"], Some("n8")),
            Err("the change is about n9"),
        ),
        (
            end(&["3", "4", "4"]),
            Err("members add or remove again with the list of before"),
        ),
        // With another node than the one that was added, and with the one that was removed.
        (
            end(&["3 4 n9", "3 4 n9", "3 4 n9", "4"]),
            Err("n9 is added, and is not listed"),
        ),
        (
            end(&["4", "4 3 n0", "4 3 n0"]),
            Err("n0 is removed, and is listed"),
        ),
        (
            end(&["3 4 n3", "3 4 n2", "3 4 n3", "4"]),
            Err("is in a change about n2"),
        ),
        (
            end(&["3 4 n3", "3 4 n3", "3 4 n3"]),
            Err("from 3 to 4 nodes, and 3 are listed"),
        ),
        (
            end(&["3 4 n3", "3", "3 4 n3", "4"]),
            Err("goes by 3, and 4 nodes are expected"),
        ),
        (
            end(&["4", "3", "4", "4"]),
            Err("goes by 3, and 4 nodes are expected"),
        ),
        (end(&["3 4 n3", "-", "3 4 n3", "4"]), Err("cannot be asked")),
        (
            end(&["3 4 n3", "-", "-", "4"]),
            Err("n1 and n2 cannot be asked: refused; refused"),
        ),
        (
            end(&["3 4 n3", "-", "-", "4"]),
            Err("--cluster-size 4). A change is under way, so that none of them can be removed"),
        ),
        (
            end(&["3", "-", "3"]),
            Err("--cluster-size 3), or remove it: quorlock members remove n1"),
        ),
        (
            end(&["3", "-", "-"]),
            Err("one may be removed, once the other one is replaced"),
        ),
    ]);
}

#[test]
fn a_removal_is_given_up_with_the_old_list_and_so_are_two_changes_that_have_begun_at_once() {
    let give_up = |said: &[&str]| on(said, |nodes| size_to_give_up(nodes).map(|left| left.size));
    check(&[
        (give_up(&["4 3 n3", "4 3 n3", "4 3 n3", "4"]), Ok("4")),
        (give_up(&["4", "4", "4", "4"]), Ok("4")),
        (
            give_up(&["3 4 n9", "3 4 n9", "3 4 n9"]),
            Err("the node that is added; end the change: quorlock members end"),
        ),
        // What is left of two, or one that has begun.
        (
            give_up(&["3", "3 4 n9", "3 4 n9"]),
            Err("quorlock members add n9. Then end it"),
        ),
        (
            give_up(&["3", "3 4 n9", "3 4 n9"]),
            Err("on n1 and n2: redis-cli CONFIG SET cluster-size 3, and CONFIG REWRITE"),
        ),
        // One that has ended on a node.
        (
            give_up(&["4", "3 4 n9", "3 4 n9"]),
            Err("the node that is added; end the change: quorlock members end"),
        ),
        // Two that have begun at once: no client was given the list of either.
        (give_up(&["3 4 n9", "3 4 n8", "3"]), Ok("3")),
        (give_up(&["3 4", "3 4 n9", "3 4 n8"]), Ok("3")),
        (give_up(&["3 4 n9", "3 4 n8", "3 4"]), Ok("3")),
        (give_up(&["3", "3 4 n9", "3 2 n0"]), Ok("3")),
        (give_up(&["3 2 n1", "3 2 n0", "3"]), Ok("3")),
        (give_up(&["3 4 n9", "3 4 n8", "-"]), Err("cannot be asked")),
        (
            give_up(&["3 4 n9", "3 4", "3"]),
            Err("the node that is added"),
        ),
        (give_up(&["3 4 n9", "4 5 n8", "3"]), Err("goes by 4 and 5")),
        (
            give_up(&["4 3 n9", "4 3 n9", "4 3 n9"]),
            Err("goes by 4 and 3"),
        ),
        (
            give_up(&["4", "4", "4", "255"]),
            Err("quorlock members remove n3, and then quorlock members end"),
        ),
    ]);
    let left_over = |said: &[&str]| {
        on(said, |nodes| {
            size_to_give_up(nodes).map(|left| left.left_over)
        })
    };
    for (said, nodes) in [
        (["3 4 n9", "3 4 n8", "3 4 n9"], vec!["n9", "n8"]),
        (["3", "3 4 n9", "3 2 n0"], vec!["n9"]),
        (["3 2 n1", "3 2 n0", "3"], vec![]),
    ] {
        assert_eq!(left_over(&said).unwrap(), nodes, "{said:?}");
    }
}

#[test]
fn nodes_that_are_in_no_change_are_asked_for_none_and_a_change_that_has_begun_since_is_not_ended() {
    let give_up = |said: &[&str]| on(said, size_to_give_up).unwrap();
    let first = give_up(&["3 2 n1", "3", "3"]);
    assert_eq!((&*first.nodes, &*first.unchanged), (&[0][..], &[1, 2][..]));
    let ended = on(&["4", "3 4 n3", "4", "-"], |nodes| size_to_end(nodes, None)).unwrap();
    assert_eq!((&*ended.nodes, &*ended.unchanged), (&[1][..], &[0, 2][..]));
    for quiet in [
        give_up(&["3", "3", "3"]),
        on(&["3"; 3], |nodes| size_to_end(nodes, None)).unwrap(),
    ] {
        assert!(quiet.nodes.is_empty(), "{quiet:?}");
        assert_eq!(
            quiet.follows(&first),
            Ok(()),
            "another command has given it up"
        );
        let why = first.follows(&quiet).unwrap_err();
        assert!(why.what.contains("a change about n1 has begun"), "{why:?}");
    }
    assert_eq!(give_up(&["3 2 n1", "3 2 n1", "3"]).follows(&first), Ok(()));
    assert!(give_up(&["3 2 n0", "3", "3"]).follows(&first).is_err());
}

#[test]
fn nodes_take_over_the_largest_ceiling_unless_one_has_forgotten_its_own() {
    let of = |ceilings: &[(u64, bool)]| {
        let named = ceilings
            .iter()
            .map(|(ceiling, certain)| ("node", *ceiling, *certain));
        floor(&named.collect::<Vec<_>>())
    };
    assert_eq!(of(&[(0, true), (0, true)]), Ok(None));
    assert_eq!(
        of(&[(0, false), (0, true)]),
        Ok(None),
        "no fence was ever given"
    );
    assert_eq!(of(&[(0, true), (70, true), (3, true)]), Ok(Some(70)));
    assert!(of(&[(70, true), (0, false)]).is_err());
}
