//! Starting a child process: its own group, its limits, pipes for its standard streams.

use crate::client::TOKEN_VARIABLE;
use crate::daemon::actors::Port;
use crate::daemon::actors::process::child_processes::ChildProcesses;
use crate::daemon::operator::notify::NOTIFY_VARIABLE;
use crate::settings::{ProcessLimits, ProcessProgram};
use rustix::process::{Pid, Resource, Rlimit, Signal};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;

/// The variable that tells a child, and its own children, which incarnation of which capability
/// they are.
pub(super) const INCARNATION_VARIABLE: &str = "MAINSPRING_INCARNATION";

/// Variables of the daemon that children do not get, unless their manifest gives them one of that
/// name: they are not the service, whose manager hands it sockets and waits for its word, and what
/// lets somebody into a daemon is not for whatever that daemon runs.
const KEPT_VARIABLES: [&str; 9] = [
    NOTIFY_VARIABLE,
    TOKEN_VARIABLE,
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "LISTEN_PID",
    "LISTEN_PIDFDID",
    "FDSTORE",
];

/// The program of this process, also when its file was replaced by a newer one meanwhile: both
/// halves of a daemon are of one version.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// A child that was started. All pipes are non-blocking on our side.
pub(super) struct Child {
    pub(super) pid: Pid,
    pub(super) pidfd: OwnedFd,
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// Starts the program. It is among the child processes from here on.
pub(super) fn launch(
    program: &ProcessProgram,
    port: &Port,
    child_processes: &Rc<ChildProcesses>,
) -> Result<Child, String> {
    let Some((name, arguments)) = program.command.split_first() else {
        return Err("its command is empty".into());
    };
    let folder = std::path::absolute(&program.folder).map_err(|error| error.to_string())?;
    let mut command = Command::new(resolve(name, &folder));
    if program.is_mcp_server {
        command = Command::new(OWN_PROGRAM);
        command.args(["mcp", "adapter", "--"]).arg(resolve(name, &folder));
    }
    for variable in KEPT_VARIABLES {
        command.env_remove(variable);
    }
    command
        .args(arguments)
        .current_dir(&folder)
        .envs(program.environment.iter().map(|(name, value)| (name, value)))
        .env(INCARNATION_VARIABLE, child_processes.tag(port))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    prepare(&mut command, limits(&program.limits, child_processes.descriptors()));
    let mut child = command.spawn().map_err(|error| describe(name, &folder, &error))?;
    let pid = Pid::from_child(&child);
    child_processes.take_in(pid, port);
    let started = (|| -> io::Result<Child> {
        let missing = || io::Error::other("a pipe is missing");
        let stdin = OwnedFd::from(child.stdin.take().ok_or_else(missing)?);
        let stdout = OwnedFd::from(child.stdout.take().ok_or_else(missing)?);
        let stderr = OwnedFd::from(child.stderr.take().ok_or_else(missing)?);
        for pipe in [&stdin, &stdout, &stderr] {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::NONBLOCK)?;
        Ok(Child { pid, pidfd, stdin, stdout, stderr })
    })();
    started.map_err(|error| {
        child_processes.give_up(pid, port);
        format!("{name}: {error}")
    })
}

/// A path with a slash is relative to the program's folder; a bare name is looked up in `PATH`.
fn resolve(name: &str, folder: &Path) -> PathBuf {
    if name.contains('/') { folder.join(name) } else { PathBuf::from(name) }
}

fn describe(name: &str, folder: &Path, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound if !folder.is_dir() => {
            format!("its folder {} is not there", folder.display())
        }
        io::ErrorKind::NotFound => format!("there is no program {name}, or none that its first line names"),
        io::ErrorKind::PermissionDenied => format!("{name} may not be executed: {error}"),
        _ => format!("{name} cannot be started: {error}"),
    }
}

/// What the system is to enforce, as far as this process may ask for it.
fn limits(limits: &ProcessLimits, descriptors: Rlimit) -> Vec<(Resource, Rlimit)> {
    let asked = [
        (Resource::As, limits.memory_bytes),
        (Resource::Cpu, limits.cpu_seconds),
        (Resource::Nofile, limits.files),
        (Resource::Fsize, limits.file_bytes),
        // A core file would be of use to nobody, and may be as large as the memory.
        (Resource::Core, Some(0)),
    ];
    // The daemon needs many descriptors; what it starts gets what the daemon was started with.
    let mut found = vec![(Resource::Nofile, descriptors)];
    for (resource, value) in asked {
        let Some(value) = value else { continue };
        let hard = rustix::process::getrlimit(resource).maximum;
        let value = Some(hard.map_or(value, |hard| value.min(hard)));
        found.push((resource, Rlimit { current: value, maximum: value }));
    }
    found
}

fn prepare(command: &mut Command, limits: Vec<(Resource, Rlimit)>) {
    let parent = rustix::process::getpid();
    let prepare = move || {
        // Whoever kills the daemon kills its children, too.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        if rustix::process::getppid() != Some(parent) {
            return Err(io::Error::from(rustix::io::Errno::SRCH));
        }
        for (resource, limit) in &limits {
            rustix::process::setrlimit(*resource, *limit)?;
        }
        // Whatever the thread that starts it blocks: a program that cannot be asked to end must be
        // killed.
        crate::system::signal_mask::unblock_all()
    };
    // SAFETY: between fork and exec this makes system calls and nothing else: it allocates nothing
    // and takes no lock.
    unsafe { command.pre_exec(prepare) };
}
