//! `memcpy`, `memmove` and `memcmp` for the static program. To copy, musl has a `rep movsq` for
//! every length, which takes longer to begin than a message is long: it was a third of the CPU time
//! of a request. To compare, it goes byte by byte. These take short pieces by a few wide loads and
//! stores, as the C library of GNU does.
//!
//! Only optimised builds have them: without optimisation the compiler might copy by calling them.

use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8};

/// From so many bytes on, the processor's own instruction is faster.
const LONG: usize = 2048;
/// What is copied at once where it is much.
const WIDE: usize = 64;
/// What is compared at once.
const BLOCK: usize = 16;

/// Copies that much.
#[inline(always)]
unsafe fn copy_wide(to: *mut u8, from: *const u8) {
    // SAFETY: the caller vouches for so many bytes at both.
    unsafe { to.cast::<[__m128i; 4]>().write_unaligned(from.cast::<[__m128i; 4]>().read_unaligned()) }
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
            16..=32 => ends::<__m128i>(to, from, count),
            33..=64 => ends::<[__m128i; 2]>(to, from, count),
            65..=128 => ends::<[__m128i; 4]>(to, from, count),
            129..LONG => {
                let mut at = 0;
                while at + WIDE < count {
                    copy_wide(to.add(at), from.add(at));
                    at += WIDE;
                }
                copy_wide(to.add(count - WIDE), from.add(count - WIDE));
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

/// How the first bytes compare that differ, of one to two times the width of `T`, read as a number.
macro_rules! compare_ends {
    ($number:ty, $one:expr, $other:expr, $count:expr) => {{
        let read =
            |from: *const u8, at: usize| <$number>::from_be(from.add(at).cast::<$number>().read_unaligned());
        let last = $count - size_of::<$number>();
        let heads = (read($one, 0), read($other, 0));
        let (one, other) = if heads.0 != heads.1 { heads } else { (read($one, last), read($other, last)) };
        i32::from(one > other) - i32::from(one < other)
    }};
}

/// How two pieces of `count` bytes compare: as the first bytes do that differ.
///
/// # Safety
/// As the C standard says of `memcmp`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
    // SAFETY: everything that is read lies within the `count` bytes that the caller vouches for.
    unsafe {
        match count {
            0 => 0,
            1 => i32::from(*one) - i32::from(*other),
            2..4 => compare_ends!(u16, one, other, count),
            4..8 => compare_ends!(u32, one, other, count),
            8..16 => compare_ends!(u64, one, other, count),
            _ => {
                let last = count - BLOCK;
                let mut at = 0;
                loop {
                    let load = |from: *const u8| _mm_loadu_si128(from.add(at).cast::<__m128i>());
                    let equal = _mm_movemask_epi8(_mm_cmpeq_epi8(load(one), load(other)));
                    if equal != 0xffff {
                        let at = at + (!equal).trailing_zeros() as usize;
                        return i32::from(*one.add(at)) - i32::from(*other.add(at));
                    }
                    if at == last {
                        return 0;
                    }
                    at = (at + BLOCK).min(last);
                }
            }
        }
    }
}

/// Whether two pieces of `count` bytes differ.
///
/// # Safety
/// As for `memcmp`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn bcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
    // SAFETY: the caller vouches for the same.
    unsafe { memcmp(one, other, count) }
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

    #[test]
    fn every_length_is_compared_by_its_first_difference_and_nothing_beside_it() {
        let source: Vec<u8> = (0..400_u32).map(|number| (number * 7 + number / 256) as u8).collect();
        for count in (0..140).chain([200, 333]) {
            for place in 0..count {
                for by in [1, 0x80, 0xff] {
                    let (one, mut other) =
                        (source[1..1 + count + 8].to_vec(), source[1..1 + count + 8].to_vec());
                    other[place] = other[place].wrapping_add(by);
                    // What lies behind the first difference says nothing.
                    other[place + 1..].iter_mut().for_each(|byte| *byte = !*byte);
                    let wanted = one[..count].cmp(&other[..count]) as i32;
                    // SAFETY: both have so many bytes.
                    let told = unsafe { memcmp(one.as_ptr(), other.as_ptr(), count) };
                    assert_eq!(told.signum(), wanted, "{count} bytes that differ at {place}");
                    // SAFETY: as above.
                    assert_ne!(unsafe { bcmp(one.as_ptr(), other.as_ptr(), count) }, 0);
                }
            }
            let mut same = source[..count + 8].to_vec();
            same[count..].fill(0);
            // SAFETY: both have so many bytes.
            assert_eq!(unsafe { memcmp(source.as_ptr(), same.as_ptr(), count) }, 0, "{count}");
        }
    }
}
