//! `mainspring new capability` and `mainspring new guest`: a folder with a manifest and a program
//! that works.
//!
//! The skeletons are files in the folders beside this one; `templates` lists which belong to a
//! language. `packages` writes the SDKs that the binary carries, `listing` looks whether the
//! configuration names the new manifest, `node` whether Node is new enough, `mcp` asks a server of
//! tools.

mod listing;
mod mcp;
mod node;
mod packages;
mod templates;

use crate::cli::support::output;
use crate::cli::support::target::Failure;
use crate::config::CONFIG_FILE;
use listing::Listing;
use mainspring_message::check_type_name;
use node::NodeNeeded;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use templates::Template;

/// The folder of the journal in a new configuration.
const JOURNAL_FOLDER: &str = "journal";

/// What git leaves alone.
const GIT_IGNORE: &str = ".gitignore";

/// The longest name.
const NAME_BYTES_MAX: usize = 64;

const EXAMPLES: &str = "\
Examples:
  mainspring new capability greeter --lang python
  mainspring new capability resize-image --lang rust
  mainspring new capability backup --lang shell --dir ops/capabilities
  mainspring new capability greeter --lang ts --plain
  mainspring new guest sums --lang rust
  mainspring new capability files --mcp npx -y @modelcontextprotocol/server-filesystem /srv

It writes capabilities/NAME/ with a manifest that has a schema for everything that goes in and out, a program that answers a query and a command, tells an \
event and refuses what it does not know, and a test of it; and mainspring.toml if there is none. In Python, JavaScript, TypeScript and Rust it uses the SDK, whose package it writes beside the \
program; --plain writes the bare contract instead. TypeScript runs as it is on Node 22.18 and later. A guest is the same in a WebAssembly sandbox. With --mcp a server of the Model Context Protocol is \
asked what it offers, and its tools become commands and queries. Nothing that is there \
is changed: if mainspring.toml does not list the new manifest, it says which line would.

Exit code: 0 it is written, 1 it cannot be written, 2 the command line is wrong.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct NewArguments {
    #[command(subcommand)]
    what: NewWhat,
}

#[derive(Debug, clap::Subcommand)]
enum NewWhat {
    /// A capability: a manifest and a program that works.
    #[command(after_help = EXAMPLES)]
    Capability(NewCapability),
    /// A capability in a WebAssembly sandbox.
    #[command(after_help = EXAMPLES)]
    Guest(Guest),
}

#[derive(Debug, clap::Args)]
struct NewCapability {
    /// The language of its program.
    #[arg(long, value_name = "LANGUAGE", required_unless_present = "mcp")]
    lang: Option<Language>,
    #[command(flatten)]
    place: NewPlace,
    /// Write the bare contract, lines in and lines out, where there is an SDK.
    #[arg(long, conflicts_with = "mcp")]
    plain: bool,
    /// The command of an MCP server instead, which is asked once what it offers; all that follows
    /// is its own.
    #[arg(long, value_name = "COMMAND", num_args = 1.., allow_hyphen_values = true, conflicts_with = "lang")]
    mcp: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct Guest {
    /// The language of its program.
    #[arg(long, value_name = "LANGUAGE")]
    lang: GuestLanguage,
    #[command(flatten)]
    place: NewPlace,
    /// Write the bare contract, lines in and lines out, where there is an SDK.
    #[arg(long)]
    plain: bool,
}

/// What it is called, and where it goes.
#[derive(Debug, clap::Args)]
struct NewPlace {
    /// Its name: small letters, digits and dashes.
    name: String,
    /// The folder to make its folder in.
    #[arg(long, value_name = "FOLDER", default_value = "capabilities")]
    dir: PathBuf,
}

/// A language that there is a skeleton for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::cli) enum Language {
    #[value(alias = "py")]
    Python,
    #[value(aliases = ["js", "node"])]
    Javascript,
    #[value(alias = "ts")]
    Typescript,
    #[value(alias = "golang")]
    Go,
    #[value(alias = "rs")]
    Rust,
    C,
    #[value(aliases = ["sh", "bash"])]
    Shell,
}

/// A language that there is a skeleton of a guest for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::cli) enum GuestLanguage {
    #[value(alias = "rs")]
    Rust,
    C,
}

pub(in crate::cli) fn run(arguments: &NewArguments) -> ExitCode {
    let written = match &arguments.what {
        NewWhat::Capability(it) => match it.lang {
            Some(lang) => {
                let with_sdk = Template::with_sdk(lang).filter(|_| !it.plain);
                write_capability(&it.place, with_sdk.unwrap_or_else(|| Template::of(lang)))
            }
            None => mcp::write(&it.place, &it.mcp),
        },
        NewWhat::Guest(it) => {
            let with_sdk = Template::guest_with_sdk(it.lang).filter(|_| !it.plain);
            write_capability(&it.place, with_sdk.unwrap_or_else(|| Template::of_guest(it.lang)))
        }
    };
    match written {
        Ok(told) => output::print(&told),
        Err(failure) => failure.report(),
    }
}

fn write_capability(arguments: &NewPlace, template: &Template) -> Result<String, Failure> {
    let type_prefix = type_prefix(&arguments.name).map_err(Failure::Usage)?;
    let folder = arguments.dir.join(&arguments.name);
    if folder.exists() {
        return Err(Failure::Refused(format!("{} is there already, and stays as it is", folder.display())));
    }
    for file in template.files {
        let path = folder.join(file.name);
        let text = file.text.replace("{{program}}", template.program);
        let text = text.replace("{{name}}", &arguments.name).replace("{{Type}}", &type_prefix);
        let parent = path.parent().unwrap_or(&folder);
        fs::create_dir_all(parent).map_err(|error| failed(parent, &error))?;
        write_new(&path, &text).map_err(|error| failed(&path, &error))?;
    }
    if let Some(package) = template.package {
        package.write(&folder)?;
    }
    let mut told = format!("wrote {}\n", folder.display());
    let change = list_manifest(&arguments.dir, &folder, template.manifest(), &mut told)?;
    told += "\nNext:\n";
    told += &template.node.and_then(NodeNeeded::advice).unwrap_or_default();
    for command in template.build.into_iter().chain([template.test]) {
        told += &format!("  (cd {} && {command})\n", folder.display());
    }
    told += &change;
    let first = template.first_message().replace("{{Type}}", &type_prefix);
    told += &format!(
        "  mainspring test-capability {}\n  mainspring up &\n  mainspring {first}\n",
        folder.display()
    );
    Ok(told)
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::Refused(format!("cannot write {}: {error}", path.display()))
}

/// Writes a configuration if there is none, and tells it; returns what a person has to change in
/// the one that is there.
fn list_manifest(dir: &Path, folder: &Path, manifest: &str, told: &mut String) -> Result<String, Failure> {
    let config = Path::new(CONFIG_FILE);
    let pattern = dir.join("*").join(manifest).display().to_string();
    if config.exists() {
        return Ok(needed_change(config, &folder.join(manifest), &pattern));
    }
    let text = format!(
        "# What `mainspring up` runs; `mainspring check` says whether it is right.\nmanifests = [{pattern:?}]\n\n\
         # Accepted commands survive the daemon, here.\n[journal]\nfolder = {JOURNAL_FOLDER:?}\n"
    );
    write_new(config, &text).map_err(|error| failed(config, &error))?;
    *told += &format!("wrote {CONFIG_FILE}\n");
    *told += &ignore_journal(Path::new(GIT_IGNORE)).map_err(|error| failed(Path::new(GIT_IGNORE), &error))?;
    Ok(String::new())
}

/// What a person has to do so that the configuration lists a manifest; nothing if it does.
fn needed_change(config: &Path, manifest: &Path, pattern: &str) -> String {
    let folder = std::env::current_dir().unwrap_or_default();
    let listing = match fs::read_to_string(config) {
        Ok(text) => Listing::of(&text, &folder, manifest, pattern),
        Err(_) => Listing::Unreadable,
    };
    match listing {
        Listing::Named => String::new(),
        Listing::Unnamed { line, is_there: true } => {
            format!("  # in {CONFIG_FILE}, let `manifests` list it too:\n    {line}\n")
        }
        Listing::Unnamed { line, is_there: false } => {
            format!("  # add to {CONFIG_FILE}, above its first [table]:\n    {line}\n")
        }
        Listing::Unreadable => {
            format!(
                "  # see to it that `manifests` of {CONFIG_FILE} lists {pattern:?}; it cannot be read now\n"
            )
        }
    }
}

/// Sees to it that git leaves the journal alone, which holds whatever clients sent; says what it
/// did, or what a person should do.
fn ignore_journal(path: &Path) -> io::Result<String> {
    let line = format!("/{JOURNAL_FOLDER}/");
    match fs::read_to_string(path) {
        Ok(text) if text.lines().any(|there| there.trim() == line) => Ok(String::new()),
        Ok(_) => Ok(format!("add {line} to {GIT_IGNORE}: the journal holds what clients send\n")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            write_new(path, &format!("{line}\n"))?;
            Ok(format!("wrote {GIT_IGNORE}\n"))
        }
        Err(error) => Err(error),
    }
}

/// Writes a file that must not be there yet.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).create_new(true).open(path)?.write_all(text.as_bytes())
}

/// What the types of a capability begin with: `resize-image` has `ResizeImage`.
fn type_prefix(name: &str) -> Result<String, String> {
    let valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
    if !begins || name.len() > NAME_BYTES_MAX || !name.bytes().all(valid) {
        return Err(format!(
            "{name:?} cannot be a name: write small letters, digits and dashes, a letter first, at most {NAME_BYTES_MAX}"
        ));
    }
    let mut prefix = String::new();
    for word in name.split('-') {
        let mut letters = word.chars();
        prefix.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        prefix.push_str(letters.as_str());
    }
    if ["Sys", "Syscall", "Timer", "Kernel"].contains(&prefix.as_str()) {
        return Err(format!("types that begin with {prefix} belong to the daemon; choose another name"));
    }
    check_type_name(&format!("{prefix}.Greet"))
        .map_err(|reason| format!("{name:?} cannot be a name: {reason}"))?;
    Ok(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_types() {
        assert_eq!(type_prefix("greeter").as_deref(), Ok("Greeter"));
        assert_eq!(type_prefix("resize-image-2").as_deref(), Ok("ResizeImage2"));
        for wrong in ["", "Greeter", "2nd", "-a", "a b", "a/b", "..", "é", "sys", "timer", &"x".repeat(65)] {
            assert!(type_prefix(wrong).is_err(), "{wrong}");
        }
    }
}
