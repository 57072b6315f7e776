//! Waits for ever: what an idle guest costs. With an argument it first touches that many kilobytes
//! of heap.

use mainspring_guest::{args, block_on, shutdown_requested};

fn main() {
    let kilobytes = args().ok().and_then(|args| args.get(1)?.parse().ok()).unwrap_or(0_usize);
    let mut heap = vec![0_u8; kilobytes * 1024];
    heap.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    std::hint::black_box(&mut heap);
    block_on(shutdown_requested());
}
