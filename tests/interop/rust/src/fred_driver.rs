//! What fred does on one node: connecting, SET NX PX, scripts, transactions, channels, with RESP2 and RESP3.

use std::collections::HashMap;
use std::time::Duration;

use fred::prelude::*;
use fred::types::RespVersion;

use crate::driver::UNLOCK;
use crate::{Failure, Report, expect};

pub async fn run(report: &mut Report, url: &str) {
    for (name, version) in [("RESP2", RespVersion::RESP2), ("RESP3", RespVersion::RESP3)] {
        let connected = connect(url, version.clone()).await.map(|_| ());
        report.add(&format!("fred: connects with {name}"), connected);
        let version = || version.clone();
        report
            .add(&format!("fred: SET NX PX and a script with {name}"), locks(url, version()).await);
        report.add(&format!("fred: pipelining with {name}"), pipelines(url, version()).await);
        report.add(&format!("fred: transactions with {name}"), transacts(url, version()).await);
        report.add(&format!("fred: channels with {name}"), listens(url, version()).await);
    }
}

async fn connect(url: &str, version: RespVersion) -> Result<Client, Failure> {
    let config = Config { version, ..Config::from_url(url)? };
    let client = Client::new(config, None, None, None);
    client.init().await?;
    Ok(client)
}

async fn locks(url: &str, version: RespVersion) -> Result<(), Failure> {
    let client = connect(url, version).await?;
    let _: () = client.del("interop:fred").await?;
    for (token, expected) in [("t1", Some("OK")), ("t2", None)] {
        let expiry = Some(Expiration::PX(30_000));
        let reply: Option<String> =
            client.set("interop:fred", token, expiry, Some(SetOptions::NX), false).await?;
        expect(reply.as_deref() == expected, format!("SET with {token} was answered {reply:?}"))?;
    }
    let wrong: i64 = client.eval(UNLOCK, "interop:fred", "t2").await?;
    let digest: String = client.script_load(UNLOCK).await?;
    let right: i64 = client.evalsha(digest, "interop:fred", "t1").await?;
    expect((wrong, right) == (0, 1), format!("deleted {wrong} and {right}"))
}

async fn pipelines(url: &str, version: RespVersion) -> Result<(), Failure> {
    let client = connect(url, version).await?;
    let pipeline = client.pipeline();
    for number in 0..300 {
        let expiry = Some(Expiration::PX(30_000));
        let _: () = pipeline.set("interop:fred-p", number, expiry, None, false).await?;
        let _: () = pipeline.get("interop:fred-p").await?;
    }
    let replies: Vec<String> = pipeline.all().await?;
    let expected: Vec<String> =
        (0..300).flat_map(|number| ["OK".to_owned(), format!("{number}")]).collect();
    expect(replies == expected, "the replies of a pipeline do not match its requests")
}

async fn transacts(url: &str, version: RespVersion) -> Result<(), Failure> {
    let client = connect(url, version).await?;
    let transaction = client.multi();
    let _: () =
        transaction.set("interop:fred-t", 1, Some(Expiration::PX(30_000)), None, false).await?;
    let _: () = transaction.incr("interop:fred-t").await?;
    let replies: (String, i64) = transaction.exec(true).await?;
    expect(replies == ("OK".to_owned(), 2), format!("EXEC was answered {replies:?}"))
}

async fn listens(url: &str, version: RespVersion) -> Result<(), Failure> {
    let channel = format!("interop:fred-{version:?}");
    let listener = connect(url, version.clone()).await?;
    let mut messages = listener.message_rx();
    listener.subscribe(channel.as_str()).await?;
    let client = connect(url, version).await?;
    tokio::time::timeout(Duration::from_secs(8), subscribed(&client, &channel)).await??;
    let heard: i64 = client.publish(channel, "hello").await?;
    expect(heard == 1, format!("{heard} heard it"))?;
    let message = tokio::time::timeout(Duration::from_secs(8), messages.recv()).await??;
    let text: String = message.value.convert()?;
    expect(text == "hello", format!("heard {text}"))?;
    Ok(listener.quit().await?)
}

/// Waits until the node knows a subscriber of `channel`: fred's `subscribe` returns once it has written.
async fn subscribed(client: &Client, channel: &str) -> Result<(), Failure> {
    loop {
        let subscribers: HashMap<String, i64> = client.pubsub_numsub(channel).await?;
        if subscribers.get(channel) == Some(&1) {
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
}
