//! The work of an echo server on the reactor.

use mainspring_reactor::Async;
use std::io::{Read, Write};
use std::os::fd::AsFd;

/// Sends back what comes, at most `buffer_bytes` at a time, until the other end closes or fails.
pub async fn echo<S>(stream: Async<S>, buffer_bytes: usize)
where
    S: AsFd,
    for<'a> &'a S: Read + Write,
{
    let mut buffer = vec![0; buffer_bytes];
    while let Ok(count @ 1..) = stream.read_with(|mut stream| stream.read(&mut buffer)).await {
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            match stream.write_with(|mut stream| stream.write(rest)).await {
                Ok(count) => rest = &rest[count..],
                Err(_) => return,
            }
        }
    }
}
