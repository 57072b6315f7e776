//! A TCP client: sends its second argument, says that it has finished, and prints what comes back.
//!
//!     mainspring run --allow-connect 127.0.0.1:7000 client.wasm -- 127.0.0.1:7000 hello

use mainspring_guest::{TcpStream, args, block_on, eprintln, stdout, timeout};
use std::io;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

fn main() -> std::process::ExitCode {
    match block_on(talk()) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("client: {}: {error}", error.kind());
            std::process::ExitCode::FAILURE
        }
    }
}

async fn talk() -> io::Result<()> {
    let mut arguments = args()?.into_iter().skip(1);
    let (Some(address), Some(text)) = (arguments.next(), arguments.next()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "usage: client HOST:PORT TEXT"));
    };
    let stream = timeout(PATIENCE, TcpStream::connect(&address)).await??;
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown_write()?;
    let output = stdout();
    let mut buffer = [0; 1024];
    loop {
        let count = timeout(PATIENCE, stream.read(&mut buffer)).await??;
        if count == 0 {
            return Ok(());
        }
        output.write_all(&buffer[..count]).await?;
    }
}
