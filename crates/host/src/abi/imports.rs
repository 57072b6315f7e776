//! The `zi_*` calls of zABI 2.5, and its capability extension.
//!
//! Everything here is synchronous and returns at once, except that a write to a `sys/loop` handle
//! suspends its guest at a `POLL`. Pointers and lengths are checked before they are used and before
//! anything is allocated for them.

use crate::abi::ctl::{self, Answer};
use crate::abi::heap::Found;
use crate::abi::memory::GuestMemory;
use crate::capabilities::sys_loop::{self, Loop, Written};
use crate::capabilities::{CAP_NAME_BYTES_MAX, Opening, Params};
use crate::guest::confined::Confined;
use crate::guest::context::GuestContext;
use crate::guest::state::GuestState;
use crate::guest::stats::count;
use crate::handles::table::HandleEntry;
use crate::limits::Limit;
use mainspring_zcl::abi::{ABI_VERSION, ErrorCode, IMPORT_MODULE, cap_flags};
use mainspring_zcl::cap::CapOpen;
use mainspring_zcl::sys_loop::Poll;
use std::rc::Rc;
use wasmtime::{Caller, Extern, Linker, Memory};

/// The longest topic of a telemetry message.
const TELEMETRY_TOPIC_BYTES_MAX: u32 = 256;
/// The longest telemetry message.
const TELEMETRY_MESSAGE_BYTES_MAX: u32 = 65_536;

/// Gives a linker all of the calls.
pub(crate) fn add_to(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    let module = IMPORT_MODULE;
    linker.func_wrap(module, "zi_abi_version", || ABI_VERSION.cast_signed())?;
    linker.func_wrap(module, "zi_ctl", ctl)?;
    linker.func_wrap(module, "zi_read", read)?;
    linker.func_wrap_async(
        module,
        "zi_write",
        |caller: Caller<'_, GuestState>, (handle, source, length): (i32, i64, i32)| {
            Box::new(Confined::new(write(caller, handle, source, length)))
        },
    )?;
    linker.func_wrap(module, "zi_end", |caller: Caller<'_, GuestState>, handle: i32| {
        raw(caller.data().context.close(handle).map(|()| 0))
    })?;
    linker.func_wrap(module, "zi_alloc", allocate)?;
    linker.func_wrap(module, "zi_free", |mut caller: Caller<'_, GuestState>, pointer: i64| {
        let freed = caller.data_mut().heap.free(pointer.cast_unsigned());
        if freed { 0 } else { ErrorCode::Invalid.as_raw() }
    })?;
    linker.func_wrap(module, "zi_telemetry", telemetry)?;
    linker.func_wrap(module, "zi_cap_count", |caller: Caller<'_, GuestState>| {
        caller.data().context.host.capabilities.len() as i32
    })?;
    linker.func_wrap(module, "zi_cap_get_size", |caller: Caller<'_, GuestState>, index: i32| {
        raw(cap_record(&caller.data().context, index).map(|record| record.len()))
    })?;
    linker.func_wrap(module, "zi_cap_get", cap_get)?;
    linker.func_wrap(module, "zi_cap_open", cap_open)?;
    linker.func_wrap(module, "zi_handle_hflags", |caller: Caller<'_, GuestState>, handle: i32| {
        let entry = caller.data().context.entry(handle);
        entry.map_or(0, |entry| entry.resource().flags().cast_signed())
    })?;
    Ok(())
}

/// A count or a code, as calls return them.
fn raw(outcome: Result<usize, ErrorCode>) -> i32 {
    match outcome {
        Ok(count) => i32::try_from(count).unwrap_or(i32::MAX),
        Err(code) => code.as_raw(),
    }
}

/// Finds the guest's memory; the first time among its exports, then where it was put.
fn memory_of(caller: &mut Caller<'_, GuestState>) -> Result<Memory, ErrorCode> {
    if let Some(memory) = caller.data().memory {
        return Ok(memory);
    }
    let Some(Extern::Memory(memory)) = caller.get_export("memory") else { return Err(ErrorCode::Bounds) };
    caller.data_mut().memory = Some(memory);
    Ok(memory)
}

pub(crate) fn with_memory<R>(
    caller: &mut Caller<'_, GuestState>,
    call: impl FnOnce(&Rc<GuestContext>, &mut GuestMemory<'_>) -> Result<R, ErrorCode>,
) -> Result<R, ErrorCode> {
    let memory = memory_of(caller)?;
    let (bytes, state) = memory.data_and_store_mut(caller);
    call(&state.context, &mut GuestMemory::new(bytes))
}

/// A length as guests pass it; more than a call can return is not transferred at once.
fn transfer_length(length: i32) -> u32 {
    length.cast_unsigned().min(i32::MAX.cast_unsigned())
}

fn read(mut caller: Caller<'_, GuestState>, handle: i32, target: i64, capacity: i32) -> i32 {
    let outcome = with_memory(&mut caller, |guest, memory| {
        let entry = guest.entry(handle)?;
        // The whole of what the guest offers must be its own, even if less of it is used.
        memory.get(target.cast_unsigned(), capacity.cast_unsigned())?;
        let buffer = memory.get_mut(target.cast_unsigned(), transfer_length(capacity))?;
        if buffer.is_empty() {
            return Ok(0);
        }
        let outcome = entry.resource().read(guest, buffer);
        match outcome {
            Ok(bytes) => count(&guest.counters.bytes_read, bytes as u64),
            Err(ErrorCode::Again) => count(&guest.counters.agains, 1),
            Err(_) => {}
        }
        outcome
    });
    raw(outcome)
}

/// What is left to do after the part of a write that needs the guest's memory.
enum Rest {
    Nothing(usize),
    Poll { target: Rc<Loop>, taken: usize, rid: u32, poll: Poll },
}

async fn write(mut caller: Caller<'_, GuestState>, handle: i32, source: i64, length: i32) -> i32 {
    let started = with_memory(&mut caller, |guest, memory| {
        let entry = guest.entry(handle)?;
        memory.get(source.cast_unsigned(), length.cast_unsigned())?;
        let bytes = memory.get(source.cast_unsigned(), transfer_length(length))?;
        if bytes.is_empty() {
            return Ok(Rest::Nothing(0));
        }
        let outcome = match &entry {
            HandleEntry::Resource(resource) => resource.write(guest, bytes).map(Rest::Nothing),
            HandleEntry::Loop(target) => match target.write(guest, bytes) {
                Written::Done(outcome) => outcome.map(Rest::Nothing),
                Written::Poll { taken, rid, poll } => {
                    Ok(Rest::Poll { target: target.clone(), taken, rid, poll })
                }
            },
        };
        match &outcome {
            Ok(Rest::Nothing(bytes) | Rest::Poll { taken: bytes, .. }) => {
                count(&guest.counters.bytes_written, *bytes as u64);
            }
            Err(ErrorCode::Again) => count(&guest.counters.agains, 1),
            Err(_) => {}
        }
        outcome
    });
    match started {
        Ok(Rest::Poll { target, taken, rid, poll }) => {
            let guest = Rc::clone(&caller.data().context);
            sys_loop::poll(target, &guest, rid, poll).await;
            raw(Ok(taken))
        }
        Ok(Rest::Nothing(count)) => raw(Ok(count)),
        Err(code) => code.as_raw(),
    }
}

fn ctl(
    mut caller: Caller<'_, GuestState>,
    request: i64,
    request_length: i32,
    response: i64,
    response_capacity: i32,
) -> i32 {
    let request = (request.cast_unsigned(), request_length.cast_unsigned());
    let answer = Answer { offset: response.cast_unsigned(), capacity: response_capacity.cast_unsigned() };
    raw(with_memory(&mut caller, |guest, memory| ctl::ctl(guest, memory, request, answer)))
}

fn allocate(mut caller: Caller<'_, GuestState>, size: i32) -> i64 {
    let size = size.cast_unsigned();
    let Ok(memory) = memory_of(&mut caller) else { return 0 };
    if size == 0 {
        return 0;
    }
    let state = caller.data();
    if state.heap.used_count() >= state.context.limits().allocations {
        state.context.refuse(Limit::Allocations);
        return 0;
    }
    for _ in 0..2 {
        match caller.data_mut().heap.allocate(size) {
            Found::At(start) => return start.cast_signed(),
            Found::Grow { pages } => match memory.grow(&mut caller, pages) {
                Ok(first) => caller.data_mut().heap.add_pages(first, pages),
                // Counted by whoever refused it.
                Err(_) => return 0,
            },
        }
    }
    0
}

fn telemetry(
    mut caller: Caller<'_, GuestState>,
    topic: i64,
    topic_length: i32,
    message: i64,
    message_length: i32,
) -> i32 {
    let (topic_length, message_length) = (topic_length.cast_unsigned(), message_length.cast_unsigned());
    let outcome = with_memory(&mut caller, |guest, memory| {
        let topic = memory.get(topic.cast_unsigned(), topic_length)?;
        let message = memory.get(message.cast_unsigned(), message_length)?;
        if topic_length > TELEMETRY_TOPIC_BYTES_MAX || message_length > TELEMETRY_MESSAGE_BYTES_MAX {
            return Err(ErrorCode::Invalid);
        }
        if let Some(telemetry) = &guest.telemetry {
            telemetry(topic, message);
        }
        Ok(0)
    });
    raw(outcome)
}

fn cap_record(guest: &GuestContext, index: i32) -> Result<Vec<u8>, ErrorCode> {
    let index = usize::try_from(index).map_err(|_| ErrorCode::NoEntry)?;
    let capability = guest.host.capabilities.get(index).ok_or(ErrorCode::NoEntry)?;
    Ok(ctl::record(capability.id(), capability.flags()))
}

fn cap_get(mut caller: Caller<'_, GuestState>, index: i32, target: i64, capacity: i32) -> i32 {
    let outcome = with_memory(&mut caller, |guest, memory| {
        let record = cap_record(guest, index)?;
        let buffer = memory.get_mut(target.cast_unsigned(), capacity.cast_unsigned())?;
        buffer.get_mut(..record.len()).ok_or(ErrorCode::Bounds)?.copy_from_slice(&record);
        Ok(record.len())
    });
    raw(outcome)
}

fn cap_open(mut caller: Caller<'_, GuestState>, request: i64) -> i32 {
    let outcome = with_memory(&mut caller, |guest, memory| {
        let open = CapOpen::decode(&memory.array(request.cast_unsigned())?);
        let kind = memory.get(open.kind_ptr, open.kind_len)?;
        let name = memory.get(open.name_ptr, open.name_len)?;
        memory.get(open.params_ptr, open.params_len)?;
        if open.mode != 0
            || kind.is_empty()
            || name.is_empty()
            || kind.len() > CAP_NAME_BYTES_MAX
            || name.len() > CAP_NAME_BYTES_MAX
        {
            return Err(ErrorCode::Invalid);
        }
        let found = guest.host.capabilities.iter().find(|capability| {
            let id = capability.id();
            id.kind().as_bytes() == kind && id.name().as_bytes() == name
        });
        let capability = found.ok_or(ErrorCode::NoEntry)?;
        if capability.flags() & cap_flags::CAN_OPEN == 0 {
            return Err(ErrorCode::Denied);
        }
        let params = Params { offset: open.params_ptr, len: open.params_len };
        let opened = capability.open(Opening { guest, memory, params })?;
        guest.insert(opened.0).map(|handle| handle as usize)
    });
    raw(outcome)
}
