//! What redis-rs does on one node: connecting with RESP2 and RESP3, SET NX PX, scripts, pipelines.

use redis::{Client, RedisResult, Script, Value, cmd, pipe};

use crate::{Failure, Report, expect};

pub const UNLOCK: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then \
                      return redis.call('del', KEYS[1]) else return 0 end";

pub async fn run(report: &mut Report, url: &str) {
    report.add("redis-rs: connects with RESP2", connects(url).await);
    report.add("redis-rs: connects with RESP3", connects(&format!("{url}/?protocol=resp3")).await);
    report.add("redis-rs: SET NX PX and compare-and-delete", locks(url).await);
    report.add("redis-rs: pipelining", pipelines(url).await);
}

async fn connects(url: &str) -> Result<(), Failure> {
    let mut connection = Client::open(url)?.get_multiplexed_async_connection().await?;
    let pong: String = cmd("PING").query_async(&mut connection).await?;
    expect(pong == "PONG", format!("PING was answered {pong}"))
}

async fn locks(url: &str) -> Result<(), Failure> {
    let mut connection = Client::open(url)?.get_multiplexed_async_connection().await?;
    let set = |token: &'static str| {
        let mut command = cmd("SET");
        command.arg("interop:rs").arg(token).arg("NX").arg("PX").arg(30_000);
        command
    };
    let _: Value = cmd("DEL").arg("interop:rs").query_async(&mut connection).await?;
    let first: Value = set("t1").query_async(&mut connection).await?;
    expect(first == Value::Okay, format!("the first SET was answered {first:?}"))?;
    let second: Value = set("t2").query_async(&mut connection).await?;
    expect(second == Value::Nil, format!("the second SET was answered {second:?}"))?;
    let script = Script::new(UNLOCK);
    let wrong: i64 = script.key("interop:rs").arg("t2").invoke_async(&mut connection).await?;
    let right: i64 = script.key("interop:rs").arg("t1").invoke_async(&mut connection).await?;
    expect((wrong, right) == (0, 1), format!("deleted {wrong} and {right}"))
}

async fn pipelines(url: &str) -> Result<(), Failure> {
    let mut connection = Client::open(url)?.get_multiplexed_async_connection().await?;
    let mut requests = pipe();
    for number in 0..300 {
        requests.cmd("SET").arg("interop:rs").arg(number).arg("PX").arg(30_000).ignore();
        requests.cmd("GET").arg("interop:rs");
    }
    let replies: RedisResult<Vec<i64>> = requests.query_async(&mut connection).await;
    let expected: Vec<i64> = (0..300).collect();
    expect(replies? == expected, "the replies of a pipeline do not match its requests")
}
