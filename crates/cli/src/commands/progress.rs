//! Follows a task at the terminal: a spinner, then the live text of the answer.

use convoke::{Live, LiveUpdate, TaskOutcome};
use tokio::sync::mpsc;

use crate::output::{self, StreamedText};
use crate::progress::Spinner;

/// Live output of one task.
pub(crate) struct TaskProgress {
    pieces: mpsc::UnboundedReceiver<Option<String>>,
    /// The listener. `None` without a terminal.
    live: Option<Live>,
    spinner: Spinner,
    /// The live text so far.
    said: String,
    /// The part of it that is printed.
    shown: StreamedText,
}

impl TaskProgress {
    pub(crate) fn new(json: bool) -> Self {
        let (sender, pieces) = mpsc::unbounded_channel();
        let live = Live::new(move |heard| {
            let piece = match heard {
                LiveUpdate::Text(text) => Some(text.to_owned()),
                LiveUpdate::Again => None,
            };
            // The receiver may be gone after the task has ended.
            let _ = sender.send(piece);
        });
        Self {
            pieces,
            live: (!json && output::is_read_by_a_person()).then_some(live),
            spinner: Spinner::new("working"),
            said: String::new(),
            shown: StreamedText::default(),
        }
    }

    /// The listener for the task.
    pub(crate) fn live(&self) -> Option<Live> {
        self.live.clone()
    }

    /// Waits for the task, and shows live text meanwhile.
    pub(crate) async fn follow<T>(&mut self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        loop {
            let done = tokio::select! {
                biased;
                Some(piece) = self.pieces.recv() => {
                    self.show(piece);
                    continue;
                }
                done = self.spinner.wait(&mut work) => done,
            };
            while let Ok(piece) = self.pieces.try_recv() {
                self.show(piece);
            }
            return done;
        }
    }

    fn show(&mut self, piece: Option<String>) {
        if let Some(text) = piece {
            self.spinner.hide();
            self.shown.print(&text);
            self.said.push_str(&text);
        } else if !self.said.is_empty() {
            self.shown.end();
            self.said.clear();
        }
    }

    /// Ends the line. Returns whether the answer was printed already.
    pub(crate) fn end(mut self, ended: &TaskOutcome) -> bool {
        self.spinner.hide();
        if self.said.is_empty() {
            return false;
        }
        self.shown.end();
        let answer = ended.answer.as_ref().map(|answer| answer.text.trim());
        answer == Some(self.said.trim())
    }
}
