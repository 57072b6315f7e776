//! `memcpy` and `memmove` for the static program. Those of musl are a `rep movsq` for every length,
//! which takes longer to begin than a message is long: they were a third of the CPU time of a
//! request. These copy short pieces by a few wide loads and stores, as the C library of GNU does.

use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_storeu_si128};

/// From so many bytes on, the processor's own instruction is faster.
const LONG: usize = 2048;
/// What is copied at once.
const BLOCK: usize = 16;

/// Copies one block.
#[inline(always)]
unsafe fn block(to: *mut u8, from: *const u8) -> impl FnOnce() {
    // SAFETY: the caller vouches for sixteen bytes at both.
    let bytes = unsafe { _mm_loadu_si128(from.cast::<__m128i>()) };
    // SAFETY: as above.
    move || unsafe { _mm_storeu_si128(to.cast::<__m128i>(), bytes) }
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
#[unsafe(no_mangle)]
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
                    let four = [0, 1, 2, 3].map(|number| at + number * BLOCK);
                    let _ = four.map(|at| block(to.add(at), from.add(at))).map(|store| store());
                    at += 4 * BLOCK;
                }
                while at < last {
                    block(to.add(at), from.add(at))();
                    at += BLOCK;
                }
                block(to.add(last), from.add(last))();
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
#[unsafe(no_mangle)]
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
}
