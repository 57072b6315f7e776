//! What every benchmark suite shares: options, cases, clocks, interleaved rounds, rows, targets and
//! the table.
//!
//! A suite measures the same work on several *subjects* (Mainspring, the bare system calls, its
//! peers). One measurement is a [`Row`]: suite, case, subject, metric, unit, value. Every round
//! runs each subject once, so that a noisy moment of the machine hits all of them alike;
//! [`Results`] then keeps the minimum of a cost and the median of a latency.
//!
//! # Examples
//!
//! ```
//! use bench_support::{Keep, Results, Target, report};
//!
//! let mut results = Results::new("demo");
//! for _round in 0..3 {
//!     results.record("add-1", "raw", "cpu", "ns", Keep::Minimum, 10.0);
//!     results.record("add-1", "mainspring", "cpu", "ns", Keep::Minimum, 10.2);
//! }
//! let target = Target::within("add-1", "cpu", 1.05, &["raw"]);
//! assert!(target.judge(&results).unwrap().reached);
//! print!("{}", report(&results, &[target]));
//! ```

mod allocations;
mod case;
mod child;
mod clock;
mod core;
mod echo;
mod options;
mod publish;
mod results;
mod rounds;
mod row;
mod table;
mod target;

pub use allocations::{CountingAllocator, count_allocations};
pub use case::Case;
pub use child::{Failure, Measurement, measure};
pub use clock::{monotonic_ns, process_cpu_ns};
pub use core::stay_on_one_core;
pub use echo::echo;
pub use options::{Options, UsageError};
pub use publish::publish;
pub use results::{Entry, Keep, Results};
pub use rounds::run_rounds;
pub use row::Row;
pub use table::report;
pub use target::{Limit, Target, Verdict};

/// The subject name of the code under test.
pub const OURS: &str = "mainspring";

/// The subject name of the bare system calls.
pub const RAW: &str = "raw";
