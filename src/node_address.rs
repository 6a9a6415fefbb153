//! A node's address as people write it: `host:port`, the path of a socket, or a full address.

use crate::exit_code::Failure;

/// Completes a plain `host:port`, as other tools take it. What cannot be one gets the words of the
/// client, which reads the addresses.
pub(crate) fn complete(address: String) -> Result<String, Failure> {
    if address.contains("://") {
        return Ok(address);
    }
    if address.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Failure::usage(format!(
            "'{address}' is not a node's address: host and port are needed, as in \
             127.0.0.1:{address}"
        ))
        .remedy(EXAMPLE));
    }
    if address.starts_with('/') {
        return Ok(format!("unix://{address}"));
    }
    Ok(format!("redis://{address}"))
}

/// How nodes are named, for those who named none.
pub(crate) const EXAMPLE: &str = "start five here with: quorlock cluster up
or name them: export QUORLOCK_NODES=127.0.0.1:7001,127.0.0.1:7002,...";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_host_and_port_is_an_address() {
        let completed = |text: &str| complete(text.to_owned()).map_err(|failure| failure.code);
        for (plain, url) in [
            ("db1:7001", "redis://db1:7001"),
            ("[::1]:7001", "redis://[::1]:7001"),
            ("db1", "redis://db1"),
            ("/run/node.sock", "unix:///run/node.sock"),
            ("rediss://db1:7001", "rediss://db1:7001"),
        ] {
            assert_eq!(completed(plain), Ok(url.to_owned()), "{plain}");
        }
        assert_eq!(completed("5"), Err(crate::exit_code::USAGE));
    }
}
