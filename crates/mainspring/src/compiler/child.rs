//! The process that compiles: a guest on standard input, its code on standard output, and nothing
//! else.

use crate::compiler::{COMPILE, word};
use mainspring_host::{CompileLimits, Error, Host, HostConfig};
use rustix::process::{Resource, Rlimit, Signal};
use rustix::time::ClockId;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often the time is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// How much longer than its time the system lets it live, should it not notice itself.
const SPARE_SECONDS: u64 = 5;
/// Memory that the program has before it compiles anything.
const OWN_BYTES: u64 = 64 << 20;

/// Compiles, if the program was started for that: the first argument says so.
pub(crate) fn main(arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let arguments: Vec<OsString> = arguments.skip(1).take(4).collect();
    if arguments.first()? != COMPILE {
        return None;
    }
    let number = |at: usize| arguments.get(at)?.to_str()?.parse::<u64>().ok();
    let limits = CompileLimits {
        bytes: u64::MAX,
        cpu_time: Duration::from_millis(number(1)?),
        memory_bytes: number(2)?,
        function_bytes: number(3)?,
    };
    Some(work(&limits).map_or_else(
        |error| {
            eprintln!("{error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    ))
}

fn work(limits: &CompileLimits) -> io::Result<()> {
    confine(limits)?;
    // Whoever has it may speak, once.
    let floor = Arc::new(Mutex::new(()));
    watch_time(limits.cpu_time, Arc::clone(&floor))?;
    let mut guest = Vec::new();
    io::stdin().lock().read_to_end(&mut guest)?;
    let compiled = host().and_then(|host| host.precompile(&guest, limits));
    let (word, text) = match compiled {
        Ok(code) => (word::CODE, code),
        Err(Error::Compile(reason)) => (word::REFUSED, format!("{reason:#}").into_bytes()),
        Err(error) => (word::REFUSED, error.to_string().into_bytes()),
    };
    let _speaking = floor.lock().unwrap_or_else(PoisonError::into_inner);
    let mut output = io::stdout().lock();
    output.write_all(&[word])?;
    output.write_all(&text)?;
    output.flush()
}

/// A host whose code those of this program can load: none of them makes slots beforehand.
fn host() -> mainspring_host::Result<Host> {
    let mut config = HostConfig::new();
    (config.guests_max, config.pooling) = (1, false);
    config.build()
}

/// Has the system hold the limits, and end this process with its parent.
fn confine(limits: &CompileLimits) -> io::Result<()> {
    let only = |most: u64| Rlimit { current: Some(most), maximum: Some(most) };
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    rustix::process::setrlimit(Resource::Core, only(0))?;
    rustix::process::setrlimit(Resource::Data, only(limits.memory_bytes.saturating_add(OWN_BYTES)))?;
    rustix::process::setrlimit(Resource::Cpu, only(limits.cpu_time.as_secs().saturating_add(SPARE_SECONDS)))?;
    Ok(())
}

/// Ends this process when its CPU time is used up, and says so.
fn watch_time(limit: Duration, floor: Arc<Mutex<()>>) -> io::Result<()> {
    let watch = move || {
        loop {
            std::thread::sleep(LOOK);
            let used = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
            if Duration::try_from(used).unwrap_or_default() >= limit {
                let _speaking = floor.lock().unwrap_or_else(PoisonError::into_inner);
                let _ = io::stdout().write_all(&[word::TIME]);
                let _ = io::stdout().flush();
                std::process::exit(1);
            }
        }
    };
    std::thread::Builder::new().spawn(watch).map(drop)
}
