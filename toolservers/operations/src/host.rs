//! How the machine does that the server runs on.

use std::fs;
use std::path::Path;

use serde::Serialize;

/// Facts of this machine. What cannot be read is left out, since half of the facts are better than
/// an error.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HostHealth {
    /// How many processes wanted to run, on average over the last minute.
    pub load_1: Option<f64>,
    /// The same over the last five minutes.
    pub load_5: Option<f64>,
    /// How much of the memory cannot be had by a new process.
    pub memory_used_percent: Option<f64>,
    /// How much of the disk that holds the folder is used.
    pub disk_used_percent: Option<f64>,
}

impl HostHealth {
    /// Reads the facts; the disk is the one that holds this folder.
    pub(crate) fn read(folder: &Path) -> Self {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Self {
            load_1: load_average(&load, 0),
            load_5: load_average(&load, 1),
            memory_used_percent: memory_used(&memory),
            disk_used_percent: disk_used(folder),
        }
    }
}

fn load_average(loadavg: &str, position: usize) -> Option<f64> {
    loadavg.split_whitespace().nth(position)?.parse().ok()
}

fn memory_used(meminfo: &str) -> Option<f64> {
    let total = kilobytes(meminfo, "MemTotal:")?;
    let available = kilobytes(meminfo, "MemAvailable:")?;
    percent(total.saturating_sub(available), total)
}

fn kilobytes(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// As `df` counts it: what is kept for the administrator is neither used nor free.
fn disk_used(folder: &Path) -> Option<f64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    let used = disk.f_blocks.saturating_sub(disk.f_bfree);
    percent(used, used.saturating_add(disk.f_bavail))
}

/// With one digit behind the point.
fn percent(part: u64, whole: u64) -> Option<f64> {
    let thousandths = u128::from(part) * 1000 / u128::from(whole).max(1);
    let thousandths = u32::try_from(thousandths).ok()?;
    (whole > 0).then(|| f64::from(thousandths) / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_as_linux_writes_them() {
        let loadavg = "0.52 1.25 0.99 2/713 12345\n";
        assert_eq!(load_average(loadavg, 0), Some(0.52));
        assert_eq!(load_average(loadavg, 1), Some(1.25));
        let meminfo = "MemTotal:       16000000 kB\nMemFree:  1 kB\nMemAvailable:    4000000 kB\n";
        assert_eq!(memory_used(meminfo), Some(75.0));
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        assert_eq!(load_average("", 0), None);
        assert_eq!(load_average("much", 0), None);
        assert_eq!(memory_used("MemTotal: 0 kB\nMemAvailable: 0 kB\n"), None);
        assert_eq!(memory_used("MemTotal: 10 kB\n"), None);
        assert_eq!(disk_used(Path::new("/no/such/folder")), None);
    }

    #[test]
    fn a_folder_has_a_disk_that_is_neither_empty_nor_overfull() {
        let folder = tempfile::tempdir().unwrap();
        let used = HostHealth::read(folder.path()).disk_used_percent.unwrap();
        assert!((0.0..=100.0).contains(&used), "{used}");
    }
}
