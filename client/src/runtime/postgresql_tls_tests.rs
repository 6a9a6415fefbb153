//! A PostgreSQL server that speaks TLS, and then nothing.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::postgresql::tests::refusal;
use super::tls::Tls;
use crate::tls_options::TlsOptions;

#[tokio::test]
async fn a_server_that_ends_no_handshake_is_given_up_in_time() {
    let tls = Tls::new(TlsOptions::new().insecure(true));
    let tls = tls.expect("no file is read");
    let listener = TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.expect("a port is free");
    let server = listener.local_addr().expect("it is bound");
    let silent = async {
        let (mut stream, _) = listener.accept().await.expect("a client connects");
        let mut asks_for_tls = [0; 8];
        let read = stream.read_exact(&mut asks_for_tls).await;
        read.expect("the client asks first");
        stream.write_all(b"S").await.expect("the client reads");
        std::future::pending::<()>().await;
    };
    let address = format!("postgresql://me:secret@{server}/locks?sslmode=require");
    let refusal = tokio::select! {
        refusal = refusal(&address, Some(tls)) => refusal,
        () = silent => unreachable!("it does not end"),
    };
    assert_eq!(refusal, "no answer in time");
}
