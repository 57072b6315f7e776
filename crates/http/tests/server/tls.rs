//! TLS: what clients are shown, and what they must show.

use crate::support::{Client, connect, start_with};
use mainspring_http::Limits;
use mainspring_http::tls::Tls;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::BufReader;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A file of `tests/data`: an authority that nobody else trusts, and a certificate for `localhost`
/// that it signed for the server and another for a client, valid for a hundred years. The
/// authority's key was thrown away.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn offered(asks_clients: bool) -> Tls {
    let authority = path("authority.pem");
    let client_ca = asks_clients.then_some(authority.as_path());
    Tls::read(&path("server.pem"), &path("server.key"), client_ca).unwrap()
}

fn trusting(shows_certificate: bool) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(path("authority.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    if !shows_certificate {
        return Arc::new(builder.with_no_client_auth());
    }
    let chain = vec![CertificateDer::from_pem_file(path("client.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(path("client.key")).unwrap();
    Arc::new(builder.with_client_auth_cert(chain, key).unwrap())
}

type Encrypted = StreamOwned<ClientConnection, TcpStream>;

fn encrypted(client: Client<TcpStream>, config: Arc<ClientConfig>) -> Client<Encrypted> {
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(config, name).unwrap();
    Client { stream: BufReader::new(StreamOwned::new(session, client.stream.into_inner())) }
}

#[test]
fn h2_3_requests_and_long_bodies_pass_through_tls() {
    let server = start_with(Limits::default(), Some(offered(false)));
    let mut client = encrypted(connect(&server), trusting(false));
    for n in 0..20 {
        assert_eq!(client.ask("POST", "/v1/commands/Test.Echo", "", &n.to_string()).text(), n.to_string());
    }
    let long = format!("\"{}\"", "x".repeat(500_000));
    for _ in 0..3 {
        assert_eq!(client.ask("POST", "/v1/commands/Test.Echo", "", &long).body.len(), long.len());
    }
}

#[test]
fn h2_3_a_client_without_a_certificate_is_refused_where_one_is_asked_for() {
    let server = start_with(Limits::default(), Some(offered(true)));
    let mut known = encrypted(connect(&server), trusting(true));
    assert_eq!(known.ask("GET", "/livez", "", "").status, 200);
    let mut unknown = encrypted(connect(&server), trusting(false));
    let sent = std::io::Write::write_all(
        unknown.stream.get_mut(),
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    );
    let mut answer = String::new();
    let read = std::io::Read::read_to_string(&mut unknown.stream, &mut answer);
    assert!((sent.is_err() || read.is_err()) && answer.is_empty(), "{answer}");
}

#[test]
fn h2_3_a_handshake_that_does_not_come_is_closed_and_plain_bytes_are_refused() {
    let limits = Limits { head_time_max: Duration::from_millis(300), ..Limits::default() };
    let server = start_with(limits, Some(offered(false)));
    assert!(connect(&server).is_closed(), "nothing was said");
    let mut plain = connect(&server);
    plain.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut answer = Vec::new();
    let _ = std::io::Read::read_to_end(&mut plain.stream, &mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}

#[test]
fn h2_3_files_that_are_no_certificates_are_named() {
    let nothing = Path::new(file!())
        .file_name()
        .map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server").join(name));
    let nothing = nothing.unwrap();
    let (certificate, key) = (path("server.pem"), path("server.key"));
    for (certificate, key, client_ca) in [
        (nothing.as_path(), key.as_path(), None),
        (certificate.as_path(), nothing.as_path(), None),
        (certificate.as_path(), key.as_path(), Some(nothing.as_path())),
    ] {
        let error = Tls::read(certificate, key, client_ca).unwrap_err().to_string();
        assert!(error.contains("tls.rs"), "{error}");
    }
    let absent = Tls::read(&path("absent.pem"), &key, None).unwrap_err().to_string();
    assert!(absent.contains("absent.pem"), "{absent}");
    let other = Tls::read(&certificate, &path("client.key"), None);
    assert!(other.is_err(), "the key is another certificate's");
}
