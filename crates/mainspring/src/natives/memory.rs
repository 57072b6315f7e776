//! The capability `Memory`: values by key. With a journal they survive the daemon.

use crate::daemon::{Native, Port};
use mainspring_kernel::Fact;
use mainspring_message::{Draft, Envelope, Json, Member, ObjectWriter};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::rc::Rc;

/// The name of the capability, as settings and messages know it.
pub(crate) const NAME: &str = "Memory";
/// Keys that there may be. Beyond: a new one is refused (507).
pub(crate) const KEYS_MAX: usize = 1 << 20;
/// Bytes of all keys and values, or a quarter of `limits.memory_bytes_max` if that is less. Beyond:
/// a value that would grow it is refused (507).
pub(crate) const BYTES_MAX: usize = 256 << 20;
/// Keys that one `Memory.List` tells, and their bytes.
pub(crate) const LIST_KEYS_MAX: usize = 1000;
const LIST_BYTES_MAX: usize = 128 << 10;

/// What the values take, as the rest of the daemon knows it, and what outlives the actor.
pub(crate) struct StoreAccount {
    pub(crate) bytes: Cell<usize>,
    pub(crate) bytes_max: Cell<usize>,
    /// Where there is a journal: the values of capabilities that do not run just now, by the
    /// capability's id.
    kept: RefCell<Option<HashMap<Box<str>, Values>>>,
}

impl Default for StoreAccount {
    fn default() -> StoreAccount {
        StoreAccount { bytes: Cell::new(0), bytes_max: Cell::new(BYTES_MAX), kept: RefCell::new(None) }
    }
}

impl StoreAccount {
    /// There is a journal, and these values are in it.
    pub(crate) fn keep(&self, stores: BTreeMap<Box<str>, BTreeMap<Box<str>, Box<str>>>) {
        let stores = stores.into_iter().map(|(store, values)| (store, Values::restored(values)));
        *self.kept.borrow_mut() = Some(stores.collect());
    }
}

/// Values by key.
#[derive(Default)]
struct Values {
    values: HashMap<Rc<str>, Json, foldhash::fast::RandomState>,
    /// Their keys, for those who list them.
    keys: BTreeSet<Rc<str>>,
    bytes: usize,
}

impl Values {
    fn restored(stored: BTreeMap<Box<str>, Box<str>>) -> Values {
        let mut values = Values::default();
        for (key, value) in stored {
            // It was JSON when it was recorded.
            let Ok(value) = Json::parse(&value) else { continue };
            let key: Rc<str> = key.into();
            values.bytes += key.len() + value.as_str().len();
            values.keys.insert(Rc::clone(&key));
            values.values.insert(key, value);
        }
        values
    }
}

/// The capability.
pub(crate) struct Memory {
    store: Values,
    /// The capability's id, once the values that outlived the last actor were taken up.
    name: Option<Box<str>>,
    account: Rc<StoreAccount>,
    /// Where events are written.
    scratch: String,
    /// `true` and `false` as the answers to `Set` and `Delete`, which are the same every time.
    answers: Option<Answers>,
}

struct Answers {
    created: [Json; 2],
    deleted: [Json; 2],
}

#[derive(Deserialize)]
struct SetData<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow)]
    value: &'a RawValue,
}

/// The key and the value of `Memory.Set`, as nearly everybody writes them: without escapes in names
/// and key. Nothing otherwise.
#[inline]
fn usual_set_data(message: &Envelope) -> Option<(&str, Member<'_>)> {
    let (mut key, mut value) = (None, None);
    for (name, member) in message.members() {
        match name {
            "key" if key.is_none() => key = Some(member.plain_string()?),
            "value" if value.is_none() => value = Some(member),
            _ => return None,
        }
    }
    Some((key?, value?))
}

#[derive(Deserialize)]
struct KeyData<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
}

#[derive(Deserialize)]
struct ListData<'a> {
    #[serde(borrow, default)]
    prefix: Cow<'a, str>,
    #[serde(borrow, default)]
    after: Cow<'a, str>,
    /// A whole number within its bounds, as the schema says. For a schema `1.0` is one, too.
    #[serde(default = "list_keys_max")]
    limit: f64,
}

fn list_keys_max() -> f64 {
    LIST_KEYS_MAX as f64
}

#[derive(Serialize)]
struct Listed<'a> {
    keys: Vec<&'a str>,
    more: bool,
}

/// What a request comes to: the data of its reply, or a code and a reason.
type MemoryOutcome = Result<Json, (u16, String)>;

impl Native for Memory {
    fn handle(&mut self, message: &Envelope, port: &Port) {
        if self.name.is_none() {
            self.take_up(port.name());
        }
        let outcome = match message.type_name() {
            "Memory.Set" => self.set(message, port),
            "Memory.Delete" => self.delete(message, port),
            "Memory.Get" => self.get(message),
            "Memory.List" => self.list(message),
            other => Err((404, format!("Memory does not know {other}"))),
        };
        match outcome {
            Ok(data) => port.reply(message, &data),
            Err((code, reason)) => port.message(Draft::error(message, code, &reason)),
        }
    }

    fn stats(&self) -> Value {
        json!({ "keys": self.store.values.len(), "bytes": self.store.bytes })
    }
}

/// What is in the journal outlives the actor.
impl Drop for Memory {
    fn drop(&mut self) {
        if let (Some(name), Some(kept)) = (self.name.take(), &mut *self.account.kept.borrow_mut()) {
            kept.insert(name, std::mem::take(&mut self.store));
        }
    }
}

impl Memory {
    pub(crate) fn new(account: Rc<StoreAccount>) -> Memory {
        account.bytes.set(0);
        Memory { store: Values::default(), name: None, account, scratch: String::new(), answers: None }
    }

    /// Takes up what outlived the last actor of this capability.
    fn take_up(&mut self, name: &str) {
        if let Some(kept) = &mut *self.account.kept.borrow_mut() {
            self.store = kept.remove(name).unwrap_or_default();
            self.account.bytes.set(self.store.bytes);
        }
        self.name = Some(name.into());
    }

    fn full(&self) -> (u16, String) {
        let bytes_max = self.account.bytes_max.get();
        (507, format!("keys and values would take more than {bytes_max} bytes; delete some first"))
    }

    fn set(&mut self, message: &Envelope, port: &Port) -> MemoryOutcome {
        if let Some((key, value)) = usual_set_data(message) {
            return self.set_value(message, port, key, value.text(), || value.to_json());
        }
        let data: SetData<'_> = read(message)?;
        let value = Json::parse(data.value.get()).map_err(|error| (422, format!("data: {error}")))?;
        self.set_value(message, port, &data.key, value.as_str(), || value.clone())
    }

    fn set_value(
        &mut self,
        message: &Envelope,
        port: &Port,
        key: &str,
        text: &str,
        value: impl FnOnce() -> Json,
    ) -> MemoryOutcome {
        let before = match self.store.values.get_mut(key) {
            Some(there) if there.as_str() == text => return Ok(self.answers().created[0].clone()),
            Some(there) => {
                let before = there.as_str().len();
                let bytes = self.store.bytes - before + text.len();
                if bytes > self.account.bytes_max.get() {
                    return Err(self.full());
                }
                *there = value();
                Some(before)
            }
            None => {
                if self.store.values.len() >= KEYS_MAX {
                    return Err((507, format!("there are {KEYS_MAX} keys already; delete some first")));
                }
                if self.store.bytes + key.len() + text.len() > self.account.bytes_max.get() {
                    return Err(self.full());
                }
                let key: Rc<str> = key.into();
                self.store.keys.insert(key.clone());
                self.store.values.insert(key, value());
                None
            }
        };
        self.store.bytes = match before {
            Some(before) => self.store.bytes - before + text.len(),
            None => self.store.bytes + key.len() + text.len(),
        };
        self.account.bytes.set(self.store.bytes);
        if message.durable() != Some(false) {
            port.record(|store| Fact::Put { store, key, value: text });
        }
        self.tell(message, port, key, "set");
        Ok(self.answers().created[usize::from(before.is_none())].clone())
    }

    fn delete(&mut self, message: &Envelope, port: &Port) -> MemoryOutcome {
        let data: KeyData<'_> = read(message)?;
        let gone = self.store.values.remove(&*data.key);
        if let Some(value) = &gone {
            self.store.keys.remove(&*data.key);
            self.store.bytes -= data.key.len() + value.as_str().len();
            self.account.bytes.set(self.store.bytes);
            if message.durable() != Some(false) {
                port.record(|store| Fact::Deleted { store, key: &data.key });
            }
            self.tell(message, port, &data.key, "deleted");
        }
        Ok(self.answers().deleted[usize::from(gone.is_some())].clone())
    }

    fn get(&self, message: &Envelope) -> MemoryOutcome {
        let data: KeyData<'_> = read(message)?;
        match self.store.values.get(&*data.key) {
            Some(value) => Ok(ObjectWriter::new(&mut String::new()).json("value", value).finish()),
            None => Err((404, format!("there is no key {:?}", data.key))),
        }
    }

    fn list(&self, message: &Envelope) -> MemoryOutcome {
        let data: ListData<'_> = read(message)?;
        let (prefix, after, limit) = (&*data.prefix, &*data.after, data.limit as usize);
        let start = if after >= prefix && !after.is_empty() {
            Bound::Excluded(after)
        } else {
            Bound::Included(prefix)
        };
        let mut listed = Listed { keys: Vec::new(), more: false };
        let mut bytes = 0;
        for key in self.store.keys.range::<str, _>((start, Bound::Unbounded)) {
            if !key.starts_with(prefix) {
                break;
            }
            if listed.keys.len() >= limit || bytes > LIST_BYTES_MAX {
                listed.more = true;
                break;
            }
            bytes += key.len();
            listed.keys.push(key);
        }
        write(&listed)
    }

    /// Tells that a key changed.
    fn tell(&mut self, message: &Envelope, port: &Port, key: &str, change: &str) {
        port.event(message, "Memory.Changed", || {
            ObjectWriter::new(&mut self.scratch).string("key", key).string("change", change).finish()
        });
    }

    fn answers(&mut self) -> &Answers {
        self.answers.get_or_insert_with(|| {
            let both = |name: &str| [false, true].map(|flag| Json::from(json!({ name: flag })));
            Answers { created: both("created"), deleted: both("deleted") }
        })
    }
}

fn read<'a, T: Deserialize<'a>>(message: &'a Envelope) -> Result<T, (u16, String)> {
    message.data_as().map_err(|error| (422, format!("data: {error}")))
}

fn write(data: &impl Serialize) -> MemoryOutcome {
    Json::from_value(data).map_err(|error| (500, error.to_string()))
}
