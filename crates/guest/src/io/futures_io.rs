//! The read and write traits of futures-io.

use crate::{Stderr, Stdin, Stdout, TcpStream};
use futures_io::{AsyncRead, AsyncWrite};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

macro_rules! reads {
    ($($name:ty),*) => {$(
        impl AsyncRead for $name {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                <$name>::poll_read(&self, context, buffer)
            }
        }
    )*};
}

macro_rules! writes {
    ($($name:ty => $close:expr),*) => {$(
        impl AsyncWrite for $name {
            fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
                self.handle().poll_write(context, bytes)
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                let close: fn(&$name) -> io::Result<()> = $close;
                Poll::Ready(close(&self))
            }
        }
    )*};
}

reads!(TcpStream, Stdin);
writes!(TcpStream => TcpStream::shutdown_write, Stdout => |_| Ok(()), Stderr => |_| Ok(()));
