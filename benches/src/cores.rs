//! Which core the server runs on and which the load: different ones, where there are two.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::failure::{Doing, Failure};

/// The cores of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cores {
    pub(crate) server: usize,
    pub(crate) load: usize,
}

impl Cores {
    /// The first two cores this process may use; one and the same if there is only one.
    pub(crate) fn choose() -> Result<Self, Failure> {
        let allowed = sched_getaffinity(None).doing("asking which cores may be used")?;
        let mut usable = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
        let server = usable
            .next()
            .ok_or_else(|| Failure::new("no core may be used"))?;
        Ok(Self {
            server,
            load: usable.next().unwrap_or(server),
        })
    }

    /// Lets this thread run on any core of the run.
    pub(crate) fn pin_to_all(self) -> Result<(), Failure> {
        let mut set = CpuSet::new();
        set.set(self.server);
        set.set(self.load);
        sched_setaffinity(None, &set).doing("pinning to the cores of the run")
    }
}

/// Binds this thread, and the processes it starts from now on, to one core.
pub(crate) fn pin(core: usize) -> Result<(), Failure> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).doing(format!("pinning to core {core}"))
}
