//! TLS: certificates from files, and a client's socket with encryption.
//!
//! The handshake happens inside the first read, so the limit for a request's head covers it.

use crate::wire::stream::{Abort, Stream};
use hyper::rt::{Read, ReadBufCursor, Write};
use rustix::net::{RecvFlags, SendFlags};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Why TLS cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read, or is not what it should be.
    #[error("{}: {reason}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The certificate and the key do not go together, or are of no use.
    #[error("the certificate cannot be used: {0}")]
    Certificate(#[from] rustls::Error),
    /// The certificates of `client_ca` cannot be used.
    #[error("client_ca cannot be used: {0}")]
    ClientCa(String),
}

/// What clients are shown, and what they must show.
#[derive(Clone, Debug)]
pub struct Tls(Arc<ServerConfig>);

impl Tls {
    /// Reads a chain of certificates and its key, PEM both, and the certificates by which clients
    /// must be signed, if any.
    ///
    /// # Errors
    /// With the file at fault.
    pub fn read(certificate: &Path, key: &Path, client_ca: Option<&Path>) -> Result<Tls, Error> {
        let mut config = Tls::config(certificate, key, client_ca)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Tls(Arc::new(config)))
    }

    /// The same for what is not HTTP.
    ///
    /// # Errors
    /// With the file at fault.
    pub fn config(certificate: &Path, key: &Path, client_ca: Option<&Path>) -> Result<ServerConfig, Error> {
        let chain = certificates(certificate)?;
        let key_der = PrivateKeyDer::from_pem_file(key).map_err(|error| file(key, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path)? {
                    roots.add(certificate).map_err(|error| file(path, &error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                    .build()
                    .map_err(|error| Error::ClientCa(error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        Ok(builder.with_single_cert(chain, key_der)?)
    }

    pub(crate) fn accept(&self, stream: Stream) -> io::Result<TlsStream> {
        let session = ServerConnection::new(Arc::clone(&self.0)).map_err(io::Error::other)?;
        Ok(TlsStream { stream, session, ended: false, told_end: false })
    }
}

/// The certificates in a file, of which there is at least one.
///
/// # Errors
/// When it cannot be read, or there is none.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).map_err(|error| file(path, &error))?.collect();
    let chain = chain.map_err(|error| file(path, &error))?;
    if chain.is_empty() {
        return Err(Error::File {
            path: path.to_owned(),
            reason: "there is no certificate in it".to_owned(),
        });
    }
    Ok(chain)
}

fn file(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::File { path: path.to_owned(), reason: error.to_string() }
}

/// A socket with encryption.
pub(crate) struct TlsStream {
    stream: Stream,
    session: ServerConnection,
    /// The peer will send no more.
    ended: bool,
    told_end: bool,
}

/// A socket as the session reads and writes it.
struct Socket<'a>(&'a OwnedFd);

impl io::Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::net::recv(self.0, buffer, RecvFlags::empty())?.0)
    }
}

impl io::Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TlsStream {
    /// Sends whatever the session has to send.
    fn poll_session(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.session.wants_write() {
            let session = &mut self.session;
            ready!(self.stream.poll_send(context, |socket| session.write_tls(&mut Socket(socket))))?;
        }
        Poll::Ready(Ok(()))
    }
}

impl Abort for TlsStream {
    fn abort(&self) {
        self.stream.abort();
    }
}

impl Read for TlsStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if let Poll::Ready(Err(error)) = this.poll_session(context) {
                return Poll::Ready(Err(error));
            }
            // SAFETY: the bytes are zeroed first, so the reader gets initialised memory, and only
            // it writes there.
            let spare = unsafe {
                let spare = buffer.as_mut();
                spare.fill(std::mem::MaybeUninit::new(0));
                std::slice::from_raw_parts_mut(spare.as_mut_ptr().cast::<u8>(), spare.len())
            };
            match this.session.reader().read(spare) {
                Ok(count) => {
                    // SAFETY: the reader has just filled so many bytes.
                    unsafe { buffer.advance(count) };
                    return Poll::Ready(Ok(()));
                }
                // The peer closed without saying so: whatever was to come is cut off, as without
                // encryption.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Poll::Ready(Ok(())),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Poll::Ready(Err(error)),
                Err(_) if this.ended => return Poll::Ready(Ok(())),
                Err(_) => {}
            }
            let session = &mut this.session;
            let count = ready!(
                this.stream.io.poll_read_with(context, |socket| session.read_tls(&mut Socket(socket)))
            )?;
            this.ended = count == 0;
            if let Err(error) = this.session.process_new_packets() {
                // The alert that tells the peer why.
                let _ = this.poll_session(context);
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
            }
        }
    }
}

impl Write for TlsStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        loop {
            // What the session holds already goes first; its buffer is bounded.
            if let Poll::Ready(Err(error)) = this.poll_session(context) {
                return Poll::Ready(Err(error));
            }
            let taken = this.session.writer().write(bytes)?;
            if taken > 0 || bytes.is_empty() {
                let _ = this.poll_session(context)?;
                return Poll::Ready(Ok(taken));
            }
            ready!(this.poll_session(context))?;
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_session(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !std::mem::replace(&mut self.told_end, true) {
            self.session.send_close_notify();
        }
        ready!(self.poll_session(context))?;
        Poll::Ready(self.stream.end_output())
    }
}
