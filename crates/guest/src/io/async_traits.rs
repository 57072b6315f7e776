//! The read and write traits of tokio and of futures-io, for every stream of this crate.
//!
//! The two families differ in how a read is told where to put its bytes and in what the last call
//! is named; everything else is written once.

use crate::{Stderr, Stdin, Stdout, TcpStream};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A stream that can say that nothing more will be written.
trait Finish {
    fn finish(&self) -> io::Result<()>;
}

impl Finish for TcpStream {
    fn finish(&self) -> io::Result<()> {
        self.shutdown_write()
    }
}

impl Finish for Stdout {
    fn finish(&self) -> io::Result<()> {
        Ok(())
    }
}

impl Finish for Stderr {
    fn finish(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Implements a write trait, whose last call has the given name. The host takes bytes at once, so
/// there is nothing to flush.
macro_rules! writes {
    ($trait:path, $last_call:ident: $($stream:ty),*) => {$(
        impl $trait for $stream {
            fn poll_write(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.handle().poll_write(context, bytes)
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn $last_call(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(self.finish())
            }
        }
    )*};
}

/// Implements a read trait: `$read` is made of what the stream's own `poll_read` is given.
macro_rules! reads {
    ($trait:path, $buffer:ty => $output:ty, $read:expr; $($stream:ty),*) => {$(
        impl $trait for $stream {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: &mut $buffer,
            ) -> Poll<io::Result<$output>> {
                $read(buffer, |bytes: &mut [u8]| <$stream>::poll_read(&self, context, bytes))
            }
        }
    )*};
}

#[cfg(feature = "tokio")]
mod tokio_traits {
    use super::*;
    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    fn read_into(
        buffer: &mut ReadBuf<'_>,
        read: impl FnOnce(&mut [u8]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<()>> {
        let count = std::task::ready!(read(buffer.initialize_unfilled()))?;
        buffer.advance(count);
        Poll::Ready(Ok(()))
    }

    reads!(AsyncRead, ReadBuf<'_> => (), read_into; TcpStream, Stdin);
    writes!(AsyncWrite, poll_shutdown: TcpStream, Stdout, Stderr);
}

#[cfg(feature = "futures-io")]
mod futures_traits {
    use super::*;
    use futures_io::{AsyncRead, AsyncWrite};

    fn read_into(
        buffer: &mut [u8],
        read: impl FnOnce(&mut [u8]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        read(buffer)
    }

    reads!(AsyncRead, [u8] => usize, read_into; TcpStream, Stdin);
    writes!(AsyncWrite, poll_close: TcpStream, Stdout, Stderr);
}
