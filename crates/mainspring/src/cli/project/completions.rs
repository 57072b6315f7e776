//! `mainspring completions`: scripts that complete this command line in a shell. The script asks
//! this program, and that asks the daemon for what only it knows.

use crate::cli::support::output;
use clap::CommandFactory;
use clap_complete::CompleteEnv;
use clap_complete::env::Shells;
use std::process::ExitCode;

/// The variable by which the script asks.
const VARIABLE: &str = "_MAINSPRING_COMPLETE";

const EXAMPLES: &str = "\
Examples:
  mainspring completions bash > ~/.local/share/bash-completion/completions/mainspring
  mainspring completions zsh > \"${fpath[1]}/_mainspring\"
  mainspring completions fish > ~/.config/fish/completions/mainspring.fish

Types, capabilities and timers are those of the daemon that a command would talk to, if it answers within 200 ms.

Exit code: 0 it is printed, 1 it cannot be written, 2 the command line is wrong.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct CompletionsArguments {
    /// The shell.
    #[arg(value_parser = ["bash", "elvish", "fish", "powershell", "zsh"])]
    shell: String,
}

pub(in crate::cli) fn run(arguments: &CompletionsArguments) -> ExitCode {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let written = shells.completer(&arguments.shell).map(|shell| {
        shell.write_registration(VARIABLE, "mainspring", "mainspring", "mainspring", &mut script)
    });
    match written {
        Some(Ok(())) => output::print(&String::from_utf8_lossy(&script)),
        _ => {
            eprintln!("mainspring: there is no script for {}", arguments.shell);
            ExitCode::FAILURE
        }
    }
}

/// Answers the script of a shell, if it is that which asks; whether it was.
pub(in crate::cli) fn answer_shell() -> bool {
    if std::env::var_os(VARIABLE).is_none() {
        return false;
    }
    let folder = std::env::current_dir().ok();
    let asked = CompleteEnv::with_factory(crate::cli::Arguments::command).var(VARIABLE);
    // What cannot be completed is nothing to complain about in the middle of a line that somebody
    // types.
    asked.try_complete(std::env::args_os(), folder.as_deref()).unwrap_or(true)
}
