//! Which clock this is: the machine's boot and the time namespace, as one value.
//!
//! Invariant: two processes get equal values only if their raw clocks count from the same zero.
//! Where that cannot be told the value is random, so that it equals no other: time then resumes
//! where the log left it, and locks live longer, never shorter.

use std::fs;
use std::io::{self, ErrorKind};

use quorlock_clock::{Boot, fnv};

/// The boot this process runs in. `wall_us` makes the value unequal where even randomness lacks.
pub(super) fn read(wall_us: u64) -> Boot {
    let id = fs::read_to_string(BOOT_ID);
    let known = id
        .ok()
        .and_then(|id| fingerprint(&id, namespace().ok()?.as_deref()));
    known.unwrap_or_else(|| {
        tracing::warn!(
            "{BOOT_ID} or the time namespace cannot be read: this start counts as one after a \
             reboot. Locks get the time back that passed while the node was down, and after an \
             unclean stop the node waits. Make /proc readable to the node to avoid that"
        );
        let mut boot = [0; 16];
        // The kernel gives this many at once, or none.
        if rustix::rand::getrandom(&mut boot, rustix::rand::GetRandomFlags::empty())
            != Ok(boot.len())
        {
            boot[..8].copy_from_slice(&wall_us.to_le_bytes());
        }
        Boot(boot)
    })
}

/// Name and offsets of the time namespace; `None` where the kernel has no such thing.
///
/// The name alone is not enough: the kernel gives the number of a namespace that has ended to the
/// next one, whose clocks may be set otherwise. The offsets alone are those of future children,
/// which may differ from the process's own.
fn namespace() -> io::Result<Option<String>> {
    let name = match fs::read_link(NAMESPACE) {
        Ok(name) => name,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let offsets = fs::read_to_string(OFFSETS)?;
    Ok(Some(format!("{} {offsets}", name.display())))
}

/// Boot id and namespace as one value; `None` if the boot id is not one.
fn fingerprint(boot_id: &str, namespace: Option<&str>) -> Option<Boot> {
    let mut boot = [0; 16];
    let mut digits = 0;
    for character in boot_id.trim_end().chars().filter(|&it| it != '-') {
        let digit = u8::try_from(character.to_digit(16)?).ok()?;
        let byte = boot.get_mut(digits / 2)?;
        *byte = (*byte << 4) | digit;
        digits += 1;
    }
    if digits != 32 {
        return None;
    }
    // The log keeps it.
    let hash = namespace.map_or(0, |text| fnv(text.bytes()));
    for (byte, part) in boot[8..].iter_mut().zip(hash.to_le_bytes()) {
        *byte ^= part;
    }
    Some(Boot(boot))
}

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const NAMESPACE: &str = "/proc/self/ns/time";
const OFFSETS: &str = "/proc/self/timens_offsets";

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0f3b1c52-8f0e-4f1f-9a53-6f1d1f2b7c01\n";
    const HOST: &str = "time:[4026531834] monotonic 0 0\nboottime 0 0\n";

    #[test]
    fn the_same_boot_and_namespace_are_the_same_clock() {
        assert!(fingerprint(ID, Some(HOST)).is_some());
        assert_eq!(fingerprint(ID, Some(HOST)), fingerprint(ID, Some(HOST)));
        assert_eq!(fingerprint(ID, None), fingerprint(ID.trim_end(), None));
    }

    #[test]
    fn another_boot_namespace_or_offset_is_another_clock() {
        let all = [
            fingerprint(ID, Some(HOST)),
            fingerprint(&ID.replace("c01", "c02"), Some(HOST)),
            fingerprint(&ID.replace("0f3b", "1f3b"), Some(HOST)),
            fingerprint(ID, None),
            fingerprint(ID, Some(&HOST.replace("834", "177"))),
            // The number of a namespace that has ended is given to the next.
            fingerprint(ID, Some(&HOST.replace("monotonic 0", "monotonic 5"))),
            fingerprint(ID, Some(&HOST.replace("boottime 0", "boottime 5"))),
        ];
        for (index, boot) in all.iter().enumerate() {
            assert!(boot.is_some() && !all[..index].contains(boot), "{index}");
        }
    }

    #[test]
    fn what_is_no_boot_id_is_no_boot() {
        let long = format!("{}00", ID.trim_end());
        for text in ["", "\n", "0f3b1c52", ID.get(1..).unwrap_or(""), &long, "x"] {
            assert_eq!(fingerprint(text, Some(HOST)), None, "{text:?}");
        }
    }
}
