//! Standard output that may end at any time: whoever reads it (`head`, a pager) may have enough.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, fstat};
use std::io::{self, Write};
use std::process::ExitCode;

/// Prints text. That nobody reads it to the end is no failure.
pub(in crate::cli) fn print(text: &str) -> ExitCode {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mainspring: cannot write to standard output: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether standard output is a pipe, whose reader may go away.
pub(in crate::cli) fn is_pipe() -> bool {
    fstat(io::stdout()).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo)
}

/// Ends this process, with success, when the reader of standard output goes away: also while there
/// is nothing to write.
pub(in crate::cli) fn end_with_reader() {
    if !is_pipe() {
        return;
    }
    std::thread::spawn(|| {
        let stdout = io::stdout();
        let mut end = [PollFd::new(&stdout, PollFlags::empty())];
        // Errors are reported whatever is asked for.
        while poll(&mut end, None) == Err(rustix::io::Errno::INTR) {}
        if end[0].revents().contains(PollFlags::ERR) {
            std::process::exit(0);
        }
    });
}
