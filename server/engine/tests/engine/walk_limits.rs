//! Commands whose work could grow without end are refused before it does: LCS, SORT and BITOP.

use crate::harness::Node;
use quorlock_engine::Reply;

fn execute(node: &mut Node, arguments: &[&[u8]]) -> String {
    crate::harness::render(&node.execute(arguments))
}

#[test]
fn the_lengths_of_two_strings_multiplied_are_bounded() {
    let mut node = Node::default();
    // Each with one more, 4096 * 4096 are as many cells as there may be.
    let long = vec![b'x'; 4095];
    execute(&mut node, &[b"SET", b"one", &long]);
    assert_eq!(node.run("LCS one one LEN"), "4095");
    assert_eq!(
        node.run("LCS one one IDX"),
        "[\"matches\", [[[0, 4094], [0, 4094]]], \"len\", 4095]"
    );
    node.run("SET two y");
    node.run("APPEND two x");
    assert_eq!(node.run("LCS two one"), "\"x\"");
    node.run("APPEND one x");
    assert_eq!(node.run("LCS two one"), "\"x\"");
    let refused = "-ERR the lengths of the two strings multiplied are more than 16777216";
    assert!(node.run("LCS one one").starts_with(refused));
    execute(&mut node, &[b"SET", b"long", &vec![b'x'; 4 << 20]]);
    assert_eq!(node.run("LCS two long LEN"), "1");
    assert!(node.run("LCS long long LEN").starts_with(refused));
    assert_eq!(node.run("LCS long none LEN"), "0");
}

#[test]
fn a_sort_looks_at_so_many_elements_and_bytes_and_changes_nothing_beyond() {
    let mut node = Node::default();
    let names: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    let mut push: Vec<&[u8]> = vec![b"RPUSH", b"l"];
    push.extend(names.iter().map(|name| name.as_bytes()));
    execute(&mut node, &push);
    node.run("SET to before");
    let with_gets = |command: &'static [&'static [u8]], gets: usize| {
        let mut arguments = command.to_vec();
        (0..gets).for_each(|_| arguments.extend([&b"GET"[..], b"none:*"]));
        arguments
    };
    // 1000 elements, and as many keys for each GET.
    let reply = node.execute(&with_gets(&[b"SORT", b"l"], 523));
    assert!(matches!(reply, Reply::Array(replies) if replies.len() == 523_000));
    let refused = "-ERR this command looks at more than 524288 elements and keys";
    let reply = execute(&mut node, &with_gets(&[b"SORT", b"l"], 524));
    assert!(reply.starts_with(refused), "{reply}");
    let reply = execute(
        &mut node,
        &with_gets(&[b"SORT", b"l", b"STORE", b"to"], 524),
    );
    assert!(reply.starts_with(refused), "{reply}");
    // The name of a key is made for each element.
    let pattern = [vec![b'x'; 40_000], vec![b'*']].concat();
    let refused =
        "-ERR the elements and keys that this command looks at take more than 33554432 bytes";
    for arguments in [
        &[&b"SORT"[..], b"l", b"BY", &pattern][..],
        &[b"SORT_RO", b"l", b"GET", &pattern],
        &[b"SORT", b"l", b"GET", &pattern, b"STORE", b"to"],
    ] {
        let reply = execute(&mut node, arguments);
        assert!(reply.starts_with(refused), "{reply}");
    }
    assert_eq!(node.run("GET to"), "\"before\"");
    // Of what is in order already only the wanted part is looked at.
    assert_eq!(
        node.run("SORT l BY nosort LIMIT 998 5"),
        "[\"998\", \"999\"]"
    );
}

#[test]
fn a_reply_of_a_sort_is_charged_before_it_is_made() {
    let mut node = Node::with(quorlock_engine::EngineOptions {
        reply_bytes_max: 1000,
        ..quorlock_engine::EngineOptions::default()
    });
    node.run("RPUSH l 1 2 3");
    node.run(&format!("SET k {}", "v".repeat(400)));
    assert!(node.run("SORT l GET # GET #").starts_with('['));
    node.run("MSET k1 1 k2 2 k3 3");
    node.run(&format!("SET k2 {}", "v".repeat(900)));
    assert!(node.run("SORT l GET k*").starts_with("-ERR"), "too large");
    assert!(node.run("BITFIELD k GET u8 0").starts_with('['));
    let many = " GET u8 0".repeat(100);
    assert!(node.run(&format!("BITFIELD k{many}")).starts_with("-ERR"));
    assert!(
        node.run(&format!("BITFIELD k SET u8 0 1{many}"))
            .starts_with("-ERR")
    );
    assert_eq!(
        node.run("BITFIELD k GET u8 0"),
        "[118]",
        "nothing was written"
    );
}

#[test]
fn the_strings_of_a_bitop_are_bounded_together() {
    let mut node = Node::default();
    execute(&mut node, &[b"SET", b"long", &vec![1; 4 << 20]]);
    let mut arguments: Vec<&[u8]> = vec![b"BITOP", b"OR", b"to"];
    arguments.extend([&b"long"[..]; 16]);
    assert_eq!(execute(&mut node, &arguments), "4194304");
    arguments.push(b"long");
    let reply = execute(&mut node, &arguments);
    assert!(
        reply.contains("take more than 67108864 bytes together"),
        "{reply}"
    );
}

#[test]
fn no_bit_is_set_beyond_the_longest_string() {
    let mut node = Node::default();
    assert_eq!(node.run("SETBIT k 33554431 1"), "0");
    assert_eq!(node.run("STRLEN k"), "4194304");
    let refused = "-ERR value is larger than 4194304 bytes";
    assert_eq!(node.run("SETBIT k 33554432 1"), refused);
    assert_eq!(node.run("SETBIT none 4294967295 1"), refused);
    assert_eq!(node.run("BITFIELD k SET u8 33554432 1"), refused);
    assert_eq!(
        node.run("BITFIELD none GET u8 0 INCRBY i64 33554424 1"),
        refused
    );
    assert_eq!(node.run("EXISTS none"), "0");
    assert_eq!(
        node.run("BITFIELD k GET u8 33554424 GET u8 33554432"),
        "[1, 0]"
    );
}
