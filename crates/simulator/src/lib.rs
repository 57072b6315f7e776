//! A world of random clients and faulty actors around the kernel, in virtual time.
//!
//! One number, the seed, decides everything: the settings, the capabilities, and every step of
//! every client and actor. The world plays the floors below the kernel (connections, processes,
//! clocks) and checks after every step what the kernel promises: one outcome for each request, to
//! whoever asked; nothing early; order; bounds; nothing lost. [`simulate_power`] cuts the power of
//! one daemon after the other, on a disk that does its worst. [`simulate_nodes`] runs several
//! kernels with their uplinks on a network that does its worst.
//!
//! ```
//! let report = mainspring_simulator::simulate(7, 200, false).expect("every promise is kept");
//! assert_eq!(mainspring_simulator::simulate(7, 200, false).unwrap().digest, report.digest);
//! ```

mod nodes;
mod power;
mod random;
mod run;
mod tape;
mod world;

pub use nodes::{NodesReport, simulate_nodes};
pub use power::{PowerReport, simulate_power};
pub use random::Random;
pub use run::{Failure, Report, run, simulate};
pub use world::action::{Act, Action, Builtin, How, Pass, Reload, Weather, What};
pub use world::scenario::Scenario;
pub use world::{Counts, Violation, World};
