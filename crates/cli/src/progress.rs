//! Progress indicators for long operations, on a terminal only.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// Delay before the spinner appears.
const PATIENCE: Duration = Duration::from_millis(400);

/// A spinner that appears after a delay and disappears when dropped.
pub(crate) struct Spinner(ProgressBar);

impl Spinner {
    pub(crate) fn new(message: &'static str) -> Self {
        let bar = if output::is_watched() {
            ProgressBar::new_spinner()
        } else {
            ProgressBar::hidden()
        };
        bar.set_message(message);
        Self(bar)
    }

    /// Waits for the work and shows the spinner after the delay.
    pub(crate) async fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        if let Ok(done) = tokio::time::timeout(PATIENCE, &mut work).await {
            return done;
        }
        self.0.enable_steady_tick(Duration::from_millis(100));
        work.await
    }

    /// Hides the spinner, because other output shows progress.
    pub(crate) fn hide(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.hide();
    }
}

/// A progress bar. It shows only texts of this program.
pub(crate) struct Bar(ProgressBar);

/// A bar with this total.
pub(crate) fn bar(total: usize, message: &'static str) -> Bar {
    if !output::is_watched() {
        return Bar(ProgressBar::hidden());
    }
    let bar = ProgressBar::new(total as u64).with_message(message);
    if let Ok(style) = ProgressStyle::with_template("{msg} {bar:30} {pos}/{len}") {
        bar.set_style(style);
    }
    Bar(bar)
}

impl Bar {
    /// Advances the bar.
    pub(crate) fn inc(&self, number: u64) {
        self.0.inc(number);
    }

    /// Hides the bar while something is printed.
    pub(crate) fn suspend(&self, print: impl FnOnce()) {
        self.0.suspend(print);
    }

    /// Removes the bar.
    pub(crate) fn finish_and_clear(&self) {
        self.0.finish_and_clear();
    }
}
