//! The standard streams: taken away from whoever prints, and read.

use super::actor::Actor;
use super::signals::Signals;
use mainspring_message::lines::{Line, LineBuffer};
use rustix::event::{PollFd, PollFlags, poll};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;

/// Room for one read.
const READ_BYTES: usize = 64 << 10;
/// The longest line that is taken; no daemon writes one that long.
const LINE_BYTES_MAX: usize = 64 << 20;

/// Takes standard input and output. What the program prints from now on goes to standard error, and
/// what it reads is empty: both streams carry messages only.
pub(crate) fn take() -> io::Result<(File, File)> {
    let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok((File::from(input), File::from(output)))
}

/// Reads until the input ends or SIGTERM comes.
pub(crate) fn read(input: &mut File, signals: &Signals, actor: &Actor) -> io::Result<()> {
    let mut lines = LineBuffer::new(READ_BYTES, LINE_BYTES_MAX);
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(input.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => continue,
            polled => polled?,
        };
        let (of_input, of_signals) = (fds[0].revents(), fds[1].revents());
        if !of_signals.is_empty() && signals.is_over() {
            return Ok(());
        }
        if of_input.is_empty() {
            continue;
        }
        let count = match input.read(lines.room()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        lines.filled(count);
        while let Some(line) = lines.next_line() {
            take_line(line, actor);
        }
        if count == 0 {
            if let Some(line) = lines.finish() {
                take_line(line, actor);
            }
            return Ok(());
        }
    }
}

fn take_line(line: Line<'_>, actor: &Actor) {
    match line {
        Line::Whole(_) if line.is_blank() => {}
        Line::Whole(bytes) => actor.take(bytes),
        Line::TooLong => eprintln!("a line on standard input is longer than {LINE_BYTES_MAX} bytes"),
    }
}
