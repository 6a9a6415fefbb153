//! The system calls that can make data durable, and the filter that stops them.
//!
//! One table says both what the filter stops and what is done with it then. The filter sees the
//! arguments as numbers: flags, and numbers of descriptors. A file opened for synchronous writes is
//! therefore given a number from `first_number` on (see the module above), and a write is stopped by
//! the number it goes to; all others pass, such as the replies of a server that writes them with
//! `write`.

use libc::{c_long, sock_filter};

/// Which calls are stopped, of those with this number.
#[derive(Clone, Copy)]
pub(super) enum Condition {
    Always,
    /// This argument has one of these bits.
    Bits(usize, i32),
    /// This argument is a descriptor of the reserved range.
    Reserved(usize),
}

/// What is done with a call that was stopped. Numbers are positions of arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// It makes data durable: delayed.
    Sync,
    /// It makes data durable if this descriptor was opened so.
    Write(usize),
    /// It opens a file for synchronous writes.
    Open { folder: Option<usize>, path: usize },
    /// It copies a descriptor.
    Duplicate,
    /// It could make data durable unseen: does not exist.
    Refused,
}

/// One system call.
pub(super) struct Call {
    pub(super) number: c_long,
    pub(super) kind: Kind,
    conditions: &'static [Condition],
}

const fn call(number: c_long, kind: Kind, conditions: &'static [Condition]) -> Call {
    Call {
        number,
        kind,
        conditions,
    }
}

/// `sync_file_range` is not here: it starts to write, but makes nothing durable. Asynchronous writes
/// and what hides its flags in memory are refused; servers fall back to the others, or fail visibly.
pub(super) const CALLS: &[Call] = &[
    call(libc::SYS_write, Kind::Write(0), &[Condition::Reserved(0)]),
    call(libc::SYS_writev, Kind::Write(0), &[Condition::Reserved(0)]),
    call(libc::SYS_fdatasync, Kind::Sync, &[Condition::Always]),
    call(
        libc::SYS_pwrite64,
        Kind::Write(0),
        &[Condition::Reserved(0)],
    ),
    call(libc::SYS_pwritev, Kind::Write(0), &[Condition::Reserved(0)]),
    call(
        libc::SYS_pwritev2,
        Kind::Write(0),
        &[
            Condition::Reserved(0),
            Condition::Bits(FLAGS_OF_PWRITEV2, SYNC_FLAGS),
        ],
    ),
    call(libc::SYS_fsync, Kind::Sync, &[Condition::Always]),
    call(libc::SYS_sync, Kind::Sync, &[Condition::Always]),
    call(libc::SYS_syncfs, Kind::Sync, &[Condition::Always]),
    call(
        libc::SYS_msync,
        Kind::Sync,
        &[Condition::Bits(2, libc::MS_SYNC)],
    ),
    // On such a file it commits the file system's journal.
    call(
        libc::SYS_fallocate,
        Kind::Write(0),
        &[Condition::Reserved(0)],
    ),
    call(
        libc::SYS_sendfile,
        Kind::Write(0),
        &[Condition::Reserved(0)],
    ),
    call(libc::SYS_splice, Kind::Write(2), &[Condition::Reserved(2)]),
    call(
        libc::SYS_copy_file_range,
        Kind::Write(2),
        &[Condition::Reserved(2)],
    ),
    call(
        libc::SYS_openat,
        Kind::Open {
            folder: Some(0),
            path: 1,
        },
        // O_SYNC includes this bit.
        &[Condition::Bits(2, libc::O_DSYNC)],
    ),
    #[cfg(target_arch = "x86_64")]
    call(
        libc::SYS_open,
        Kind::Open {
            folder: None,
            path: 0,
        },
        &[Condition::Bits(1, libc::O_DSYNC)],
    ),
    call(libc::SYS_dup, Kind::Duplicate, &[Condition::Reserved(0)]),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_dup2, Kind::Duplicate, &[Condition::Reserved(0)]),
    call(libc::SYS_dup3, Kind::Duplicate, &[Condition::Reserved(0)]),
    call(libc::SYS_fcntl, Kind::Duplicate, &[Condition::Reserved(0)]),
    call(libc::SYS_openat2, Kind::Refused, &[]),
    call(libc::SYS_open_by_handle_at, Kind::Refused, &[]),
    call(libc::SYS_io_setup, Kind::Refused, &[]),
    call(libc::SYS_io_uring_setup, Kind::Refused, &[]),
];

const FLAGS_OF_PWRITEV2: usize = 5;
const SYNC_FLAGS: i32 = libc::RWF_DSYNC | libc::RWF_SYNC;

/// What is done with this call, which the filter has stopped.
pub(super) fn kind(data: &libc::seccomp_data) -> Option<Kind> {
    let number = c_long::from(data.nr);
    let call = CALLS.iter().find(|call| call.number == number)?;
    let is_write_through = number == libc::SYS_pwritev2
        && data.args[FLAGS_OF_PWRITEV2] & u64::from(SYNC_FLAGS.cast_unsigned()) != 0;
    Some(if is_write_through {
        Kind::Sync
    } else {
        call.kind
    })
}

/// The filter for programs of this machine's own architecture; `first_number` begins the reserved
/// range of descriptors.
pub(super) fn filter(first_number: u32) -> Vec<sock_filter> {
    let mut program = vec![load(NUMBER_OFFSET)];
    for call in CALLS {
        let decision = decide(call, first_number);
        // The tables are short; a jump over more than 255 instructions would not compile.
        let skipped = u8::try_from(decision.len()).unwrap_or(u8::MAX);
        let number = u32::try_from(call.number).unwrap_or(u32::MAX);
        program.push(jump(libc::BPF_JEQ, number, skipped));
        program.extend(decision);
    }
    program.push(answer(libc::SECCOMP_RET_ALLOW));
    program
}

/// Ends the program in any case, so that the number loaded before need not be loaded again.
fn decide(call: &Call, first_number: u32) -> Vec<sock_filter> {
    if call.kind == Kind::Refused {
        return vec![answer(
            libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned(),
        )];
    }
    let mut decision = Vec::new();
    for condition in call.conditions {
        match *condition {
            Condition::Always => {}
            Condition::Bits(argument, bits) => decision.extend([
                load(argument_offset(argument)),
                jump(libc::BPF_JSET, bits.cast_unsigned(), 1),
            ]),
            Condition::Reserved(argument) => decision.extend([
                load(argument_offset(argument)),
                jump(libc::BPF_JGE, first_number, 1),
            ]),
        }
        decision.push(answer(libc::SECCOMP_RET_USER_NOTIF));
    }
    decision.push(answer(libc::SECCOMP_RET_ALLOW));
    decision
}

const NUMBER_OFFSET: usize = std::mem::offset_of!(libc::seccomp_data, nr);

/// The lower half, where flags and descriptors are.
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
