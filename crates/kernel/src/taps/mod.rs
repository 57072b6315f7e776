//! Taps: connections that see messages pass, as records like those of the history.
//!
//! The part owns who taps, what of, and the records that wait to be written. A record is made once for each tap that wants
//! it, and only while somebody taps; beyond a rate it is counted and not made. The flow of messages hands records in, and
//! takes what is to be written out.

mod record;

pub(crate) use record::Named;

use crate::api::config::Limits;
use crate::api::ids::ConnectionId;
use crate::api::rights::covers;
use crate::flow::refusal::is_reserved;
use crate::history::{Audience, Author, Record};
use crate::out::{MS, Out};
use mainspring_message::{Envelope, Kind};

/// Bytes of records that go out in one event, about.
const BATCH_BYTES: usize = 32 << 10;
/// Nanoseconds in a second.
const SECOND_NS: i64 = 1_000 * MS;

/// What a tap shows.
#[derive(Debug, Default)]
pub(crate) struct TapFilter {
    /// Patterns of types; every type of an application if there are none.
    pub(crate) types: Vec<String>,
    /// Ids of capabilities that it is from or to; any if there are none.
    pub(crate) capabilities: Vec<String>,
    /// Kinds; any if there are none.
    pub(crate) kinds: Vec<Kind>,
    pub(crate) correlation: Option<String>,
    /// Only requests that ended in an error.
    pub(crate) failed: bool,
    /// Whether data is shown.
    pub(crate) data: bool,
}

impl TapFilter {
    fn wants(&self, record: &Record<'_>, named: &Named<'_>) -> bool {
        let is_type_wanted = match self.types.as_slice() {
            [] => !is_reserved(record.type_name),
            types => types.iter().any(|pattern| {
                covers(pattern, record.type_name) && (pattern != "*" || !is_reserved(record.type_name))
            }),
        };
        let is_capability_wanted = self.capabilities.is_empty()
            || self
                .capabilities
                .iter()
                .any(|id| named.from == Some(id.as_str()) || named.to == Some(id.as_str()));
        is_type_wanted
            && is_capability_wanted
            && (self.kinds.is_empty() || self.kinds.contains(&record.kind))
            && self.correlation.as_deref().is_none_or(|wanted| record.correlation == Some(wanted))
            && (!self.failed || record.end.is_some_and(|end| end.code.is_some()))
    }
}

#[derive(Debug)]
struct Tap {
    connection: ConnectionId,
    filter: TapFilter,
    /// Records that wait, with commas between them.
    records: String,
    /// Records that were not made since the last event.
    skipped: u64,
    /// The second that is being counted, and how many were made in it.
    second: i64,
    made: u64,
}

/// Everybody who taps; see the [module's documentation](self).
#[derive(Debug)]
pub(crate) struct Taps {
    taps: Vec<Tap>,
    per_second: u64,
    data_bytes_max: usize,
}

impl Taps {
    pub(crate) fn new(limits: &Limits) -> Taps {
        Taps {
            taps: Vec::new(),
            per_second: limits.tap_records_per_second.max(1) as u64,
            data_bytes_max: limits.tap_data_bytes_max,
        }
    }

    /// Whether nobody taps.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.taps.is_empty()
    }

    /// Records for one reader in a second.
    pub(crate) fn per_second(&self) -> u64 {
        self.per_second
    }

    /// A connection taps from now on, in the place of what it tapped before.
    pub(crate) fn open(&mut self, connection: ConnectionId, filter: TapFilter) {
        self.close(connection);
        self.taps.push(Tap {
            connection,
            filter,
            records: String::new(),
            skipped: 0,
            second: i64::MIN,
            made: 0,
        });
    }

    /// A connection does not tap any more.
    pub(crate) fn close(&mut self, connection: ConnectionId) {
        self.taps.retain(|tap| tap.connection != connection);
    }

    pub(crate) fn has(&self, connection: ConnectionId) -> bool {
        self.taps.iter().any(|tap| tap.connection == connection)
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.taps.iter().map(|tap| tap.records.len()).sum()
    }

    /// A message passed. What those who tap send themselves is not shown to anybody.
    pub(crate) fn record(
        &mut self,
        record: &Record<'_>,
        named: &Named<'_>,
        message: &Envelope,
        answer: Option<&Envelope>,
        out: &Out,
    ) {
        if let Author::Connection(connection) = record.from
            && self.has(connection)
        {
            return;
        }
        let second = out.now.mono_ns.div_euclid(SECOND_NS);
        for tap in self.taps.iter_mut().filter(|tap| tap.filter.wants(record, named)) {
            if tap.second != second {
                (tap.second, tap.made) = (second, 0);
            }
            if tap.made >= self.per_second {
                tap.skipped += 1;
                continue;
            }
            tap.made += 1;
            if !tap.records.is_empty() {
                tap.records.push(',');
            }
            let shown = tap.filter.data.then_some((message, answer, self.data_bytes_max));
            record::write(record, named, shown, out.now, &mut tap.records);
        }
    }

    /// The next event that is to be written, and to whom. While others want to be served (`is_busy`) records gather first.
    pub(crate) fn next_event(&mut self, is_busy: bool) -> Option<(ConnectionId, String)> {
        let least = if is_busy { BATCH_BYTES } else { 1 };
        let tap = self.taps.iter_mut().find(|tap| tap.records.len() >= least)?;
        let (records, skipped) = (std::mem::take(&mut tap.records), std::mem::take(&mut tap.skipped));
        Some((tap.connection, format!("{{\"records\":[{records}],\"skipped\":{skipped}}}")))
    }

    /// Whether records wait.
    #[inline]
    pub(crate) fn wait(&self) -> bool {
        self.taps.iter().any(|tap| !tap.records.is_empty())
    }
}

/// The capability that a message came from, and the one that it went to.
pub(crate) fn ends(
    record: &Record<'_>,
) -> (Option<crate::api::ids::CapabilityId>, Option<crate::api::ids::CapabilityId>) {
    let from = match record.from {
        Author::Capability(capability) => Some(capability),
        Author::Connection(_) | Author::Kernel => None,
    };
    let to = match record.to {
        Audience::Capability(capability) => Some(capability),
        Audience::Kernel | Audience::Subscribers { .. } => None,
    };
    (from, to)
}
