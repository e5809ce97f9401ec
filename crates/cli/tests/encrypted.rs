//! A model behind TLS: trusted if the machine trusts its certificate, and refused otherwise.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use program::{Program, text};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

const ANSWER: &str =
    r#"{"choices":[{"message":{"role":"assistant","content":"Nobody else heard it."}}]}"#;

/// A model server with a certificate of its own. Gives its port and the certificate.
fn start() -> (u16, String) {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            // A client that does not trust the certificate goes away.
            let _ = serve(StreamOwned::new(connection, stream.unwrap()));
        }
    });
    (port, own.cert.pem())
}

fn serve<S: Read + Write>(stream: S) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim().to_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        stream.read_exact(&mut vec![0; length])?;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ";
        let answer = format!("{head}{}\r\n\r\n{ANSWER}", ANSWER.len());
        stream.get_mut().write_all(answer.as_bytes())?;
        stream.get_mut().flush()?;
    }
}

#[test]
fn a_model_behind_tls_is_asked_if_its_certificate_is_trusted() {
    let (port, certificate) = start();
    let program = Program::new();
    let trusted = program.folder().join("trusted.pem");
    std::fs::write(&trusted, certificate).unwrap();
    let model = format!("https://localhost:{port}/v1#m");
    let say = "what do the stars whisper of an evening";
    let arguments = ["run", &program.app(), say, "--model", &model];

    let output = program
        .command(&arguments)
        .env("SSL_CERT_FILE", &trusted)
        .output()
        .unwrap();
    assert_eq!(
        text(&output.stdout),
        "Nobody else heard it.\n",
        "{output:?}"
    );

    let output = program
        .command(&arguments)
        .env_remove("SSL_CERT_FILE")
        .output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("certificate"), "{said}");
}
