//! What `mainspring.toml` and the manifests of capabilities may say: the types that read them, and that `docs/configuration.md` is made from.

use crate::text::units;
use mainspring_kernel::{ActorLimits, Limits, RestartPolicy, RetryPolicy};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// `mainspring.toml`: what a daemon is to run. Every key may be left out. Relative paths begin at the folder of the file.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ConfigFile {
    /// Where clients come in, one table for each place. Absent: the Unix socket that the commands look for by themselves.
    pub(super) listen: Option<Vec<ListenFile>>,
    /// Capabilities that are code of the daemon. Absent: all of them.
    pub(super) native: Option<Vec<String>>,
    /// Files with the manifests of capabilities, in TOML or JSON. `*` and `?` in a file or folder name stand for any characters.
    pub(super) manifests: Vec<String>,
    /// Capabilities whose manifests are written right here.
    #[schemars(with = "Vec<ManifestFile>")]
    pub(super) capability: Option<IgnoredAny>,
    /// How long things may take.
    pub(super) timeouts: TimeoutsFile,
    /// How capabilities are restarted whose own manifest does not say otherwise, key by key.
    #[schemars(with = "RestartPolicy")]
    pub(super) restart: Option<IgnoredAny>,
    /// The bounds of the loop.
    pub(super) limits: Limits,
    /// What is logged, and how.
    pub(super) log: LogFile,
}

/// A place where clients come in: a Unix socket (`unix`), or a TCP socket on loopback (`tcp`) with its `tokens`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ListenFile {
    /// The path of a Unix socket. Its owner alone may use it, and a client is known by its user.
    pub(super) unix: Option<PathBuf>,
    /// An address of loopback with a port, such as `127.0.0.1:7700`.
    pub(super) tcp: Option<String>,
    /// Who may come in by TCP. A client is known by the name of its token.
    pub(super) tokens: Vec<TokenFile>,
}

/// A token: the secret that a client says first. Either `token` or `token_file`.
#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenFile {
    /// Who has it. Neither `stdio` nor `user:` and more: those are peers without a token.
    pub(super) name: String,
    /// The secret itself, 16 characters or more.
    pub(super) token: Option<String>,
    /// A file that holds the secret (and perhaps a line end), which only its owner may read.
    pub(super) token_file: Option<PathBuf>,
}

/// Without the secret: this may end up in a log.
impl std::fmt::Debug for TokenFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TokenFile").field("name", &self.name).finish_non_exhaustive()
    }
}

/// How long things may take.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TimeoutsFile {
    /// A request that does not say how long it may take.
    pub(super) default: Time,
    /// The longest that a request may ask for; more is refused.
    pub(super) max: Time,
    /// The boot, until every capability is ready.
    pub(super) boot: Time,
    /// A shutdown, until requests in flight are given up; and then again for bytes that were not read yet.
    pub(super) drain: Time,
    /// A request in a capability's hands beyond its deadline, until the capability is restarted as hung.
    pub(super) hang: Time,
    /// How long an answer is remembered for a repetition of the same request.
    pub(super) repeat: Time,
}

impl Default for TimeoutsFile {
    fn default() -> TimeoutsFile {
        let shipped = mainspring_kernel::Config::default();
        let time = |ms| Time(Duration::from_millis(ms));
        TimeoutsFile {
            default: time(shipped.default_timeout_ms),
            max: time(shipped.timeout_ms_max),
            boot: time(shipped.boot_timeout_ms),
            drain: time(shipped.drain_ms),
            hang: time(shipped.hang_ms),
            repeat: time(shipped.window_ms),
        }
    }
}

/// What is logged, and how.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct LogFile {
    /// The least important level that is written.
    pub(super) level: LevelFile,
    /// For people or for machines.
    pub(super) format: FormatFile,
}

/// How much a log line matters.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LevelFile {
    /// A person should look.
    Error,
    /// Something is wrong, and is being dealt with.
    Warn,
    /// Worth knowing.
    #[default]
    Info,
    /// For finding faults.
    Debug,
    /// Everything.
    Trace,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FormatFile {
    /// A line that reads well.
    #[default]
    Human,
    /// A JSON object a line.
    Json,
}

/// A manifest: a capability, what it takes, what it says, how it is kept alive, and the program behind it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ManifestFile {
    /// The name, unique in the loop.
    pub(super) id: String,
    /// What it does, for people and language models.
    pub(super) description: String,
    /// JSON Schema of the messages that it takes, or the path of a file with it (JSON or TOML). `kind` and `type` must be finite.
    #[serde(rename = "inbound")]
    #[schemars(with = "SchemaOrPath")]
    pub(super) _inbound: IgnoredAny,
    /// The same for the messages that it says. Absent: it may say anything.
    #[serde(default, rename = "outbound")]
    #[schemars(with = "SchemaOrPath")]
    pub(super) _outbound: IgnoredAny,
    /// Types of events that it wants besides those that `inbound` lists.
    #[serde(default)]
    pub(super) subscribes: Vec<String>,
    /// Whether it may send events and requests that no message caused.
    #[serde(default)]
    pub(super) uncaused: bool,
    /// How it is restarted. Keys that are absent are taken from `restart` of `mainspring.toml`.
    #[serde(default, rename = "restart")]
    #[schemars(with = "RestartPolicy")]
    pub(super) _restart: IgnoredAny,
    /// How often a request is tried.
    #[serde(default)]
    pub(super) retry: RetryPolicy,
    /// Its bounds.
    #[serde(default)]
    pub(super) limits: ActorLimits,
    /// The program: a table with `process`, `wasm` or `native`.
    #[serde(rename = "program")]
    #[schemars(with = "ProgramTable")]
    pub(super) _program: IgnoredAny,
}

/// A JSON Schema, or the path of a file that holds one.
pub(super) struct SchemaOrPath;

impl JsonSchema for SchemaOrPath {
    fn schema_name() -> Cow<'static, str> {
        "a JSON Schema, or the path of a file with one".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "title": "schema or path" })
    }
}

/// One of the three kinds of program.
pub(super) struct ProgramTable;

impl JsonSchema for ProgramTable {
    fn schema_name() -> Cow<'static, str> {
        "a program".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "title": "table",
            "anyOf": [
                generator.subschema_for::<ProcessFile>(),
                generator.subschema_for::<WasmFile>(),
                generator.subschema_for::<NativeFile>(),
            ]
        })
    }
}

/// A child process that reads messages on its standard input and writes messages on its standard output, one JSON object a line.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProcessFile {
    /// The program and its arguments, as a list. A name without `/` is looked up in `PATH`; a relative path begins at `folder`.
    pub(super) process: Vec<String>,
    /// The folder that it runs in. Absent: that of the manifest.
    #[serde(default)]
    pub(super) folder: Option<PathBuf>,
    /// Variables of its environment besides those of the daemon.
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    /// How long it may take to end once its input has ended; then it is told (SIGTERM), and as long again later killed.
    #[serde(default = "grace")]
    pub(super) grace: Time,
    /// What the operating system lets it use.
    #[serde(default)]
    pub(super) limits: ProcessLimitsFile,
}

/// What the operating system lets a child process use. What is absent is as for the daemon itself.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ProcessLimitsFile {
    /// Address space.
    pub(super) memory: Option<Size>,
    /// CPU time in all, in whole seconds.
    pub(super) cpu: Option<Time>,
    /// Open files.
    pub(super) files: Option<u64>,
    /// The largest file that it may write.
    pub(super) file_size: Option<Size>,
}

/// A WebAssembly module or component that speaks lines on its standard streams, in a sandbox: it reaches nothing that is not listed here.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WasmFile {
    /// The path of the module or component.
    pub(super) wasm: PathBuf,
    /// Its arguments.
    #[serde(default)]
    pub(super) arguments: Vec<String>,
    /// Its environment.
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    /// Where it may connect: rules such as `db.example.com:5432`, `10.0.0.0/8:*` or `loopback:80`.
    #[serde(default)]
    pub(super) allow_connect: Vec<String>,
    /// Where it may listen: rules for addresses.
    #[serde(default)]
    pub(super) allow_listen: Vec<String>,
    /// Whether it may use WASI's sockets too, under the same rules.
    #[serde(default)]
    pub(super) wasi_sockets: bool,
    /// Folders that are opened to it, as `HOST`, `HOST::GUEST` or `HOST::GUEST:ro`.
    #[serde(default)]
    pub(super) folders: Vec<String>,
    /// How long it may take to end once its input has ended: after half of it it is interrupted, after all of it killed.
    #[serde(default = "grace")]
    pub(super) grace: Time,
    /// What it may use.
    #[serde(default)]
    pub(super) limits: WasmLimitsFile,
}

/// What a guest may use at most.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct WasmLimitsFile {
    /// Memory. Absent: 64MiB.
    pub(super) memory: Option<Size>,
    /// CPU time in all; then it is ended. Absent: for ever.
    pub(super) cpu: Option<Time>,
    /// CPU time before others get a turn. Absent: 5ms.
    pub(super) cpu_slice: Option<Time>,
    /// Open handles. Absent: 1024.
    pub(super) handles: Option<usize>,
    /// Watches. Absent: 4096.
    pub(super) watches: Option<usize>,
    /// Armed timers. Absent: 4096.
    pub(super) timers: Option<usize>,
    /// Bytes that are held for it. Absent: 1MiB.
    pub(super) buffered: Option<Size>,
    /// Bytes per second over the network. Absent: without limit.
    pub(super) bandwidth: Option<Size>,
    /// The size of the module or component. Absent: 64MiB.
    pub(super) module: Option<Size>,
    /// The size of its largest function. Absent: 1MiB.
    pub(super) function: Option<Size>,
    /// CPU time that compiling it may take. Absent: 1m.
    pub(super) compile_time: Option<Time>,
    /// Memory that compiling it may take. Absent: 1GiB.
    pub(super) compile_memory: Option<Size>,
}

/// Code of the daemon.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NativeFile {
    /// Its name, such as `Memory`.
    pub(super) native: String,
}

/// How long a program may take to end unless its manifest says otherwise.
pub(super) const GRACE_DEFAULT: Duration = Duration::from_secs(5);

fn grace() -> Time {
    Time(GRACE_DEFAULT)
}

/// A duration as people write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Time(pub(super) Duration);

/// A size as people write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size(pub(super) u64);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        let wrong = |found: String| {
            serde::de::Error::custom(format!("expected a duration in quotes, such as \"10s\", found {found}"))
        };
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => {
                units::duration(&text).map(Time).map_err(serde::de::Error::custom)
            }
            serde_json::Value::Number(number) => {
                Err(wrong(format!("the number {number}, which has no unit")))
            }
            _ => Err(wrong("something else".into())),
        }
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        let wrong =
            || serde::de::Error::custom("expected a size: a number of bytes, or text such as \"64MiB\"");
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => {
                units::bytes(&text).map(Size).map_err(serde::de::Error::custom)
            }
            serde_json::Value::Number(number) => number.as_u64().map(Size).ok_or_else(wrong),
            _ => Err(wrong()),
        }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&units::show_duration(self.0))
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&units::show_bytes(self.0))
    }
}

impl JsonSchema for Time {
    fn schema_name() -> Cow<'static, str> {
        "duration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "title": "duration" })
    }
}

impl JsonSchema for Size {
    fn schema_name() -> Cow<'static, str> {
        "size".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["integer", "string"], "title": "size" })
    }
}
