//! What the wheel costs with a hundred thousand timeouts in it: `cargo bench -p mainspring-kernel --bench wheel`.

use mainspring_kernel::wheel::Wheel;

fn main() {
    const TIMEOUT_NS: i64 = 30_000_000_000;
    for (name, spread) in [("same timeout", 0), ("spread timeouts", 20_000_000_000_i64)] {
        let mut wheel = Wheel::new();
        let mut keys = std::collections::VecDeque::new();
        let mut random = 88_172_645_463_325_252_u64;
        let mut deadline = |now: i64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            now + TIMEOUT_NS + if spread > 0 { (random >> 1).cast_signed() % spread } else { 0 }
        };
        let mut now = 0;
        for _ in 0..100_000 {
            now += 1_500;
            keys.push_back(wheel.schedule(deadline(now), [0_u64; 2]));
        }
        let mut best = f64::MAX;
        for _ in 0..30 {
            let start = std::time::Instant::now();
            for _ in 0..50_000 {
                now += 1_500;
                keys.push_back(wheel.schedule(deadline(now), [0_u64; 2]));
                wheel.cancel(keys.pop_front().unwrap()).unwrap();
            }
            best = best.min(start.elapsed().as_secs_f64() / 50_000.0 * 1e9);
        }
        let start = std::time::Instant::now();
        for _ in 0..1_000_000 {
            std::hint::black_box(std::hint::black_box(&wheel).next_deadline());
        }
        let next = start.elapsed().as_secs_f64() / 1_000_000.0 * 1e9;
        println!("{name}: schedule + cancel {best:.1} ns, next_deadline {next:.1} ns");
    }
}
