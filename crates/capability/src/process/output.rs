//! Lines on their way out.

use std::io::{self, Write};

/// What is gathered before it is written in any case.
const GATHERED_BYTES_MAX: usize = 64 << 10;

/// Standard output, with what was said and not written yet.
pub(crate) struct Output {
    stream: Box<dyn Write + Send>,
    gathered: String,
}

impl std::fmt::Debug for Output {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Output({} bytes)", self.gathered.len())
    }
}

impl Output {
    pub(crate) fn new(stream: Box<dyn Write + Send>) -> Output {
        Output { stream, gathered: String::new() }
    }

    /// Adds a line. Whoever says much waits here for the reader.
    pub(crate) fn say(&mut self, line: &str) -> io::Result<()> {
        self.gathered.push_str(line);
        self.gathered.push('\n');
        if self.gathered.len() > GATHERED_BYTES_MAX { self.flush() } else { Ok(()) }
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let written = self.stream.write_all(self.gathered.as_bytes());
        self.gathered.clear();
        self.gathered.shrink_to(2 * GATHERED_BYTES_MAX);
        written?;
        self.stream.flush()
    }
}
