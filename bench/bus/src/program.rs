//! The capability that runs as a child process: it reads lines and answers each request with its
//! own data.

use mainspring_message::{Draft, Envelope};
use std::io::{BufRead, BufReader, Write};

const BUFFER_BYTES: usize = 64 * 1024;

pub(crate) fn run() -> Result<(), String> {
    let mut input = BufReader::with_capacity(BUFFER_BYTES, std::io::stdin().lock());
    let mut output = std::io::stdout().lock();
    let (mut line, mut answers, mut scratch) = (String::new(), Vec::new(), String::new());
    let prefix = std::process::id();
    for number in 0u64.. {
        line.clear();
        if input.read_line(&mut line).map_err(|error| error.to_string())? == 0 {
            return Ok(());
        }
        let message = Envelope::parse(line.trim_end().as_bytes()).map_err(|error| error.to_string())?;
        let reply = Draft::reply(&message, message.data_json());
        let answer = reply.compose(&format!("p{prefix}-{number}"), message.timestamp_ms(), &mut scratch);
        answers.extend_from_slice(answer.line().as_bytes());
        answers.push(b'\n');
        // All that came together is answered together.
        if memchr::memchr(b'\n', input.buffer()).is_none() {
            output.write_all(&answers).and_then(|()| output.flush()).map_err(|error| error.to_string())?;
            answers.clear();
        }
    }
    Ok(())
}
