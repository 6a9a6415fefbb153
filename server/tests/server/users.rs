//! Users as clients see them: what they may send, and what a change of them does to connections that are open.

use quorlock_testkit::Wire;

use crate::machine::{wire, with_node};

const NO_KEY: &str =
    "-NOPERM this user has no permissions to access one of the keys used as arguments";
const CLOSED: &str = "<closed>";

fn no_command(name: &str) -> String {
    format!("-NOPERM this user has no permissions to run the '{name}' command")
}

fn logged_in(node: &quorlock_server::Node, user: &str) -> Wire {
    let mut client = wire(node);
    assert_eq!(client.ask(&format!("AUTH {user} x")), "+OK");
    assert_eq!(client.ask("ACL WHOAMI"), user);
    client
}

fn with_user(rules: &str, test: impl FnOnce(&quorlock_server::Node, &mut Wire)) {
    with_node(&[("workers", &["2"])], |node, _| {
        let mut admin = wire(node);
        let request = format!("ACL SETUSER bob on >x +acl|whoami {rules}");
        assert_eq!(admin.ask(&request), "+OK");
        test(node, &mut admin);
    });
}

#[test]
fn a_change_of_a_user_holds_for_its_open_connections() {
    with_user("+get ~a", |node, admin| {
        // Connections of both workers.
        let mut clients = [logged_in(node, "bob"), logged_in(node, "bob")];
        for client in &mut clients {
            assert_eq!(client.ask("GET a"), "nil");
            assert_eq!(client.ask("GET b"), NO_KEY);
            assert_eq!(client.ask("SET a 1"), no_command("set"));
        }
        assert_eq!(admin.ask("ACL SETUSER bob +set ~b"), "+OK");
        for client in &mut clients {
            assert_eq!(client.ask("GET b"), "nil");
            assert_eq!(client.ask("SET a 1 EX 9"), "+OK");
        }
        assert_eq!(admin.ask("ACL SETUSER bob off -get"), "+OK");
        for client in &mut clients {
            assert_eq!(client.ask("GET a"), no_command("get"));
            assert_eq!(client.ask("SET a 1 EX 9"), "+OK", "it stays logged in");
            assert!(client.ask("AUTH bob x").starts_with("-WRONGPASS"));
        }
    });
}

#[test]
fn a_user_that_may_do_everything_is_checked_as_soon_as_it_may_not() {
    with_user("+@all ~* &*", |node, admin| {
        let mut client = logged_in(node, "bob");
        assert_eq!(client.ask("SET a 1 EX 9"), "+OK");
        assert_eq!(admin.ask("ACL SETUSER bob -set"), "+OK");
        assert_eq!(client.ask("SET a 1 EX 9"), no_command("set"));
        assert_eq!(admin.ask("ACL SETUSER bob +set"), "+OK");
        assert_eq!(client.ask("SET a 1 EX 9"), "+OK");
        assert_eq!(admin.ask("ACL SETUSER default -set"), "+OK");
        assert_eq!(admin.ask("SET a 1 EX 9"), no_command("set"));
        assert_eq!(client.ask("ACL SETUSER default +set"), "+OK");
        assert_eq!(admin.ask("SET a 1 EX 9"), "+OK");
    });
}

#[test]
fn the_connections_of_a_deleted_user_end_and_one_made_again_is_another() {
    with_user("+@all ~* &*", |node, admin| {
        let mut clients = [logged_in(node, "bob"), logged_in(node, "bob")];
        assert_eq!(admin.ask("ACL DELUSER bob nosuch"), ":1");
        for client in &mut clients {
            assert_eq!(client.reply(), CLOSED);
        }
        assert_eq!(admin.ask("GET a"), "nil");
        assert_eq!(admin.ask("ACL SETUSER bob on >x +@all ~* &*"), "+OK");
        let mut client = logged_in(node, "bob");
        assert_eq!(client.ask("ACL DELUSER bob"), ":1", "the reply comes first");
        assert_eq!(client.reply(), CLOSED);
        let error = admin.ask("ACL DELUSER default");
        assert_eq!(error, "-ERR The 'default' user cannot be removed");
    });
}

#[test]
fn the_commands_of_a_script_are_those_of_its_user() {
    let refused = |reply: &str, why: &str| assert!(reply.contains(why), "{reply}");
    // The first runs natively, the second in the interpreter.
    for table in ["", "local t = {} t.a = 1 "] {
        with_user("+eval +get +publish ~a &news", |node, admin| {
            let mut client = logged_in(node, "bob");
            let mut run = |call: &str| {
                let text = format!("{table}return redis.call({call})");
                client.ask_words(&["EVAL", &text, "0"])
            };
            assert_eq!(run("'get','a'"), "nil");
            let no_command = "The user executing the script can't run this command or subcommand";
            refused(&run("'set','a','1','ex','9'"), no_command);
            let no_key =
                "The user executing the script can't access at least one of the keys mentioned";
            refused(&run("'get','b'"), no_key);
            let no_channel = "The user executing the script can't publish to the channel";
            refused(&run("'publish','other','1'"), no_channel);
            assert_eq!(run("'publish','news','1'"), ":0");
            refused(&run("'ping'"), no_command);
            assert_eq!(admin.ask("GET a"), "nil", "nothing was written");
            // A script of another user is not bound by this.
            let text = format!("{table}return redis.call('get','b')");
            assert_eq!(admin.ask_words(&["EVAL", &text, "0"]), "nil");
            let log = admin.ask("ACL LOG");
            assert_eq!(log.matches("context, lua").count(), 4, "{log}");
        });
    }
}

#[test]
fn a_transaction_is_checked_when_it_is_queued_and_when_it_is_executed() {
    with_user("+get +set +multi +exec ~a", |node, admin| {
        let mut client = logged_in(node, "bob");
        let ask = |client: &mut Wire, text: &str| client.ask(text);
        assert_eq!(ask(&mut client, "MULTI"), "+OK");
        assert_eq!(ask(&mut client, "SET a 1 EX 9"), "+QUEUED");
        assert_eq!(ask(&mut client, "SET b 1 EX 9"), NO_KEY);
        let discarded = "-EXECABORT Transaction discarded because of previous errors.";
        assert_eq!(ask(&mut client, "EXEC"), discarded);
        assert_eq!(ask(&mut client, "MULTI"), "+OK");
        assert_eq!(ask(&mut client, "SET a 1 EX 9"), "+QUEUED");
        assert_eq!(ask(&mut client, "GET a"), "+QUEUED");
        assert_eq!(admin.ask("ACL SETUSER bob -set"), "+OK");
        let changed = "[-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call.";
        let reply = client.ask("EXEC");
        assert!(
            reply.starts_with(changed) && reply.ends_with(", nil]"),
            "{reply}"
        );
    });
}

#[test]
fn who_listens_to_what_it_may_no_more_is_closed() {
    with_user("+subscribe +psubscribe &a* &b", |node, admin| {
        let mut both = logged_in(node, "bob");
        let mut pattern = logged_in(node, "bob");
        let no_channel =
            "-NOPERM this user has no permissions to access one of the channels used as arguments";
        assert_eq!(both.ask("SUBSCRIBE c"), no_channel);
        assert_eq!(pattern.ask("PSUBSCRIBE ab*"), no_channel);
        assert_eq!(both.ask("SUBSCRIBE a b"), "[subscribe, a, :1]");
        assert_eq!(both.reply(), "[subscribe, b, :2]");
        assert_eq!(pattern.ask("PSUBSCRIBE a*"), "[psubscribe, a*, :1]");
        assert_eq!(admin.ask("ACL SETUSER bob resetchannels &a* &c"), "+OK");
        assert_eq!(both.reply(), CLOSED);
        assert_eq!(admin.ask("PUBLISH ab x"), ":1", "the other stays");
        assert_eq!(pattern.reply(), "[pmessage, a*, ab, x]");
    });
}

#[test]
fn locks_are_taken_by_those_who_may() {
    with_user("+lock.acquire +lock.release ~jobs:*", |node, admin| {
        let mut client = logged_in(node, "bob");
        assert!(!client.ask("LOCK.ACQUIRE jobs:1 t 9000").starts_with('-'));
        assert_eq!(client.ask("LOCK.ACQUIRE other t 9000"), NO_KEY);
        assert_eq!(client.ask("LOCK.LIST"), no_command("lock.list"));
        assert_eq!(
            client.ask("LOCK.FORCE-RELEASE jobs:1 t"),
            no_command("lock.force-release")
        );
        assert_eq!(admin.ask("EXISTS other"), ":0");
    });
}

#[test]
fn a_connection_is_the_default_users_until_it_logs_in_and_after_reset() {
    with_user("+hello +reset", |node, admin| {
        let mut client = wire(node);
        assert_eq!(client.ask("ACL WHOAMI"), "default");
        assert!(client.ask("AUTH bob wrong").starts_with("-WRONGPASS"));
        assert!(client.ask("AUTH nosuch x").starts_with("-WRONGPASS"));
        assert_eq!(client.ask("ACL WHOAMI"), "default", "it stays who it was");
        assert_eq!(client.ask("AUTH bob x"), "+OK");
        assert!(admin.ask("CLIENT LIST").contains(" user=bob "));
        assert_eq!(client.ask("RESET"), "+RESET");
        assert_eq!(client.ask("ACL WHOAMI"), "default");
        assert_eq!(client.ask("AUTH bob x"), "+OK");
        assert_eq!(admin.ask("CLIENT KILL USER bob"), ":1");
        assert_eq!(client.reply(), CLOSED);
        assert_eq!(
            admin.ask("CLIENT KILL USER nosuch"),
            "-ERR No such user 'nosuch'"
        );
    });
}

#[test]
fn the_default_user_may_get_a_password_and_lose_it() {
    with_node(&[], |node, _| {
        let (mut before, mut admin) = (wire(node), wire(node));
        assert_eq!(admin.ask("ACL SETUSER default >secret"), "+OK");
        assert_eq!(before.ask("PING"), "+PONG", "it was let in");
        let mut client = wire(node);
        assert!(client.ask("PING").starts_with("-NOAUTH"));
        assert_eq!(client.ask("AUTH secret"), "+OK");
        assert_eq!(client.ask("PING"), "+PONG");
        let mut waits = wire(node);
        assert!(waits.ask("GET a").starts_with("-NOAUTH"));
        assert_eq!(admin.ask("ACL SETUSER default nopass"), "+OK");
        assert_eq!(waits.ask("GET a"), "nil");
    });
}

#[test]
fn a_password_is_changed_while_the_node_runs() {
    with_node(&[("requirepass", &["old"])], |node, _| {
        let mut open = wire(node);
        assert_eq!(open.ask("AUTH old"), "+OK");
        assert_eq!(open.ask("CONFIG SET requirepass new"), "+OK");
        assert_eq!(open.ask("PING"), "+PONG", "it stays");
        assert_eq!(open.ask("CONFIG GET requirepass"), "[requirepass, new]");
        let mut client = wire(node);
        assert!(client.ask("AUTH old").starts_with("-WRONGPASS"));
        assert_eq!(client.ask("AUTH new"), "+OK");
        assert_eq!(open.ask_words(&["CONFIG", "SET", "requirepass", ""]), "+OK");
        assert_eq!(wire(node).ask("PING"), "+PONG");
        let error = open.ask_words(&[&b"CONFIG"[..], b"SET", b"requirepass", b"\xff"]);
        assert!(error.contains("a password is UTF-8"), "{error}");
    });
}

#[test]
fn a_file_of_users_is_loaded_whole_or_not_at_all_and_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users");
    let good =
        "user default on nopass ~* &* +@all\nuser bob on >x ~a +get +acl\nuser eve on >x +ping\n";
    std::fs::write(&path, good).unwrap();
    let name = path.to_str().unwrap().to_owned();
    with_node(&[("aclfile", &[&name])], |node, _| {
        let mut admin = wire(node);
        let (mut bob, mut eve) = (logged_in(node, "bob"), wire(node));
        assert_eq!(eve.ask("AUTH eve x"), "+OK");
        let lines = format!("{good}{}user new +nosuch\n", "\n".repeat(896));
        std::fs::write(&path, lines).unwrap();
        let error = admin.ask("ACL LOAD");
        let why =
            format!("-ERR {name}:900: Error in applying operation '+nosuch': Unknown command");
        assert!(error.starts_with(&why), "{error}");
        assert_eq!(admin.ask("ACL USERS"), "[bob, default, eve]");
        assert_eq!(
            (bob.ask("GET a"), eve.ask("PING")),
            ("nil".to_owned(), "+PONG".to_owned())
        );

        std::fs::write(&path, good.replace("+ping", "+echo")).unwrap();
        assert_eq!(admin.ask("ACL LOAD"), "+OK");
        assert_eq!(bob.ask("GET a"), "nil", "its user is the same");
        assert_eq!(eve.reply(), CLOSED);

        assert_eq!(admin.ask("ACL SETUSER bob +set"), "+OK");
        assert_eq!(admin.ask("ACL SAVE"), "+OK");
        let listed = admin.ask("ACL LIST");
        let saved = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            format!("[{}]", saved.trim_end().replace('\n', ", ")),
            listed
        );
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            1,
            "no temporary file is left"
        );
        assert_eq!(admin.ask("ACL DELUSER bob"), ":1");
        assert_eq!(admin.ask("ACL LOAD"), "+OK");
        assert_eq!(logged_in(node, "bob").ask("SET a 1 EX 9"), "+OK");

        std::fs::remove_file(&path).unwrap();
        let error = admin.ask("ACL LOAD");
        assert!(
            error.starts_with(&format!("-ERR Error loading ACLs, opening file '{name}'")),
            "{error}"
        );
        std::fs::create_dir(&path).unwrap();
        let error = admin.ask("ACL SAVE");
        assert!(
            error.starts_with("-ERR There was an error trying to save the ACLs."),
            "{error}"
        );
    });
    with_node(&[], |node, _| {
        let error = wire(node).ask("ACL SAVE");
        assert!(
            error.starts_with("-ERR This node is not configured to use an ACL file"),
            "{error}"
        );
    });
}
