//! What a guest is given, and the one place where that is put together.

use crate::capabilities::{Capability, CapabilityConfig};
use crate::guest::context::Telemetry;
use crate::handles::stdio::{Stdin, Stdout};
use crate::limits::Limits;
use crate::limits::denial::{Denial, OnDenial};
use crate::limits::policy::{BadRule, NetworkPolicy};
use std::any::Any;
use std::fmt;

/// Most bytes of arguments and environment together: they are copied whenever a guest asks for
/// them.
const STRINGS_BYTES_MAX: usize = 1 << 20;

/// How a guest is started: what it is given and what it may do. By default nothing, within
/// [`Limits::default`].
///
/// # Examples
/// ```
/// use mainspring_host::{GuestConfig, Stdout};
///
/// let mut config = GuestConfig::new();
/// config.arguments.push("--verbose".into());
/// config.stdout = Stdout::Inherit;
/// config.network.allow_connect("db.example.com:5432")?;
/// # Ok::<(), mainspring_host::BadRule>(())
/// ```
#[derive(Default)]
#[non_exhaustive]
pub struct GuestConfig {
    /// What it may use.
    pub limits: Limits,
    /// Where it may connect and listen.
    pub network: NetworkPolicy,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its environment.
    pub environment: Vec<(String, String)>,
    /// Handle 0.
    pub stdin: Stdin,
    /// Handle 1.
    pub stdout: Stdout,
    /// Handle 2.
    pub stderr: Stdout,
    /// What it gets if it imports WASI.
    #[cfg(feature = "wasi")]
    pub wasi: crate::wasi::WasiConfig,
    pub(crate) telemetry: Option<Telemetry>,
    pub(crate) on_denial: Option<OnDenial>,
    pub(crate) extension: Option<Box<dyn Any + Send>>,
    pub(crate) capabilities: Vec<CapabilityConfig>,
}

impl GuestConfig {
    /// The defaults.
    pub fn new() -> GuestConfig {
        GuestConfig::default()
    }

    /// Calls `callback` with topic and message of each `zi_telemetry`. It runs inside the guest's
    /// call: keep it short.
    pub fn on_telemetry(&mut self, callback: impl Fn(&[u8], &[u8]) + 'static) -> &mut GuestConfig {
        self.telemetry = Some(Box::new(callback));
        self
    }

    /// Calls `callback` once with each thing that the guest wanted to reach and may not, for the
    /// first few of them. It runs inside the guest's call: keep it short.
    pub fn on_denial(&mut self, callback: impl Fn(&Denial) + 'static) -> &mut GuestConfig {
        self.on_denial = Some(Box::new(callback));
        self
    }

    /// Gives the guest its configuration of a capability. A second one replaces the first.
    ///
    /// The host must have the capability, and the capability must accept the configuration:
    /// otherwise the guest is not started.
    pub fn configure<C: Capability>(&mut self, config: C::Config) -> &mut GuestConfig {
        let config = CapabilityConfig::new::<C>(config);
        self.capabilities.retain(|known| known.key != config.key);
        self.capabilities.push(config);
        self
    }

    /// Puts something into the guest's store for imports that were added with
    /// [`HostConfig::link`](crate::HostConfig::link).
    pub fn extension(&mut self, extension: impl Any + Send) -> &mut GuestConfig {
        self.extension = Some(Box::new(extension));
        self
    }
}

impl fmt::Debug for GuestConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuestConfig")
            .field("limits", &self.limits)
            .field("network", &self.network)
            .field("arguments", &self.arguments)
            .finish_non_exhaustive()
    }
}

/// Puts a guest's configuration together from what a manifest or a command line says, and checks
/// it.
///
/// # Examples
/// ```
/// use mainspring_host::{BadGuestConfig, GuestConfigBuilder};
///
/// let config = GuestConfigBuilder::new("report")
///     .arguments(&["--verbose".into()])
///     .allow_connect(&["db.example.com:5432".into()])
///     .build()?;
/// assert_eq!(config.arguments, ["report", "--verbose"]);
///
/// let refused = GuestConfigBuilder::new("report").allow_listen(&["nowhere".into()]).build();
/// assert!(matches!(refused, Err(BadGuestConfig::Listen(_))));
/// # Ok::<(), BadGuestConfig>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct GuestConfigBuilder<'a> {
    config: GuestConfig,
    connect: &'a [String],
    listen: &'a [String],
}

/// Why a guest cannot be configured like that.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadGuestConfig {
    /// A rule about where it may connect.
    #[error(transparent)]
    Connect(BadRule),
    /// A rule about where it may listen.
    #[error(transparent)]
    Listen(BadRule),
    /// An argument that no guest could read.
    #[error("the argument {0:?} contains a NUL byte")]
    Argument(String),
    /// A variable that no guest could read.
    #[error(
        "the variable {0:?} of the environment has no name, its name contains `=`, or it contains a NUL byte"
    )]
    Variable(String),
    /// There is too much of both.
    #[error(
        "arguments and environment have {found} bytes together, and at most {STRINGS_BYTES_MAX} are passed on"
    )]
    TooLong {
        /// How much there is.
        found: usize,
    },
}

impl<'a> GuestConfigBuilder<'a> {
    /// A guest with a name, which is its first argument, as with any program.
    pub fn new(name: &str) -> GuestConfigBuilder<'a> {
        let mut config = GuestConfig::new();
        config.arguments.push(name.into());
        GuestConfigBuilder { config, connect: &[], listen: &[] }
    }

    /// Its other arguments.
    pub fn arguments(mut self, arguments: &[String]) -> GuestConfigBuilder<'a> {
        self.config.arguments.extend_from_slice(arguments);
        self
    }

    /// Its environment.
    pub fn environment(mut self, environment: Vec<(String, String)>) -> GuestConfigBuilder<'a> {
        self.config.environment = environment;
        self
    }

    /// What it may use.
    pub fn limits(mut self, limits: Limits) -> GuestConfigBuilder<'a> {
        self.config.limits = limits;
        self
    }

    /// Where it may connect, as rules.
    pub fn allow_connect(mut self, rules: &'a [String]) -> GuestConfigBuilder<'a> {
        self.connect = rules;
        self
    }

    /// Where it may listen, as rules.
    pub fn allow_listen(mut self, rules: &'a [String]) -> GuestConfigBuilder<'a> {
        self.listen = rules;
        self
    }

    /// What it gets if it imports WASI.
    #[cfg(feature = "wasi")]
    pub fn wasi(mut self, wasi: crate::wasi::WasiConfig) -> GuestConfigBuilder<'a> {
        self.config.wasi = wasi;
        self
    }

    /// Puts it together.
    ///
    /// # Errors
    /// [`BadGuestConfig`]: the first thing that is wrong.
    pub fn build(mut self) -> Result<GuestConfig, BadGuestConfig> {
        for rule in self.connect {
            self.config.network.allow_connect(rule).map_err(BadGuestConfig::Connect)?;
        }
        for rule in self.listen {
            self.config.network.allow_listen(rule).map_err(BadGuestConfig::Listen)?;
        }
        let GuestConfig { arguments, environment, .. } = &self.config;
        if let Some(argument) = arguments.iter().find(|argument| argument.contains('\0')) {
            return Err(BadGuestConfig::Argument(argument.clone()));
        }
        let unreadable = |(name, value): &&(String, String)| {
            name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
        };
        if let Some((name, _)) = environment.iter().find(unreadable) {
            return Err(BadGuestConfig::Variable(name.clone()));
        }
        let variables = environment.iter().map(|(name, value)| name.len() + value.len());
        let found = arguments.iter().map(String::len).chain(variables).sum();
        if found > STRINGS_BYTES_MAX {
            return Err(BadGuestConfig::TooLong { found });
        }
        Ok(self.config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_that_no_guest_could_read_are_refused_in_words() {
        let argument = GuestConfigBuilder::new("a").arguments(&["b\0".into()]).build().unwrap_err();
        assert_eq!(argument.to_string(), "the argument \"b\\0\" contains a NUL byte");
        for (name, value) in [("", "x"), ("a=b", "x"), ("a", "x\0")] {
            let environment = vec![(name.into(), value.into())];
            let refused = GuestConfigBuilder::new("a").environment(environment).build();
            assert_eq!(refused.unwrap_err(), BadGuestConfig::Variable(name.into()));
        }
        let long = vec![("a".into(), "x".repeat(STRINGS_BYTES_MAX))];
        let refused = GuestConfigBuilder::new("a").environment(long).build().unwrap_err();
        assert_eq!(refused, BadGuestConfig::TooLong { found: STRINGS_BYTES_MAX + 2 });
        let environment = vec![("a".into(), "b=c".into())];
        assert!(GuestConfigBuilder::new("a").environment(environment).build().is_ok());
    }
}
