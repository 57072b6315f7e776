//! Compiling guests in a process of their own.
//!
//! A compiler cannot be interrupted, and what it needs grows faster than what it is given. So the
//! program starts itself once more for each guest that is not in the cache, with limits that the
//! system holds, and a guest that asks for too much costs that process alone. Whoever embeds this
//! library has no such program and compiles in its own process, within limits of size.

mod child;
pub(crate) mod code_cache;

pub(crate) use child::main as child_main;

use mainspring_host::{CompileLimits, Error, Host};
use rustix::fs::MemfdFlags;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// The first argument that tells the program to be a compiler.
const COMPILE: &str = "__compile-guest";
/// This very program, even if its file was replaced in the meantime.
const THIS_PROGRAM: &str = "/proc/self/exe";
/// The most that is kept of what the compiler complains about.
const COMPLAINT_BYTES_MAX: u64 = 4 << 10;

/// Guests are compiled by this program, started once more.
static OUTSIDE: OnceLock<()> = OnceLock::new();

/// From now on guests are compiled in processes of their own. For `main` alone: any other program
/// does not know what to do when it is started as a compiler.
pub(crate) fn compile_outside() {
    OUTSIDE.get_or_init(|| ());
}

/// What a compiler process says before it ends: one byte, and what belongs to it.
mod word {
    /// The code follows.
    pub(super) const CODE: u8 = b'C';
    /// The guest cannot be compiled, and why follows.
    pub(super) const REFUSED: u8 = b'E';
    /// It took too long.
    pub(super) const TIME: u8 = b'T';
}

/// Compiles a module or component to what [`Host::load`] and [`Host::load_component`] take.
///
/// # Errors
/// Its sizes, the compiler's reason, its time or its memory.
pub(crate) fn compile(host: &Host, bytes: &[u8], limits: &CompileLimits) -> mainspring_host::Result<Vec<u8>> {
    limits.check(bytes)?;
    if OUTSIDE.get().is_none() {
        return host.precompile(bytes, limits);
    }
    let (said, complaint) = run(bytes, limits).map_err(|error| {
        Error::Compile(mainspring_host::wasmtime::Error::msg(format!(
            "the process that compiles could not be run: {error}"
        )))
    })?;
    outcome(said, &complaint, limits)
}

/// Runs the compiler: what it said, and what it complained about.
fn run(bytes: &[u8], limits: &CompileLimits) -> io::Result<(Vec<u8>, String)> {
    let mut complaints = memory_file("complaints")?;
    let mut compiler = start(bytes, limits, &complaints)?;
    let mut said = Vec::new();
    let heard = compiler.stdout.take().map_or(Ok(0), |mut stdout| stdout.read_to_end(&mut said));
    // It has said all. Somebody else may have reaped it: the daemon does that with all of its
    // children.
    let _ = compiler.wait();
    heard?;
    let mut complaint = Vec::new();
    complaints.rewind()?;
    complaints.take(COMPLAINT_BYTES_MAX).read_to_end(&mut complaint)?;
    Ok((said, String::from_utf8_lossy(&complaint).trim().to_owned()))
}

fn start(bytes: &[u8], limits: &CompileLimits, complaints: &File) -> io::Result<Child> {
    let mut guest = memory_file("guest")?;
    guest.write_all(bytes)?;
    guest.rewind()?;
    let cpu_ms = u64::try_from(limits.cpu_time.as_millis()).unwrap_or(u64::MAX);
    Command::new(THIS_PROGRAM)
        .arg(COMPILE)
        .args([cpu_ms.to_string(), limits.memory_bytes.to_string(), limits.function_bytes.to_string()])
        // It needs nothing of it, and what tells a capability's processes apart is none of its own.
        .env_clear()
        // What the allocator sets aside without using it would count as used.
        .envs([("MIMALLOC_ARENA_EAGER_COMMIT", "0"), ("MIMALLOC_ARENA_RESERVE", "16384")])
        .stdin(guest)
        .stdout(Stdio::piped())
        .stderr(complaints.try_clone()?)
        .spawn()
}

fn memory_file(name: &str) -> io::Result<File> {
    Ok(File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?))
}

fn outcome(mut said: Vec<u8>, complaint: &str, limits: &CompileLimits) -> mainspring_host::Result<Vec<u8>> {
    let because = |text: String| Err(Error::Compile(mainspring_host::wasmtime::Error::msg(text)));
    match said.first() {
        Some(&word::CODE) => {
            said.remove(0);
            Ok(said)
        }
        Some(&word::REFUSED) => because(String::from_utf8_lossy(&said[1..]).into_owned()),
        Some(&word::TIME) => Err(Error::CompileTime { limit: limits.cpu_time }),
        // How a program of ours ends that is refused memory.
        _ if complaint.contains("memory allocation of ") => {
            Err(Error::CompileMemory { limit: limits.memory_bytes })
        }
        _ => because(format!("the process that compiles ended without a result: {complaint}")),
    }
}
