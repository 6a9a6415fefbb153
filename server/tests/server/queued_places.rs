//! Commands about users and the node at their place in a transaction: under which user they run, and what those behind them go by.

use crate::machine::{wire, with_node};
use crate::queued::transact;

/// Redis 7's replies.
#[test]
fn each_command_runs_at_its_place_and_under_the_user_of_that_moment() {
    with_node(&[("enable-debug-command", &["yes"])], |node, _| {
        let mut client = wire(node);
        let no_more = "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command \
                       is no longer allowed for the following reason: no permission to execute the command or subcommand";
        let requests = [
            "SET k 1",
            "ACL WHOAMI",
            "ACL SETUSER x on >pw +get ~*",
            "CONFIG SET slowlog-max-len 55",
            "INFO server",
            "AUTH x pw",
            "ACL WHOAMI",
            "GET k",
            "SET k 2",
            "CONFIG GET slowlog-max-len",
            "INFO server",
        ];
        let reply = transact(&mut client, &requests);
        let shown = "[+OK, default, +OK, +OK, # Server\r\n";
        assert!(reply.starts_with(shown), "INFO is checked there: {reply}");
        let end = format!("\r\n, +OK, {no_more}, 1, {no_more}, {no_more}, {no_more}]");
        assert!(reply.ends_with(&end), "{reply}");
        assert_eq!(client.ask("GET k"), "1");
        assert!(client.ask("PING").starts_with("-NOPERM"), "it stays x");
        let mut client = wire(node);
        let requests = [
            "CONFIG SET slowlog-max-len 56",
            "CONFIG GET slowlog-max-len",
            "ACL SETUSER default -set",
            "SET k 2",
            "ACL SETUSER default +set",
            "SET k 3",
            "ACL GETUSER y",
            "ACL DELUSER x",
            "ACL USERS",
        ];
        assert_eq!(
            transact(&mut client, &requests),
            format!("[+OK, [slowlog-max-len, 56], +OK, {no_more}, +OK, +OK, nil, :1, [default]]")
        );
        let requests = [
            "SET k 1",
            "DEBUG OBJECT k",
            "SET k abcdefg",
            "DEBUG OBJECT k",
            "DEL k",
            "DEBUG OBJECT k",
        ];
        let reply = transact(&mut client, &requests);
        let parts = [
            "serializedlength:1 ",
            "serializedlength:7 ",
            "-ERR no such key",
        ];
        let places = parts.map(|part| reply.find(part).unwrap_or(0));
        assert!(places.is_sorted() && places[0] > 0, "{reply}");
    });
}

/// Who has lost its user goes once the transaction stays, and hears of it before.
#[test]
fn a_transaction_that_deletes_its_own_user_is_answered_and_its_connection_ends() {
    with_node(&[], |node, _| {
        let (mut client, mut other) = (wire(node), wire(node));
        client.ask("ACL SETUSER x on nopass +@all ~*");
        client.ask("AUTH x x");
        other.ask("AUTH x x");
        let reply = transact(&mut client, &["ACL DELUSER x", "SET k 1"]);
        assert!(
            reply.starts_with("[:1, -NOPERM ACLs rules changed"),
            "{reply}"
        );
        assert_eq!(client.reply(), "<closed>");
        assert_eq!(other.reply(), "<closed>");
    });
}

#[test]
fn what_cannot_run_at_its_place_is_refused_where_others_depend_on_it() {
    with_node(&[], |node, _| {
        let mut client = wire(node);
        let set = "CONFIG SET appendfsync no";
        let late = "-ERR this command runs behind the transaction";
        for (requests, replies) in [
            (&["SET k 1", set, "GET k"][..], ["+OK", "+OK", "1"]),
            (
                &[set, "CONFIG GET appendfsync", "GET k"],
                [late, "[appendfsync, no]", "1"],
            ),
            (
                &["CONFIG REWRITE", "ACL SETUSER x", "GET k"],
                [late, "+OK", "1"],
            ),
            (
                &["ACL LOAD", "PING", "INFO server"],
                [late, "+PONG", "# Server"],
            ),
            (
                &["PING", "ACL LOAD", "INFO server"],
                ["+PONG", "-ERR This node is not configured", "# Server"],
            ),
        ] {
            let reply = transact(&mut client, requests);
            let mut rest = reply.trim_start_matches('[');
            for part in replies {
                let at = rest.find(part).unwrap_or_else(|| panic!("{part}: {reply}"));
                rest = &rest[at + part.len()..];
            }
            assert_eq!(
                reply.matches(late).count(),
                replies.iter().filter(|it| **it == late).count(),
                "{reply}"
            );
        }
    });
}
