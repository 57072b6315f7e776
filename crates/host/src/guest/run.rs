//! A guest as a task on its reactor, from its start to its end.

use crate::guest::confined::Confined;
use crate::guest::context::GuestContext;
use crate::guest::state::{Extras, GuestState};
use crate::guest::stats::{GuestPhase, HostCounters, count};
use crate::guest::{Exit, TrapReport};
use crate::limits::Limit;
use crate::limits::meter::Stretch;
use crate::limits::ticker::ticks_in;
use crate::program::{EntryPoint, Program};
use mainspring_zcl::abi::{STDIN, STDOUT};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use wasmtime::{Engine, Store, StoreContextMut, UpdateDeadline, WasmBacktrace};

/// Most bytes of strings and lists that the host copies out of a guest for one call of WASI or of a
/// component: some milliseconds' worth. More is refused: an error in preview 1, a trap elsewhere.
#[cfg(feature = "wasi")]
const HOSTCALL_BYTES_MAX: usize = 4 << 20;

/// Why a guest is stopped while it runs.
#[derive(Clone, Copy, Debug, thiserror::Error)]
enum Stop {
    #[error("the guest was killed")]
    Killed,
    #[error("the guest has used up its CPU time")]
    CpuTotal,
}

pub(crate) type ProgramFuture = Pin<Box<dyn Future<Output = wasmtime::Result<i32>>>>;

/// The task. It wraps the guest's own future to measure it, and to end it from outside in whatever
/// state it is.
pub(crate) struct Run {
    program: Option<ProgramFuture>,
    context: Rc<GuestContext>,
}

impl Run {
    pub(crate) fn new(program: &Program, context: &Rc<GuestContext>, extras: Extras) -> Run {
        let run = execute(program.clone(), context.clone(), extras);
        #[cfg(feature = "wasi")]
        if program.imports_wasi() {
            return Run::with_program(context, Box::pin(crate::wasi::WithTokio::new(run)));
        }
        Run::with_program(context, Box::pin(run))
    }

    /// A guest whose program is any future.
    pub(crate) fn with_program(context: &Rc<GuestContext>, program: ProgramFuture) -> Run {
        Run { program: Some(program), context: context.clone() }
    }

    /// Runs the guest until it waits, is preempted or ends.
    fn resume(&mut self, task: &mut Context<'_>) -> Poll<wasmtime::Result<i32>> {
        let Some(program) = &mut self.program else { return Poll::Pending };
        let _running = self.context.host.ticker.enter();
        let counters = &self.context.counters;
        if counters.phase.replace(GuestPhase::Running) == GuestPhase::Waiting {
            count(&counters.wakeups, 1);
        }
        counters.makes_way.set(false);
        let stretch = Stretch::begin();
        self.context.stretch.set(Some(stretch));
        let outcome = program.as_mut().poll(task);
        self.context.stretch.set(None);
        counters.cpu_time.set(counters.cpu_time.get() + stretch.cpu_time());
        if outcome.is_pending() && !counters.makes_way.get() {
            counters.phase.set(GuestPhase::Waiting);
        }
        outcome
    }

    fn is_over_cpu_total(&self) -> bool {
        let total = self.context.limits().cpu_total;
        total.is_some_and(|total| self.context.counters.cpu_time.get() >= total)
    }

    fn finish(&mut self, exit: Exit) {
        if self.program.take().is_none() {
            return;
        }
        self.context.close_all();
        self.context.control.end();
        self.context.counters.phase.set(GuestPhase::Ended);
        self.context.host.counters.guests.fetch_sub(1, Ordering::AcqRel);
        counter_for(&self.context.host.counters, &exit).fetch_add(1, Ordering::Relaxed);
        self.context.exit.set(exit);
    }
}

fn counter_for<'a>(counters: &'a HostCounters, exit: &Exit) -> &'a AtomicU64 {
    match exit {
        Exit::Returned(_) => &counters.returned,
        Exit::Trapped(_) => &counters.trapped,
        Exit::Killed => &counters.killed,
        Exit::OverLimit(_) => &counters.over_limit,
    }
}

impl Future for Run {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<()> {
        self.context.control.register(task.waker());
        let exit = if self.context.control.is_killed() {
            Exit::Killed
        } else {
            match self.resume(task) {
                Poll::Ready(Ok(code)) => Exit::Returned(code),
                Poll::Ready(Err(error)) => self.exit_for(&error),
                Poll::Pending if self.is_over_cpu_total() => {
                    self.context.refuse(Limit::CpuTotal);
                    Exit::OverLimit(Limit::CpuTotal)
                }
                Poll::Pending => return Poll::Pending,
            }
        };
        self.finish(exit);
        Poll::Ready(())
    }
}

impl Run {
    fn exit_for(&self, error: &wasmtime::Error) -> Exit {
        match error.downcast_ref::<Stop>() {
            Some(Stop::Killed) => return Exit::Killed,
            Some(Stop::CpuTotal) => {
                self.context.refuse(Limit::CpuTotal);
                return Exit::OverLimit(Limit::CpuTotal);
            }
            None => {}
        }
        if let Some(code) = self.context.host.exit_code.and_then(|exit_code| exit_code(error)) {
            return Exit::Returned(code);
        }
        let backtrace = error.downcast_ref::<WasmBacktrace>().map(ToString::to_string);
        Exit::Trapped(TrapReport {
            message: error.root_cause().to_string(),
            backtrace: backtrace.unwrap_or_default().trim_end().to_owned(),
        })
    }
}

impl Drop for Run {
    /// The reactor is gone, or the host itself failed while the guest ran.
    fn drop(&mut self) {
        self.finish(Exit::Killed);
    }
}

/// A store with its limits in place.
pub(crate) fn store(engine: &Engine, context: Rc<GuestContext>, extras: Extras) -> Store<GuestState> {
    let mut store = Store::new(engine, GuestState::new(context, extras));
    store.limiter(|state| &mut state.limiter);
    // Set before anything runs: a start function is code like any other.
    let ticks = store.data().slice_ticks();
    store.set_epoch_deadline(ticks);
    store.epoch_deadline_callback(preempt);
    #[cfg(feature = "wasi")]
    store.set_hostcall_fuel(HOSTCALL_BYTES_MAX);
    store
}

/// Runs a program from its first instruction to its last.
async fn execute(program: Program, context: Rc<GuestContext>, extras: Extras) -> wasmtime::Result<i32> {
    let mut store = store(program.module().engine(), context, extras);
    let instance = program.instance_pre().instantiate_async(&mut store).await?;
    if program.has_initialize() {
        let initialize = instance.get_typed_func::<(), ()>(&mut store, "_initialize")?;
        initialize.call_async(&mut store, ()).await?;
    }
    match program.entry_point() {
        EntryPoint::Start => {
            let start = instance.get_typed_func::<(), ()>(&mut store, "_start")?;
            start.call_async(&mut store, ()).await.map(|()| 0)
        }
        EntryPoint::Main => {
            let main = instance.get_typed_func::<(i32, i32), ()>(&mut store, "main")?;
            main.call_async(&mut store, (STDIN, STDOUT)).await.map(|()| 0)
        }
        EntryPoint::MainWithCode => {
            let main = instance.get_typed_func::<(i32, i32), i32>(&mut store, "main")?;
            main.call_async(&mut store, (STDIN, STDOUT)).await
        }
    }
}

/// The ticks of the guest's slice are over. It waits for the reactor's next turn, unless it is to
/// end; or it goes on, if some of those ticks passed while it waited, in whatever call.
fn preempt(store: StoreContextMut<'_, GuestState>) -> wasmtime::Result<UpdateDeadline> {
    let state = store.data();
    let context = &**state.context;
    if context.control.is_killed() {
        return Err(Stop::Killed.into());
    }
    if context.limits().cpu_total.is_some_and(|total| context.cpu_time() >= total) {
        return Err(Stop::CpuTotal.into());
    }
    let left = context.slice_left();
    if !left.is_zero() {
        return Ok(UpdateDeadline::Continue(ticks_in(left)));
    }
    let context = (*state.context).clone();
    let turn = Confined::new(async move { context.be_preempted().await });
    Ok(UpdateDeadline::YieldCustom(state.slice_ticks(), Box::pin(turn)))
}
