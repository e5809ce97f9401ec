//! Health of the machine that runs the server.

use std::fs;
use std::path::Path;

use serde::Serialize;

/// Measurements of this machine. Unreadable ones are absent, because partial data is better than an
/// error.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HostHealth {
    /// Load average of the last minute.
    pub load_1: Option<f64>,
    /// Load average of the last five minutes.
    pub load_5: Option<f64>,
    /// Percentage of memory that is not available.
    pub memory_used_percent: Option<f64>,
    /// Percentage used of the disk that contains the folder.
    pub disk_used_percent: Option<f64>,
}

impl HostHealth {
    /// Measures the machine; the disk is the one with this folder.
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

/// Computed like `df`: space reserved for root is neither used nor free.
fn disk_used(folder: &Path) -> Option<f64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    let used = disk.f_blocks.saturating_sub(disk.f_bfree);
    percent(used, used.saturating_add(disk.f_bavail))
}

/// Rounded to one decimal.
fn percent(part: u64, whole: u64) -> Option<f64> {
    let thousandths = u128::from(part) * 1000 / u128::from(whole).max(1);
    let thousandths = u32::try_from(thousandths).ok()?;
    (whole > 0).then(|| f64::from(thousandths) / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_are_parsed_from_linux_files() {
        let loadavg = "0.52 1.25 0.99 2/713 12345\n";
        assert_eq!(load_average(loadavg, 0), Some(0.52));
        assert_eq!(load_average(loadavg, 1), Some(1.25));
        let meminfo = "MemTotal:       16000000 kB\nMemFree:  1 kB\nMemAvailable:    4000000 kB\n";
        assert_eq!(memory_used(meminfo), Some(75.0));
    }

    #[test]
    fn unreadable_measurements_are_absent() {
        assert_eq!(load_average("", 0), None);
        assert_eq!(load_average("much", 0), None);
        assert_eq!(memory_used("MemTotal: 0 kB\nMemAvailable: 0 kB\n"), None);
        assert_eq!(memory_used("MemTotal: 10 kB\n"), None);
        assert_eq!(disk_used(Path::new("/no/such/folder")), None);
    }

    #[test]
    fn the_disk_usage_of_a_folder_is_plausible() {
        let folder = tempfile::tempdir().unwrap();
        let used = HostHealth::read(folder.path()).disk_used_percent.unwrap();
        assert!((0.0..=100.0).contains(&used), "{used}");
    }
}
