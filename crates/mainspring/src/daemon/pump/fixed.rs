//! What a reload does not change: to be named, so that nobody believes otherwise.

use crate::settings::{EachSection, HttpListener, Listener, Section, Settings, each_section};

/// The keys of `mainspring.toml` that hold until the end and whose values are others now.
pub(super) fn changed_keys(then: &Settings, now: &Settings) -> Vec<String> {
    struct Changed {
        then: Settings,
        now: Settings,
        keys: Vec<String>,
    }

    impl EachSection for Changed {
        fn section<S: Section>(&mut self) {
            let changed = S::of(&mut self.then).changed(S::of(&mut self.now));
            self.keys.extend(changed.into_iter().map(|key| format!("{}.{key}", S::NAME)));
        }
    }

    let keys = changed_listeners(&then.listeners, &now.listeners).map(String::from);
    let mut changed = Changed { then: then.clone(), now: now.clone(), keys: keys.into_iter().collect() };
    each_section(&mut changed);
    changed.keys
}

fn changed_listeners(then: &[Listener], now: &[Listener]) -> Option<&'static str> {
    /// A listener without its tokens.
    fn place(listener: &Listener) -> Listener {
        match listener {
            Listener::Tcp { address, tls, .. } => {
                Listener::Tcp { address: *address, tokens: Vec::new(), tls: tls.clone() }
            }
            Listener::Http(http) => Listener::Http(HttpListener { tokens: Vec::new(), ..http.clone() }),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{LogFormat, LogLevel, LogSettings, Token};
    use mainspring_kernel::Rights;
    use std::time::Duration;

    #[test]
    fn every_setting_that_stays_is_named_when_it_differs() {
        let tcp = |token: &str| Listener::Tcp {
            address: ([127, 0, 0, 1], 7700).into(),
            tokens: vec![Token { name: "ann".into(), secret: token.into(), rights: Rights::default() }],
            tls: None,
        };
        let mut settings = Settings::new(vec![Listener::Stdio], Vec::new());
        settings.listeners.push(tcp("one"));
        let then = settings.clone();
        assert_eq!(changed_keys(&then, &then), Vec::<String>::new());
        settings.listeners[1] = tcp("two");
        assert_eq!(changed_keys(&then, &settings), ["listen.tokens"]);
        settings.listeners.remove(0);
        settings.timeouts.hang += Duration::from_millis(1);
        settings.timeouts.repeat += Duration::from_millis(1);
        settings.limits.timers_max += 1;
        settings.limits.line_bytes_max += 1;
        settings.log = LogSettings { level: LogLevel::Trace, format: LogFormat::Json };
        let mut keys = changed_keys(&then, &settings);
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
