//! Requests about several names, of which a server hands the first one back to be asked again a little later.

use super::*;

const TAKE_BOTH: &str = "EVAL ACQUIRE_ALL_SCRIPT 2 {a}1 {a}2 t1 9000";
const RELEASE_BOTH: &str = "EVAL RELEASE_ALL_SCRIPT 2 {a}1 {a}2 t1";

#[test]
fn what_a_later_request_about_the_same_lock_has_passed_is_not_asked_again() {
    run(async {
        let handed_back = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";
        for (first, second, is_asked_again) in [
            // A lock that its caller has given up would be taken behind its release.
            (TAKE_BOTH, RELEASE_BOTH, false),
            // A lock would be released that was taken again under the same token.
            (RELEASE_BOTH, TAKE_BOTH, false),
            (RELEASE_BOTH, "SET {a}2 t1 NX PX 9000", false),
            // Locks of others.
            (
                TAKE_BOTH,
                "EVAL ACQUIRE_ALL_SCRIPT 2 {a}1 {a}2 t2 9000",
                true,
            ),
            (TAKE_BOTH, "EVAL RELEASE_ALL_SCRIPT 2 {a}3 {a}4 t1", true),
            // It changes nothing.
            (TAKE_BOTH, "GET {a}1", true),
        ] {
            let has_handed_back = Cell::new(false);
            let servers = Servers::new(move |_, command| {
                let is_first = command == "EVAL" && !has_handed_back.replace(true);
                is_first.then(|| reply(handed_back))
            });
            let mut node = servers.gateway().await.expect("it is a cluster");
            assert_eq!(told(&mut node, &[first]).await, "");
            assert_eq!(told(&mut node, &[second]).await, "", "in their order");
            let mut buffer = [0; 256];
            let count = node.read(&mut buffer).await.expect("it is in memory");
            let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
            let case = format!("{first}, then {second}: {text}");
            let evaluations = if is_asked_again { 3 } else { 2 };
            assert_eq!(servers.asked().len(), evaluations, "{case}");
            assert_eq!(text.starts_with("-TRYAGAIN"), !is_asked_again, "{case}");
        }
    });
}

/// The servers are asked meanwhile who has the slot: the release has gone there before the acquisition could.
#[test]
fn what_was_passed_while_the_servers_were_asked_goes_to_no_other_one() {
    run(async {
        let (has_looked, has_loaded) = (Cell::new(false), Cell::new(false));
        let servers = Servers::new(move |port, command| match command {
            "CLUSTER SLOTS" if has_loaded.get() && !has_looked.replace(true) => {
                Some(Says::Late(slots(3)))
            }
            "CLUSTER SLOTS" if has_loaded.get() => Some(reply(slots(3))),
            "EVAL" if port == 2 && !has_loaded.replace(true) => Some(reply("-LOADING data\r\n")),
            "EVAL" if port == 2 => Some(reply("-MOVED 15495 h:3\r\n")),
            _ => None,
        });
        let mut node = servers.gateway().await.expect("it is a cluster");
        // What the servers said a moment ago is asked of nobody again.
        sleep(PATIENCE).await;
        let mut text = told(&mut node, &[TAKE_BOTH, RELEASE_BOTH]).await;
        while text.matches([':', '-']).count() < 2 {
            let mut buffer = [0; 256];
            let count = node.read(&mut buffer).await.expect("it is in memory");
            assert!(count > 0, "{text}");
            text += &String::from_utf8_lossy(&buffer[..count]);
        }
        assert!(text.contains("LOADING"), "{text}");
        let released = servers
            .asked()
            .iter()
            .filter(|one| *one == "3 EVAL")
            .count();
        assert_eq!(released, 1, "{text}");
    });
}
