//! `memcpy` and `memmove` for the static program. Those of musl are a `rep movsq` for every length,
//! which takes longer to begin than a message is long: they were a third of the CPU time of a
//! request. These copy short pieces by a few wide loads and stores, as the C library of GNU does.
//!
//! Only optimised builds have them: without optimisation the compiler might copy by calling them.

use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_storeu_si128};

/// From so many bytes on, the processor's own instruction is faster.
const LONG: usize = 2048;
/// What is copied at once.
const BLOCK: usize = 16;

/// Reads one block.
#[inline(always)]
unsafe fn load(from: *const u8) -> __m128i {
    // SAFETY: the caller vouches for sixteen bytes there.
    unsafe { _mm_loadu_si128(from.cast::<__m128i>()) }
}

/// Writes one block.
#[inline(always)]
unsafe fn store(to: *mut u8, block: __m128i) {
    // SAFETY: the caller vouches for sixteen bytes there.
    unsafe { _mm_storeu_si128(to.cast::<__m128i>(), block) }
}

/// The first and the last bytes of something of one to two times the width of `T`: both are read
/// before either is written.
#[inline(always)]
unsafe fn ends<T>(to: *mut u8, from: *const u8, count: usize) {
    let last = count - size_of::<T>();
    // SAFETY: the caller vouches for `count` bytes at both, which are at least the width of `T`.
    unsafe {
        let (head, tail) = (from.cast::<T>().read_unaligned(), from.add(last).cast::<T>().read_unaligned());
        to.cast::<T>().write_unaligned(head);
        to.add(last).cast::<T>().write_unaligned(tail);
    }
}

/// Copies `count` bytes that do not overlap.
///
/// # Safety
/// As the C standard says of `memcpy`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    // SAFETY: every block lies within the `count` bytes that the caller vouches for.
    unsafe {
        match count {
            0 => {}
            1 => *to = *from,
            2..4 => ends::<u16>(to, from, count),
            4..8 => ends::<u32>(to, from, count),
            8..16 => ends::<u64>(to, from, count),
            16..LONG => {
                let last = count - BLOCK;
                let mut at = 0;
                while at + 4 * BLOCK <= last {
                    let (to, from) = (to.add(at), from.add(at));
                    let (first, second) = (load(from), load(from.add(BLOCK)));
                    let (third, fourth) = (load(from.add(2 * BLOCK)), load(from.add(3 * BLOCK)));
                    store(to, first);
                    store(to.add(BLOCK), second);
                    store(to.add(2 * BLOCK), third);
                    store(to.add(3 * BLOCK), fourth);
                    at += 4 * BLOCK;
                }
                while at < last {
                    store(to.add(at), load(from.add(at)));
                    at += BLOCK;
                }
                store(to.add(last), load(from.add(last)));
            }
            _ => std::arch::asm!(
                "rep movsb",
                inout("rcx") count => _,
                inout("rdi") to => _,
                inout("rsi") from => _,
                options(nostack, preserves_flags)
            ),
        }
    }
    to
}

/// Copies `count` bytes that may overlap. That of musl would bring its `memcpy` along.
///
/// # Safety
/// As the C standard says of `memmove`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    let distance = to.addr().wrapping_sub(from.addr());
    // SAFETY: as for `memcpy` where they do not overlap; else each byte is read before it is
    // written, forwards or backwards.
    unsafe {
        if distance >= count && from.addr().wrapping_sub(to.addr()) >= count {
            return memcpy(to, from, count);
        }
        if distance >= count {
            std::arch::asm!(
                "rep movsb",
                inout("rcx") count => _,
                inout("rdi") to => _,
                inout("rsi") from => _,
                options(nostack, preserves_flags)
            );
        } else {
            std::arch::asm!(
                "std",
                "rep movsb",
                "cld",
                inout("rcx") count => _,
                inout("rdi") to.wrapping_add(count).wrapping_sub(1) => _,
                inout("rsi") from.wrapping_add(count).wrapping_sub(1) => _,
                options(nostack)
            );
        }
    }
    to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_and_nothing_beside_it() {
        let source: Vec<u8> = (0..5000_u32).map(|number| (number * 7 + number / 256) as u8).collect();
        for count in (0..600).chain(2000..2100).chain([4096, 4999]) {
            for shift in [0, 1, 7] {
                let count = count.min(source.len() - shift);
                let mut target = vec![0xee; count + 64];
                // SAFETY: both have so many bytes, and do not overlap.
                unsafe { memcpy(target[32..].as_mut_ptr(), source[shift..].as_ptr(), count) };
                assert!(target[..32].iter().chain(&target[32 + count..]).all(|byte| *byte == 0xee));
                assert_eq!(target[32..32 + count], source[shift..shift + count]);
            }
        }
    }

    #[test]
    fn what_overlaps_is_moved_as_if_by_way_of_a_copy() {
        let source: Vec<u8> = (0..300_u32).map(|number| number as u8).collect();
        for count in (0..40).chain([100, 200]) {
            for (from, to) in [(50, 50), (50, 51), (51, 50), (50, 66), (66, 50), (0, 100), (100, 0)] {
                let (mut moved, mut expected) = (source.clone(), source.clone());
                expected.copy_within(from..from + count, to);
                let start = moved.as_mut_ptr();
                // SAFETY: both places have so many bytes.
                unsafe { memmove(start.add(to), start.add(from), count) };
                assert_eq!(moved, expected, "{count} from {from} to {to}");
            }
        }
    }
}
