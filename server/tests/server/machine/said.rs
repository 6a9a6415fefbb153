//! What a start says of the stop before it and of its restart delay, in INFO and in its refusals.

use quorlock_server::Node;
use quorlock_testkit::Wire;

use super::wire;

/// What a start says of the stop before it, and of its delay.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) stop: String,
    pub(crate) cause: String,
    pub(crate) length_ms: u64,
    pub(crate) left_ms: u64,
}

/// Asks INFO, and checks that its fields agree with each other and with what commands get.
pub(crate) fn said(node: &Node) -> Said {
    let mut client = wire(node);
    let number = |client: &mut Wire, field: &str| client.info(field).parse::<u64>().unwrap();
    let said = Said {
        stop: client.info("restart_last_stop"),
        cause: client.info("restart_delay_cause"),
        length_ms: number(&mut client, "restart_delay_length_ms"),
        left_ms: number(&mut client, "restart_delay_left_ms"),
    };
    let waits = said.left_ms > 0;
    assert_eq!(client.info("restart_delay"), u8::from(waits).to_string());
    assert_eq!(
        number(&mut client, "restart_delay_remaining_ms"),
        said.left_ms
    );
    assert_eq!(
        number(&mut client, "restart_delay_at_start_ms"),
        said.left_ms
    );
    assert_eq!(
        client.info("restart_delay_end_estimate_utc").is_empty(),
        !waits
    );
    assert_eq!(client.info("restart_waited_ms").is_empty(), waits);
    assert_eq!(client.info("restart_delay_reason").is_empty(), !waits);
    assert_eq!(said.cause == "none", !waits);
    assert_eq!(node.is_serving(), !waits);
    assert_eq!(client.info("restart_last_stop_words"), node.last_stop());
    assert_eq!(
        client.info("restart_incarnation"),
        node.incarnation().to_string()
    );
    let clean = match said.stop.as_str() {
        "clean" => "yes",
        "never-ran" => "none",
        "unknown" => "unknown",
        _ => "no",
    };
    assert_eq!(client.info("restart_last_stop_clean"), clean);
    let reply = client.ask("GET a");
    if waits {
        assert_eq!(milliseconds_left(&reply), said.left_ms, "{reply}");
        assert!(
            reply.contains(&client.info("restart_delay_reason")),
            "{reply}"
        );
    } else {
        assert!(!reply.starts_with('-'), "{reply}");
    }
    said
}

/// The time a refusal names.
pub(crate) fn milliseconds_left(reply: &str) -> u64 {
    let field = reply.split(' ').nth(1);
    let left = field.and_then(|field| field.parse().ok());
    left.unwrap_or_else(|| panic!("no delay: {reply}"))
}
