//! The system calls that make data durable, and the filter that stops them.
//!
//! The filter sees numbers only: of the call, and its arguments. What hides its flags in memory, and what makes
//! writes durable without a call for each, fails under the filter, so that no sync goes round the delay unseen.

use libc::{c_long, sock_filter};

/// A system call, the flags (the argument's position and bits) that it needs to be meant, and the answer.
struct Call(c_long, Option<(usize, i32)>, u32);

const DELAYED: u32 = libc::SECCOMP_RET_USER_NOTIF;
const UNKNOWN: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
const UNSUPPORTED: u32 = libc::SECCOMP_RET_ERRNO | libc::EOPNOTSUPP.cast_unsigned();

/// Without these flags it starts to write and waits for nothing.
const RANGE_WAITS: u32 = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
const WRITE_SYNCS: i32 = libc::RWF_DSYNC | libc::RWF_SYNC;

const CALLS: &[Call] = &[
    Call(libc::SYS_fdatasync, None, DELAYED),
    Call(libc::SYS_fsync, None, DELAYED),
    Call(
        libc::SYS_sync_file_range,
        Some((3, RANGE_WAITS.cast_signed())),
        DELAYED,
    ),
    Call(libc::SYS_sync, None, DELAYED),
    Call(libc::SYS_syncfs, None, DELAYED),
    Call(libc::SYS_msync, Some((2, libc::MS_SYNC)), DELAYED),
    Call(libc::SYS_pwritev2, Some((5, WRITE_SYNCS)), DELAYED),
    // O_SYNC includes this bit.
    Call(libc::SYS_openat, Some((2, libc::O_DSYNC)), UNSUPPORTED),
    #[cfg(target_arch = "x86_64")]
    Call(libc::SYS_open, Some((1, libc::O_DSYNC)), UNSUPPORTED),
    Call(libc::SYS_openat2, None, UNKNOWN),
    Call(libc::SYS_open_by_handle_at, None, UNKNOWN),
    Call(libc::SYS_io_setup, None, UNKNOWN),
    Call(libc::SYS_io_uring_setup, None, UNKNOWN),
];

/// The filter for programs of this machine's own architecture.
pub(super) fn filter() -> Vec<sock_filter> {
    let mut program = vec![load(std::mem::offset_of!(libc::seccomp_data, nr))];
    for Call(number, flags, decision) in CALLS {
        let number = u32::try_from(*number).unwrap_or(u32::MAX);
        match flags {
            None => program.extend([jump(libc::BPF_JEQ, number, 1), answer(*decision)]),
            // Ends in any case, so that the number loaded before need not be loaded again.
            Some((argument, bits)) => program.extend([
                jump(libc::BPF_JEQ, number, 4),
                load(argument_offset(*argument)),
                jump(libc::BPF_JSET, bits.cast_unsigned(), 1),
                answer(*decision),
                answer(libc::SECCOMP_RET_ALLOW),
            ]),
        }
    }
    program.push(answer(libc::SECCOMP_RET_ALLOW));
    program
}

/// The lower half of an argument, where flags are.
fn argument_offset(argument: usize) -> usize {
    let half = if cfg!(target_endian = "big") { 4 } else { 0 };
    std::mem::offset_of!(libc::seccomp_data, args) + argument * 8 + half
}

fn load(offset: usize) -> sock_filter {
    let offset = u32::try_from(offset).unwrap_or(u32::MAX);
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0)
}

/// Goes on with the next instruction if the comparison holds, else behind `skipped` more.
fn jump(comparison: u32, value: u32, skipped: u8) -> sock_filter {
    instruction(libc::BPF_JMP | comparison | libc::BPF_K, value, skipped)
}

fn answer(action: u32) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, action, 0)
}

fn instruction(code: u32, k: u32, jf: u8) -> sock_filter {
    sock_filter {
        code: u16::try_from(code).unwrap_or(u16::MAX),
        jt: 0,
        jf,
        k,
    }
}
