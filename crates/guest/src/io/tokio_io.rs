//! The read and write traits of tokio.

use crate::{Stderr, Stdin, Stdout, TcpStream};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

macro_rules! reads {
    ($($name:ty),*) => {$(
        impl AsyncRead for $name {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                let count = ready!(<$name>::poll_read(&self, context, buffer.initialize_unfilled()))?;
                buffer.advance(count);
                Poll::Ready(Ok(()))
            }
        }
    )*};
}

macro_rules! writes {
    ($($name:ty => $shutdown:expr),*) => {$(
        impl AsyncWrite for $name {
            fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
                self.handle().poll_write(context, bytes)
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                let shutdown: fn(&$name) -> io::Result<()> = $shutdown;
                Poll::Ready(shutdown(&self))
            }
        }
    )*};
}

reads!(TcpStream, Stdin);
writes!(TcpStream => TcpStream::shutdown_write, Stdout => |_| Ok(()), Stderr => |_| Ok(()));
