//! CPU time of processes and the number of available cores.

use anyhow::Context;
use serde::Serialize;

/// CPU seconds, in user and kernel mode.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct CpuSeconds {
    /// This process.
    pub(crate) own: f64,
    /// Its running child processes.
    pub(crate) children: f64,
}

impl CpuSeconds {
    pub(crate) fn now() -> anyhow::Result<Self> {
        let mut children = 0.0;
        for child in children_of_this()? {
            children += of(&child)?;
        }
        Ok(Self {
            own: of("self")?,
            children,
        })
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            own: self.own - earlier.own,
            children: self.children - earlier.children,
        }
    }

    pub(crate) fn all(self) -> f64 {
        self.own + self.children
    }
}

/// Cores available to this process and its children.
pub(crate) fn cores() -> anyhow::Result<usize> {
    Ok(std::thread::available_parallelism()?.get())
}

/// CPU seconds of all threads of a process.
#[expect(
    clippy::cast_precision_loss,
    reason = "the numbers of a benchmark are small"
)]
fn of(process: &str) -> anyhow::Result<f64> {
    let path = format!("/proc/{process}/stat");
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("{path}; Linux is needed"))?;
    // The program's name comes first, in brackets, and may contain any character.
    let fields = text.rsplit(')').next().unwrap_or_default();
    let times = fields.split_whitespace().skip(11).take(2);
    let mut ticks = 0;
    for time in times {
        ticks += time.parse::<u64>()?;
    }
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// The ids of this process's children, over all of its threads.
fn children_of_this() -> anyhow::Result<Vec<String>> {
    let mut children = Vec::new();
    for thread in std::fs::read_dir("/proc/self/task")? {
        let path = thread?.path().join("children");
        // The thread may have ended.
        let Ok(text) = std::fs::read_to_string(path) else {
            continue;
        };
        children.extend(text.split_whitespace().map(str::to_owned));
    }
    Ok(children)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_child_is_counted_beside_this_process() {
        let mut child = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let before = CpuSeconds::now().unwrap();
        while CpuSeconds::now().unwrap().since(before).children < 0.1 {
            std::thread::yield_now();
        }
        let taken = CpuSeconds::now().unwrap().since(before);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(
            taken.own >= 0.0 && taken.all() >= taken.children,
            "{taken:?}"
        );
        assert!(cores().unwrap() > 0);
    }
}
