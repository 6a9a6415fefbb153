//! Servers that are left out, and servers that hang.

use super::*;
use crate::redis_cluster::known_servers::SILENT_SEED_FOR;

#[test]
fn an_error_without_one_server_is_no_answer_to_who_asks_all() {
    run(async {
        let is_ill = Rc::new(Cell::new(false));
        let now = Rc::clone(&is_ill);
        let servers = Servers::new(move |port, command| match command {
            "CLUSTER INFO" if port == 1 && now.get() => {
                Some(reply("$18\r\ncluster_state:fail\r\n"))
            }
            "EVAL" if port == 2 => Some(reply("-LOADING Redis is loading the dataset\r\n")),
            "SCAN" => Some(reply("*2\r\n$1\r\n0\r\n*0\r\n")),
            _ => None,
        });
        let mut node = servers.gateway().await.expect("it is a cluster");
        is_ill.set(true);
        sleep(PATIENCE).await;
        // The other one is asked for a follower, and knows none.
        assert!(told(&mut node, &TAKE).await.starts_with("-LOADING"));
        // This one still knows the slots.
        let locks = told(&mut node, &["SCAN 0 MATCH *"]).await;
        assert_eq!(locks, "*2 $1 0 *0 ");
    });
}

#[test]
fn a_seed_that_hangs_is_waited_for_by_one_connection_and_not_by_the_next() {
    run(async {
        // Ports that take connections and answer nothing.
        let hung = Rc::new(Cell::new([true, false]));
        let now = Rc::clone(&hung);
        let servers = Servers::new(move |port, command| {
            let hangs = now.get().get(usize::from(port) - 1) == Some(&true);
            (hangs && !command.is_empty()).then_some(Says::Nothing)
        });
        let connecting = async || {
            let begun = Instant::now();
            let connected = servers.gateway().await;
            (connected.is_ok(), begun.elapsed())
        };
        let (is_connected, took) = connecting().await;
        assert!(is_connected && took >= PATIENCE, "{took:?}");
        for _ in 0..3 {
            sleep(PATIENCE).await;
            let (is_connected, took) = connecting().await;
            assert!(is_connected && took < PATIENCE / 5, "{took:?}");
        }
        // It is still good enough where no other one answers.
        hung.set([false, true]);
        let (is_connected, took) = connecting().await;
        assert!(is_connected && took >= PATIENCE, "{took:?}");
        // It has answered, so it is waited for again.
        hung.set([true, false]);
        sleep(PATIENCE).await;
        let (is_connected, took) = connecting().await;
        assert!(is_connected && took >= PATIENCE, "{took:?}");
        sleep(SILENT_SEED_FOR).await;
        let (is_connected, took) = connecting().await;
        assert!(is_connected && took >= PATIENCE, "{took:?}");
    });
}

#[test]
fn a_list_that_has_no_end_is_read_for_a_time_and_its_server_is_named() {
    run(async {
        for (circles, why) in [
            (false, "had no end after 10"),
            (true, "a cursor came again"),
        ] {
            let pages = Rc::new(Cell::new(10));
            let servers = Servers::new(move |port, command| match command {
                "SCAN" if port == 1 => Some(reply("*2\r\n$1\r\n0\r\n*0\r\n")),
                "SCAN" => {
                    pages.set(if circles { 10 } else { pages.get() + 1 });
                    let cursor = pages.get().to_string();
                    let page = format!("*2\r\n${}\r\n{cursor}\r\n*0\r\n", cursor.len());
                    Some(Says::Late(page))
                }
                _ => None,
            });
            let mut node = servers.gateway().await.expect("it is a cluster");
            let begun = Instant::now();
            assert_eq!(told(&mut node, &["SCAN 0 MATCH *"]).await, "");
            let mut buffer = [0; 256];
            let count = node.read(&mut buffer).await.expect("it is in memory");
            let refused = String::from_utf8_lossy(&buffer[..count]).into_owned();
            assert!(refused.contains("h:2: its list of locks "), "{refused}");
            assert!(refused.contains(why), "{refused}");
            let took = begun.elapsed();
            assert!(took <= LIST_PATIENCE + PATIENCE, "{took:?}");
        }
    });
}

#[test]
fn a_page_with_more_names_than_were_asked_for_is_no_page() {
    run(async {
        let servers = Servers::new(move |port, command| match command {
            "SCAN" if port == 1 => Some(reply("*2\r\n$1\r\n0\r\n*0\r\n")),
            "SCAN" => {
                let (count, names) = (PAGE_NAMES_MAX + 1, "+a\r\n".repeat(PAGE_NAMES_MAX + 1));
                Some(reply(format!("*2\r\n$1\r\n0\r\n*{count}\r\n{names}")))
            }
            _ => None,
        });
        let mut node = servers.gateway().await.expect("it is a cluster");
        servers.asked();
        let refused = told(&mut node, &["SCAN 0 MATCH *"]).await;
        assert!(
            refused.contains("h:2: a page of its list has more names"),
            "{refused}"
        );
        assert_eq!(servers.asked(), [""; 0], "none of them is looked at");
    });
}
