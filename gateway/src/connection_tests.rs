//! A client's requests on a system in memory.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;

use quorlock_client_rules::{
    ACQUIRE_ALL_SCRIPT, EXTEND_SCRIPT, RELEASE_ALL_SCRIPT, RELEASE_SCRIPT,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::request::Acquire;

/// A system in memory. Each operation takes effect when it is polled first, and answers a little later.
#[derive(Default)]
struct Memory {
    locks: Rc<RefCell<BTreeMap<Bytes, (Bytes, Instant)>>>,
    watched: Vec<Bytes>,
    released: Rc<RefCell<Vec<Bytes>>>,
    waker: Rc<RefCell<Option<Waker>>>,
}

impl Memory {
    fn run<T: 'static>(&self, work: impl FnOnce(&mut Locks) -> T + 'static) -> Running<T> {
        let (locks, released, waker) = (
            Rc::clone(&self.locks),
            Rc::clone(&self.released),
            Rc::clone(&self.waker),
        );
        Box::pin(async move {
            let before: Vec<Bytes> = locks.borrow().keys().cloned().collect();
            let now = Instant::now();
            locks.borrow_mut().retain(|_, (_, end)| *end > now);
            let done = work(&mut locks.borrow_mut());
            let is_gone = |name: &Bytes| !locks.borrow().contains_key(name);
            released
                .borrow_mut()
                .extend(before.into_iter().filter(is_gone));
            waker.borrow_mut().take().into_iter().for_each(Waker::wake);
            tokio::task::yield_now().await;
            Ok(done)
        })
    }
}

type Locks = BTreeMap<Bytes, (Bytes, Instant)>;

impl System for Memory {
    fn name(&self) -> &'static str {
        "Memory"
    }

    fn info(&self) -> Running<String> {
        self.run(|_| "run_id:m\r\n".to_owned())
    }

    fn acquire(&self, acquire: Acquire) -> Running<Taken> {
        self.run(move |locks| {
            let end = Instant::now() + acquire.ttl;
            match locks.get(&acquire.name) {
                Some((holder, _)) if *holder != acquire.token => Taken::Held(7, holder.clone()),
                _ => {
                    locks.insert(acquire.name, (acquire.token, end));
                    Taken::Granted(8)
                }
            }
        })
    }

    fn operate(&self, operation: Operation) -> Running<Done> {
        self.run(move |locks| {
            let (Operation::Extend(name, token, _)
            | Operation::SetEnd(name, token, ..)
            | Operation::Release(name, token)
            | Operation::Fence(name, token, _)) = &operation;
            match locks.get(name) {
                None => Done::Free,
                Some((holder, _)) if holder != token => Done::Other,
                Some(_) => match operation {
                    Operation::Release(name, _) => {
                        locks.remove(&name);
                        Done::Held
                    }
                    Operation::Fence(_, _, fence) => Done::Fence(fence.max(8)),
                    _ => Done::Held,
                },
            }
        })
    }

    fn look(&self, name: Bytes) -> Running<Option<Holder>> {
        self.run(move |locks| {
            let (token, end) = locks.get(&name)?;
            Some(Holder {
                token: token.clone(),
                fence: Some(8),
                left: *end - Instant::now(),
                owner: Some(Bytes::from_static(b"me")),
            })
        })
    }

    fn watch(&mut self, name: Bytes) -> Running<Option<Holder>> {
        self.watched.push(name.clone());
        self.look(name)
    }

    fn unwatch(&mut self, name: &Bytes) -> Running<()> {
        self.watched.retain(|watched| watched != name);
        self.run(|_| ())
    }

    fn list(&self, _: Bytes, after: Bytes) -> Running<Page> {
        let holder = |token: &Bytes| Holder {
            token: token.clone(),
            fence: Some(8),
            left: Duration::ZERO,
            owner: None,
        };
        self.run(move |locks| {
            let behind = locks.iter().filter(|(name, _)| **name > after);
            let mut all = behind.map(|(name, (token, _))| (name.clone(), Some(holder(token))));
            let locks: Vec<_> = all.by_ref().take(2).collect();
            let last = locks.last().map(|(name, _)| name.clone());
            let next = last.filter(|_| all.next().is_some());
            Page { locks, next }
        })
    }

    fn poll_released(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        *self.waker.borrow_mut() = Some(context.waker().clone());
        loop {
            let released = self.released.borrow_mut().pop();
            match released {
                Some(name) if self.watched.contains(&name) => return Poll::Ready(Ok(name)),
                Some(_) => {}
                None => return Poll::Pending,
            }
        }
    }
}

/// What is read after these lines were written, each a request of words between blanks.
pub(crate) async fn told(gateway: &mut Gateway, lines: &[&str]) -> String {
    let mut bytes = Vec::new();
    for line in lines {
        let words: Vec<&[u8]> = line
            .split(' ')
            .map(|word| match word {
                "RELEASE_SCRIPT" => RELEASE_SCRIPT,
                "EXTEND_SCRIPT" => EXTEND_SCRIPT,
                "ACQUIRE_ALL_SCRIPT" => ACQUIRE_ALL_SCRIPT,
                "RELEASE_ALL_SCRIPT" => RELEASE_ALL_SCRIPT,
                word => word.as_bytes(),
            })
            .collect();
        bytes.extend(format!("*{}\r\n", words.len()).bytes());
        for word in words {
            bytes.extend(format!("${}\r\n", word.len()).bytes());
            bytes.extend(word);
            bytes.extend(b"\r\n");
        }
    }
    gateway.write_all(&bytes).await.expect("it is in memory");
    let mut text = String::new();
    let mut buffer = [0; 7];
    loop {
        // What is there at once; time stands still.
        let read = tokio::time::timeout(Duration::from_nanos(1), gateway.read(&mut buffer)).await;
        match read {
            Ok(count) => {
                let count = count.expect("it is in memory");
                text.push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
            Err(_) => return text.replace("\r\n", " "),
        }
    }
}

fn gateway() -> Gateway {
    Gateway::new(Box::new(Memory::default()))
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_taken_seen_extended_and_given_back_as_on_a_node() {
    let mut node = gateway();
    let lines = [
        "SET a t1 NX PX 9000 GET",
        "SET a t2 NX PX 9000 GET",
        "SET a t2 NX PX 9000",
    ];
    assert_eq!(told(&mut node, &lines).await, "$-1 $2 t1 $-1 ");
    let lines = ["LOCK.ACQUIRE a t1 9000 GUESS 5", "LOCK.ACQUIRE a t2 9000"];
    assert_eq!(told(&mut node, &lines).await, "*3 :1 :7 :0 *3 :0 :7 $2 t1 ");
    let lines = [
        "LOCK.FENCE a t1 8",
        "LOCK.FENCE a t1 7",
        "LOCK.FENCE a t2 9",
    ];
    assert_eq!(told(&mut node, &lines).await, "*2 :1 :8 *2 :0 :7 $-1 ");
    let lines = ["GET a", "EXISTS a", "PTTL b", "EXISTS b", "LOCK.INFO b"];
    assert_eq!(told(&mut node, &lines).await, "$2 t1 :1 :-2 :0 $-1 ");
    let lines = [
        "EVAL EXTEND_SCRIPT 1 a t1 9000",
        "EVAL EXTEND_SCRIPT 1 a t2 9000",
    ];
    assert_eq!(told(&mut node, &lines).await, ":1 :-1 ");
    let lines = [
        "EVAL RELEASE_SCRIPT 1 a t2",
        "EVAL RELEASE_SCRIPT 1 a t1",
        "EVAL RELEASE_SCRIPT 1 a t1",
    ];
    assert_eq!(told(&mut node, &lines).await, ":0 :1 :0 ");
    let lines = [
        "EVAL EXTEND_SCRIPT 1 a t1 9000",
        "SET a t2 NX PX 9000",
        "LOCK.LIST *",
    ];
    let listed = told(&mut node, &lines).await;
    assert!(
        listed.starts_with(":0 +OK *2 $1 0 *1 *12 $4 name $1 a $4 type"),
        "{listed}"
    );
    let several = told(&mut node, &["EVAL ACQUIRE_ALL_SCRIPT 2 a b t1 9000"]).await;
    assert!(
        several.starts_with("-ERR Memory keeps one name a lock"),
        "{several}"
    );
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_told_of_a_release_and_of_an_expiry() {
    let mut node = gateway();
    let held = ["SET a t1 NX PX 9000", "LOCK.WAIT a t2", "LOCK.WAIT b t2"];
    assert_eq!(told(&mut node, &held).await, "+OK :1 :0 ");
    let free = told(&mut node, &["EVAL RELEASE_SCRIPT 1 a t1"]).await;
    assert!(free.contains(">3 $9 lock-free $1 a $2 t2 "), "{free}");
    // Who waits again is told again, and who has left the line is not.
    let again = [
        "SET a t1 NX PX 50",
        "LOCK.WAIT a t3",
        "SET c t1 NX PX 50",
        "LOCK.WAIT c t3",
        "LOCK.UNWAIT c",
    ];
    assert_eq!(told(&mut node, &again).await, "+OK :1 +OK :1 :1 ");
    let begun = Instant::now();
    let mut buffer = [0; 64];
    let count = node.read(&mut buffer).await.expect("it is in memory");
    assert_eq!(
        &buffer[..count],
        b">3\r\n$9\r\nlock-free\r\n$1\r\na\r\n$2\r\nt3\r\n"
    );
    assert!(
        begun.elapsed() < Duration::from_millis(60),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(
        told(&mut node, &["SET b t2 NX PX 50", "SET a t3 NX PX 50"]).await,
        "+OK +OK "
    );
    assert!(
        node.waiters.is_empty(),
        "who has the lock does not wait for it"
    );
}

#[tokio::test(start_paused = true)]
async fn many_requests_are_answered_in_their_order_and_what_is_none_ends_the_connection() {
    let mut node = gateway();
    let lines: Vec<String> = (0..500)
        .map(|number| format!("SET n{number} t NX PX 9000"))
        .collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    assert_eq!(told(&mut node, &lines).await, "+OK ".repeat(500));
    node.write_all(b"hello").await.expect("it is in memory");
    let ended = node.read(&mut [0; 9]).await.expect_err("it is no request");
    assert_eq!(ended.kind(), io::ErrorKind::InvalidData);
    // Nobody reads: what is written waits at last.
    let mut node = gateway();
    let much = vec![b'x'; 1 << 20];
    let mut taken = 0;
    let write = poll_fn(|context| {
        while let Poll::Ready(count) = Pin::new(&mut node).poll_write(context, &much) {
            taken += count.expect("it is in memory");
        }
        Poll::Ready(())
    });
    write.await;
    assert!(taken <= BUFFERED_MAX + much.len(), "{taken}");
}

#[tokio::test(start_paused = true)]
async fn a_list_is_walked_page_by_page() {
    let mut node = gateway();
    let names = ["a", "b:1", "b:2", "c", "d"];
    for name in names {
        told(&mut node, &[&format!("SET {name} t NX PX 9000")]).await;
    }
    let pages = [
        ("SCAN 0 MATCH *", "*2 $6 623a31 *2 $1 a $3 b:1 "),
        ("SCAN 623a31 MATCH * COUNT 10", "*2 $2 63 *2 $3 b:2 $1 c "),
        ("SCAN 63 MATCH *", "*2 $1 0 *1 $1 d "),
        ("SCAN 63 MATCH b*", "*2 $1 0 *0 "),
    ];
    for (line, page) in pages {
        assert_eq!(told(&mut node, &[line]).await, page, "{line}");
    }
    let facts = told(&mut node, &["LOCK.LIST b* 623a31"]).await;
    assert!(
        facts.starts_with("*2 $2 63 *1 *12 $4 name $3 b:2 "),
        "{facts}"
    );
    for cursor in ["1", "0g", "+f"] {
        let refused = told(&mut node, &[&format!("LOCK.LIST * {cursor}")]).await;
        assert!(
            refused.starts_with("-ERR syntax error"),
            "{cursor}: {refused}"
        );
    }
}
