//! What is told of releases.

use super::*;

#[test]
fn who_waits_is_told_of_releases_and_when_they_may_be_missed() {
    run(async {
        let servers = Servers::new(|_, command| {
            (command == "EVAL").then(|| reply("*2\r\n$2\r\nt1\r\n:9000\r\n"))
        });
        let mut node = servers.gateway().await.expect("it is a cluster");
        assert_eq!(told(&mut node, &["LOCK.WAIT a t2"]).await, ":1 ");
        let publish = |text: &str| {
            let listener = servers.listener.borrow();
            let listener = listener.as_ref().expect("somebody listens");
            listener.send(text.to_owned()).expect("it is connected");
        };
        let message = |name: &str| {
            let channel = format!("quorlock:released:{name}");
            let length = channel.len();
            format!("*3\r\n$7\r\nmessage\r\n${length}\r\n{channel}\r\n$0\r\n\r\n")
        };
        publish(&message("other"));
        assert_eq!(told(&mut node, &[]).await, "");
        publish(&message("a"));
        let free = ">3 $9 lock-free $1 a $2 t2 ";
        assert_eq!(told(&mut node, &[]).await, free);
        assert_eq!(told(&mut node, &["LOCK.WAIT a t2"]).await, ":1 ");
        // The connection ends: who waits asks, and waits on another one.
        publish("");
        assert_eq!(told(&mut node, &[]).await, free);
        assert_eq!(told(&mut node, &["LOCK.WAIT a t2"]).await, ":1 ");
        publish(&message("a"));
        assert_eq!(told(&mut node, &[]).await, free);
        assert_eq!(told(&mut node, &["LOCK.UNWAIT a"]).await, ":1 ");
        publish(&message("a"));
        assert_eq!(told(&mut node, &[]).await, "");
    });
}

#[test]
fn a_master_that_hangs_keeps_nobody_from_being_told_of_releases() {
    run(async {
        let hangs = Rc::new(Cell::new(false));
        let is_hung = Rc::clone(&hangs);
        let servers = Servers::new(move |port, command| match command {
            // It still takes connections.
            "" => None,
            _ if port == 1 && is_hung.get() => Some(Says::Nothing),
            "EVAL" => Some(reply("*2\r\n$2\r\nt1\r\n:60000\r\n")),
            _ => None,
        });
        let mut node = servers.gateway().await.expect("it is a cluster");
        let free = ">3 $9 lock-free $1 a $2 t2 ";
        let later = async |node: &mut Gateway| {
            let begun = Instant::now();
            let mut buffer = [0; 256];
            let read = timeout(PATIENCE * 9, node.read(&mut buffer)).await;
            let count = read.map_or(0, |count| count.expect("it is in memory"));
            assert!(count > 0, "nothing is told");
            let text = String::from_utf8_lossy(&buffer[..count]).replace("\r\n", " ");
            (text, begun.elapsed())
        };
        // The first master tells, and then it hangs.
        assert_eq!(told(&mut node, &["LOCK.WAIT a t2"]).await, ":1 ");
        hangs.set(true);
        let (text, after) = later(&mut node).await;
        assert_eq!(text, free);
        assert!(after < Duration::from_secs(3), "{after:?}");
        // It does not hold up those who wait at others.
        for _ in 0..2 {
            let lines = ["LOCK.UNWAIT a", "LOCK.WAIT a t2"];
            let mut text = told(&mut node, &lines).await;
            let mut took = Duration::ZERO;
            while !text.ends_with(":1 ") || text.len() < 6 {
                let (more, after) = later(&mut node).await;
                text += &more;
                took += after;
            }
            assert!(took < PATIENCE / 2, "{took:?}");
        }
        let listener = servers.listener.borrow().clone();
        let message = "*3\r\n$7\r\nmessage\r\n$19\r\nquorlock:released:a\r\n$0\r\n\r\n";
        let sent = listener.expect("it listens").send(message.to_owned());
        sent.expect("it is connected");
        assert_eq!(told(&mut node, &[]).await, free);
    });
}
