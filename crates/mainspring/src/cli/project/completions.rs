//! `mainspring completions`: scripts that complete this command line in a shell.

use crate::cli::support::output;
use clap::CommandFactory;
use clap_complete::{Shell, generate};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  mainspring completions bash > ~/.local/share/bash-completion/completions/mainspring
  mainspring completions zsh > \"${fpath[1]}/_mainspring\"
  mainspring completions fish > ~/.config/fish/completions/mainspring.fish

Exit code: 0 it is printed, 1 it cannot be written, 2 the command line makes no sense.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Arguments {
    /// The shell.
    shell: Shell,
}

pub(in crate::cli) fn run(arguments: &Arguments) -> ExitCode {
    let mut script = Vec::new();
    generate(arguments.shell, &mut crate::cli::Arguments::command(), "mainspring", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
