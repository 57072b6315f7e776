//! `mainspring journal replay`: commands of a journal, sent again on request and never otherwise.

use super::{Choice, JournalPlace, failure};
use crate::cli::support::output;
use crate::cli::support::target::{Failure, Target};
use crate::cli::support::text;
use mainspring_journal::Reader;
use mainspring_kernel::Fact;
use mainspring_message::{Draft, Envelope, Kind};
use std::process::ExitCode;

/// The most commands that are sent again at once.
const COMMANDS_MAX: usize = 100_000;

#[derive(Debug, clap::Args)]
pub(super) struct JournalReplayArguments {
    #[command(flatten)]
    place: JournalPlace,
    #[command(flatten)]
    choice: Choice,
    /// Only the command with this id. May be given several times.
    #[arg(long, value_name = "ID")]
    id: Vec<String>,
    /// Show what would be sent, and send nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    target: Target,
}

pub(super) fn run(arguments: &JournalReplayArguments) -> Result<ExitCode, Failure> {
    let JournalReplayArguments { choice, id, .. } = arguments;
    if choice.types.is_empty() && id.is_empty() {
        return Err(Failure::Usage(
            "say which commands: --types PATTERN or --id ID (--types '*' for all)".into(),
        ));
    }
    let (path, folder) = arguments.place.open()?;
    let since_ms = choice.since_ms();
    let mut reader = Reader::open(&folder, 1).map_err(|error| failure(&path, &error))?;
    let mut chosen: Vec<Envelope> = Vec::new();
    let mut choose = |record: mainspring_journal::Record<'_>, unix_ms: u64| {
        let Ok(Fact::Accepted { message, .. }) = Fact::read(record.kind, record.version, record.data) else {
            return;
        };
        let Ok(message) = Envelope::parse(message.as_bytes()) else { return };
        let is_named = id.is_empty() || id.iter().any(|id| id == message.id());
        if unix_ms >= since_ms && is_named && choice.takes(Some(message.type_name())) {
            chosen.push(message);
        }
    };
    while reader.read(&mut choose).map_err(|error| failure(&path, &error))? {}
    if chosen.len() > COMMANDS_MAX {
        let text = format!("{} commands are chosen; at most {COMMANDS_MAX} at once", chosen.len());
        return Err(Failure::Usage(text));
    }
    if chosen.is_empty() {
        eprintln!("mainspring: no command of {} is chosen", path.display());
    }
    let mut failed = false;
    let mut client =
        if arguments.dry_run || chosen.is_empty() { None } else { Some(arguments.target.connect()?) };
    for message in &chosen {
        let Some(client) = &mut client else {
            output::print(&format!("{}\n", message.line()));
            continue;
        };
        let outcome = client.request(&again(message, &arguments.target))?;
        let shown = match outcome.kind() {
            Kind::Error => {
                failed = true;
                text::error_line(&outcome)
            }
            _ => format!("{} {}", text::visible(outcome.type_name()), text::visible(outcome.data())),
        };
        output::print(&format!("{} -> {shown}\n", text::visible(message.id())));
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The same command under a fresh id, caused by the one it was.
fn again(message: &Envelope, target: &Target) -> Draft {
    let mut draft = Draft::caused_by(message, message.kind(), message.type_text(), message.data_json());
    draft.correlation = message.correlation_text();
    draft.timeout_ms = target.timeout_ms().or(message.timeout_ms());
    draft
}
