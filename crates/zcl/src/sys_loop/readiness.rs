//! What a handle can be ready for.

use core::fmt;

/// A set of readiness bits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Readiness(u32);

impl Readiness {
    /// Nothing.
    pub const NONE: Readiness = Readiness(0);
    /// A read makes progress.
    pub const READABLE: Readiness = Readiness(1);
    /// A write makes progress.
    pub const WRITABLE: Readiness = Readiness(2);
    /// The peer has closed.
    pub const HANGUP: Readiness = Readiness(4);
    /// There is an error to report.
    pub const ERROR: Readiness = Readiness(8);
    /// Every bit that version 1 defines.
    pub const ALL: Readiness = Readiness(15);

    /// The set as a number.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The set that a number stands for, or `None` if it has bits that version 1 does not define.
    pub const fn from_bits(bits: u32) -> Option<Readiness> {
        if bits & !Readiness::ALL.0 == 0 { Some(Readiness(bits)) } else { None }
    }

    /// Whether it has every bit of `other`.
    pub const fn contains(self, other: Readiness) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether it has any bit of `other`.
    pub const fn intersects(self, other: Readiness) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether it has no bit.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The bits of either.
    #[must_use]
    pub const fn union(self, other: Readiness) -> Readiness {
        Readiness(self.0 | other.0)
    }

    /// The bits of both.
    #[must_use]
    pub const fn intersection(self, other: Readiness) -> Readiness {
        Readiness(self.0 & other.0)
    }

    /// The bits that `other` lacks.
    #[must_use]
    pub const fn difference(self, other: Readiness) -> Readiness {
        Readiness(self.0 & !other.0)
    }
}

impl core::ops::BitOr for Readiness {
    type Output = Readiness;

    fn bitor(self, other: Readiness) -> Readiness {
        self.union(other)
    }
}

impl core::ops::BitOrAssign for Readiness {
    fn bitor_assign(&mut self, other: Readiness) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [(1, "READABLE"), (2, "WRITABLE"), (4, "HANGUP"), (8, "ERROR")];
        let mut set = f.debug_set();
        for (bit, name) in names {
            if self.0 & bit != 0 {
                set.entry(&format_args!("{name}"));
            }
        }
        set.finish()
    }
}
