//! The most memory that a test ever held, measured in a process that runs this test alone.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test that cannot go on ends here, and its output carries the figure"
)]

use std::process::{Command, Stdio};

/// Names the test that the process was started for.
const ALONE: &str = "CONVOKE_TEST_ALONE";

/// What stands before the figure in the output of that process.
const PEAK: &str = "peak memory in KiB:";

/// Runs `body` in a process of its own and gives that process's peak resident memory, in bytes.
///
/// `test` is the full name of the calling test. The caller gets the figure in the first process and
/// `None` in the second, where `body` has run and nothing is left to do.
pub fn peak_memory(test: &str, body: impl FnOnce()) -> Option<u64> {
    #[expect(
        clippy::disallowed_methods,
        reason = "tells the process that measures from the one that is measured"
    )]
    let is_alone = std::env::var(ALONE).is_ok_and(|name| name == test);
    if is_alone {
        body();
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = peak.and_then(|peak| peak.trim().strip_suffix(" kB"));
        println!("\n{PEAK} {}", kib.unwrap_or_default());
        return None;
    }
    let own = std::env::current_exe().expect("the test's own program");
    let output = Command::new(own)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(ALONE, test)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .expect("the test's own program runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {said}", output.status);
    let peak = said.lines().find_map(|line| line.strip_prefix(PEAK));
    let kib = peak.and_then(|peak| peak.trim().parse::<u64>().ok());
    Some(kib.expect("the process tells its peak") * 1024)
}
