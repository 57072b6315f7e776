//! One guest that uses both: files by WASI, sockets and waiting by sys/loop, and tokio's buffered
//! reader over that socket.
//!
//! `wasi-both FILE` serves the file: each connection sends a line number and gets that line.

use mainspring_guest::{TcpListener, TcpStream, block_on, spawn};
use std::rc::Rc;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

fn main() -> std::io::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_default();
    let text = std::fs::read_to_string(path)?;
    let lines: Rc<[String]> = text.lines().map(String::from).collect();
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        println!("listening on port {}", listener.local_port());
        loop {
            let (stream, _) = listener.accept().await?;
            let lines = Rc::clone(&lines);
            spawn(async move {
                // A peer that goes away is no reason to stop.
                let _ = serve(stream, &lines).await;
            });
        }
    })
}

async fn serve(stream: TcpStream, lines: &[String]) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut request = String::new();
    while stream.read_line(&mut request).await? > 0 {
        let line = request.trim().parse::<usize>().ok().and_then(|number| lines.get(number));
        let answer = line.map_or("no such line", String::as_str);
        stream.write_all(format!("{answer}\n").as_bytes()).await?;
        request.clear();
    }
    Ok(())
}
