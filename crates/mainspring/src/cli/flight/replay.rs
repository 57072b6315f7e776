//! `mainspring flight replay`: the same inputs again, and whether they come to the same effects.

use super::{FlightPlace, failure};
use crate::cli::support::local_time::clock;
use crate::cli::support::output;
use crate::cli::support::target::Failure;
use crate::flight::build_id;
use mainspring_kernel::{Replay, ReplayError, TapeReader};
use serde_json::json;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct FlightReplayArguments {
    #[command(flatten)]
    place: FlightPlace,
    /// Print what was found as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &FlightReplayArguments) -> Result<ExitCode, Failure> {
    let (path, folder, recording) = arguments.place.open()?;
    let header = &recording.header;
    let own =
        build_id().map_err(|error| failure(&path, &format!("cannot read this program's file: {error}")))?;
    if header.build != own {
        let reason = format!(
            "it was recorded by another build ({} {}); this is {} {own}. Another build may do other things with the same \
             inputs, so only the same one can replay them; `mainspring flight show` shows them",
            header.version,
            header.build,
            env!("CARGO_PKG_VERSION")
        );
        return Err(failure(&path, &reason));
    }
    if header.before > 0 {
        let reason = format!(
            "the first {} records of the run are no longer kept, and a replay needs them all; `flight.bytes` says how much is \
             kept, `mainspring flight show` shows what is left",
            header.before
        );
        return Err(failure(&path, &reason));
    }
    let mut replay = Replay::default();
    let mut differs = None;
    let read = recording.read(&folder, &mut |records| {
        for recorded in TapeReader::new(records) {
            let taken = recorded.map_err(ReplayError::from).and_then(|recorded| replay.take(recorded));
            taken.map_err(|error| {
                let told = error.to_string();
                differs = Some(error);
                told
            })?;
        }
        Ok(())
    });
    if let Some(ReplayError::Differs { unix_ms, effects, .. }) = &differs {
        let when = clock(*unix_ms);
        eprintln!("mainspring: at {when}, the replay wants this done:");
        effects.iter().for_each(|effect| eprintln!("  {effect}"));
    }
    let left_out = read.map_err(|error| failure(&path, &error))?;
    let (inputs, effects) = (replay.inputs(), replay.effects());
    if let Some(left_out) = &left_out {
        if inputs == 0 {
            return Err(failure(&path, &format!("there is nothing to replay: {left_out}")));
        }
        eprintln!("mainspring: {left_out}");
    }
    Ok(output::print(&if arguments.json {
        let left_out = left_out.map_or(0, |left_out| left_out.bytes);
        let found = json!({
            "run": recording.run, "inputs": inputs, "effects": effects, "same": true, "leftOutBytes": left_out,
        });
        format!("{found}\n")
    } else {
        format!("{inputs} inputs came to the same {effects} effects, byte for byte\n")
    }))
}
