//! Tokens that another issuer signs: `RS256`, `ES256` and `EdDSA`, with keys from a local key server.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use program::http::{Answer, Request};
use program::{Program, Serving, text};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use serde_json::{Value, json};

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A key of an issuer.
enum Key {
    Rsa(RsaKeyPair),
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Key {
    fn new(algorithm: &str) -> Self {
        let random = SystemRandom::new();
        match algorithm {
            // The library makes no RSA keys.
            "RS256" => Self::Rsa(RsaKeyPair::from_pkcs8(include_bytes!("tokens/rsa.pk8")).unwrap()),
            "ES256" => {
                let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
                let made = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
                Self::Ecdsa(EcdsaKeyPair::from_pkcs8(kind, made.as_ref(), &random).unwrap())
            }
            _ => {
                let made = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
                Self::Ed25519(Ed25519KeyPair::from_pkcs8(made.as_ref()).unwrap())
            }
        }
    }

    /// The public key, as an issuer publishes it.
    fn published(&self, id: &str) -> Value {
        let mut key = match self {
            Self::Rsa(key) => {
                let parts = ring::rsa::PublicKeyComponents::<Vec<u8>>::from(key.public_key());
                json!({ "kty": "RSA", "n": encoded(parts.n), "e": encoded(parts.e) })
            }
            Self::Ecdsa(key) => {
                let point = key.public_key().as_ref();
                json!({ "kty": "EC", "crv": "P-256", "x": encoded(&point[1..33]), "y": encoded(&point[33..]) })
            }
            Self::Ed25519(key) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "x": encoded(key.public_key().as_ref()) })
            }
        };
        key["kid"] = id.into();
        key["use"] = "sig".into();
        key
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .unwrap();
                signature
            }
            Self::Ecdsa(key) => key.sign(&random, message).unwrap().as_ref().to_vec(),
            Self::Ed25519(key) => key.sign(message).as_ref().to_vec(),
        }
    }

    fn token(&self, header: &Value, claims: &Value) -> String {
        let message = format!(
            "{}.{}",
            encoded(header.to_string()),
            encoded(claims.to_string())
        );
        let signature = encoded(self.sign(message.as_bytes()));
        format!("{message}.{signature}")
    }
}

/// A server of keys, which counts how often it is asked.
struct KeyServer {
    url: String,
    answer: Arc<Mutex<String>>,
    asked: Arc<AtomicUsize>,
}

impl KeyServer {
    fn start(keys: &[Value]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        let (answer, asked) = (
            Arc::new(Mutex::new(String::new())),
            Arc::new(AtomicUsize::new(0)),
        );
        let server = Self {
            url,
            answer: Arc::clone(&answer),
            asked: Arc::clone(&asked),
        };
        server.publish(keys);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let mut connection = connection.unwrap();
                let _ = connection.read(&mut [0; 4_096]);
                asked.fetch_add(1, Ordering::SeqCst);
                let answer = answer.lock().unwrap().clone();
                let _ = connection.write_all(answer.as_bytes());
            }
        });
        server
    }

    fn publish(&self, keys: &[Value]) {
        self.say("200 OK", "", &json!({ "keys": keys }).to_string());
    }

    fn say(&self, status: &str, headers: &str, body: &str) {
        let length = body.len();
        *self.answer.lock().unwrap() = format!(
            "HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// A service that takes tokens of an issuer.
fn serve(program: &Program, algorithm: &str, jwt: &Value) -> Serving {
    let mut settings = json!({
        "auth": { "jwt": { "algorithm": algorithm, "issuer": "https://login.example.com", "audience": "convoke" } },
        "outgoing": { "private_hosts": ["127.0.0.1"] },
        "limits": { "requests_per_minute": 1_000_000, "request_burst": 1_000_000 },
    });
    let keys = jwt.as_object().unwrap().clone();
    settings["auth"]["jwt"]
        .as_object_mut()
        .unwrap()
        .extend(keys);
    let file = program.folder().join("server.json");
    std::fs::write(&file, settings.to_string()).unwrap();
    Serving::start(
        program,
        &["--settings", file.to_str().unwrap(), &program.app()],
    )
}

fn ask(address: &str, token: &str) -> Answer {
    Request::new(address, "GET", "/api/v1/tasks")
        .token(token)
        .send()
}

fn now() -> u64 {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap();
    now.as_secs()
}

fn claims() -> Value {
    json!({ "sub": "ada", "exp": now() + 600, "iss": "https://login.example.com", "aud": "convoke" })
}

fn with(key: &str, value: impl Into<Value>) -> Value {
    let mut claims = claims();
    claims[key] = value.into();
    claims
}

fn without(key: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove(key);
    claims
}

/// Tokens that must not be accepted, and what is wrong with each. `key` signs, and `other` is published for encryption.
fn refused_tokens(algorithm: &str, key: &Key, other: &Key) -> Vec<(String, String)> {
    let header = |alg: &str, kid: &str| json!({ "alg": alg, "typ": "JWT", "kid": kid });
    let good = header(algorithm, "one");
    let sign = |claims: Value| key.token(&good, &claims);
    let published = key.published("one");
    let token = sign(claims());
    let (message, _) = token.rsplit_once('.').unwrap();
    let public = match key {
        Key::Rsa(key) => key.public_key().as_ref().to_vec(),
        Key::Ecdsa(key) => key.public_key().as_ref().to_vec(),
        Key::Ed25519(key) => key.public_key().as_ref().to_vec(),
    };
    // The public key as a shared secret.
    let confused = |secret: &[u8]| {
        let message = format!(
            "{}.{}",
            encoded(header("HS256", "one").to_string()),
            encoded(claims().to_string())
        );
        let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
        let signature = ring::hmac::sign(&secret, message.as_bytes());
        format!("{message}.{}", encoded(signature))
    };
    let unsigned = |alg: &str| {
        format!(
            "{}.{}.",
            encoded(header(alg, "one").to_string()),
            encoded(claims().to_string())
        )
    };
    let others = ["RS256", "ES256", "EdDSA", "PS256", "RS512"];
    let wrong_algorithms = others.iter().filter(|other| **other != algorithm);
    let mut refused: Vec<(String, String)> = wrong_algorithms
        .map(|other| {
            (
                format!("signed as {other}"),
                key.token(&header(other, "one"), &claims()),
            )
        })
        .collect();
    let cases = [
        ("of another key", Key::new("EdDSA").token(&good, &claims())),
        ("unsigned", format!("{message}.")),
        ("alg none", unsigned("none")),
        ("alg None", unsigned("None")),
        ("confused", confused(&public)),
        (
            "confused with the published key",
            confused(published.to_string().as_bytes()),
        ),
        ("confused with a symmetric key", confused(b"secret")),
        (
            "a key id that is unknown",
            key.token(&header(algorithm, "two"), &claims()),
        ),
        (
            "no key id",
            key.token(&json!({ "alg": algorithm }), &claims()),
        ),
        (
            "a key for encryption",
            other.token(&header(algorithm, "encrypts"), &claims()),
        ),
        (
            "a symmetric key",
            key.token(&header(algorithm, "symmetric"), &claims()),
        ),
        ("expired", sign(with("exp", now() - 100))),
        ("never expires", sign(without("exp"))),
        ("expires in words", sign(with("exp", "never"))),
        ("not yet valid", sign(with("nbf", now() + 100))),
        (
            "another issuer",
            sign(with("iss", "https://evil.example.com")),
        ),
        ("no issuer", sign(without("iss"))),
        ("another audience", sign(with("aud", "others"))),
        ("no audience", sign(without("aud"))),
        ("no subject", sign(without("sub"))),
        ("an empty subject", sign(with("sub", ""))),
        ("too long", "a".repeat(8_000)),
    ];
    refused.extend(cases.map(|(name, token)| (name.to_owned(), token)));
    refused
}

#[test]
fn tokens_of_an_issuer_are_accepted_if_everything_about_them_is_right() {
    for algorithm in ["RS256", "ES256", "EdDSA"] {
        let program = Program::new();
        let (key, other) = (Key::new(algorithm), Key::new("ES256"));
        let mut for_encryption = other.published("encrypts");
        for_encryption["use"] = "enc".into();
        let symmetric = json!({ "kty": "oct", "kid": "symmetric", "k": encoded("secret") });
        let unknown_kind = json!({ "kty": "new", "kid": "new" });
        let server = KeyServer::start(&[
            unknown_kind,
            symmetric,
            for_encryption,
            key.published("one"),
        ]);
        let serving = serve(&program, algorithm, &json!({ "jwks_url": server.url }));
        let address = serving.address();
        let header = |alg: &str, kid: &str| json!({ "alg": alg, "typ": "JWT", "kid": kid });
        let good = header(algorithm, "one");
        let sign = |claims: Value| key.token(&good, &claims);
        for claims in [
            claims(),
            with("aud", json!(["others", "convoke"])),
            with("nbf", now() - 5),
            // Within the leeway.
            with("exp", now() - 5),
            with("nbf", now() + 5),
        ] {
            assert_eq!(
                ask(address, &sign(claims.clone())).status,
                200,
                "{algorithm}: {claims}"
            );
        }
        for (name, token) in refused_tokens(algorithm, &key, &other) {
            let answer = ask(address, &token);
            assert_eq!(answer.status, 401, "{algorithm}: {name}");
            assert_eq!(
                answer.json()["code"],
                "auth.token_invalid",
                "{algorithm}: {name}"
            );
        }
    }
}

#[test]
fn new_keys_of_an_issuer_are_fetched_old_ones_forgotten_and_unknown_ids_do_not_flood_the_issuer() {
    let program = Program::new();
    let (old, new) = (Key::new("EdDSA"), Key::new("EdDSA"));
    let token = |key: &Key, id: &str| key.token(&json!({ "alg": "EdDSA", "kid": id }), &claims());
    let server = KeyServer::start(&[old.published("old")]);
    let serving = serve(
        &program,
        "EdDSA",
        &json!({ "jwks_url": server.url, "jwks_refresh_seconds": 3_600, "jwks_pause_seconds": 3_600 }),
    );
    let address = serving.address();
    assert_eq!(ask(address, &token(&old, "old")).status, 200);
    server.publish(&[new.published("new")]);
    for number in 0..50 {
        let id = format!("unknown {number}");
        assert_eq!(ask(address, &token(&new, &id)).status, 401);
        assert_eq!(ask(address, &token(&old, "old")).status, 200);
    }
    assert_eq!(server.asked(), 1);
    // With short times, the keys are rotated without a restart.
    server.publish(&[old.published("old")]);
    let serving = serve(
        &program,
        "EdDSA",
        &json!({ "jwks_url": server.url, "jwks_refresh_seconds": 1, "jwks_pause_seconds": 1 }),
    );
    let address = serving.address();
    assert_eq!(ask(address, &token(&old, "old")).status, 200);
    server.publish(&[new.published("new")]);
    while ask(address, &token(&new, "new")).status != 200 {
        std::thread::yield_now();
    }
    while ask(address, &token(&old, "old")).status != 401 {
        std::thread::yield_now();
    }
    // An issuer that is down does not lock out who was let in before.
    server.say("500 Internal Server Error", "", "");
    let before = server.asked();
    while server.asked() < before + 2 {
        assert_eq!(ask(address, &token(&new, "new")).status, 200);
    }
}

#[test]
fn keys_that_cannot_be_had_or_are_no_keys_let_nobody_in() {
    let key = Key::new("EdDSA");
    let token = key.token(&json!({ "alg": "EdDSA", "kid": "one" }), &claims());
    let keys = json!({ "keys": [key.published("one")] }).to_string();
    let elsewhere = KeyServer::start(&[key.published("one")]);
    let location = format!("location: {}\r\n", elsewhere.url);
    let large = format!("{keys}{}", " ".repeat(300 * 1024));
    for (status, headers, body) in [
        ("500 Internal Server Error", "", keys.as_str()),
        ("302 Found", location.as_str(), ""),
        ("200 OK", "", "nothing"),
        ("200 OK", "", large.as_str()),
    ] {
        let program = Program::new();
        let server = KeyServer::start(&[]);
        server.say(status, headers, body);
        let serving = serve(&program, "EdDSA", &json!({ "jwks_url": server.url }));
        let answer = ask(serving.address(), &token);
        assert_eq!(answer.status, 503, "{status} {}", body.len());
        assert!(answer.header("retry-after").is_some());
        assert_eq!(answer.json()["code"], "auth.keys_unavailable");
        assert_eq!(server.asked(), 1);
    }
    assert_eq!(elsewhere.asked(), 0);
}

#[test]
fn keys_are_not_fetched_from_a_private_network_unless_the_settings_name_the_host() {
    let program = Program::new();
    let key = Key::new("EdDSA");
    let server = KeyServer::start(&[key.published("one")]);
    let port = server.url.rsplit_once(':').unwrap().1.to_owned();
    let settings = program.folder().join("server.json");
    let write = |url: &str, hosts: Value| {
        let settings_of = json!({
            "auth": { "jwt": { "algorithm": "EdDSA", "jwks_url": url, "issuer": "https://login.example.com", "audience": "convoke" } },
            "outgoing": { "private_hosts": hosts },
        });
        std::fs::write(&settings, settings_of.to_string()).unwrap();
    };
    let file = settings.to_str().unwrap();
    let token = key.token(&json!({ "alg": "EdDSA", "kid": "one" }), &claims());
    for url in [
        server.url.clone(),
        format!("https://127.0.0.1:{port}"),
        format!("https://2130706433:{port}"),
        format!("http://localhost:{port}"),
    ] {
        write(&url, json!([]));
        let refused = program.run(&[
            "--json",
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--settings",
            file,
            &program.app(),
        ]);
        assert_eq!(refused.status.code(), Some(2), "{url}: {refused:?}");
        assert!(
            text(&refused.stdout).contains("server.jwks_url"),
            "{url}: {refused:?}"
        );
    }
    // What a name stands for is known once it is resolved.
    write(&format!("https://localhost:{port}"), json!([]));
    let serving = Serving::start(&program, &["--settings", file, &program.app()]);
    assert_eq!(ask(serving.address(), &token).status, 503);
    assert_eq!(server.asked(), 0);
    write(&format!("http://localhost:{port}"), json!(["localhost"]));
    let serving = Serving::start(&program, &["--settings", file, &program.app()]);
    assert_eq!(ask(serving.address(), &token).status, 200);
}
