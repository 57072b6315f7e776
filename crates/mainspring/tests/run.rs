//! `mainspring run`, as a shell sees it.

#[path = "support/guest_module.rs"]
mod guest_module;

use guest_module::guest_module as guest;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The program, with a cache of its own.
fn mainspring() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mainspring"));
    let cache = std::env::temp_dir().join(format!("mainspring-run-{}", std::process::id()));
    command.env("XDG_CACHE_HOME", cache).stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[track_caller]
fn expect(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
}

#[test]
fn arguments_and_environment_are_passed_on_and_the_cache_changes_nothing() {
    let Some(guest) = guest("info") else { return };
    for _ in 0..2 {
        let output = mainspring()
            .args(["run", "--env", "A=1", "--env", "PASSED_ON"])
            .env("PASSED_ON", "2")
            .arg(&guest)
            .args(["--", "--flag", "word"])
            .output()
            .unwrap();
        expect(&output, 0);
        let expected =
            "argument info.wasm\nargument --flag\nargument word\nvariable A=1\nvariable PASSED_ON=2\n";
        assert!(text(&output.stdout).starts_with(expected), "{}", text(&output.stdout));
    }
}

#[test]
fn the_exit_code_is_the_guests() {
    let Some(guest) = guest("exit") else { return };
    expect(&mainspring().arg("run").arg(&guest).args(["--", "7"]).output().unwrap(), 7);
}

#[test]
fn a_trap_ends_with_134_and_the_guests_backtrace() {
    let Some(guest) = guest("exit") else { return };
    let output = mainspring().arg("run").arg(&guest).args(["--", "trap"]).output().unwrap();
    expect(&output, 134);
    let said = text(&output.stderr);
    assert!(said.contains("the guest trapped") && said.contains("exit::inner_of_the_trap"), "{said}");
}

#[test]
fn a_limit_ends_a_spinning_guest_with_137_and_its_name() {
    let Some(guest) = guest("spinner") else { return };
    let output = mainspring().args(["run", "--cpu-max", "20ms", "--stats"]).arg(&guest).output().unwrap();
    expect(&output, 137);
    let said = text(&output.stderr);
    assert!(said.contains("used up its limit: --cpu-max") && said.contains("preempted"), "{said}");
}

#[test]
fn standard_input_and_output_are_the_programs_own() {
    let Some(guest) = guest("lines") else { return };
    let mut child =
        mainspring().arg("run").arg(&guest).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for word in ["one", "two"] {
        writeln!(input, "{word}").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, format!("{}\n", word.to_uppercase()));
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_wasi_program_sees_the_folder_that_was_opened() {
    let Some(guest) = guest("wasi-hello") else { return };
    let folder = std::env::temp_dir().join(format!("mainspring-dir-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("from"), "content").unwrap();
    let opened = format!("{}::/data", folder.display());
    let copy = |opened: &str| {
        let mut command = mainspring();
        command.args(["run", "--dir", opened]).arg(&guest).args(["--", "copy", "/data/from", "/data/to"]);
        command.output().unwrap()
    };
    expect(&copy(&format!("{opened}:ro")), 1);
    expect(&copy(&opened), 0);
    assert_eq!(std::fs::read_to_string(folder.join("to")).unwrap(), "content");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_guest_that_is_denied_is_told_which_flag_grants_it() {
    let Some(guest) = guest("echo") else { return };
    let output = mainspring().arg("run").arg(&guest).args(["--", "127.0.0.1:7000"]).output().unwrap();
    let said = text(&output.stderr);
    let told = "mainspring: the guest was denied: it may not listen at 127.0.0.1:7000; grant it with --allow-listen \
                '127.0.0.1:7000'\n";
    assert!(said.contains(told), "{said}");
}

#[test]
fn a_second_signal_kills_a_guest_that_does_not_finish_at_the_first() {
    let Some(guest) = guest("lines") else { return };
    let mut child =
        mainspring().arg("run").arg(&guest).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    writeln!(input, "ready").unwrap();
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let signal = |child: &Child| {
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    };
    signal(&child);
    // It still answers, which shows that the first signal was only a question, and that it has been
    // seen.
    writeln!(input, "still here").unwrap();
    line.clear();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "STILL HERE\n");
    signal(&child);
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
}

#[test]
fn what_cannot_be_run_is_named_in_one_line() {
    let output = mainspring().args(["run", "/nonexistent.wasm"]).output().unwrap();
    expect(&output, 1);
    assert!(text(&output.stderr).starts_with("mainspring: cannot read /nonexistent.wasm"));
    let this = std::env::current_exe().unwrap();
    let output = mainspring().arg("run").arg(this).output().unwrap();
    expect(&output, 1);
    assert!(text(&output.stderr).contains("is not WebAssembly"));
}

#[test]
fn a_command_line_that_makes_no_sense_ends_with_2() {
    for words in [
        &["run"][..],
        &["run", "--memory-max", "lots", "x.wasm"],
        &["run", "--socket-wait", "long", "x.wasm"],
        &["rum"],
    ] {
        expect(&mainspring().args(words).output().unwrap(), 2);
    }
}

#[test]
fn the_wait_of_a_component_that_wakes_itself_can_be_set() {
    let Some(guest) = guest("wasi-socket.component") else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut command = mainspring();
    command.args(["run", "--socket-wait", "0", "--allow-connect", "127.0.0.1:*"]).arg(guest);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    // With the waits of the default this takes 100 s.
    writeln!(child.stdin.take().unwrap(), "connect 127.0.0.1 {port}\nreads 1 10000").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(text(&output.stdout).lines().last(), Some("would-block after 10000 calls"));
    assert!(started.elapsed() < Duration::from_secs(50));
}

#[test]
fn a_variable_that_makes_no_sense_is_told_and_the_default_holds() {
    let Some(guest) = guest("info") else { return };
    let output =
        mainspring().env("MAINSPRING_SOCKET_WAIT_MS", "long").arg("run").arg(guest).output().unwrap();
    expect(&output, 0);
    let said = text(&output.stderr);
    assert!(said.starts_with("mainspring: warning: MAINSPRING_SOCKET_WAIT_MS: "), "{said}");
    assert!(said.ends_with("; the default holds\n") && said.lines().count() == 1, "{said}");
}

/// Has the system refuse a program every change of what it watches, as if it had no memory left.
/// Additions are not refused.
#[cfg(all(target_os = "linux", target_endian = "little"))]
fn refuse_changes_of_watches(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    /// Where a filter finds the low half of the second argument of a system call.
    const SECOND_ARGUMENT: u32 = 24;
    let line = |code: u32, value, skip| libc::sock_filter { code: code as u16, jt: 0, jf: skip, k: value };
    let load = |offset| line(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0);
    let unless = |value, skip| line(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, skip);
    let end = |verdict| line(libc::BPF_RET | libc::BPF_K, verdict, 0);
    let mut filter = [
        load(0),
        unless(libc::SYS_epoll_ctl as u32, 3),
        load(SECOND_ARGUMENT),
        unless(libc::EPOLL_CTL_MOD as u32, 1),
        end(libc::SECCOMP_RET_ERRNO | libc::ENOMEM as u32),
        end(libc::SECCOMP_RET_ALLOW),
    ];
    let install = move || {
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: both calls take plain numbers and, the second one, a live program of as many
        // lines as it says.
        let refused = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) != 0
        };
        if refused { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: between fork and exec it makes two system calls, and allocates nothing.
    unsafe { command.pre_exec(install) };
}

#[test]
#[cfg(all(target_os = "linux", target_endian = "little"))]
fn a_wait_for_sockets_that_the_system_refuses_is_told_once_and_the_guest_goes_on() {
    let Some(guest) = guest("wasi-socket.component") else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut command = mainspring();
    command.args(["run", "--allow-connect", "127.0.0.1:*"]).arg(guest);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    refuse_changes_of_watches(&mut command);
    let mut child = command.spawn().unwrap();
    // A connection is watched for data from its beginning; to watch it for room is a change.
    let orders = format!("connect 127.0.0.1 {port}\npoll 1 write 60000\npoll 1 write 60000\nwrite 1 hello\n");
    child.stdin.take().unwrap().write_all(orders.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    expect(&output, 0);
    assert_eq!(text(&output.stdout), "connected 1\nready\nready\nwritten 5\n");
    let said = text(&output.stderr);
    assert!(said.starts_with("mainspring: warning: cannot wait for a guest's sockets"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn a_command_line_that_makes_no_sense_is_exit_code_2_whatever_the_guest_is() {
    for (arguments, words) in [
        (&["--allow-listen", "nonsense"][..], "--allow-listen: `nonsense` is not a network rule"),
        (&["--allow-connect", "a:b:c"], "--allow-connect: `a:b:c` is not a network rule"),
        (&["--env", "NO_SUCH_VARIABLE_HERE"], "there is no such variable"),
        (&["--env", "=x"], "--env =x: a variable has a name"),
        (&["--env", ""], "a variable has a name"),
    ] {
        let output = mainspring().arg("run").args(arguments).arg("no-such.wasm").output().unwrap();
        expect(&output, 2);
        assert!(text(&output.stderr).contains(words), "{}", text(&output.stderr));
    }
    expect(&mainspring().args(["run", "--env", "A=", "no-such.wasm"]).output().unwrap(), 1);
}

/// A module whose one function has about so many bytes, and which takes its time to compile.
fn long_function(bytes: usize) -> Vec<u8> {
    // local.get 0, local.get 1, i32.add, local.tee 0, i32.const 7, i32.mul, local.set 1
    const UNIT: &[u8] = b"\x20\x00\x20\x01\x6a\x22\x00\x41\x07\x6c\x21\x01";
    let mut body = b"\x01\x02\x7f".to_vec();
    body.extend(UNIT.iter().cycle().take(bytes.next_multiple_of(UNIT.len())));
    body.push(0x0b);
    let length = |mut number: usize| {
        let mut bytes = Vec::new();
        while number > 0x7f {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    };
    let code = [vec![1], length(body.len()), body].concat();
    let head = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x0a\x01\x06_start\0\0\x0a";
    [head.to_vec(), length(code.len()), code].concat()
}

#[test]
fn a_guest_that_takes_too_much_to_compile_is_refused_in_words() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("long.wasm");
    let refused = |bytes: usize, flags: &[&str]| {
        std::fs::write(&path, long_function(bytes)).unwrap();
        let output = mainspring().args(["run", "--no-cache"]).args(flags).arg(&path).output().unwrap();
        expect(&output, 1);
        text(&output.stderr).to_owned()
    };
    let said = refused(7_000_000, &[]);
    assert!(said.contains("a function of the guest has 70000"), "{said}");
    assert!(said.contains("the limit is 1048576; --function-max raises that"), "{said}");
    let said = refused(1_000_000, &["--module-max", "900KiB"]);
    assert!(said.contains("the limit is 921600; --module-max raises that"), "{said}");
    let said = refused(1_000_000, &["--compile-time-max", "20ms"]);
    assert!(said.contains("takes more than 20ms of CPU time; --compile-time-max raises that"), "{said}");
    let said = refused(7_000_000, &["--function-max", "8MiB", "--compile-memory-max", "1MiB"]);
    assert!(
        said.contains("takes more than 1048576 bytes of memory; --compile-memory-max raises that"),
        "{said}"
    );
}

#[test]
fn a_guest_within_its_bounds_is_compiled_in_a_process_of_its_own() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("long.wasm");
    std::fs::write(&path, long_function(100_000)).unwrap();
    expect(&mainspring().args(["run", "--no-cache"]).arg(&path).output().unwrap(), 0);
    std::fs::write(&path, b"\0asm\x01\0\0\0\x01\xff\xff").unwrap();
    let output = mainspring().args(["run", "--no-cache"]).arg(&path).output().unwrap();
    expect(&output, 1);
    assert!(text(&output.stderr).contains("cannot compile the guest: "), "{}", text(&output.stderr));
}
