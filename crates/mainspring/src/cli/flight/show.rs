//! `mainspring flight show`: what happened to a daemon, input by input.

use super::{FlightPlace, failure};
use crate::cli::support::local_time::clock;
use crate::cli::support::target::Failure;
use crate::flight::describe::describe;
use crate::text::units;
use mainspring_kernel::{Now, Recorded, TapeReader};
use serde_json::{Value, json};
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(super) struct FlightShowArguments {
    #[command(flatten)]
    place: FlightPlace,
    /// Only the last of it, such as 10s.
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    last: Option<Duration>,
    /// Print each input as a line of JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &FlightShowArguments) -> Result<ExitCode, Failure> {
    let (path, folder, recording) = arguments.place.open()?;
    let each = |visit: &mut dyn FnMut(Now, &Recorded) -> Result<(), String>| {
        let mut now = Now::default();
        recording.read(&folder, &mut |records| {
            for recorded in TapeReader::new(records) {
                let recorded = recorded.map_err(|error| error.to_string())?;
                if let Recorded::Now(then) = recorded {
                    now = then;
                }
                visit(now, &recorded)?;
            }
            Ok(())
        })
    };
    let mut since = 0;
    if let Some(last) = arguments.last {
        let mut end = 0;
        each(&mut |now, _| {
            end = now.unix_ms;
            Ok(())
        })
        .map_err(|error| failure(&path, &error))?;
        since = end.saturating_sub(u64::try_from(last.as_millis()).unwrap_or(u64::MAX));
    }
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut broken = None;
    let read = each(&mut |now, recorded| {
        let Some((name, data)) = describe(recorded).filter(|_| now.unix_ms >= since) else { return Ok(()) };
        let line = if arguments.json { as_json(now, name, data) } else { for_people(now, name, &data) };
        out.write_all(line.as_bytes()).map_err(|error| {
            let told = error.to_string();
            broken = Some(error);
            told
        })
    });
    let left_out = match broken {
        Some(error) => return Err(Failure::Output(error)),
        None => read.map_err(|error| failure(&path, &error))?,
    };
    out.flush()?;
    if let Some(left_out) = left_out {
        eprintln!("mainspring: {left_out}");
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(now: Now, name: &str, data: Value) -> String {
    let mut object = json!({ "unixMs": now.unix_ms, "input": name });
    if let (Value::Object(all), Value::Object(data)) = (&mut object, data) {
        all.extend(data);
    }
    format!("{object}\n")
}

fn for_people(now: Now, name: &str, data: &Value) -> String {
    let shown = data.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let fields: Vec<String> = shown
        .map(|(key, value)| match value {
            Value::String(text) => format!("{key} {}", crate::text::printable::one_line(text)),
            value => format!("{key} {value}"),
        })
        .collect();
    format!("{}  {name:<18}  {}\n", clock(now.unix_ms), fields.join("  "))
}
