//! Taps: connections that see messages pass, as records like those of the history.
//!
//! The part owns who taps what, and the records that wait to be written. A record is made once
//! for each tap that wants it, and only while somebody taps; beyond a rate it is counted and not
//! made. The flow of messages hands records in, and takes what is to be written out.

mod record;

pub(crate) use record::{DATA_DEPTH, Named};

use crate::api::config::Limits;
use crate::api::ids::ConnectionId;
use crate::api::rights::{Rights, covers};
use crate::flow::refusal::is_reserved;
use crate::history::{Audience, Author, Record};
use crate::out::{MS, Out};
use mainspring_message::{Envelope, Kind};

/// Bytes of records that go out in one event, about.
const BATCH_BYTES: usize = 32 << 10;
/// Nanoseconds in a second.
const SECOND_NS: i64 = 1_000 * MS;
/// Of a second's records, the part that a reader with a pace of its own may get at once.
const BURST_DIVISOR: i64 = 4;

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
    /// Whether what spans are made of is shown: the time to the nanosecond, the span that asked,
    /// the first cause.
    pub(crate) trace: bool,
}

impl TapFilter {
    /// Whether it shows this record, as far as that can be said without the names in it.
    fn wants(&self, record: &Record<'_>) -> bool {
        self.wants_type(record.kind, record.type_name)
            && self.correlation.as_deref().is_none_or(|wanted| record.correlation == Some(wanted))
            && (!self.failed || record.end.is_some_and(|end| end.code.is_some()))
    }

    fn wants_type(&self, kind: Kind, type_name: &str) -> bool {
        let is_type_wanted = match self.types.as_slice() {
            [] => !is_reserved(type_name),
            types => types
                .iter()
                .any(|pattern| covers(pattern, type_name) && (pattern != "*" || !is_reserved(type_name))),
        };
        is_type_wanted && (self.kinds.is_empty() || self.kinds.contains(&kind))
    }

    fn wants_names(&self, named: &Named<'_>) -> bool {
        let is_meant = |id: &String| named.from == Some(id.as_str()) || named.to == Some(id.as_str());
        self.capabilities.is_empty() || self.capabilities.iter().any(is_meant)
    }
}

/// How fast a reader wants its records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TapPace {
    /// Records a second; beyond that they are taken evenly over time, and the rest is counted. As
    /// many as the limit allows if it is nothing.
    pub(crate) per_second: Option<u64>,
    /// How long records may gather before they are sent; 0 sends them at once.
    pub(crate) gather_ms: u64,
}

/// Lets records through evenly: a few at once, then one whenever its time has come.
#[derive(Debug)]
struct Sieve {
    interval_ns: i64,
    /// When everything that was let through would have come, one after the other.
    spent_until_ns: i64,
}

impl Sieve {
    fn new(per_second: u64) -> Sieve {
        let per_second = i64::try_from(per_second).unwrap_or(SECOND_NS).clamp(1, SECOND_NS);
        Sieve { interval_ns: SECOND_NS / per_second, spent_until_ns: i64::MIN }
    }

    fn has_room(&self, now_ns: i64) -> bool {
        self.spent_until_ns.max(now_ns) - now_ns <= SECOND_NS / BURST_DIVISOR
    }

    fn lets_through(&mut self, now_ns: i64) -> bool {
        if !self.has_room(now_ns) {
            return false;
        }
        self.spent_until_ns = self.spent_until_ns.max(now_ns) + self.interval_ns;
        true
    }
}

#[derive(Debug)]
struct Tap {
    connection: ConnectionId,
    filter: TapFilter,
    /// What its reader may see, if that is not everything.
    limit: Option<Rights>,
    sieve: Option<Sieve>,
    gather_ns: i64,
    /// When the records that wait are to be sent.
    due_ns: i64,
    /// Records that wait, with commas between them.
    records: String,
    /// Records that were not made since the last event.
    skipped: u64,
    /// When the second that is being counted is over, and how many were made in it.
    second_ends_ns: i64,
    made: u64,
}

impl Tap {
    /// Whether this record is made: within the limit of every reader, and the pace of this one.
    fn takes(&mut self, per_second_max: u64, now_ns: i64) -> bool {
        if now_ns >= self.second_ends_ns {
            self.second_ends_ns = (now_ns.div_euclid(SECOND_NS) + 1).saturating_mul(SECOND_NS);
            self.made = 0;
        }
        let takes =
            self.made < per_second_max && self.sieve.as_mut().is_none_or(|sieve| sieve.lets_through(now_ns));
        self.made += u64::from(takes);
        takes
    }

    /// Whether a record of now would be made.
    fn has_room(&self, per_second_max: u64, now_ns: i64) -> bool {
        let is_within = now_ns >= self.second_ends_ns || self.made < per_second_max;
        is_within && self.sieve.as_ref().is_none_or(|sieve| sieve.has_room(now_ns))
    }

    /// Whether its reader may see messages of this type.
    fn may_see(&self, type_name: &str) -> bool {
        self.limit.as_ref().is_none_or(|rights| is_reserved(type_name) || rights.allows(type_name))
    }

    /// Whether it shows the data of messages of this type. What the kernel serves itself may carry
    /// messages of any type.
    fn shows_data(&self, type_name: &str) -> bool {
        self.filter.data && (self.limit.is_none() || !is_reserved(type_name))
    }

    fn is_due(&self, least: usize, now_ns: i64) -> bool {
        let waits = self.records.len();
        let is_wanted = waits >= least || (waits == 0 && self.skipped > 0);
        waits >= BATCH_BYTES || (is_wanted && now_ns >= self.due_ns)
    }

    /// A record is not made. If none is on its way that would say so, the reader is told when the
    /// second is over.
    fn skip(&mut self, now_ns: i64) {
        self.skipped += 1;
        if self.records.is_empty() && self.skipped == 1 {
            self.due_ns = self.second_ends_ns.max(now_ns.saturating_add(self.gather_ns));
        }
    }
}

/// Everybody who taps; see the [module's documentation](self).
#[derive(Debug)]
pub(crate) struct Taps {
    taps: Vec<Tap>,
    /// The deadline in the wheel that stands for the earliest records that gather.
    alarm_ns: Option<i64>,
    per_second: u64,
    data_bytes_max: usize,
}

impl Taps {
    pub(crate) fn new(limits: &Limits) -> Taps {
        Taps {
            taps: Vec::new(),
            alarm_ns: None,
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
    pub(crate) fn open(
        &mut self,
        connection: ConnectionId,
        filter: TapFilter,
        pace: TapPace,
        rights: &Rights,
    ) {
        self.close(connection);
        self.taps.push(Tap {
            connection,
            filter,
            limit: rights.leaves_types_out().then(|| rights.clone()),
            sieve: pace.per_second.map(Sieve::new),
            gather_ns: i64::try_from(pace.gather_ms).unwrap_or(0).saturating_mul(MS),
            due_ns: i64::MIN,
            records: String::new(),
            skipped: 0,
            second_ends_ns: i64::MIN,
            made: 0,
        });
    }

    /// A connection does not tap any more.
    pub(crate) fn close(&mut self, connection: ConnectionId) {
        self.taps.retain(|tap| tap.connection != connection);
    }

    /// A connection may do this from now on.
    pub(crate) fn limit(&mut self, connection: ConnectionId, rights: &Rights) {
        if !rights.is_operator() {
            return self.close(connection);
        }
        for tap in self.taps.iter_mut().filter(|tap| tap.connection == connection) {
            tap.limit = rights.leaves_types_out().then(|| rights.clone());
        }
    }

    pub(crate) fn has(&self, connection: ConnectionId) -> bool {
        self.taps.iter().any(|tap| tap.connection == connection)
    }

    /// Whether somebody wants to know what spans are made of.
    pub(crate) fn want_traces(&self) -> bool {
        self.taps.iter().any(|tap| tap.filter.trace)
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.taps.iter().map(|tap| tap.records.len()).sum()
    }

    /// Whether somebody gets a record of an event of this type now: else its data need not be made.
    pub(crate) fn take_event(&self, type_name: &str, now_ns: i64) -> bool {
        self.taps.iter().any(|tap| {
            !tap.filter.failed
                && tap.filter.wants_type(Kind::Event, type_name)
                && tap.may_see(type_name)
                && tap.has_room(self.per_second, now_ns)
        })
    }

    /// A message passed. What those who tap send themselves is not shown to anybody. `named` finds
    /// the names in it, if somebody wants to know them. An event whose data was not made has no
    /// message: it is counted as skipped.
    pub(crate) fn record<'n>(
        &mut self,
        record: &Record<'_>,
        named: impl Fn() -> Named<'n>,
        message: Option<&Envelope>,
        answer: Option<&Envelope>,
        out: &Out,
    ) {
        if let Author::Connection(connection) = record.from
            && self.has(connection)
        {
            return;
        }
        let (now_ns, mut names) = (out.now.mono_ns, None);
        for tap in &mut self.taps {
            if !tap.filter.wants(record) || !tap.may_see(record.type_name) {
                continue;
            }
            if !tap.filter.capabilities.is_empty()
                && !tap.filter.wants_names(names.get_or_insert_with(&named))
            {
                continue;
            }
            let Some(message) = message.filter(|_| tap.takes(self.per_second, now_ns)) else {
                tap.skip(now_ns);
                continue;
            };
            match tap.records.is_empty() {
                true => tap.due_ns = now_ns.saturating_add(tap.gather_ns),
                false => tap.records.push(','),
            }
            let shows_data = tap.shows_data(record.type_name);
            let shown = shows_data.then_some((message, answer, self.data_bytes_max));
            let names = names.get_or_insert_with(&named);
            record::write(record, names, shown, out.now, &mut tap.records);
            if tap.filter.trace {
                record::add_trace(record, names, message, &mut tap.records);
            }
        }
    }

    /// The next event that is to be written, and to whom. While others want to be served
    /// (`is_busy`) records gather first.
    pub(crate) fn next_event(&mut self, is_busy: bool, now_ns: i64) -> Option<(ConnectionId, String)> {
        let least = if is_busy { BATCH_BYTES } else { 1 };
        let tap = self.taps.iter_mut().find(|tap| tap.is_due(least, now_ns))?;
        let (records, skipped) = (std::mem::take(&mut tap.records), std::mem::take(&mut tap.skipped));
        Some((tap.connection, format!("{{\"records\":[{records}],\"skipped\":{skipped}}}")))
    }

    /// Whether records wait that are to be written now.
    #[inline]
    pub(crate) fn wait(&self, now_ns: i64) -> bool {
        self.taps.iter().any(|tap| tap.is_due(1, now_ns))
    }

    /// The deadline that has to be put into the wheel, if records gather and none there stands for
    /// them.
    pub(crate) fn new_alarm(&mut self, now_ns: i64) -> Option<i64> {
        let waits = |tap: &&Tap| (!tap.records.is_empty() || tap.skipped > 0) && tap.due_ns > now_ns;
        let gathering = self.taps.iter().filter(waits);
        let due_ns = gathering.map(|tap| tap.due_ns).min()?;
        if self.alarm_ns.is_some_and(|alarm_ns| alarm_ns <= due_ns) {
            return None;
        }
        self.alarm_ns = Some(due_ns);
        self.alarm_ns
    }

    /// A deadline has come. An earlier one may have taken its place meanwhile, which does no harm.
    pub(crate) fn alarm_rang(&mut self) {
        self.alarm_ns = None;
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
