//! `sys/info@v1`: the machine, its load, the time, and randomness. A guest learns neither the
//! machine's name nor its model.

use crate::capabilities::{Capability, CapabilityId, Opened, Opening};
use crate::framing::{Framed, Reply, Service};
use crate::guest::context::GuestContext;
use mainspring_zcl::abi::{ErrorCode, cap_flags};
use mainspring_zcl::info::{OP_INFO, OP_RANDOM_SEED, OP_STATS, OP_TIME_NOW, RandomSeed, TRACE, TimeNow};
use mainspring_zcl::{Frame, Header};
use rustix::rand::GetRandomFlags;
use rustix::time::ClockId;

/// Bits of an INFO answer: which fields are filled in.
const INFO_HAS_OS: u32 = 1;
const INFO_HAS_ARCH: u32 = 2;
/// Bits of a STATS answer: which fields are there.
const STATS_HAS_LOAD: u32 = 1;
const STATS_HAS_MEMORY: u32 = 2;
/// The version of every answer.
const VERSION: u32 = 1;

/// The capability.
pub(crate) struct SysInfo;

impl Capability for SysInfo {
    const ID: CapabilityId = CapabilityId::new("sys", "info", 1);
    const FLAGS: u32 = cap_flags::CAN_OPEN | cap_flags::PURE;
    type Config = ();
    type State = ();

    fn open(&self, opening: Opening<'_, '_>) -> Result<Opened, ErrorCode> {
        opening.no_params()?;
        Ok(Framed::open(opening.guest, |_| Info))
    }
}

/// Answers questions, at once.
struct Info;

impl Service for Info {
    const TRACE: &'static str = TRACE;
    const REQUEST_BYTES_MAX: usize = 0;

    fn check(header: &Header) -> Result<(), &'static str> {
        match header {
            Header { status: 1.., .. } => Err("status must be 0"),
            Header { op: OP_INFO..=OP_RANDOM_SEED, payload_len: 0, .. } => Ok(()),
            Header { op: OP_INFO..=OP_RANDOM_SEED, .. } => Err("payload must be empty"),
            _ => Err("unknown op"),
        }
    }

    fn call(&self, guest: &GuestContext, request: &Frame<'_>) -> Reply {
        match request.op {
            OP_INFO => Ok(info()),
            OP_STATS => Ok(stats()),
            OP_TIME_NOW => Ok(time_now(guest).encode().to_vec()),
            _ => random_seed().map(|seed| seed.encode().to_vec()).map_err(Into::into),
        }
    }
}

fn put_string(payload: &mut Vec<u8>, text: &str) {
    payload.extend_from_slice(&(text.len() as u32).to_le_bytes());
    payload.extend_from_slice(text.as_bytes());
}

fn info() -> Vec<u8> {
    let cpus = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let page = rustix::param::page_size() as u32;
    let mut payload = Vec::with_capacity(64);
    for number in [VERSION, INFO_HAS_OS | INFO_HAS_ARCH, cpus, page] {
        payload.extend_from_slice(&number.to_le_bytes());
    }
    for text in [std::env::consts::OS, std::env::consts::ARCH, "", ""] {
        put_string(&mut payload, text);
    }
    payload
}

fn stats() -> Vec<u8> {
    let mut payload = Vec::with_capacity(64);
    let system = rustix::system::sysinfo();
    for number in [VERSION, STATS_HAS_LOAD | STATS_HAS_MEMORY] {
        payload.extend_from_slice(&number.to_le_bytes());
    }
    payload.extend_from_slice(&realtime_ns().to_le_bytes());
    for load in system.loads {
        // The kernel's loads are in 1/65,536.
        let thousandths = load.saturating_mul(1000) >> 16;
        payload.extend_from_slice(&u32::try_from(thousandths).unwrap_or(u32::MAX).to_le_bytes());
    }
    let unit = u64::from(system.mem_unit.max(1));
    let total = system.totalram.saturating_mul(unit);
    let available = (system.freeram + system.bufferram).saturating_mul(unit);
    let pressure = 1000 - (u128::from(available) * 1000 / u128::from(total.max(1))).min(1000) as u32;
    payload.extend_from_slice(&total.to_le_bytes());
    payload.extend_from_slice(&available.to_le_bytes());
    payload.extend_from_slice(&pressure.to_le_bytes());
    payload
}

fn realtime_ns() -> u64 {
    let time = rustix::time::clock_gettime(ClockId::Realtime);
    let nanos = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    u64::try_from(nanos).unwrap_or(0)
}

fn time_now(guest: &GuestContext) -> TimeNow {
    let monotonic_ns = guest.reactor.now().as_nanos().max(0).cast_unsigned();
    TimeNow { realtime_ns: realtime_ns(), monotonic_ns }
}

fn random_seed() -> Result<RandomSeed, &'static str> {
    let mut seed = [0; RandomSeed::SEED_BYTES];
    match rustix::rand::getrandom(&mut seed, GetRandomFlags::NONBLOCK) {
        Ok(count) if count == seed.len() => Ok(RandomSeed(seed)),
        _ => Err("no randomness available"),
    }
}
