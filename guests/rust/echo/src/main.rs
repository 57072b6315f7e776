//! An echo server: one task for each connection.
//!
//!     mainspring run --allow-listen 127.0.0.1:7000 echo.wasm -- 127.0.0.1:7000

use mainspring_guest::{TcpListener, TcpStream, args, block_on, eprintln, println, spawn};

fn main() -> std::process::ExitCode {
    match block_on(serve()) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("echo: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

async fn serve() -> std::io::Result<()> {
    let address = args()?.into_iter().nth(1).unwrap_or_else(|| "127.0.0.1:0".into());
    let listener = TcpListener::bind(&address)?;
    println!("listening on port {}", listener.local_port());
    loop {
        let (stream, _) = listener.accept().await?;
        spawn(echo(stream));
    }
}

async fn echo(stream: TcpStream) {
    let mut buffer = vec![0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        if stream.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
