//! What the kernel says of this process and of the machine's memory.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::LazyLock;

use quorlock_node::core::process::{CpuSeconds, FailureDomain, Process};

use crate::runtime::descriptors;

/// The process that asks. `is_owned`: it exists for one node.
pub(crate) fn own(is_owned: bool) -> Process {
    Process {
        id: std::process::id(),
        resident_bytes,
        cpu_seconds,
        executable,
        machine_bytes,
        machine,
        clients_max: match is_owned {
            true => descriptors::raise_and_fit,
            false => descriptors::fit_running,
        },
    }
}

fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok())
        .unwrap_or(0);
    pages.saturating_mul(rustix::param::page_size() as u64)
}

/// Reads the clock ticks of this process (proc(5), fields 14 and 15 of stat).
fn cpu_seconds() -> CpuSeconds {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is the program's name in parentheses and may hold spaces.
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let per_second = rustix::param::clock_ticks_per_second().max(1) as f64;
    let mut seconds = || {
        let ticks: Option<u64> = fields.next().and_then(|field| field.parse().ok());
        ticks.unwrap_or(0) as f64 / per_second
    };
    CpuSeconds {
        user: seconds(),
        system: seconds(),
    }
}

fn executable() -> String {
    let path = std::env::current_exe();
    path.map_or_else(|_| String::new(), |path| path.display().to_string())
}

fn machine_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    u64::from(system.mem_unit).saturating_mul(system.totalram)
}

fn machine(directory: &Path) -> FailureDomain {
    /// The boot id and the clock source.
    static KERNEL: LazyLock<[String; 2]> = LazyLock::new(|| {
        let said = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let paths = [
            "/proc/sys/kernel/random/boot_id",
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        ];
        paths.map(|path| said(path).trim().to_owned())
    });
    let [boot_id, clock_source] = KERNEL.clone();
    let metadata = std::fs::metadata(directory);
    FailureDomain {
        boot_id,
        file_system: metadata.map_or_else(|_| String::new(), |it| it.dev().to_string()),
        clock_source,
    }
}
