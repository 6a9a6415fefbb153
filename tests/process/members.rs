//! `quorlock members`: a node more in the list of all clients, while they take locks.

use std::fs;

use quorlock_testkit::{NodeProcess, Process, ReservedPort};

use crate::shell::{Ended, Shell};

/// Nodes whose locks last so shortly that a change of members can begin soon after their start.
fn node(shell: &Shell, number: usize, size: &str) -> NodeProcess {
    let directives = ["--cluster-size", size, "--restart-delay-max", "600"];
    NodeProcess::start(shell.path(), &format!("node-{number}"), &directives)
}

fn list(nodes: &[NodeProcess]) -> String {
    let urls: Vec<String> = nodes.iter().map(NodeProcess::url).collect();
    urls.join(",")
}

fn members(shell: &Shell, words: &[&str], nodes: &str) -> Ended {
    shell.quorlock(&[&["members"], words, &["--nodes", nodes]].concat())
}

/// Begins a change, again and again as long as locks may last.
fn begin(shell: &Shell, words: &[&str], nodes: &str) -> Ended {
    loop {
        let ended = members(shell, words, nodes);
        if !ended.stderr.contains("may last") {
            return ended;
        }
    }
}

/// Has one node begin a change, as a command leaves it that has reached this node alone.
fn begin_on(node: &NodeProcess, size: &str) {
    let ask = || node.ask(&["CONFIG", "SET", "cluster-size", size]).unwrap();
    let mut reply = ask();
    while reply.contains("may last") {
        reply = ask();
    }
    assert!(!reply.starts_with('-'), "{reply}");
}

/// Whether a client with this list gets a lock.
fn takes(shell: &Shell, nodes: &str) -> bool {
    let words = ["run", "job", "--wait", "1s", "--nodes", nodes, "--", "true"];
    shell.quorlock(&words).code == Some(0)
}

/// The fence of a lock that a client with this list takes.
fn fence(shell: &Shell, name: &str, nodes: &str) -> u64 {
    let words = [
        "run",
        name,
        "--fence",
        "--ttl",
        "500ms",
        "--wait",
        "10s",
        "--nodes",
        nodes,
        "--",
        "sh",
        "-c",
        "echo $QUORLOCK_FENCE",
    ];
    shell.succeed(&words).trim().parse().unwrap()
}

/// While the last of four nodes is being added.
fn refuses_other_lists(shell: &Shell, nodes: &[NodeProcess]) {
    let old = list(&nodes[..3]);
    // Another node that was made for four is no part of this change.
    let other = node(shell, 5, "4").url();
    let second = members(shell, &["add", &other], &old);
    assert!(
        second.stderr.contains("is in a change about"),
        "{}",
        second.stderr
    );
    // With wrong lists, and with a node that is away.
    let absent = ReservedPort::new().unwrap();
    let away = format!("redis://127.0.0.1:{}", absent.number());
    let lists = [
        (
            format!("{},{away}", list(&nodes[..3])),
            1,
            "is added, and is not listed",
        ),
        (old, 1, "from 3 to 4 nodes, and 3 are listed"),
        (
            format!("{away},{}", list(&nodes[1..])),
            69,
            "cannot be asked",
        ),
    ];
    for (list, code, part) in lists {
        let ended = members(shell, &["end"], &list);
        assert_eq!(ended.code, Some(code), "{}", ended.stderr);
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
}

#[test]
fn a_node_is_added_while_clients_with_the_old_and_the_new_list_take_locks() {
    let shell = Shell::new();
    let mut nodes: Vec<_> = (0..3).map(|number| node(&shell, number, "3")).collect();
    let old = list(&nodes);
    nodes.push(node(&shell, 3, "4"));
    let (new, added) = (list(&nodes), nodes[3].url());
    assert!(takes(&shell, &old) && !takes(&shell, &new));
    let wrong = node(&shell, 4, "3");
    let refused = begin(&shell, &["add", &wrong.url()], &old);
    assert!(
        refused.stderr.contains("the list with it has 4 nodes"),
        "{}",
        refused.stderr
    );
    let twice = begin(&shell, &["add", &nodes[0].url()], &old);
    assert!(
        twice.stderr.contains("the same node as"),
        "{}",
        twice.stderr
    );

    let begun = begin(&shell, &["add", &added], &old);
    assert_eq!(begun.code, Some(0), "{}", begun.stderr);
    let said = "clients may list 3 or 4 nodes. Give every client the list of 4, and";
    assert!(begun.stdout.contains(said), "{}", begun.stdout);
    // These nodes have no configuration file that would keep it.
    assert_eq!(
        begun.stdout.matches("without a config file").count(),
        3,
        "{}",
        begun.stdout
    );
    assert!(takes(&shell, &old) && takes(&shell, &new));
    let shown = members(&shell, &[], &new);
    assert_eq!(
        shown.stdout.matches("3 and 4").count(),
        3,
        "{}",
        shown.stdout
    );
    let found = shell.quorlock(&["doctor", "--nodes", &new]);
    assert!(
        found.stdout.contains("a member is being added or removed"),
        "{}",
        found.stdout
    );

    refuses_other_lists(&shell, &nodes);
    assert!(takes(&shell, &old), "nothing was changed");

    for _ in 0..2 {
        let ended = members(&shell, &["end"], &new);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(!takes(&shell, &old) && takes(&shell, &new));
    }
    let seen = members(&shell, &[], &old);
    assert_eq!(seen.stdout.matches("  4\n").count(), 3, "{}", seen.stdout);
}

#[test]
fn a_node_that_is_removed_gives_its_vote_to_no_list_and_fences_only_grow() {
    let shell = Shell::new();
    let mut nodes: Vec<_> = (0..3).map(|number| node(&shell, number, "3")).collect();
    let absent = ReservedPort::new().unwrap();
    let away = format!("redis://127.0.0.1:{}", absent.number());
    let first = list(&nodes);
    shell.succeed(&["node", "sync", "--trust-disks", "--nodes", &first]);
    // Of a name that is not taken meanwhile, at the first nodes alone.
    let before = fence(&shell, "rare", &format!("{},{away}", list(&nodes[..2])));
    nodes.push(node(&shell, 3, "4"));
    let more = list(&nodes);
    let added = nodes[3].url();
    assert_eq!(begin(&shell, &["add", &added], &first).code, Some(0));
    assert_eq!(members(&shell, &["end"], &more).code, Some(0));
    let removed = nodes[0].url();
    let fewer = list(&nodes[1..]);
    assert_eq!(begin(&shell, &["remove", &removed], &more).code, Some(0));
    // A client that has slept through both changes reaches the removed node and one that stayed.
    let stale = format!("{},{away}", list(&nodes[..2]));
    assert!(!takes(&shell, &stale) && takes(&shell, &fewer));
    // It is given up, and done.
    assert_eq!(members(&shell, &["give-up"], &more).code, Some(0));
    assert!(takes(&shell, &more) && !takes(&shell, &fewer));
    assert_eq!(begin(&shell, &["remove", &removed], &more).code, Some(0));
    let ended = members(&shell, &["end", "--removed", &removed], &fewer);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(takes(&shell, &fewer) && !takes(&shell, &stale));
    let status = shell.quorlock(&["status", "--nodes", &more]);
    assert!(
        status.stdout.contains("was removed from its cluster"),
        "{}",
        status.stdout
    );
    // These have not heard of that name.
    let after = fence(&shell, "rare", &format!("{away},{}", list(&nodes[2..])));
    assert!(after > before, "{after} after {before}");
}

#[test]
fn a_change_that_was_begun_on_some_nodes_goes_on() {
    let shell = Shell::new();
    let nodes: Vec<_> = (0..3).map(|number| node(&shell, number, "3")).collect();
    let (all, fewer) = (list(&nodes), list(&nodes[1..]));
    let gone = nodes[0].url();
    begin_on(&nodes[1], &format!("3 2 {gone}"));
    assert_eq!(begin(&shell, &["remove", &gone], &all).code, Some(0));
    assert_eq!(
        members(&shell, &["end", "--removed", &gone], &fewer).code,
        Some(0)
    );
    assert!(!takes(&shell, &all) && takes(&shell, &fewer));
}

#[test]
fn two_changes_that_were_begun_at_once_are_given_up() {
    let shell = Shell::new();
    let nodes: Vec<_> = (0..3).map(|number| node(&shell, number, "3")).collect();
    let joining = [3, 4].map(|number| node(&shell, number, "4"));
    let all = list(&nodes);
    for (node, joins) in nodes.iter().zip(&joining) {
        begin_on(node, &format!("3 4 {}", joins.url()));
    }
    for joins in &joining {
        let ended = members(&shell, &["add", &joins.url()], &all);
        assert_eq!(ended.code, Some(1), "{}", ended.stdout);
        assert!(
            ended.stderr.contains("quorlock members give-up"),
            "{}",
            ended.stderr
        );
    }
    let ended = members(&shell, &["give-up"], &all);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let [first, second] = joining.each_ref().map(NodeProcess::url);
    let to_stop = format!("Stop {first} and {second}: ");
    assert!(ended.stdout.contains(&to_stop), "{}", ended.stdout);
    let added = joining[0].url();
    assert_eq!(begin(&shell, &["add", &added], &all).code, Some(0));
    let ended = members(&shell, &["give-up"], &all);
    assert!(
        ended.stderr.contains("the node that is added"),
        "{}",
        ended.stderr
    );
}

#[test]
fn what_is_left_of_two_changes_on_a_node_that_was_not_reached_is_given_up_by_hand() {
    let shell = Shell::new();
    let nodes: Vec<_> = (0..3).map(|number| node(&shell, number, "3")).collect();
    let all = list(&nodes);
    for (node, joins) in nodes.iter().zip(["redis://n8:1", "redis://n9:1"]) {
        begin_on(node, &format!("3 4 {joins}"));
    }
    let say = |words: &[&str]| {
        let reply = nodes[1].ask(words).unwrap();
        assert!(!reply.starts_with('-'), "{words:?}: {reply}");
    };
    say(&["ACL", "SETUSER", "default", "-config"]);
    let ended = members(&shell, &["give-up"], &all);
    // All have answered.
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    let (set, nothing) = (
        "cluster-size 3 was set on 1 of 2 nodes",
        "Nothing was changed",
    );
    let is_true = ended.stderr.contains(set) && !ended.stderr.contains(nothing);
    assert!(is_true, "{}", ended.stderr);
    let by_hand = "redis-cli CONFIG SET cluster-size 3";
    assert!(ended.stderr.contains(by_hand), "{}", ended.stderr);
    // A client may have the list of the one that is left, as far as can be seen.
    let ended = members(&shell, &["give-up"], &all);
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    let by_hand = format!("on {}: {by_hand}", nodes[1].url());
    assert!(ended.stderr.contains(&by_hand), "{}", ended.stderr);
    say(&["ACL", "SETUSER", "default", "+config"]);
    say(&["CONFIG", "SET", "cluster-size", "3"]);
    let ended = members(&shell, &["give-up"], &all);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(takes(&shell, &all));
}

#[test]
fn what_an_end_beside_a_giving_up_leaves_is_left_by_a_removal_and_its_end() {
    let shell = Shell::new();
    let nodes: Vec<_> = (0..3).map(|number| node(&shell, number, "3")).collect();
    let (all, fewer, gone) = (list(&nodes), list(&nodes[1..]), nodes[0].url());
    // The end has reached two nodes, and the giving up the last one.
    begin_on(&nodes[1], &format!("3 2 {gone}"));
    for (node, size) in [(&nodes[1], "2"), (&nodes[0], "removed")] {
        let reply = node.ask(&["CONFIG", "SET", "cluster-size", size]).unwrap();
        assert!(!reply.starts_with('-'), "{reply}");
    }
    let end = ["end", "--removed", gone.as_str()];
    let give_up = ["give-up"];
    for (words, list) in [(&end[..], &fewer), (&give_up[..], &all)] {
        let ended = members(&shell, words, list);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        let next = "see what each node goes by";
        let is_named = ended.stderr.contains(next) || ended.stderr.contains("members remove");
        assert!(is_named, "{}", ended.stderr);
    }
    let begun = begin(&shell, &["remove", &gone], &all);
    assert_eq!(begun.code, Some(0), "{}", begun.stderr);
    // Another node than the one of the change is not removed.
    let other = node(&shell, 3, "3");
    let wrong = members(&shell, &["end", "--removed", &other.url()], &fewer);
    assert!(
        wrong.stderr.contains("the change is about"),
        "{}",
        wrong.stderr
    );
    let ended = members(&shell, &end, &fewer);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(takes(&shell, &fewer) && !takes(&shell, &all));
}

#[test]
fn two_equal_commands_at_once_both_succeed() {
    let shell = Shell::new();
    let nodes: Vec<_> = (0..4).map(|number| node(&shell, number, "4")).collect();
    let (all, fewer, gone) = (list(&nodes), list(&nodes[1..]), nodes[0].url());
    let give_up = ["members", "give-up", "--nodes", all.as_str()];
    let end = [
        "members",
        "end",
        "--removed",
        gone.as_str(),
        "--nodes",
        fewer.as_str(),
    ];
    for words in [&give_up[..], &give_up[..], &give_up[..], &end[..]] {
        assert_eq!(begin(&shell, &["remove", &gone], &all).code, Some(0));
        let both = [(); 2].map(|()| shell.command(words).spawn().unwrap());
        for one in both {
            let ended = one.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&ended.stderr);
            assert!(ended.status.success(), "{words:?}: {said}");
        }
    }
    assert!(takes(&shell, &fewer) && !takes(&shell, &all));
}

#[test]
fn a_node_that_refuses_the_user_a_command_is_not_away() {
    let shell = Shell::new();
    let nodes: Vec<_> = (0..3).map(|number| node(&shell, number, "3")).collect();
    let fourth = node(&shell, 3, "4");
    let added = fourth.url();
    let urls = nodes
        .iter()
        .map(|node| node.url().replace("redis://", "redis://clerk:p@"));
    let urls: Vec<String> = urls.collect();
    let listed = urls.join(",");
    for (missing, right) in [
        ("-config|set", "CONFIG SET"),
        ("-info", "INFO and CONFIG SET"),
    ] {
        for node in &nodes {
            let rules = [
                "ACL", "SETUSER", "clerk", "on", ">p", "~*", "&*", "+@all", missing,
            ];
            assert_eq!(node.ask(&rules).unwrap(), "+OK");
        }
        let ended = begin(&shell, &["add", &added], &listed);
        assert_eq!(ended.code, Some(1), "{missing}: {}", ended.stderr);
        let remedy = format!("give this user the right to run {right}");
        assert!(
            ended.stderr.contains(&remedy),
            "{missing}: {}",
            ended.stderr
        );
    }
    // One that is away beside those that refuse is.
    let with_one_away = format!("{},{},redis://clerk:p@127.0.0.1:1", urls[0], urls[1]);
    let ended = begin(&shell, &["add", &added], &with_one_away);
    assert_eq!(ended.code, Some(69), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("start what is away"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_node_in_its_restart_delay_is_not_added_yet_and_that_is_said_once() {
    let shell = Shell::new();
    let nodes: Vec<_> = (0..3).map(|number| node(&shell, number, "3")).collect();
    let old = list(&nodes);
    fence(&shell, "job", &old);
    // As in a container whose volume is empty.
    fs::create_dir(shell.file("late")).unwrap();
    let words = ["server", "--dir", "late", "--port", "0"];
    let mut command = shell.command(&words);
    command.args(["--cluster-size", "4", "--first-start", "wait"]);
    command.args(["--restart-delay-max", "5m"]);
    let mut late = Process::start(&mut command, &shell.file("late.log")).unwrap();
    let ended = begin(
        &shell,
        &["add", &format!("redis://{}", late.address())],
        &old,
    );
    assert_eq!(ended.code, Some(69), "{}", ended.stderr);
    let said = "is in its restart delay. No list was changed\n  do it again once it serves";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    assert_eq!(ended.stderr.matches("restart delay").count(), 1);
    assert!(takes(&shell, &old));
}
