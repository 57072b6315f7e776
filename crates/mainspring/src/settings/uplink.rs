//! `[uplink]`: the bus of several nodes that this daemon is one of.

use crate::settings::{Contradiction, Section, Settings};
use mainspring_kernel::{check_pattern, keys};
use mainspring_uplink::check_name;
use std::path::{Path, PathBuf};

keys! {
    /// The bus of several nodes that this daemon is one of. NATS carries what they say to each
    /// other. Without this table the daemon is alone.
    pub struct UplinkTable {
        /// The NATS servers, as `nats://HOST:PORT` or `tls://HOST:PORT`: any one of a cluster will
        /// do. Needed in this table.
        nats: Vec<String> = Vec::new();
        /// The name of the bus: 1 to 32 letters, digits, `-` or `_`. Nodes of another bus are not
        /// seen.
        bus: String = "main".to_owned();
        /// The name of this node, which no other node of the bus has: as for `bus`. Needed in this
        /// table.
        node: String = String::new();
        /// Types that are sent to other nodes which share them, unless they are served here: exact
        /// types, `Prefix.*` or `*`.
        import: Vec<String> = Vec::new();
        /// Events that are taken from other nodes which share them: exact types or `Prefix.*`.
        events: Vec<String> = Vec::new();
        /// The file of an nkey seed, which only its owner may read.
        nkey_file: Option<PathBuf> = None;
        /// The file of credentials (a JWT and its seed), which only its owner may read.
        creds_file: Option<PathBuf> = None;
        /// The name of a user of the NATS server.
        user: Option<String> = None;
        /// The file of that user's password, which only its owner may read.
        password_file: Option<PathBuf> = None;
        /// The certificates (PEM) of those who may sign the certificate of a server. Absent: those
        /// of the system.
        ca: Option<PathBuf> = None;
        /// The certificate (PEM) that this node shows to the server.
        certificate: Option<PathBuf> = None;
        /// The key (PEM) of that certificate.
        key: Option<PathBuf> = None;
        /// Requests of one imported capability that other nodes work on at once. Beyond: they wait
        /// here.
        concurrency: u32 = 1024, in 1..;
        /// Requests of one other node that this node works on at once. Beyond: refused (429).
        node_requests_max: usize = 16_384, in 1..;
    }
}

impl UplinkTable {
    /// Whether there is to be an uplink.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !self.nats.is_empty()
    }

    fn paths(&mut self) -> [&mut Option<PathBuf>; 6] {
        [
            &mut self.nkey_file,
            &mut self.creds_file,
            &mut self.password_file,
            &mut self.ca,
            &mut self.certificate,
            &mut self.key,
        ]
    }
}

/// Whether this is the address of a NATS server.
fn is_server(address: &str) -> bool {
    let rest = address.strip_prefix("nats://").or_else(|| address.strip_prefix("tls://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(['@', '/', ' ']))
}

impl Section for UplinkTable {
    const NAME: &'static str = "uplink";

    fn of(settings: &mut Settings) -> &mut UplinkTable {
        &mut settings.uplink
    }

    fn resolve(&mut self, beside: &dyn Fn(&Path) -> PathBuf) {
        for path in self.paths() {
            *path = path.take().map(|path| beside(&path));
        }
    }

    fn contradiction(&self) -> Option<Contradiction> {
        let wrong =
            |keys: &'static [&'static str], message: &'static str| Some(Contradiction { keys, message });
        if self.nats.is_empty() || !self.nats.iter().all(|address| is_server(address)) {
            let message = "`nats` must be a list of servers such as \"nats://127.0.0.1:4222\", without a user or password";
            return wrong(&["nats"], message);
        }
        if check_name(&self.node).is_err() {
            return wrong(
                &["node"],
                "`node` must be 1 to 32 letters, digits, `-` or `_`, and no other node's name",
            );
        }
        if check_name(&self.bus).is_err() {
            return wrong(&["bus"], "`bus` must be 1 to 32 letters, digits, `-` or `_`");
        }
        if self.import.iter().chain(&self.events).any(|pattern| check_pattern(pattern).is_err()) {
            return wrong(
                &["import", "events"],
                "types must be exact types such as `Order.Place`, or `Order.*`",
            );
        }
        if self.events.iter().any(|pattern| pattern == "*") {
            return wrong(
                &["events"],
                "`*` would take everybody's events: name their types, such as `Order.*`",
            );
        }
        let credentials = [
            self.nkey_file.is_some(),
            self.creds_file.is_some(),
            self.user.is_some() || self.password_file.is_some(),
        ];
        if credentials.into_iter().filter(|is_given| *is_given).count() > 1 {
            return wrong(
                &["creds_file", "nkey_file", "user"],
                "only one of `nkey_file`, `creds_file` and `user` with `password_file` can be used",
            );
        }
        if self.user.is_some() != self.password_file.is_some() {
            return wrong(&["user", "password_file"], "`user` and `password_file` go together");
        }
        if self.certificate.is_some() != self.key.is_some() {
            return wrong(&["certificate", "key"], "`certificate` and `key` go together");
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_together_is_told_at_its_key() {
        let sound = UplinkTable {
            nats: vec!["nats://127.0.0.1:4222".into()],
            node: "a".into(),
            ..UplinkTable::default()
        };
        assert!(sound.contradiction().is_none() && sound.is_on());
        type Change = fn(&mut UplinkTable);
        let cases: [(&str, Change); 10] = [
            ("nats", |table| table.nats = Vec::new()),
            ("nats", |table| table.nats = vec!["nats://user:secret@host".into()]),
            ("nats", |table| table.nats = vec!["127.0.0.1:4222".into()]),
            ("node", |table| table.node = "a.b".into()),
            ("bus", |table| table.bus = String::new()),
            ("import", |table| table.import = vec!["order".into()]),
            ("events", |table| table.events = vec!["*".into()]),
            ("creds_file", |table| {
                (table.creds_file, table.nkey_file) = (Some("a".into()), Some("b".into()))
            }),
            ("user", |table| table.user = Some("a".into())),
            ("certificate", |table| table.certificate = Some("a".into())),
        ];
        for (key, change) in cases {
            let mut table = sound.clone();
            change(&mut table);
            let wrong = table.contradiction().expect(key);
            assert!(wrong.keys.contains(&key), "{key}: {:?}", wrong.keys);
        }
    }
}
