//! `mainspring mcp`: a daemon's capabilities as tools of a language model, by the Model Context
//! Protocol.

use crate::cli::models::helper;
use crate::cli::models::install::{self, Entry, ModelClient};
use crate::cli::support::output;
use crate::cli::support::target::{DaemonPlace, Failure};
use crate::client::Address;
use crate::system::files::{read_secret, whole_path};
use serde_json::{Map, Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The variable that holds the token of `--http`.
const TOKEN_VARIABLE: &str = "MAINSPRING_MCP_TOKEN";
/// The shortest token.
const TOKEN_BYTES_MIN: usize = 16;
/// The largest document.
const DOCUMENT_BYTES_MAX: u64 = 16 << 20;

const EXAMPLES: &str = "\
Examples:
  mainspring mcp install claude
  mainspring mcp install vscode --allow 'Notes.*' --allow 'Calendar.*'
  mainspring mcp install --print
  mainspring mcp --operator
  mainspring mcp --http 127.0.0.1:7790 --http-token-file ~/.mainspring-mcp

A model's client starts `mainspring mcp` itself and talks to it on its standard streams; `install` tells it how. Every command and query of \
the daemon's capabilities is a tool, with the schemas, descriptions and hints of their manifests: Memory.Set is the tool Memory_Set. Above 40 of them a model \
searches, describes and calls instead. wait_for_event waits for events. McpWhat is not asked for here is given up before anything else is said, so a model \
cannot do more than this line allows.

Exit code: 0 the client went or a signal came, 1 it failed, 2 the command line is wrong, 3 there is no daemon.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(in crate::cli) struct McpArguments {
    #[command(subcommand)]
    what: Option<McpWhat>,
    #[command(flatten)]
    serve: Serve,
}

#[derive(Debug, clap::Subcommand)]
enum McpWhat {
    /// Write the bridge into the configuration of a model's client.
    #[command(after_help = EXAMPLES)]
    Install(Box<Install>),
    /// Run an MCP server as a capability: what `program = { mcp = [...] }` of a manifest starts.
    #[command(hide = true, after_help = EXAMPLES)]
    Adapter {
        /// The command of the server.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
}

#[derive(Clone, Debug, clap::Args)]
struct Serve {
    /// Which types the model may send and see events of: Notes.Add, Notes.*, or * [default: all].
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    allow: Vec<String>,
    /// Offer operators' tools too: actors, statistics, traces, dead letters, logs, reload, restart.
    #[arg(long)]
    operator: bool,
    /// List every tool, however many there are.
    #[arg(long)]
    all: bool,
    /// Give a tool another name.
    #[arg(long = "tool", value_name = "NAME=TYPE", value_parser = named)]
    tools: Vec<(String, String)>,
    /// Let the model read a file, as mainspring://docs/FILE or under a name of your own.
    #[arg(long = "document", value_name = "[URI=]FILE")]
    documents: Vec<String>,
    /// Serve HTTP at this address of this machine instead of standard streams.
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,
    /// A file with the token that clients by HTTP must show, which only you may read [default: the
    /// token in $MAINSPRING_MCP_TOKEN].
    #[arg(long, value_name = "FILE", requires = "http")]
    http_token_file: Option<PathBuf>,
    /// A name under which clients reach it through a proxy, beside those of this machine.
    #[arg(long = "host", value_name = "NAME", requires = "http")]
    hosts: Vec<String>,
    #[command(flatten)]
    place: DaemonPlace,
}

#[derive(Debug, clap::Args)]
struct Install {
    /// The client.
    #[arg(required_unless_present = "print")]
    client: Option<ClientName>,
    /// Print what to write into a client's configuration, and write nothing.
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    serve: Serve,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ClientName {
    /// Claude Code, for this project (.mcp.json).
    Claude,
    /// Cursor, for this project (.cursor/mcp.json).
    Cursor,
    /// Visual Studio Code, for this project (.vscode/mcp.json).
    Vscode,
    /// Codex (~/.codex/config.toml).
    Codex,
}

fn named(text: &str) -> Result<(String, String), String> {
    let (name, type_name) = text.split_once('=').ok_or("write NAME=TYPE, such as remember=Memory.Set")?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if name.is_empty() || name.len() > 64 || !name.bytes().all(is_name) {
        return Err(format!("{name:?} cannot be the name of a tool: letters, digits, _ and -, at most 64"));
    }
    mainspring_message::check_type_name(type_name).map_err(|reason| format!("{type_name:?} {reason}"))?;
    Ok((name.to_owned(), type_name.to_owned()))
}

pub(in crate::cli) fn run(arguments: &McpArguments) -> ExitCode {
    let done = match &arguments.what {
        None => serve(&arguments.serve).map(|()| String::new()),
        Some(McpWhat::Install(install)) => install_bridge(install),
        Some(McpWhat::Adapter { command }) => Err(helper::become_words("adapter", command)),
    };
    match done {
        Ok(told) if told.is_empty() => ExitCode::SUCCESS,
        Ok(told) => output::print(&told),
        Err(failure) => failure.report(),
    }
}

/// Goes on as the bridge.
fn serve(arguments: &Serve) -> Result<(), Failure> {
    let names: Map<String, Value> =
        arguments.tools.iter().map(|(name, type_name)| (type_name.clone(), json!(name))).collect();
    let mut settings = json!({
        "allow": arguments.allow,
        "operator": arguments.operator,
        "all": arguments.all,
        "names": names,
        "documents": documents(&arguments.documents)?,
        "version": env!("CARGO_PKG_VERSION"),
    });
    match arguments.place.address()? {
        Address::Unix(path) => settings["socket"] = json!(path),
        Address::Tcp { tls: Some(_), .. } => return Err(no_tls()),
        Address::Tcp { place, token, .. } => settings["tcp"] = json!({ "place": place, "token": token }),
    }
    if let Some(http) = listener(arguments)? {
        settings["http"] = http;
    }
    Err(helper::become_with("serve", &settings))
}

fn no_tls() -> Failure {
    Failure::Usage(
        "the bridge does not encrypt: use the Unix socket, or forward a port with `ssh -L`".to_owned(),
    )
}

fn listener(arguments: &Serve) -> Result<Option<Value>, Failure> {
    let Some(address) = arguments.http else { return Ok(None) };
    if !address.ip().is_loopback() {
        return Err(Failure::Usage(format!(
            "--http {address}: the token would travel unencrypted; listen at 127.0.0.1 and put a proxy with TLS before it (--host), or forward a port by ssh"
        )));
    }
    let token = match &arguments.http_token_file {
        Some(path) => read_secret(path).map_err(Failure::Usage)?,
        None => std::env::var(TOKEN_VARIABLE).unwrap_or_default(),
    };
    if token.len() < TOKEN_BYTES_MIN {
        return Err(Failure::Usage(format!(
            "--http needs a token of at least {TOKEN_BYTES_MIN} bytes that clients show: put one into a file that only you may read and name it with --http-token-file, or into {TOKEN_VARIABLE}"
        )));
    }
    Ok(Some(json!({ "address": address, "token": token, "hosts": arguments.hosts })))
}

/// What a model can read: the protocol, and what the command line names.
fn documents(named: &[String]) -> Result<Vec<Value>, Failure> {
    let mut made = vec![json!({
        "uri": "mainspring://docs/protocol",
        "title": "The protocol of Mainspring",
        "media_type": "text/markdown",
        "text": crate::protocol::reference(),
    })];
    for text in named {
        // A name has a scheme, which a path hardly begins with.
        let (uri, path) = match text.split_once('=') {
            Some((uri, path)) if uri.contains("://") => (uri.to_owned(), Path::new(path)),
            _ => {
                let path = Path::new(text);
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                (format!("mainspring://docs/{name}"), path)
            }
        };
        made.push(
            document(uri, path).map_err(|reason| Failure::Usage(format!("{}: {reason}", path.display())))?,
        );
    }
    Ok(made)
}

fn document(uri: String, path: &Path) -> Result<Value, String> {
    let about = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !about.is_file() || about.len() > DOCUMENT_BYTES_MAX {
        return Err(format!("must be a file of at most {DOCUMENT_BYTES_MAX} bytes"));
    }
    let path = std::path::absolute(path).map_err(|error| error.to_string())?;
    let media_type = match path.extension().and_then(|end| end.to_str()).unwrap_or_default() {
        "md" => "text/markdown",
        "json" => "application/json",
        "html" => "text/html",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "pdf" => "application/pdf",
        _ => "text/plain",
    };
    let title = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(json!({ "uri": uri, "title": title, "media_type": media_type, "file": path }))
}

fn install_bridge(arguments: &Install) -> Result<String, Failure> {
    let entry = Entry { command: own_program()?, arguments: bridge_arguments(&arguments.serve)? };
    let Some(client) = arguments.client.filter(|_| !arguments.print) else {
        return Ok(format!("{:#}\n", entry.json()));
    };
    let client = match client {
        ClientName::Claude => ModelClient::Claude,
        ClientName::Cursor => ModelClient::Cursor,
        ClientName::Vscode => ModelClient::Vscode,
        ClientName::Codex => ModelClient::Codex,
    };
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let path = install::install(client, &entry, Path::new("."), home.as_deref())?;
    let words = format!("{} {}", entry.command, entry.arguments.join(" "));
    Ok(format!("wrote {}\n\nNext: start the client here; it runs\n  {words}\n", path.display()))
}

/// This program, as a client elsewhere finds it.
fn own_program() -> Result<String, Failure> {
    let path = std::env::current_exe()
        .map_err(|error| Failure::Refused(format!("where is this program? {error}")))?;
    let text = path.into_os_string().into_string();
    text.map_err(|path| Failure::Refused(format!("{} is not UTF-8 text", path.display())))
}

/// The bridge's own command line: the daemon is named, because a client may start it in any folder.
fn bridge_arguments(serve: &Serve) -> Result<Vec<String>, Failure> {
    if serve.http.is_some() {
        return Err(Failure::Usage(
            "a client starts the bridge on its standard streams: leave --http out".to_owned(),
        ));
    }
    let mut made = vec!["mcp".to_owned()];
    match serve.place.address()? {
        Address::Unix(path) => {
            let path = whole_path(&path);
            made.extend(["--socket".to_owned(), path.display().to_string()]);
        }
        Address::Tcp { tls: Some(_), .. } => return Err(no_tls()),
        Address::Tcp { place, .. } => {
            made.extend(["--tcp".to_owned(), place]);
            if let Some(file) = serve.place.token_file().and_then(|file| std::path::absolute(file).ok()) {
                made.extend(["--token-file".to_owned(), file.display().to_string()]);
            }
        }
    }
    made.extend(serve.allow.iter().map(|types| format!("--allow={types}")));
    made.extend(serve.operator.then(|| "--operator".to_owned()));
    made.extend(serve.all.then(|| "--all".to_owned()));
    made.extend(serve.tools.iter().map(|(name, type_name)| format!("--tool={name}={type_name}")));
    made.extend(serve.documents.iter().map(|text| format!("--document={text}")));
    Ok(made)
}
