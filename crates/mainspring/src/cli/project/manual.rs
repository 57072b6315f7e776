//! `mainspring manual`: this command line as man pages, a page for each command. Packages are made
//! with it.

use clap::CommandFactory;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  mainspring manual ~/.local/share/man/man1
  man mainspring-send

Exit code: 0 the pages are written, 1 they cannot be, 2 the command line is wrong.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct ManualArguments {
    /// The folder that the pages are written to. It is made if it is not there.
    folder: PathBuf,
}

pub(in crate::cli) fn run(arguments: &ManualArguments) -> ExitCode {
    let folder = &arguments.folder;
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(crate::cli::Arguments::command(), folder));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mainspring: cannot write man pages to {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}
