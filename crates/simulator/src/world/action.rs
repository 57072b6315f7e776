//! What can happen in the world, one step at a time.
//!
//! Actions name clients, actors and messages by small numbers that the world takes modulo what it
//! has, so every action makes sense in every state, and a failing list of them can be shortened by
//! leaving some out.

use crate::random::Random;

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A client of this peer connects.
    Connect {
        /// Which peer.
        peer: u8,
    },
    /// A client goes away.
    Disconnect {
        /// Which client.
        client: u8,
    },
    /// A client sends a line, perhaps several times.
    Send {
        /// Which client.
        client: u8,
        /// What it sends.
        what: What,
        /// How it sends it.
        how: How,
        /// How often.
        times: u8,
    },
    /// A client reads this share (of 255) of what waits for it.
    Read {
        /// Which client.
        client: u8,
        /// Which share, of 255.
        share: u8,
    },
    /// An actor does something with one of the messages that it has in progress.
    Act {
        /// Which actor.
        actor: u8,
        /// Which message.
        held: u8,
        /// What it does.
        act: Act,
    },
    /// An actor takes no more, or takes messages again.
    Block {
        /// Which actor.
        actor: u8,
        /// Whether it takes no more.
        blocked: bool,
    },
    /// A floor below answers one of the kernel's effects (a spawn, an attachment, a collection of
    /// numbers).
    Answer {
        /// Which one.
        which: u8,
        /// Whether all went well.
        well: bool,
    },
    /// Time passes.
    Pass(Pass),
    /// The kernel makes one turn.
    Turn,
    /// The kernel makes turns until it has nothing to do.
    Settle,
    /// The daemon is told that a capability changed.
    Reload {
        /// Which capability.
        actor: u8,
        /// How.
        how: Reload,
    },
    /// The daemon is told to stop.
    Shutdown,
}

/// How a capability changes. What does not fit (the removal of what is removed, say) is nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// It has another manifest, made from this number; if it was removed, it comes back.
    Replace(u16),
    /// It is started anew under the same manifest.
    Restart,
    /// It is taken out.
    Remove,
    /// There is a new one, with a manifest made from this number.
    AddNew(u16),
    /// Something is wrong, in one of several ways, so that nothing may change.
    Bad(u8),
}

/// What a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A command to this capability.
    Command(u8),
    /// A query to this capability.
    Query(u8),
    /// An event that capabilities and clients may listen to.
    Event(u8),
    /// A command with data that does not fit the schema.
    BadData(u8),
    /// A command that nobody handles.
    Unknown,
    /// A reply, though it was asked nothing.
    Reply,
    /// An error, which must not produce another.
    Error,
    /// Bytes that are no message, in one of several ways.
    Malformed(u8),
    /// A line beyond the limit.
    TooLong,
    /// A request sent before, with the same body or another.
    Again {
        /// Which one.
        which: u8,
        /// Whether with the same body.
        same_body: bool,
    },
    /// A question to the kernel itself.
    Builtin(Builtin),
    /// A command to be sent later, once or repeatedly.
    Schedule {
        /// Which capability.
        capability: u8,
        /// Which delay and period.
        delay: u8,
        /// Whether repeatedly.
        repeat: bool,
    },
    /// A schedule taken back.
    CancelSchedule {
        /// Which one.
        which: u8,
    },
    /// A subscription to events.
    Subscribe {
        /// Which pattern.
        pattern: u8,
        /// Whether it would rather be closed than lose events.
        disconnect: bool,
    },
    /// The end of a subscription.
    Unsubscribe {
        /// Which pattern.
        pattern: u8,
    },
}

/// Built-in commands and queries without further choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builtin {
    /// `Syscall.Ping`.
    Ping,
    /// `Syscall.Describe`.
    Describe,
    /// `Timer.List`.
    Timers,
    /// `Sys.Actors`.
    Actors,
    /// `Sys.Stats`.
    Stats,
    /// `Sys.Trace`, of a workflow or of one message.
    Trace(u8),
    /// `Sys.ResetActor`.
    ResetActor(u8),
    /// `Sys.DeadLetters`, listing.
    DeadLetters,
    /// `Sys.DeadLetters`, putting one back.
    Requeue(u8),
    /// `Sys.DeadLetters`, dropping one.
    DropDead(u8),
}

/// How a client sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
    /// Whether the message belongs to a workflow.
    pub correlated: bool,
    /// Which of several timeouts the request has; none for 0.
    pub timeout: u8,
    /// Whether the id is one that other peers use as well.
    pub common_id: bool,
    /// Whether it is sent even though the kernel asked to pause.
    pub ignore_pause: bool,
}

/// What an actor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Answers with a reply.
    Reply,
    /// Answers with an error.
    Fail,
    /// Answers twice.
    ReplyTwice,
    /// Answers with data that does not fit its schema.
    ReplyBadData,
    /// Answers something that it was never asked.
    ReplyToNothing,
    /// Answers in another workflow.
    ReplyWrongCorrelation,
    /// Emits so many events about a message that it has in progress.
    Emit(u8),
    /// Emits an event that nothing caused.
    EmitUncaused,
    /// Asks another capability.
    Ask(u8),
    /// Asks the kernel itself.
    AskBuiltin,
    /// Says something that is no message.
    Babble,
    /// Speaks in the name of an incarnation that is over.
    SpeakFromTheGrave,
    /// Ends with a failure.
    Crash,
    /// Ends by itself.
    Leave,
}

/// How time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// So many microseconds.
    Micros(u16),
    /// So many milliseconds.
    Millis(u16),
    /// Up to a nanosecond before the next deadline.
    AlmostToDeadline,
    /// Up to the next deadline.
    ToDeadline,
    /// So many seconds beyond the next deadline.
    PastDeadline(u8),
    /// The wall clock jumps by so many seconds, backwards if negative; the monotonic clock does
    /// not.
    WallClockJump(i8),
}

/// Which actions are likely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// Actors mostly answer.
    Fair,
    /// Actors often fail.
    Stormy,
    /// Clients send more than anybody can handle.
    Flood,
    /// Time passes quickly between few messages.
    Slow,
}

impl Action {
    /// A random action.
    pub fn random(random: &mut Random, weather: Weather) -> Action {
        let [send, act, pass, turn, settle, read] = match weather {
            Weather::Fair => [22, 34, 4, 14, 14, 7],
            Weather::Stormy => [20, 30, 10, 12, 12, 8],
            Weather::Flood => [45, 12, 2, 24, 3, 4],
            Weather::Slow => [12, 20, 30, 6, 20, 8],
        };
        let choices = [
            (send, 0),
            (act, 1),
            (pass, 2),
            (turn, 3),
            (settle, 4),
            (read, 5),
            (3, 6),
            (1, 7),
            (2, 8),
            (6, 9),
            (2, 10),
        ];
        match random.weighted(&choices) {
            0 => Action::Send {
                client: random.byte(),
                what: What::random(random),
                how: How::random(random),
                times: if random.percent(if weather == Weather::Flood { 30 } else { 4 }) {
                    random.byte() % 24
                } else {
                    1
                },
            },
            1 => Action::Act { actor: random.byte(), held: random.byte(), act: Act::random(random, weather) },
            2 => Action::Pass(Pass::random(random)),
            3 => Action::Turn,
            4 => Action::Settle,
            5 => Action::Read {
                client: random.byte(),
                share: if random.percent(60) { 255 } else { random.byte() },
            },
            6 => Action::Connect { peer: random.byte() },
            7 => Action::Disconnect { client: random.byte() },
            8 => Action::Block { actor: random.byte(), blocked: random.percent(40) },
            10 => Action::Reload { actor: random.byte(), how: Reload::random(random) },
            _ => Action::Answer { which: random.byte(), well: random.percent(85) },
        }
    }
}

impl Reload {
    fn random(random: &mut Random) -> Reload {
        let seed = random.word() as u16;
        random.weighted(&[
            (8, Reload::Replace(seed)),
            (4, Reload::Restart),
            (2, Reload::Remove),
            (1, Reload::AddNew(seed)),
            (3, Reload::Bad(seed as u8)),
        ])
    }
}

impl What {
    fn random(random: &mut Random) -> What {
        let a = random.byte();
        let b = random.percent(50);
        match random.below(100) {
            0..35 => What::Command(a),
            35..55 => What::Query(a),
            55..65 => What::Event(a),
            65..68 => What::BadData(a),
            68..70 => What::Unknown,
            70 => What::Reply,
            71 => What::Error,
            72..74 => What::Malformed(a),
            74 => What::TooLong,
            75..80 => What::Again { which: a, same_body: random.percent(70) },
            80..86 => What::Builtin(Builtin::random(random)),
            86..91 => What::Schedule { capability: a, delay: random.byte(), repeat: random.percent(20) },
            91..94 => What::CancelSchedule { which: a },
            94..98 => What::Subscribe { pattern: a, disconnect: b },
            _ => What::Unsubscribe { pattern: a },
        }
    }
}

impl Builtin {
    fn random(random: &mut Random) -> Builtin {
        let a = random.byte();
        match random.below(10) {
            0 => Builtin::Ping,
            1 => Builtin::Describe,
            2 => Builtin::Timers,
            3 => Builtin::Actors,
            4 => Builtin::Stats,
            5 => Builtin::ResetActor(a),
            6 => Builtin::DeadLetters,
            7 => Builtin::Requeue(a),
            8 => Builtin::Trace(a),
            _ => Builtin::DropDead(a),
        }
    }
}

impl How {
    fn random(random: &mut Random) -> How {
        How {
            correlated: random.percent(40),
            timeout: if random.percent(30) { random.byte() } else { 0 },
            common_id: random.percent(15),
            ignore_pause: random.percent(10),
        }
    }
}

impl Act {
    fn random(random: &mut Random, weather: Weather) -> Act {
        let bad = match weather {
            Weather::Stormy => 25,
            Weather::Flood => 2,
            Weather::Fair | Weather::Slow => 4,
        };
        if random.percent(bad) {
            return random.pick(&[
                Act::ReplyTwice,
                Act::ReplyBadData,
                Act::ReplyToNothing,
                Act::ReplyWrongCorrelation,
                Act::EmitUncaused,
                Act::Babble,
                Act::SpeakFromTheGrave,
                Act::Crash,
                Act::Crash,
                Act::Leave,
            ]);
        }
        let (a, b) = (random.byte(), random.byte());
        random.weighted(&[
            (60, Act::Reply),
            (8, Act::Fail),
            (10, Act::Emit(a % 4)),
            (1, Act::Emit(a % 64)),
            (10, Act::Ask(b)),
            (2, Act::AskBuiltin),
            (4, Act::SpeakFromTheGrave),
        ])
    }
}

impl Pass {
    fn random(random: &mut Random) -> Pass {
        let word = random.word();
        random.weighted(&[
            (30, Pass::Micros(word as u16)),
            (20, Pass::Millis((word % 500) as u16)),
            (10, Pass::AlmostToDeadline),
            (20, Pass::ToDeadline),
            (15, Pass::PastDeadline((word % 40) as u8)),
            (3, Pass::Millis(word as u16)),
            (2, Pass::WallClockJump(word as i8)),
        ])
    }
}
