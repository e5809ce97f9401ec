//! Measures a test's peak memory in a process that runs only this test.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "the function is for tests, and its output contains the measurement"
)]

use std::process::{Command, Stdio};

/// Environment variable that names the test to run in the child process.
const ALONE: &str = "CONVOKE_TEST_ALONE";

/// Precedes the number in the child's output.
const PEAK: &str = "peak memory in KiB:";

/// Runs `body` in a child process and returns that process's peak resident memory, in bytes.
///
/// `test` is the full name of the calling test. The parent process gets the number; the child process
/// gets `None` after `body` has run.
pub fn peak_memory(test: &str, body: impl FnOnce()) -> Option<u64> {
    #[expect(
        clippy::disallowed_methods,
        reason = "distinguishes the measuring process from the measured one"
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
    let part = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {part}", output.status);
    let peak = part.lines().find_map(|line| line.strip_prefix(PEAK));
    let kib = peak.and_then(|peak| peak.trim().parse::<u64>().ok());
    Some(kib.expect("the process tells its peak") * 1024)
}
