//! A TCP stream over the calls of `mainspring:sockets`.

use crate::executor::Executor;
use crate::mainspring::sockets::tcp::{
    PluginError, SocketInterest, SocketReadResult, SocketWriteResult, socket_close, socket_read, socket_write,
};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub(crate) struct HostTcpStream {
    handle: u64,
    closed: bool,
    executor: Executor,
}

impl HostTcpStream {
    pub(crate) fn new(handle: u64, executor: Executor) -> HostTcpStream {
        HostTcpStream { handle, closed: false, executor }
    }

    fn close(&mut self) {
        if !std::mem::replace(&mut self.closed, true) {
            socket_close(self.handle);
        }
    }
}

pub(crate) fn io_error(error: PluginError) -> io::Error {
    io::Error::other(format!("{}: {}", error.code, error.message))
}

impl AsyncRead for HostTcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.closed || buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        match socket_read(self.handle, buffer.remaining() as u64).map_err(io_error)? {
            SocketReadResult::Data(bytes) => {
                buffer.put_slice(&bytes);
                Poll::Ready(Ok(()))
            }
            SocketReadResult::Eof => Poll::Ready(Ok(())),
            SocketReadResult::WouldBlock => {
                self.executor.would_block(context, self.handle, SocketInterest::Read)
            }
        }
    }
}

impl AsyncWrite for HostTcpStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.closed {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        match socket_write(self.handle, bytes).map_err(io_error)? {
            SocketWriteResult::Written(count) => Poll::Ready(Ok(count as usize)),
            SocketWriteResult::WouldBlock => {
                self.executor.would_block(context, self.handle, SocketInterest::Write)
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.close();
        Poll::Ready(Ok(()))
    }
}

impl Drop for HostTcpStream {
    fn drop(&mut self) {
        self.close();
    }
}
