//! The wire between a guest and its host: ZCL1 frames, the messages of `sys/loop@v1`, and the
//! constants of zABI 2.5.
//!
//! Both sides of the wall use this crate, so neither can misread the other. It needs neither `std`
//! nor an allocator: encoding writes fixed-size arrays or a caller's buffer, decoding borrows from
//! the bytes it is given.
//!
//! - [`abi`]: error codes, handle numbers and flags, as the `zi_*` calls use them.
//! - [`Frame`] and [`Header`]: the envelope of every request and response.
//! - [`ErrorPayload`]: what an error response carries.
//! - [`sys_loop`]: how a guest waits. [`cap`]: how it opens things. [`ctl`]: `zi_ctl`. [`info`]:
//!   `sys/info@v1`.
//!
//! Readers are strict where a mistake could hide (sizes, reserved fields, versions) and lenient in
//! one place: trailing bytes after an error payload are ignored, because the protocol's first
//! implementation sends some.
//!
//! # Examples
//! A guest asks to be told when handle 3 is readable, and the host reads the request:
//! ```
//! use mainspring_zcl::sys_loop::{Readiness, Request, Watch};
//! use mainspring_zcl::Frame;
//!
//! let watch = Watch { handle: 3, events: Readiness::READABLE, watch_id: 1 };
//! let bytes = watch.to_frame(7);
//!
//! let (frame, rest) = Frame::decode(&bytes).unwrap().expect("the frame is complete");
//! assert_eq!((frame.rid, rest.len()), (7, 0));
//! assert_eq!(Request::decode(&frame), Ok(Request::Watch(watch)));
//! ```
#![no_std]

pub mod abi;
pub mod cap;
pub mod ctl;
mod error_payload;
mod frame;
pub mod info;
pub mod sys_loop;
mod wire;

pub use error_payload::{ErrorPayload, MalformedErrorPayload};
pub use frame::{Frame, HEADER_BYTES, Header, MAGIC, MalformedFrame, STATUS_ERROR, STATUS_OK, VERSION};
pub use wire::{BufferFull, Reader, Truncated, Writer};
