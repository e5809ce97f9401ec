//! A sign of life while something takes its time, where a person is watching.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// How long a wait may be before it shows.
const PATIENCE: Duration = Duration::from_millis(400);

/// A spinner that appears when the work takes longer than a moment. It goes when dropped.
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

    /// Waits for the work, showing itself once the wait is noticeable.
    pub(crate) async fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        if let Ok(done) = tokio::time::timeout(PATIENCE, &mut work).await {
            return done;
        }
        self.0.enable_steady_tick(Duration::from_millis(100));
        work.await
    }

    /// Goes, because something else shows that there is life.
    pub(crate) fn hide(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.hide();
    }
}

/// A bar over a known number of things. It shows nothing but what stands in this program's source.
pub(crate) struct Bar(ProgressBar);

/// A bar over so many things.
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
    /// So many more of the things are done.
    pub(crate) fn inc(&self, number: u64) {
        self.0.inc(number);
    }

    /// Makes room for what is printed meanwhile.
    pub(crate) fn suspend(&self, print: impl FnOnce()) {
        self.0.suspend(print);
    }

    /// Goes, because all is done.
    pub(crate) fn finish_and_clear(&self) {
        self.0.finish_and_clear();
    }
}
