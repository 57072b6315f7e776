//! One report of readiness, in the form the kernel writes it.

#[cfg(target_os = "linux")]
pub(crate) use linux::{Event, event, readiness, token};
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::{Event, event, readiness, token};

/// On Linux both backends fill the kernel's own structure, so that dispatch needs no second array.
#[cfg(target_os = "linux")]
mod linux {
    use crate::Readiness;
    use rustix::event::epoll;

    pub(crate) type Event = epoll::Event;

    pub(crate) fn event(token: u64, readiness: Readiness) -> Event {
        Event {
            flags: epoll::EventFlags::from_bits_retain(u32::from(readiness.bits())),
            data: epoll::EventData::new_u64(token),
        }
    }

    #[inline]
    pub(crate) fn token(event: &Event) -> u64 {
        let data = event.data;
        data.u64()
    }

    #[inline]
    pub(crate) fn readiness(event: &Event) -> Readiness {
        let flags = event.flags;
        Readiness::from_bits_retain(flags.bits() as u16)
    }
}

#[cfg(not(target_os = "linux"))]
mod portable {
    use crate::Readiness;

    #[derive(Clone, Copy)]
    pub(crate) struct Event {
        token: u64,
        readiness: Readiness,
    }

    pub(crate) fn event(token: u64, readiness: Readiness) -> Event {
        Event { token, readiness }
    }

    #[inline]
    pub(crate) fn token(event: &Event) -> u64 {
        event.token
    }

    #[inline]
    pub(crate) fn readiness(event: &Event) -> Readiness {
        event.readiness
    }
}
