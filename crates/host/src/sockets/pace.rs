//! How long a guest that wakes itself is made to wait: never when it has something to do, longer
//! and longer while it has not.

use std::cell::Cell;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

/// The variable that [`SocketWait::from_environment`] reads.
const VARIABLE: &str = "MAINSPRING_SOCKET_WAIT_MS";
/// The longest wait that can be asked for.
const LONGEST_MS_MAX: u64 = 60_000;

/// How long a component waits in `socket-read` and `socket-write` of `mainspring:sockets` before it
/// is told that they would block.
///
/// A guest whose stream wakes itself calls again at once, whatever it is told; this wait is all
/// that keeps it from using a whole core. It ends when any socket of the guest is ready.
///
/// # Examples
/// ```
/// use mainspring_host::SocketWait;
///
/// let wait: SocketWait = "1-10".parse()?;
/// assert_eq!(wait, SocketWait::default());
/// assert!("0".parse::<SocketWait>()?.longest.is_zero(), "no wait at all");
/// # Ok::<(), mainspring_host::BadSocketWait>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketWait {
    /// The first wait after the guest made progress. 1 ms.
    pub first: Duration,
    /// What it doubles up to while the guest makes no progress. 10 ms; zero means no wait at all.
    pub longest: Duration,
    /// The CPU time between two calls that would block above which the guest has other work. 50 µs.
    ///
    /// Such a guest is not made to wait, for [`grace_calls`](SocketWait::grace_calls) such calls;
    /// and then for less than `longest` if it uses more than twice this, in proportion, down to
    /// `first`.
    pub busy: Duration,
    /// Calls that may be told at once that they would block because the guest has other work; each
    /// call that moves bytes gives `spare_calls` of them back. A guest that computes and moves
    /// nothing cannot be told from one that wakes itself. 64.
    pub grace_calls: u32,
    /// Calls of one kind on one socket that may be told at once that they would block, after the
    /// guest made progress: its tasks may have something to hand to each other before there is
    /// something to send. Where that is never so, the guest is made to wait at once. 4.
    pub spare_calls: u32,
}

/// A wait that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a wait: write the longest in milliseconds (10), the first and the longest (1-10), or 0 for none"
)]
pub struct BadSocketWait(String);

impl Default for SocketWait {
    fn default() -> SocketWait {
        SocketWait {
            first: Duration::from_millis(1),
            longest: Duration::from_millis(10),
            busy: Duration::from_micros(50),
            grace_calls: 64,
            spare_calls: 4,
        }
    }
}

impl FromStr for SocketWait {
    type Err = BadSocketWait;

    fn from_str(text: &str) -> Result<SocketWait, BadSocketWait> {
        let number = |text: &str| text.trim().parse().ok().filter(|ms: &u64| *ms <= LONGEST_MS_MAX);
        let parsed = match text.split_once('-') {
            None => number(text).map(|longest| (longest.min(1), longest)),
            Some((first, longest)) => number(first).zip(number(longest)),
        };
        match parsed {
            Some((first, longest)) if first <= longest && (first > 0 || longest == 0) => Ok(SocketWait {
                first: Duration::from_millis(first),
                longest: Duration::from_millis(longest),
                ..SocketWait::default()
            }),
            _ => Err(BadSocketWait(text.into())),
        }
    }
}

impl SocketWait {
    /// What `MAINSPRING_SOCKET_WAIT_MS` says, or else the default. The variable is read once in the
    /// life of the process; what makes no sense is logged.
    pub fn from_environment() -> SocketWait {
        static READ: OnceLock<SocketWait> = OnceLock::new();
        *READ.get_or_init(|| {
            let Some(text) = std::env::var_os(VARIABLE) else { return SocketWait::default() };
            text.to_string_lossy().parse().unwrap_or_else(|error| {
                tracing::warn!("{VARIABLE}: {error}; the default holds");
                SocketWait::default()
            })
        })
    }
}

/// What a guest has used so far, by two clocks of which each counts too much: the one includes
/// times when the system ran something else instead of this thread, the other includes what the
/// thread did for other guests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clocks {
    /// The time that the guest ran.
    pub(super) guest: Duration,
    /// The CPU time of the thread.
    pub(super) thread: Duration,
}

impl Clocks {
    /// The CPU time that the guest has used in between, at most.
    fn since(self, earlier: Clocks) -> Duration {
        let guest = self.guest.saturating_sub(earlier.guest);
        guest.min(self.thread.saturating_sub(earlier.thread))
    }
}

/// What a guest does that is more than waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It was given bytes.
    Read,
    /// It sent some.
    Write,
    /// It computed.
    Work,
}

/// The pace of one guest.
pub(super) struct Pace {
    wait: SocketWait,
    next: Cell<Duration>,
    /// The guest's last progress; what follows until the next is one spell.
    last: Cell<Progress>,
    spell: Cell<Spell>,
    /// What usually follows after progress of each kind.
    habits: [Habit; 3],
    /// When the guest was last told that something would block.
    told_at: Cell<Option<Clocks>>,
    /// How many more calls are told so at once because the guest has other work.
    grace: Cell<u32>,
    /// The guest waits by itself.
    parks: Cell<bool>,
}

/// The time since a guest's last progress.
#[derive(Clone, Copy)]
struct Spell {
    number: u64,
    /// How many calls on each socket are spared.
    spare: u32,
    /// A call would have blocked.
    blocked: bool,
    /// A wait has ended without news of any socket.
    overslept: bool,
}

impl Pace {
    pub(super) fn new(wait: SocketWait) -> Pace {
        Pace {
            wait,
            next: Cell::new(wait.first),
            last: Cell::new(Progress::Work),
            spell: Cell::new(Spell { number: 0, spare: wait.spare_calls, blocked: false, overslept: false }),
            habits: Default::default(),
            told_at: Cell::new(None),
            grace: Cell::new(wait.grace_calls),
            parks: Cell::new(false),
        }
    }

    /// The guest has moved bytes.
    pub(super) fn moved(&self, progress: Progress) {
        self.grace.set(self.grace.get().saturating_add(self.wait.spare_calls).min(self.wait.grace_calls));
        self.progress(progress);
    }

    fn progress(&self, progress: Progress) {
        let ended = self.spell.get();
        if ended.blocked {
            self.habit().learn(progress, ended.overslept);
        }
        self.last.set(progress);
        let spare = if self.habit().is_handing_on() { self.wait.spare_calls } else { 0 };
        self.spell.set(Spell { number: ended.number + 1, spare, blocked: false, overslept: false });
        self.next.set(self.wait.first);
    }

    fn habit(&self) -> &Habit {
        &self.habits[self.last.get() as usize]
    }

    /// A wait has ended without news of any socket.
    pub(super) fn overslept(&self) {
        self.spell.set(Spell { overslept: true, ..self.spell.get() });
    }

    /// The guest waits by itself from now on. Whether that is new.
    pub(super) fn parks(&self) -> bool {
        !self.parks.replace(true)
    }

    /// The guest is told that something would block.
    pub(super) fn told(&self, now: Clocks) {
        self.told_at.set(Some(now));
    }

    /// How long to wait for a call that would block; not at all if the guest has other work or
    /// waits by itself, or if the call is one of those that are spared, as `streak` tells.
    pub(super) fn next_wait(&self, now: Clocks, streak: &Streak) -> Option<Duration> {
        if self.parks.get() || self.wait.longest.is_zero() {
            return None;
        }
        let worked = self.told_at.get().map_or(Duration::ZERO, |told_at| now.since(told_at));
        let is_spared = worked > self.wait.busy && self.take_grace();
        if is_spared {
            self.progress(Progress::Work);
        }
        let spell = self.spell.get();
        self.spell.set(Spell { blocked: true, ..spell });
        if streak.extend(spell.number) <= spell.spare || is_spared {
            return None;
        }
        let longest = self.longest_after(worked);
        let next = self.next.get().min(longest);
        self.next.set((next * 2).min(longest));
        Some(next)
    }

    /// Whether the guest, which has other work, may go on with it once more.
    fn take_grace(&self) -> bool {
        let grace = self.grace.get();
        self.grace.set(grace.saturating_sub(1));
        grace > 0
    }

    /// The longest wait for a guest that used so much CPU time since its last call. What it
    /// computes may be of use, and then each wait holds it up; so the more it computes, the shorter
    /// they are, but never so short that it calls more often than once in the first.
    fn longest_after(&self, worked: Duration) -> Duration {
        let SocketWait { first, longest, busy, .. } = self.wait;
        let light = busy * 2;
        if worked <= light {
            return longest;
        }
        longest.mul_f64(light.as_secs_f64() / worked.as_secs_f64()).max(first)
    }
}

/// The calls of one kind on one socket that would have blocked in one spell.
#[derive(Default)]
pub(super) struct Streak {
    spell: Cell<u64>,
    calls: Cell<u32>,
}

impl Streak {
    /// Counts another one.
    fn extend(&self, spell: u64) -> u32 {
        let calls = if self.spell.replace(spell) == spell { self.calls.get().saturating_add(1) } else { 1 };
        self.calls.set(calls);
        calls
    }
}

/// Whether a guest that is told that something would block, after progress of one kind, usually
/// goes on by itself: one of its tasks hands something to another, which sends it. If it always
/// waits for an answer instead, the calls that are spared are wasted.
///
/// Being wrong is dear one way, as the guest is held up by a whole wait, and cheap the other way,
/// by a few calls. So one instance of the one outweighs many of the other, and more of them each
/// time.
struct Habit {
    /// How many more spells may be wasted before the guest is made to wait at once.
    credit: Cell<u32>,
    /// What the credit is filled up to.
    credit_full: Cell<u32>,
    /// Spells without credit.
    denied: Cell<u32>,
}

impl Habit {
    const CREDIT_FIRST: u32 = 16;
    const CREDIT_MAX: u32 = 1024;
    /// One in so many spells without credit is spared nevertheless: a guest that was made to wait
    /// while it had something to send shows no sign of it if the answer came soon.
    const TRY_EVERY: u32 = 32;

    /// Whether calls are spared in the spell that begins.
    fn is_handing_on(&self) -> bool {
        if self.credit.get() > 0 {
            return true;
        }
        self.denied.set(self.denied.get().wrapping_add(1));
        self.denied.get().is_multiple_of(Self::TRY_EVERY)
    }

    /// A spell in which a call would have blocked has ended by `progress`.
    fn learn(&self, progress: Progress, overslept: bool) {
        if progress == Progress::Read {
            self.credit.set(self.credit.get().saturating_sub(1));
            return;
        }
        if overslept {
            self.credit_full.set((self.credit_full.get() * 2).min(Self::CREDIT_MAX));
        }
        self.credit.set(self.credit_full.get());
    }
}

impl Default for Habit {
    fn default() -> Habit {
        Habit {
            credit: Cell::new(Self::CREDIT_FIRST),
            credit_full: Cell::new(Self::CREDIT_FIRST),
            denied: Cell::new(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Clocks = Clocks { guest: Duration::ZERO, thread: Duration::ZERO };

    fn at(guest_us: u64, thread_us: u64) -> Clocks {
        Clocks { guest: Duration::from_micros(guest_us), thread: Duration::from_micros(thread_us) }
    }

    fn ms(wait: Option<Duration>) -> Option<u128> {
        wait.map(|wait| wait.as_millis())
    }

    /// Without spare calls.
    fn strict() -> Pace {
        Pace::new(SocketWait { spare_calls: 0, ..SocketWait::default() })
    }

    #[test]
    fn the_wait_doubles_without_progress_and_starts_anew_when_bytes_move() {
        let (pace, streak) = (strict(), Streak::default());
        let waits: Vec<_> = (0..6).map(|_| ms(pace.next_wait(NOTHING, &streak))).collect();
        assert_eq!(waits, [1, 2, 4, 8, 10, 10].map(Some));
        pace.moved(Progress::Read);
        assert_eq!(ms(pace.next_wait(NOTHING, &streak)), Some(1));
        assert_eq!(ms(pace.next_wait(NOTHING, &streak)), Some(2));
    }

    #[test]
    fn some_calls_after_progress_are_spared_on_each_socket() {
        let (pace, one, other) = (Pace::new(SocketWait::default()), Streak::default(), Streak::default());
        for _ in 0..2 {
            pace.moved(Progress::Read);
            for _ in 0..4 {
                assert_eq!(pace.next_wait(NOTHING, &one), None);
                assert_eq!(pace.next_wait(NOTHING, &other), None);
            }
            assert_eq!(ms(pace.next_wait(NOTHING, &one)), Some(1));
            assert_eq!(ms(pace.next_wait(NOTHING, &other)), Some(2), "one pace for all");
        }
    }

    /// Queries one after the other: what is read is handed to a task that sends the next one, and
    /// then an answer is waited for. Returns the calls that were told at once that they would
    /// block.
    fn queries(pace: &Pace, count: usize) -> usize {
        let streak = Streak::default();
        let mut told = 0;
        for _ in 0..count {
            if pace.next_wait(NOTHING, &streak).is_some() {
                pace.overslept();
            } else {
                told += 1;
            }
            pace.moved(Progress::Write);
            while pace.next_wait(NOTHING, &streak).is_none() {
                told += 1;
            }
            pace.moved(Progress::Read);
        }
        told
    }

    #[test]
    fn a_guest_that_always_waits_for_an_answer_after_a_write_is_made_to_wait_at_once() {
        let pace = Pace::new(SocketWait::default());
        assert_eq!(queries(&pace, 16), 16 + 16 * 4);
        let queries_now = 320;
        let tried = queries_now / Habit::TRY_EVERY as usize;
        assert_eq!(queries(&pace, queries_now), queries_now + tried * 4, "one in 32 is tried again");
    }

    #[test]
    fn a_guest_that_was_held_up_is_spared_again() {
        let (pace, streak) = (Pace::new(SocketWait::default()), Streak::default());
        let wait = || pace.next_wait(NOTHING, &streak);
        // Nothing but reads: what follows is always more of them.
        for _ in 0..17 {
            pace.moved(Progress::Read);
            wait();
        }
        pace.moved(Progress::Read);
        assert_eq!(ms(wait()), Some(1));
        pace.overslept();
        pace.moved(Progress::Write);
        for _ in 0..2 * Habit::CREDIT_FIRST {
            pace.moved(Progress::Read);
            assert_eq!(wait(), None, "for longer than at first");
        }
        pace.moved(Progress::Read);
        assert_eq!(ms(wait()), Some(1));
    }

    #[test]
    fn two_connections_that_were_made_to_take_turns_are_found_out() {
        let (pace, streak) = (Pace::new(SocketWait::default()), Streak::default());
        queries(&pace, 20);
        // From now on the guest has something to send to another connection, which it does whenever
        // it is not made to wait.
        let sent = (0..Habit::TRY_EVERY + 8).filter(|_| {
            pace.moved(Progress::Write);
            let sends = pace.next_wait(NOTHING, &streak).is_none();
            pace.moved(if sends { Progress::Write } else { Progress::Read });
            pace.next_wait(NOTHING, &streak);
            pace.moved(Progress::Read);
            sends
        });
        assert!(sent.count() >= 8);
    }

    #[test]
    fn a_guest_with_other_work_is_not_made_to_wait_for_a_while() {
        let (pace, streak) = (Pace::new(SocketWait::default()), Streak::default());
        for used in (0..64 * 51).step_by(51) {
            pace.told(at(used, used));
            assert_eq!(pace.next_wait(at(used + 51, used + 51), &streak), None);
        }
        let pace = strict();
        pace.told(NOTHING);
        assert_eq!(ms(pace.next_wait(at(50, 50), &streak)), Some(1), "as much as calling again takes");
    }

    /// The longest wait of a guest that uses so much CPU time between its calls and moves no byte,
    /// and how many it was spared.
    fn waits_of_rounds(used_us: u64) -> (u64, u128) {
        let (pace, streak) = (Pace::new(SocketWait::default()), Streak::default());
        let (mut spared, mut longest_us) = (0, 0);
        for round in 0..1000 {
            pace.told(at(round * used_us, round * used_us));
            let used = (round + 1) * used_us;
            match pace.next_wait(at(used, used), &streak) {
                Some(wait) => longest_us = longest_us.max(wait.as_micros()),
                None => spared += 1,
            }
        }
        (spared, longest_us)
    }

    #[test]
    fn a_guest_that_computes_and_moves_no_byte_is_made_to_wait_after_a_grace() {
        for (used_us, longest_us) in
            [(0, 10_000), (30, 10_000), (60, 10_000), (100, 10_000), (200, 5000), (500, 2000), (1000, 1000)]
        {
            let (spared, waited_us) = waits_of_rounds(used_us);
            assert!(spared <= 64 + 4, "{spared} calls with {used_us} us between them");
            assert_eq!(waited_us, longest_us, "{used_us} us");
        }
        assert_eq!(waits_of_rounds(100_000).1, 1000, "the least wait there is");
    }

    #[test]
    fn bytes_that_move_give_the_grace_back_little_by_little() {
        let (pace, streak) = (Pace::new(SocketWait::default()), Streak::default());
        for _ in 0..100 {
            pace.told(NOTHING);
            pace.next_wait(at(200, 200), &streak);
        }
        assert_eq!(pace.grace.get(), 0);
        pace.moved(Progress::Read);
        assert_eq!(pace.grace.get(), 4);
        (0..100).for_each(|_| pace.moved(Progress::Write));
        assert_eq!(pace.grace.get(), 64, "and no more than there was");
    }

    #[test]
    fn work_between_two_sockets_counts_for_both() {
        // A round is work and a call on each of two sockets, of which the second follows at once.
        let (pace, one, other) = (strict(), Streak::default(), Streak::default());
        let mut waits = Vec::new();
        for round in 0..100 {
            pace.told(at(round * 1000, round * 1000));
            let now = at((round + 1) * 1000, (round + 1) * 1000);
            waits.push(pace.next_wait(now, &one));
            pace.told(now);
            waits.push(pace.next_wait(now, &other));
        }
        assert!(
            waits.iter().flatten().all(|wait| wait.as_millis() == 1),
            "no longer than if the thread waited"
        );
    }

    #[test]
    fn what_the_system_or_the_thread_did_meanwhile_is_not_the_guests_work() {
        let (pace, streak) = (strict(), Streak::default());
        pace.told(NOTHING);
        assert_eq!(ms(pace.next_wait(at(1000, 10), &streak)), Some(1), "the thread had to wait for its turn");
        pace.told(NOTHING);
        assert_eq!(ms(pace.next_wait(at(10, 1000), &streak)), Some(2), "another guest ran");
    }

    #[test]
    fn a_guest_that_waits_by_itself_is_not_made_to_wait_here_as_well() {
        let (pace, streak) = (strict(), Streak::default());
        assert!(pace.parks());
        assert!(!pace.parks(), "that is known");
        assert_eq!(pace.next_wait(NOTHING, &streak), None);
        assert_eq!(Pace::new("0".parse().unwrap()).next_wait(NOTHING, &streak), None);
    }

    #[test]
    fn waits_are_read_from_text_and_nonsense_says_what_to_write() {
        let wait = |text: &str| {
            text.parse::<SocketWait>().map(|wait| (wait.first.as_millis(), wait.longest.as_millis()))
        };
        assert_eq!(wait(" 5 "), Ok((1, 5)));
        assert_eq!(wait("2-20"), Ok((2, 20)));
        assert_eq!(wait("0"), Ok((0, 0)));
        for wrong in ["", "-1", "5-2", "0-5", "1-", "ten", "60001"] {
            assert!(wait(wrong).unwrap_err().to_string().contains("1-10"), "{wrong}");
        }
    }
}
