//! A network between a command and its nodes: what either side sends arrives a while later, or a node says something else.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use quorlock_testkit::{observed_now, pause};

/// Listens, and passes on to `target` and back, each `delay` later. Ends with the test's process. Gives its address.
pub(crate) fn relay(target: &str, delay: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let target = target.to_owned();
    std::thread::spawn(move || {
        for near in listener.incoming() {
            let (near, far) = (near.unwrap(), TcpStream::connect(&target).unwrap());
            for (from, to) in [(&near, &far), (&far, &near)] {
                // Unsent small segments would wait for acknowledgements.
                to.set_nodelay(true).unwrap();
                pass_on(from.try_clone().unwrap(), to.try_clone().unwrap(), delay);
            }
        }
    });
    address
}

fn pass_on(mut from: TcpStream, to: TcpStream, delay: Duration) {
    let (send, arrived) = channel();
    std::thread::spawn(move || write(to, &arrived));
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if send
                .send((observed_now() + delay, buffer[..count].to_vec()))
                .is_err()
            {
                return;
            }
        }
    });
}

/// Listens, and passes on to `target` and back. A line of the node that begins with the first text begins with the second one, which
/// is as long. Gives its address.
pub(crate) fn rewriting(target: &str, texts: [String; 2]) -> String {
    assert_eq!(texts[0].len(), texts[1].len(), "a reply says its length");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let target = target.to_owned();
    std::thread::spawn(move || {
        for near in listener.incoming() {
            let (near, far) = (near.unwrap(), TcpStream::connect(&target).unwrap());
            let requests = (near.try_clone().unwrap(), far.try_clone().unwrap());
            pass_on(requests.0, requests.1, Duration::ZERO);
            let texts = texts.clone();
            std::thread::spawn(move || rewrite(far, near, &texts));
        }
    });
    address
}

fn rewrite(from: TcpStream, mut to: TcpStream, [old, new]: &[String; 2]) {
    let mut replies = BufReader::new(from);
    let mut line = Vec::new();
    while let Ok(1..) = replies.read_until(b'\n', &mut line) {
        if line.starts_with(old.as_bytes()) {
            line[..new.len()].copy_from_slice(new.as_bytes());
        }
        if to.write_all(&line).is_err() {
            return;
        }
        line.clear();
    }
    // It may be closed already.
    let _closed = to.shutdown(Shutdown::Both);
}

fn write(mut to: TcpStream, arrived: &Receiver<(Duration, Vec<u8>)>) {
    while let Ok((at, bytes)) = arrived.recv() {
        pause(at.saturating_sub(observed_now()));
        if to.write_all(&bytes).is_err() {
            return;
        }
    }
    // It may be closed already.
    let _closed = to.shutdown(Shutdown::Both);
}
