//! What a reload does not change: to be named, so that nobody believes otherwise.

use crate::settings::{Door, LogSettings, Settings};
use mainspring_kernel::{Config, Limits};

/// The settings that hold until the end.
#[derive(Clone, Debug)]
pub(super) struct Fixed {
    kernel: Config,
    doors: Vec<Door>,
    log: LogSettings,
}

impl Fixed {
    pub(super) fn of(settings: &Settings) -> Fixed {
        Fixed { kernel: settings.kernel.clone(), doors: settings.doors.clone(), log: settings.log }
    }

    /// The keys of `mainspring.toml` whose values are others now.
    pub(super) fn changed_keys(&self, now: &Fixed) -> Vec<String> {
        let mut keys: Vec<String> = Vec::new();
        keys.extend(changed_doors(&self.doors, &now.doors).map(String::from));
        keys.extend(changed_timeouts(&self.kernel, &now.kernel).map(|key| format!("timeouts.{key}")));
        keys.extend(changed_limits(&self.kernel.limits, &now.kernel.limits));
        if self.log.level != now.log.level {
            keys.push("log.level".into());
        }
        if self.log.format != now.log.format {
            keys.push("log.format".into());
        }
        keys
    }
}

fn changed_doors(then: &[Door], now: &[Door]) -> Option<&'static str> {
    /// A door without its tokens.
    fn place(door: &Door) -> Door {
        match door {
            Door::Tcp { address, .. } => Door::Tcp { address: *address, tokens: Vec::new() },
            other => other.clone(),
        }
    }
    if then == now {
        None
    } else if then.iter().map(place).eq(now.iter().map(place)) {
        Some("listen.tokens")
    } else {
        Some("listen")
    }
}

fn changed_timeouts(then: &Config, now: &Config) -> impl Iterator<Item = &'static str> {
    let times = |config: &Config| {
        // Every field, so that a new one is not forgotten.
        let Config {
            mode: _,
            default_timeout_ms,
            timeout_ms_max,
            boot_timeout_ms,
            drain_ms,
            hang_ms,
            window_ms,
            collect_stats: _,
            limits: _,
        } = *config;
        [
            ("default", default_timeout_ms),
            ("max", timeout_ms_max),
            ("boot", boot_timeout_ms),
            ("drain", drain_ms),
            ("hang", hang_ms),
            ("repeat", window_ms),
        ]
    };
    times(then).into_iter().zip(times(now)).filter(|(then, now)| then != now).map(|((key, _), _)| key)
}

fn changed_limits(then: &Limits, now: &Limits) -> Vec<String> {
    let values = |limits: &Limits| serde_json::to_value(limits).unwrap_or_default();
    let (then, now) = (values(then), values(now));
    let keys = now.as_object().into_iter().flatten().filter(|(key, value)| then[key.as_str()] != **value);
    keys.map(|(key, _)| format!("limits.{key}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::settings::{LogFormat, LogLevel};

    #[test]
    fn every_setting_that_stays_is_named_when_it_differs() {
        let tcp = |token: &str| Door::Tcp {
            address: ([127, 0, 0, 1], 7700).into(),
            tokens: vec![("ann".into(), token.into())],
        };
        let mut settings = config::defaults();
        settings.doors.push(tcp("one"));
        let then = Fixed::of(&settings);
        assert_eq!(then.changed_keys(&then), Vec::<String>::new());
        settings.doors[1] = tcp("two");
        assert_eq!(then.changed_keys(&Fixed::of(&settings)), ["listen.tokens"]);
        settings.doors.remove(0);
        settings.kernel.hang_ms += 1;
        settings.kernel.window_ms += 1;
        settings.kernel.limits.timers_max += 1;
        settings.kernel.limits.line_bytes_max += 1;
        settings.log = LogSettings { level: LogLevel::Trace, format: LogFormat::Json };
        let mut keys = then.changed_keys(&Fixed::of(&settings));
        keys.sort();
        let expected = [
            "limits.line_bytes_max",
            "limits.timers_max",
            "listen",
            "log.format",
            "log.level",
            "timeouts.hang",
            "timeouts.repeat",
        ];
        assert_eq!(keys, expected);
    }
}
