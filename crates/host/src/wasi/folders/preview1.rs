//! Calls of preview 1 that change what is in a folder, and reads and writes a bounded piece at a
//! time.
//!
//! wasmtime-wasi moves the first buffer that is not empty, however large, and holds a copy of it on
//! the host meanwhile. Both are for the guest to choose; so its buffer is made shorter for the
//! length of the call. Every program knows what to do about a transfer that is short.

use super::Account;
use super::account::ENTRY_BYTES;
use crate::guest::confined::Confined;
use crate::guest::state::GuestState;
use crate::wasi::{HasWasi, PREVIEW1};
use wasmtime::{AsContextMut, Caller, Extern, Linker, Memory};
use wasmtime_wasi::p1::WasiP1Ctx;
use wasmtime_wasi::p1::types::{Fdflags, Filestat, Filetype, Lookupflags};
use wasmtime_wasi::p1::wasi_snapshot_preview1::{self as calls, WasiSnapshotPreview1};
use wiggle::{GuestMemory, GuestPtr};

/// Most bytes that one call moves.
const TRANSFER_BYTES_MAX: u32 = 256 * 1024;
/// Most buffers that one call may name, as elsewhere (`IOV_MAX`).
const BUFFERS_MAX: u32 = 1024;
/// Bytes of a buffer's description: where it is, then how long.
const BUFFER_BYTES: u32 = 8;

const ERRNO_SUCCESS: i32 = 0;
/// What preview 1 says of memory that is not there.
const ERRNO_FAULT: i32 = 21;
/// What it says of too many buffers.
const ERRNO_INVAL: i32 = 28;
/// What it says if there is no room.
const ERRNO_NOSPC: i32 = 51;

/// Bits of `path_open`'s `oflags`.
const OFLAGS_CREAT: i32 = 1;
const OFLAGS_TRUNC: i32 = 8;

type Errno = wasmtime::Result<i32>;

/// What is remembered of the file that was last written to: as long as the guest changes nothing
/// else, its size need not be asked for.
#[derive(Clone, Copy, Default)]
pub(in crate::wasi) struct LastWritten(Option<(i32, u64)>);

/// Replaces the calls.
pub(in crate::wasi) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    /// A call with its arguments, carried out by a method of [`Call`].
    macro_rules! replaced {
        ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
            linker.func_wrap_async(
                PREVIEW1,
                stringify!($name),
                |mut caller: Caller<'_, GuestState>, ($($argument,)*): ($($type,)*)| {
                    Box::new(Confined::new(async move {
                        let Some(mut call) = Call::new(&mut caller) else { return Ok(ERRNO_FAULT) };
                        call.$name($($argument),*).await
                    }))
                },
            )?;
        )*};
    }
    linker.allow_shadowing(true);
    replaced! {
        fd_read(fd: i32, buffers: i32, count: i32, moved: i32);
        fd_pread(fd: i32, buffers: i32, count: i32, offset: i64, moved: i32);
        fd_write(fd: i32, buffers: i32, count: i32, moved: i32);
        fd_pwrite(fd: i32, buffers: i32, count: i32, offset: i64, moved: i32);
        fd_filestat_set_size(fd: i32, size: i64);
        fd_close(fd: i32);
        fd_renumber(from: i32, to: i32);
        path_open(
            folder: i32, lookup: i32, path: i32, length: i32, oflags: i32, rights: i64, inherited: i64,
            flags: i32, opened: i32
        );
        path_create_directory(folder: i32, path: i32, length: i32);
        path_symlink(target: i32, target_length: i32, folder: i32, path: i32, length: i32);
        path_link(
            from: i32, lookup: i32, from_path: i32, from_length: i32, to: i32, to_path: i32, to_length: i32
        );
        path_rename(from: i32, from_path: i32, from_length: i32, to: i32, to_path: i32, to_length: i32);
        path_unlink_file(folder: i32, path: i32, length: i32);
        path_remove_directory(folder: i32, path: i32, length: i32);
    }
    linker.allow_shadowing(false);
    Ok(())
}

/// A call under way: the guest's memory, and its WASI.
struct Call<'a> {
    memory: GuestMemory<'a>,
    context: &'a mut WasiP1Ctx,
    account: Account,
    last: &'a mut LastWritten,
}

/// A path in the guest's memory.
fn string(path: i32, length: i32) -> GuestPtr<str> {
    GuestPtr::new((path.cast_unsigned(), length.cast_unsigned()))
}

/// What a file's content counts for when one of its names goes.
fn content(stat: &Filestat) -> u64 {
    if stat.filetype == Filetype::RegularFile && stat.nlink <= 1 { stat.size } else { 0 }
}

impl<'a> Call<'a> {
    /// `None` if the guest has no memory.
    fn new(caller: &'a mut Caller<'_, GuestState>) -> Option<Call<'a>> {
        let Some(Extern::Memory(memory)) = caller.get_export("memory") else { return None };
        let memory: Memory = memory;
        let fuel = caller.as_context_mut().hostcall_fuel();
        let (bytes, state) = memory.data_and_store_mut(caller);
        let wasi = state.wasi();
        wasi.preview1.set_hostcall_fuel(fuel);
        let account = wasi.account.clone();
        let (context, last) = (&mut wasi.preview1, &mut wasi.last_written);
        Some(Call { memory: GuestMemory::Unshared(bytes), context, account, last })
    }

    /// What is known of an open file. Standard streams and folders have no size to keep account of.
    async fn file(&mut self, fd: i32) -> Option<Filestat> {
        let stat = self.context.fd_filestat_get(&mut self.memory, fd.cast_unsigned().into()).await.ok()?;
        (stat.filetype == Filetype::RegularFile).then_some(stat)
    }

    /// What is known of an entry of a folder.
    async fn entry(&mut self, folder: i32, lookup: i32, path: i32, length: i32) -> Option<Filestat> {
        let lookup = Lookupflags::try_from(lookup.cast_unsigned()).ok()?;
        let folder = folder.cast_unsigned().into();
        self.context.path_filestat_get(&mut self.memory, folder, lookup, string(path, length)).await.ok()
    }

    /// Does something that makes an entry.
    async fn making(&mut self, make: impl AsyncFnOnce(&mut Self) -> Errno) -> Errno {
        if self.account.take(ENTRY_BYTES).is_err() {
            return Ok(ERRNO_NOSPC);
        }
        let errno = make(self).await;
        if !matches!(errno, Ok(ERRNO_SUCCESS)) {
            self.account.give_back(ENTRY_BYTES);
        }
        errno
    }

    async fn fd_read(&mut self, fd: i32, buffers: i32, count: i32, moved: i32) -> Errno {
        let shortened = match self.shorten(buffers, count) {
            Ok(shortened) => shortened,
            Err(errno) => return Ok(errno),
        };
        let errno = calls::fd_read(self.context, &mut self.memory, fd, buffers, count, moved).await;
        self.restore(shortened);
        errno
    }

    async fn fd_pread(&mut self, fd: i32, buffers: i32, count: i32, offset: i64, moved: i32) -> Errno {
        let shortened = match self.shorten(buffers, count) {
            Ok(shortened) => shortened,
            Err(errno) => return Ok(errno),
        };
        let errno = calls::fd_pread(self.context, &mut self.memory, fd, buffers, count, offset, moved).await;
        self.restore(shortened);
        errno
    }

    async fn fd_write(&mut self, fd: i32, buffers: i32, count: i32, moved: i32) -> Errno {
        let shortened = match self.shorten(buffers, count) {
            Ok(shortened) => shortened,
            Err(errno) => return Ok(errno),
        };
        let position = self.context.fd_tell(&mut self.memory, fd.cast_unsigned().into()).ok();
        let growth = match self.may_grow(fd, position, shortened.bytes).await {
            Ok(growth) => growth,
            Err(errno) => {
                self.restore(shortened);
                return Ok(errno);
            }
        };
        let errno = calls::fd_write(self.context, &mut self.memory, fd, buffers, count, moved).await;
        self.restore(shortened);
        if let Some(growth) = growth {
            // Its position is behind what it wrote, also if that was appended.
            let end = self.context.fd_tell(&mut self.memory, fd.cast_unsigned().into()).unwrap_or(0);
            let grown = if matches!(errno, Ok(ERRNO_SUCCESS)) { end } else { 0 };
            self.has_grown(fd, growth, grown);
        }
        errno
    }

    async fn fd_pwrite(&mut self, fd: i32, buffers: i32, count: i32, offset: i64, moved: i32) -> Errno {
        let shortened = match self.shorten(buffers, count) {
            Ok(shortened) => shortened,
            Err(errno) => return Ok(errno),
        };
        let growth = match self.may_grow(fd, Some(offset.cast_unsigned()), shortened.bytes).await {
            Ok(growth) => growth,
            Err(errno) => {
                self.restore(shortened);
                return Ok(errno);
            }
        };
        let errno = calls::fd_pwrite(self.context, &mut self.memory, fd, buffers, count, offset, moved).await;
        self.restore(shortened);
        if let Some(growth) = growth {
            // Where the bytes went depends on how the file was opened.
            let size = self.file(fd).await.map_or(growth.size, |stat| stat.size);
            self.has_grown(fd, growth, size);
        }
        errno
    }

    async fn fd_filestat_set_size(&mut self, fd: i32, size: i64) -> Errno {
        let (wanted, before) = match self.account.is_limited() {
            true => (size.cast_unsigned(), self.file(fd).await.map_or(0, |stat| stat.size)),
            false => (0, 0),
        };
        let growth = wanted.saturating_sub(before);
        if self.account.take(growth).is_err() {
            return Ok(ERRNO_NOSPC);
        }
        let errno = calls::fd_filestat_set_size(self.context, &mut self.memory, fd, size).await;
        *self.last = LastWritten::default();
        if matches!(errno, Ok(ERRNO_SUCCESS)) {
            self.account.shortened(before.saturating_sub(wanted));
        } else {
            self.account.give_back(growth);
        }
        errno
    }

    async fn fd_close(&mut self, fd: i32) -> Errno {
        let errno = calls::fd_close(self.context, &mut self.memory, fd).await;
        *self.last = LastWritten::default();
        if matches!(errno, Ok(ERRNO_SUCCESS)) {
            self.account.closed(fd.cast_unsigned());
        }
        errno
    }

    async fn fd_renumber(&mut self, from: i32, to: i32) -> Errno {
        let errno = calls::fd_renumber(self.context, &mut self.memory, from, to).await;
        *self.last = LastWritten::default();
        if matches!(errno, Ok(ERRNO_SUCCESS)) && from != to {
            self.account.renumbered(from.cast_unsigned(), to.cast_unsigned());
        }
        errno
    }

    #[expect(clippy::too_many_arguments, reason = "it is preview 1 that has so many")]
    async fn path_open(
        &mut self,
        folder: i32,
        lookup: i32,
        path: i32,
        length: i32,
        oflags: i32,
        rights: i64,
        inherited: i64,
        flags: i32,
        opened: i32,
    ) -> Errno {
        *self.last = LastWritten::default();
        let changes = self.account.is_limited() && oflags & (OFLAGS_CREAT | OFLAGS_TRUNC) != 0;
        let before = if changes { self.entry(folder, lookup, path, length).await } else { None };
        let open = async |call: &mut Self| {
            let Call { context, memory, .. } = call;
            calls::path_open(
                *context, memory, folder, lookup, path, length, oflags, rights, inherited, flags, opened,
            )
            .await
        };
        let errno = if changes && oflags & OFLAGS_CREAT != 0 && before.is_none() {
            self.making(open).await?
        } else {
            open(self).await?
        };
        if errno != ERRNO_SUCCESS || !self.account.is_limited() {
            return Ok(errno);
        }
        if oflags & OFLAGS_TRUNC != 0 {
            let regular = before.filter(|stat| stat.filetype == Filetype::RegularFile);
            self.account.shortened(regular.map_or(0, |stat| stat.size));
        }
        if let Ok(fd) = self.memory.read(GuestPtr::<u32>::new(opened.cast_unsigned()))
            && let Some(stat) = self.file(fd.cast_signed()).await
        {
            self.account.opened(fd, stat.ino);
        }
        Ok(errno)
    }

    async fn path_create_directory(&mut self, folder: i32, path: i32, length: i32) -> Errno {
        self.making(async |call| {
            calls::path_create_directory(call.context, &mut call.memory, folder, path, length).await
        })
        .await
    }

    async fn path_symlink(
        &mut self,
        target: i32,
        target_length: i32,
        folder: i32,
        path: i32,
        length: i32,
    ) -> Errno {
        self.making(async |call| {
            let Call { context, memory, .. } = call;
            calls::path_symlink(*context, memory, target, target_length, folder, path, length).await
        })
        .await
    }

    #[expect(clippy::too_many_arguments, reason = "it is preview 1 that has so many")]
    async fn path_link(
        &mut self,
        from: i32,
        lookup: i32,
        from_path: i32,
        from_length: i32,
        to: i32,
        to_path: i32,
        to_length: i32,
    ) -> Errno {
        self.making(async |call| {
            let Call { context, memory, .. } = call;
            calls::path_link(*context, memory, from, lookup, from_path, from_length, to, to_path, to_length)
                .await
        })
        .await
    }

    async fn path_rename(
        &mut self,
        from: i32,
        from_path: i32,
        from_length: i32,
        to: i32,
        to_path: i32,
        to_length: i32,
    ) -> Errno {
        let (mut moved, mut replaced) = (None, None);
        if self.account.is_limited() {
            moved = self.entry(from, 0, from_path, from_length).await;
            replaced = self.entry(to, 0, to_path, to_length).await;
        }
        let Call { context, memory, .. } = self;
        let errno =
            calls::path_rename(*context, memory, from, from_path, from_length, to, to_path, to_length).await;
        if let (Ok(ERRNO_SUCCESS), Some(moved), Some(replaced)) = (&errno, moved, replaced) {
            // Two names of one file stay as they are.
            if moved.ino != replaced.ino {
                self.account.removed(replaced.ino, content(&replaced));
            }
        }
        errno
    }

    async fn path_unlink_file(&mut self, folder: i32, path: i32, length: i32) -> Errno {
        let limited = self.account.is_limited();
        let before = if limited { self.entry(folder, 0, path, length).await } else { None };
        let errno = calls::path_unlink_file(self.context, &mut self.memory, folder, path, length).await;
        if let (Ok(ERRNO_SUCCESS), Some(stat)) = (&errno, before) {
            self.account.removed(stat.ino, content(&stat));
        }
        errno
    }

    async fn path_remove_directory(&mut self, folder: i32, path: i32, length: i32) -> Errno {
        let errno = calls::path_remove_directory(self.context, &mut self.memory, folder, path, length).await;
        if matches!(errno, Ok(ERRNO_SUCCESS)) {
            self.account.give_back(ENTRY_BYTES);
        }
        errno
    }
}

/// Room that was taken for a write.
struct Growth {
    /// The file's size before.
    size: u64,
    taken: u64,
}

impl Call<'_> {
    /// Takes room for a write of so many bytes at a position; `None` if no account is kept of it. A
    /// write that would only change what is there needs none.
    async fn may_grow(&mut self, fd: i32, position: Option<u64>, bytes: u32) -> Result<Option<Growth>, i32> {
        let (true, Some(position)) = (self.account.is_limited(), position) else { return Ok(None) };
        let size = match self.last.0 {
            Some((last, size)) if last == fd => size,
            _ => match self.file(fd).await {
                Some(stat) => stat.size,
                None => return Ok(None),
            },
        };
        let bytes = u64::from(bytes);
        let beyond = position.saturating_add(bytes).saturating_sub(size);
        // It may be appended, wherever its position is.
        let most = beyond.max(bytes);
        if self.account.try_take(most) {
            return Ok(Some(Growth { size, taken: most }));
        }
        let described = self.context.fd_fdstat_get(&mut self.memory, fd.cast_unsigned().into()).await;
        let appends = described.is_ok_and(|described| described.fs_flags.contains(Fdflags::APPEND));
        let taken = if appends { bytes } else { beyond };
        match self.account.take(taken) {
            Ok(()) => Ok(Some(Growth { size, taken })),
            Err(_) => Err(ERRNO_NOSPC),
        }
    }

    /// The file ends there now, at least.
    fn has_grown(&mut self, fd: i32, growth: Growth, end: u64) {
        let size = growth.size.max(end);
        self.account.give_back(growth.taken.saturating_sub(size - growth.size));
        *self.last = LastWritten(Some((fd, size)));
    }
}

/// A call's buffers, of which one may have been made shorter.
struct Shortened {
    /// The bytes that the call may move.
    bytes: u32,
    /// Where a buffer's length is, and what it was.
    length: Option<(GuestPtr<u32>, u32)>,
}

impl Call<'_> {
    /// Makes the first buffer that is not empty as short as a call may move.
    fn shorten(&mut self, buffers: i32, count: i32) -> Result<Shortened, i32> {
        let (buffers, count) = (buffers.cast_unsigned(), count.cast_unsigned());
        if count > BUFFERS_MAX {
            return Err(ERRNO_INVAL);
        }
        for index in 0..count {
            let at = buffers.checked_add(index * BUFFER_BYTES + 4).ok_or(ERRNO_FAULT)?;
            let at = GuestPtr::<u32>::new(at);
            // Descriptions need not be aligned, and the guest's memory is little-endian.
            let length = self.memory.read(at).map_err(|_| ERRNO_FAULT)?;
            if length > TRANSFER_BYTES_MAX {
                self.memory.write(at, TRANSFER_BYTES_MAX).map_err(|_| ERRNO_FAULT)?;
                return Ok(Shortened { bytes: TRANSFER_BYTES_MAX, length: Some((at, length)) });
            }
            if length > 0 {
                return Ok(Shortened { bytes: length, length: None });
            }
        }
        Ok(Shortened { bytes: 0, length: None })
    }

    /// Leaves the guest's memory as it was, unless what was read has gone to that very place.
    fn restore(&mut self, shortened: Shortened) {
        let Some((at, was)) = shortened.length else { return };
        if self.memory.read(at).is_ok_and(|length| length == TRANSFER_BYTES_MAX) {
            let _ = self.memory.write(at, was);
        }
    }
}
