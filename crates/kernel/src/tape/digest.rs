//! A digest of effects, byte for byte.

use super::writing::mask;
use crate::api::effect::Effect;
use mainspring_message::Envelope;
use std::hash::{BuildHasher, Hasher};

/// The digest of these effects, behind others whose digest is known. Texts that are secret count as
/// what stands for them on the tape.
pub(super) fn of(before: u64, effects: &[Effect], secrets: &[Box<str>]) -> u64 {
    let mut hasher = foldhash::quality::FixedState::with_seed(before).build_hasher();
    for effect in effects {
        match effect {
            Effect::Deliver { actor, message } => {
                hasher.write_u8(1);
                hasher.write_u32(actor.capability.0);
                hasher.write_u32(actor.incarnation);
                line(&mut hasher, message, secrets);
            }
            Effect::Write { connection, message } => {
                hasher.write_u8(2);
                hasher.write_u64(connection.0);
                line(&mut hasher, message, secrets);
            }
            Effect::Record(records) => {
                hasher.write_u8(3);
                for record in records.iter() {
                    hasher.write_u8(record.kind);
                    text(&mut hasher, record.data);
                }
            }
            Effect::After { fact } => {
                hasher.write_u8(4);
                hasher.write_u64(*fact);
            }
            other => {
                hasher.write_u8(5);
                text(&mut hasher, format!("{other:?}").as_bytes());
            }
        }
    }
    hasher.finish()
}

fn text(hasher: &mut impl Hasher, bytes: &[u8]) {
    hasher.write_usize(bytes.len());
    hasher.write(bytes);
}

fn line(hasher: &mut impl Hasher, message: &Envelope, secrets: &[Box<str>]) {
    let line = message.line();
    // Only what the kernel says itself repeats them: an answer, a trace, a tap.
    if secrets.is_empty() || !message.type_name().starts_with("Sys") {
        return text(hasher, line.as_bytes());
    }
    let mut masked = line.to_owned();
    for secret in secrets {
        if masked.contains(&**secret) {
            masked = masked.replace(&**secret, &mask(secret));
        }
    }
    text(hasher, masked.as_bytes());
}
