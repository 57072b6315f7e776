//! Settings and manifests on the tape. Every field is named once; one that is forgotten does not
//! compile.

use crate::api::config::{Config, Limits, Mode};
use crate::api::manifest::{
    ActorLimits, Manifest, Redeliver, RestartPolicy, RestartWhen, RetryPolicy, TypeNotes,
};
use crate::facts::FactError;
use crate::facts::wire::{Reader, Writer};
use serde_json::Value;
use std::collections::BTreeMap;

/// Writes and reads a struct of whole numbers.
macro_rules! numbers {
    ($write:ident, $read:ident, $table:ident { $($field:ident),* $(,)? } $($more:ident: $default:expr)?) => {
        impl Writer<'_> {
            fn $write(&mut self, table: &$table) -> &mut Self {
                let $table { $($field,)* $($more: _,)? } = table;
                $(self.number(*$field as u64);)*
                self
            }
        }

        impl Reader<'_> {
            fn $read(&mut self) -> Result<$table, FactError> {
                Ok($table {
                    $($field: self.number(stringify!($field))?.try_into().map_err(|_| self.wrong(stringify!($field)))?,)*
                    $($more: $default,)?
                })
            }
        }
    };
}

numbers!(
    write_limits,
    read_limits,
    Limits {
        line_bytes_max,
        connections_max,
        bad_lines_max,
        lane_messages_max,
        lane_bytes_max,
        peer_requests_max,
        requests_max,
        duplicates_max,
        chain_max,
        egress_bytes_max,
        subscriber_events_max,
        subscriber_bytes_max,
        subscriptions_max,
        window_answers_max,
        window_peer_answers_max,
        window_bytes_max,
        window_peer_bytes_max,
        peer_timers_max,
        peer_timer_bytes_max,
        peer_ticks_per_second,
        timers_max,
        timer_bytes_max,
        dead_letters_max,
        dead_letter_bytes_max,
        history_bytes_max,
        history_data_bytes_max,
        tap_records_per_second,
        tap_data_bytes_max,
        memory_bytes_max,
        recent_events_max,
        system_per_turn,
        completions_per_turn,
        timers_per_turn,
    }
);
numbers!(write_restart, read_restart, RestartPolicy {
    max_restarts,
    window_ms,
    backoff_ms,
    backoff_max_ms,
    probe_ms,
} when: RestartWhen::Always);
numbers!(write_retry, read_retry, RetryPolicy { attempts, backoff_ms });
numbers!(write_actor_limits, read_actor_limits, ActorLimits { concurrency, mailbox_messages, mailbox_bytes });

impl Writer<'_> {
    pub(super) fn config(&mut self, config: &Config) -> &mut Self {
        let Config {
            mode,
            default_timeout_ms,
            timeout_ms_max,
            boot_timeout_ms,
            drain_ms,
            hang_ms,
            window_ms,
            collect_stats,
            limits,
        } = config;
        self.flag(*mode == Mode::Batch)
            .number(*default_timeout_ms)
            .number(*timeout_ms_max)
            .number(*boot_timeout_ms)
            .number(*drain_ms)
            .number(*hang_ms)
            .number(*window_ms)
            .flag(*collect_stats)
            .write_limits(limits)
    }

    pub(super) fn manifest(&mut self, manifest: &Manifest) -> &mut Self {
        let Manifest {
            id,
            description,
            inbound,
            outbound,
            subscribes,
            types,
            cancel,
            operator,
            uncaused,
            durable,
            redeliver,
            durable_events,
            share,
            share_events,
            partition_by,
            keeps_facts,
            restart,
            retry,
            limits,
        } = manifest;
        self.text(id).text(description).text(&inbound.to_string());
        self.maybe_text(outbound.as_ref().map(Value::to_string).as_deref());
        self.number(subscribes.len() as u64);
        for pattern in subscribes {
            self.text(pattern);
        }
        self.text(&serde_json::to_string(types).unwrap_or_default());
        for flag in [cancel, operator, uncaused, durable, durable_events, keeps_facts, share] {
            self.flag(*flag);
        }
        self.text(&serde_json::to_string(share_events).unwrap_or_default());
        self.maybe_text(partition_by.as_deref());
        self.number(*redeliver as u64)
            .number(restart.when as u64)
            .write_restart(restart)
            .write_retry(retry)
            .write_actor_limits(limits)
    }
}

impl Reader<'_> {
    pub(super) fn config(&mut self) -> Result<Config, FactError> {
        Ok(Config {
            mode: if self.is_there("mode")? { Mode::Batch } else { Mode::Daemon },
            default_timeout_ms: self.number("default_timeout_ms")?,
            timeout_ms_max: self.number("timeout_ms_max")?,
            boot_timeout_ms: self.number("boot_timeout_ms")?,
            drain_ms: self.number("drain_ms")?,
            hang_ms: self.number("hang_ms")?,
            window_ms: self.number("window_ms")?,
            collect_stats: self.is_there("collect_stats")?,
            limits: self.read_limits()?,
        })
    }

    pub(super) fn manifest(&mut self) -> Result<Manifest, FactError> {
        let (id, description) = (self.text("id")?.to_owned(), self.text("description")?.to_owned());
        let inbound = self.json::<Value>("inbound")?;
        let outbound = if self.is_there("outbound")? { Some(self.json("outbound")?) } else { None };
        let count = self.number("subscribes")?;
        let subscribes =
            (0..count).map(|_| self.text("subscribes").map(str::to_owned)).collect::<Result<_, _>>()?;
        let types: BTreeMap<String, TypeNotes> = self.json("types")?;
        let mut flag = || self.is_there("flag");
        let (cancel, operator, uncaused) = (flag()?, flag()?, flag()?);
        let (durable, durable_events, keeps_facts) = (flag()?, flag()?, flag()?);
        let share = flag()?;
        let share_events: Vec<String> = self.json("share_events")?;
        let partition_by = self.maybe_text("partition_by")?.map(str::to_owned);
        let redeliver = [Redeliver::IfNotStarted, Redeliver::Always, Redeliver::Never];
        let redeliver = self.one_of("redeliver", &redeliver)?;
        let when = self.one_of("when", &[RestartWhen::Always, RestartWhen::OnFailure, RestartWhen::Never])?;
        Ok(Manifest {
            id,
            description,
            inbound,
            outbound,
            subscribes,
            types,
            cancel,
            operator,
            uncaused,
            durable,
            redeliver,
            durable_events,
            share,
            share_events,
            partition_by,
            keeps_facts,
            restart: RestartPolicy { when, ..self.read_restart()? },
            retry: self.read_retry()?,
            limits: self.read_actor_limits()?,
        })
    }

    fn json<T: serde::de::DeserializeOwned>(&mut self, field: &'static str) -> Result<T, FactError> {
        serde_json::from_str(self.text(field)?).map_err(|_| self.wrong(field))
    }

    /// One of the variants of an enum, in the order of their declaration.
    pub(super) fn one_of<T: Copy>(&mut self, field: &'static str, all: &[T]) -> Result<T, FactError> {
        let place = self.number(field)?;
        usize::try_from(place).ok().and_then(|place| all.get(place)).copied().ok_or_else(|| self.wrong(field))
    }
}
