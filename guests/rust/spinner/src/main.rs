//! Computes for ever and never calls the host: what a host must be able to slice, to charge for and
//! to stop.

fn main() {
    let mut number = 1_u64;
    loop {
        number = std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}
