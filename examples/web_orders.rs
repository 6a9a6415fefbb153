//! A web service that takes a lock per order, so that two machines do not work on one order, however often and on
//! however many machines its button is pressed.
//!
//! Run it with `cargo run --example web_orders`. It serves on a free port, sends itself four
//! requests at once, two of them for the same order, prints the answers, and ends.
//!
//! On loss: `guard.run` drops the handler's work at its next await and the client is told 503. The
//! order's state then decides, not the lock: it is written in one step at the end, and a request
//! that comes later finds it paid or not paid. A payment at a bank that was under way then may be done again: give
//! the bank the order's number, so that it knows. Busy for too long is 409, too few nodes is 503.
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

mod cluster;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use quorlock::{AcquireError, Redlock, Wait};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// What every handler gets: one client for the whole service, and the orders.
#[derive(Clone)]
struct Shop {
    redlock: Redlock,
    /// Stands for the database.
    paid: Arc<Mutex<HashSet<String>>>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = cluster::nodes().await?;
    let shop = Shop {
        redlock: Redlock::builder().nodes(&cluster.addresses).build()?,
        paid: Arc::default(),
    };
    let router = Router::new()
        .route("/orders/{order}/pay", post(pay))
        .with_state(shop.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let serving = tokio::spawn(async move { axum::serve(listener, router).await });
    let mut answers = Vec::new();
    for order in ["17", "17", "18", "19"] {
        answers.push((order, tokio::spawn(ask(address, order))));
    }
    for (order, answer) in answers {
        println!("order {order}: {}", answer.await??);
    }
    serving.abort();
    shop.redlock.close().await;
    Ok(())
}

/// Pays an order, unless it is paid.
async fn pay(State(shop): State<Shop>, Path(order): Path<String>) -> (StatusCode, &'static str) {
    let lock = shop.redlock.lock(format!("order-{order}")).ttl(TTL);
    let guard = match lock.wait(Wait::For(Duration::from_secs(5))).acquire().await {
        Ok(guard) => guard,
        Err(AcquireError::Busy { .. }) => return (StatusCode::CONFLICT, "try again later"),
        Err(_) => return (StatusCode::SERVICE_UNAVAILABLE, "no lock can be had"),
    };
    let outcome = guard.run(charge(&shop, &order)).await;
    let release = guard.release().await;
    match outcome {
        Ok(_) if release.was_lost() => (StatusCode::SERVICE_UNAVAILABLE, "ask again"),
        Ok(true) => (StatusCode::OK, "paid"),
        Ok(false) => (StatusCode::OK, "was paid before"),
        Err(_lost) => (StatusCode::SERVICE_UNAVAILABLE, "ask again"),
    }
}

/// Looks, charges, writes: nobody else may come in between. Says whether it had to be done.
async fn charge(shop: &Shop, order: &str) -> bool {
    let paid = || shop.paid.lock().unwrap_or_else(PoisonError::into_inner);
    if paid().contains(order) {
        return false;
    }
    // The bank takes its time, and charges whoever asks.
    sleep(Duration::from_millis(100)).await;
    paid().insert(order.to_owned());
    true
}

/// One request; gives the body of the answer.
async fn ask(address: std::net::SocketAddr, order: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request =
        format!("POST /orders/{order}/pay HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok(body.to_owned())
}

const TTL: Duration = Duration::from_secs(10);
