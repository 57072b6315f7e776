//! `[telemetry]`: spans for other systems.

use crate::settings::{Section, Settings};
use mainspring_kernel::keys;
use mainspring_kernel::keys::KeyType;
use serde::Deserialize;
use std::fmt;

keys! {
    /// Spans for other systems: one for each request that ends and each event that is told. Without
    /// this table none are made.
    pub struct TelemetrySettings {
        /// A collector that takes OTLP over HTTP as JSON, such as `http://127.0.0.1:4318`;
        /// `/v1/traces` is added.
        otlp: Option<Collector> = None;
        /// What this daemon is called there (`service.name`).
        service: String = "mainspring".to_owned();
    }
}

impl Section for TelemetrySettings {
    const NAME: &'static str = "telemetry";

    fn of(settings: &mut Settings) -> &mut TelemetrySettings {
        &mut settings.telemetry
    }
}

/// Where a collector listens.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Collector {
    /// The host and port, as they stand in `Host`.
    pub authority: String,
    /// What is asked for there.
    pub path: String,
}

impl TryFrom<String> for Collector {
    type Error = String;

    fn try_from(text: String) -> Result<Collector, String> {
        let rest = text.strip_prefix("http://").ok_or_else(|| {
            "expected a URL that begins with http://, such as http://127.0.0.1:4318; for a collector elsewhere run one \
             here that passes spans on, encrypted"
                .to_owned()
        })?;
        let (authority, base) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let is_plain =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() && !b"@?#\"\\".contains(&byte));
        let port = authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
        let has_port = port.is_none_or(|(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0));
        let host = port.map_or(authority, |(host, _)| host);
        if host.is_empty() || !is_plain(authority) || !is_plain(base) || !has_port {
            return Err(
                "expected a host, a port and perhaps a path, such as http://127.0.0.1:4318".to_owned()
            );
        }
        let path = format!("{}/v1/traces", base.trim_end_matches('/'));
        Ok(Collector { authority: authority.to_owned(), path })
    }
}

impl Collector {
    /// The host and port to connect to; without a port it is that of HTTP.
    #[must_use]
    pub fn place(&self) -> String {
        let has_port = self.authority.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        if has_port { self.authority.clone() } else { format!("{}:80", self.authority) }
    }
}

impl fmt::Display for Collector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "http://{}{}", self.authority, self.path)
    }
}

impl KeyType for Collector {
    fn takes() -> String {
        "text".into()
    }

    fn written(&self) -> Option<String> {
        Some(format!("\"{self}\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_a_plain_url_and_traces_are_below_it() {
        let read = |text: &str| Collector::try_from(text.to_owned());
        let of = |authority: &str, path: &str| {
            Ok(Collector { authority: authority.to_owned(), path: path.to_owned() })
        };
        assert_eq!(read("http://127.0.0.1:4318"), of("127.0.0.1:4318", "/v1/traces"));
        assert_eq!(read("http://[::1]:4318/"), of("[::1]:4318", "/v1/traces"));
        assert_eq!(read("http://collector/otlp/"), of("collector", "/otlp/v1/traces"));
        assert_eq!(read("http://collector").unwrap().place(), "collector:80");
        assert_eq!(read("http://[::1]").unwrap().place(), "[::1]:80");
        for wrong in [
            "https://a:1",
            "a:4318",
            "http://",
            "http://:1",
            "http://a:x",
            "http://a:0",
            "http://u@a:1",
            "http://a b",
            "http://a/?x",
            "http://a\r\nX: 1",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
