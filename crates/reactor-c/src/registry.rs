//! Names: how C refers to a loop or a wake-up without holding its address.
//!
//! A name is a slot and a generation. The slots are global, because a name must mean the same on
//! every thread; but the loop itself is found only in a table of its own thread. A name that has
//! died stays dead: the slot's next owner has another generation.
//!
//! A thread that forks first takes the locks of the global tables, and gives them back on both
//! sides: a child must not find them locked by a thread that it does not have.

use crate::error::{Error, Result};
use crate::event_loop::EventLoop;
use crate::types::Name;
use reactor::{Remote, Wakeup};
use std::cell::{RefCell, UnsafeCell};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A slot and its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Which slot.
    pub slot: u32,
    /// Which of its owners.
    pub generation: u32,
}

/// Half of an address: the generation above, the slot below.
const HALF_BITS: u32 = usize::BITS / 2;
const HALF_MASK: usize = (1 << HALF_BITS) - 1;
/// Names look like addresses of aligned objects, which is what some tools expect of a pointer.
const ALIGN_BITS: u32 = 4;
const SLOTS_MAX: usize = HALF_MASK >> ALIGN_BITS;

impl Key {
    /// The pointer that C holds. Never null.
    pub fn to_name(self) -> Name {
        let low = (self.slot as usize + 1) << ALIGN_BITS;
        std::ptr::without_provenance_mut((self.generation as usize) << HALF_BITS | low)
    }

    /// The key behind a pointer, if it can be one.
    pub fn from_name(name: Name) -> Option<Key> {
        let (address, low) = (name.addr(), name.addr() & HALF_MASK);
        let aligned = low & ((1 << ALIGN_BITS) - 1) == 0;
        let slot = (low >> ALIGN_BITS).checked_sub(1).filter(|_| aligned)?;
        Some(Key { slot: slot as u32, generation: (address >> HALF_BITS) as u32 })
    }

    /// The number that C holds for other things. Never zero.
    pub fn to_bits(self) -> u64 {
        (u64::from(self.slot) + 1) << 32 | u64::from(self.generation)
    }

    /// The key behind a number, if it can be one.
    pub fn from_bits(bits: u64) -> Option<Key> {
        let slot = (bits >> 32).checked_sub(1)?;
        Some(Key { slot: slot as u32, generation: bits as u32 })
    }
}

/// Values by key. Slots are reused, newest first.
#[derive(Debug)]
pub struct Table<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Table<T> {
    const fn new() -> Table<T> {
        Table { slots: Vec::new(), free: Vec::new() }
    }

    fn insert(&mut self, value: T, what: &'static str) -> Result<Key> {
        if let Some(slot) = self.free.pop() {
            let entry = &mut self.slots[slot as usize];
            entry.1 = Some(value);
            return Ok(Key { slot, generation: entry.0 });
        }
        if self.slots.len() == SLOTS_MAX {
            return Err(Error::LimitReached { limit: SLOTS_MAX, what });
        }
        self.slots.push((1, Some(value)));
        Ok(Key { slot: (self.slots.len() - 1) as u32, generation: 1 })
    }

    fn get(&self, key: Key) -> Option<&T> {
        let (generation, value) = self.slots.get(key.slot as usize)?;
        if *generation == key.generation & Self::generation_mask() { value.as_ref() } else { None }
    }

    fn remove(&mut self, key: Key) -> Option<T> {
        self.get(key)?;
        let (generation, value) = &mut self.slots[key.slot as usize];
        *generation = generation.wrapping_add(1) & Self::generation_mask();
        self.free.push(key.slot);
        value.take()
    }

    /// Where addresses are short, generations are too.
    const fn generation_mask() -> u32 {
        HALF_MASK as u32
    }
}

/// What other threads may use of a loop.
#[derive(Clone, Debug)]
pub struct Shared {
    /// Wakes, stops and calls.
    pub remote: Remote,
    /// Whether a run is in progress.
    pub running: Arc<AtomicBool>,
}

/// A wake-up as other threads see it.
#[derive(Clone, Debug)]
pub struct SharedWakeup {
    /// By which the loop is told.
    pub wakeup: Wakeup,
    /// Set when C has ended it: what is still on its way must not be called any more.
    pub ended: Arc<AtomicBool>,
}

static LOOPS: RwLock<Table<Shared>> = RwLock::new(Table::new());
static WAKEUPS: RwLock<Table<SharedWakeup>> = RwLock::new(Table::new());

fn read<T>(table: &'static RwLock<Table<T>>) -> RwLockReadGuard<'static, Table<T>> {
    table.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(table: &'static RwLock<Table<T>>) -> RwLockWriteGuard<'static, Table<T>> {
    table.write().unwrap_or_else(PoisonError::into_inner)
}

/// The locks, while a fork is under way.
struct Held(UnsafeCell<Option<HeldLocks>>);
type HeldLocks = (RwLockWriteGuard<'static, Table<Shared>>, RwLockWriteGuard<'static, Table<SharedWakeup>>);

// SAFETY: the cell is touched only by the thread that has both tables locked.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

extern "C" fn before_fork() {
    // Nobody takes one while holding the other, so any order will do.
    let locks = (write(&LOOPS), write(&WAKEUPS));
    // SAFETY: this thread has both tables locked.
    unsafe { *HELD.0.get() = Some(locks) };
}

extern "C" fn after_fork() {
    // SAFETY: this thread has had both tables locked since before the fork.
    let locks = unsafe { (*HELD.0.get()).take() };
    drop(locks);
}

/// Starts minding forks; needed once per process.
fn watch_forks() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the hooks take and give back locks that no code forks under, on the thread that
        // forks.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork)) };
    });
}

/// The loops of a thread, each in the slot of its name.
#[derive(Default)]
struct Local(Vec<Option<(u32, Rc<EventLoop>)>>);

thread_local! {
    static LOCAL: RefCell<Local> = const { RefCell::new(Local(Vec::new())) };
}

/// Gives a name to what other threads may use of a new loop.
pub fn announce(shared: Shared) -> Result<Key> {
    watch_forks();
    write(&LOOPS).insert(shared, "reactors")
}

/// Ends a name. What it stood for is found no more, on any thread.
pub fn retract(key: Key) {
    let shared = write(&LOOPS).remove(key);
    drop(shared);
    let event_loop = LOCAL.try_with(|local| {
        let mut local = local.try_borrow_mut().ok()?;
        let entry = local.0.get_mut(key.slot as usize)?;
        entry.take_if(|(generation, _)| *generation == key.generation)
    });
    drop(event_loop);
}

/// Enters a loop in the table of this thread.
pub fn adopt(key: Key, event_loop: Rc<EventLoop>) -> Result<()> {
    let adopted = LOCAL.try_with(|local| {
        let mut local = local.borrow_mut();
        let slot = key.slot as usize;
        if slot >= local.0.len() {
            local.0.resize_with(slot + 1, || None);
        }
        local.0[slot] = Some((key.generation, event_loop));
    });
    // A thread that is ending cannot have loops any more.
    adopted.map_err(|_| Error::Internal)
}

/// Finds a loop of this thread.
pub fn find(name: Name) -> Result<Rc<EventLoop>> {
    let key = Key::from_name(name).ok_or(Error::BadReactor)?;
    let found = LOCAL.try_with(|local| {
        let local = local.try_borrow().ok()?;
        let (generation, event_loop) = local.0.get(key.slot as usize)?.as_ref()?;
        (*generation == key.generation).then(|| event_loop.clone())
    });
    match found {
        Ok(Some(event_loop)) => Ok(event_loop),
        _ if read(&LOOPS).get(key).is_some() => Err(Error::WrongThread),
        _ => Err(Error::BadReactor),
    }
}

/// Finds, from any thread, what a loop shares.
pub fn find_shared(name: Name) -> Result<Shared> {
    let key = Key::from_name(name).ok_or(Error::BadReactor)?;
    read(&LOOPS).get(key).cloned().ok_or(Error::BadReactor)
}

/// Gives a name to a wake-up.
pub fn announce_wakeup(wakeup: SharedWakeup) -> Result<Key> {
    write(&WAKEUPS).insert(wakeup, "wake-ups")
}

/// Ends the name of a wake-up and hands it back.
pub fn retract_wakeup(key: Key) -> Option<SharedWakeup> {
    write(&WAKEUPS).remove(key)
}

/// Finds a wake-up.
pub fn find_wakeup(key: Key) -> Option<SharedWakeup> {
    read(&WAKEUPS).get(key).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_as_the_keys_they_were_made_of() {
        for key in [Key { slot: 0, generation: 1 }, Key { slot: 77, generation: HALF_MASK as u32 }] {
            assert_eq!(Key::from_name(key.to_name()), Some(key));
            assert_eq!(Key::from_bits(key.to_bits()), Some(key));
        }
    }

    #[test]
    fn null_and_crooked_pointers_are_no_names() {
        for address in [0, 1, 0x18, HALF_MASK & !0xf | 1] {
            assert_eq!(Key::from_name(std::ptr::without_provenance_mut(address)), None);
        }
        assert_eq!(Key::from_bits(0), None);
    }

    #[test]
    fn a_dead_key_does_not_reach_the_next_owner_of_its_slot() {
        let mut table = Table::new();
        let first = table.insert("first", "texts").expect("room");
        assert_eq!(table.remove(first), Some("first"));
        let second = table.insert("second", "texts").expect("room");
        assert_eq!(first.slot, second.slot);
        assert_eq!((table.get(first), table.get(second)), (None, Some(&"second")));
        assert_eq!(table.remove(first), None);
    }
}
