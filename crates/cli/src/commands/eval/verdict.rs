//! What came of one case.

use serde::Serialize;

/// What came of one case. A measure that the case does not speak of is left out.
#[derive(Debug, Serialize)]
pub(super) struct Verdict {
    pub(super) file: String,
    pub(super) case: String,
    pub(super) said: String,
    pub(super) reply: String,
    pub(super) intent: Option<bool>,
    pub(super) targets: Option<bool>,
    pub(super) slots: Option<bool>,
    pub(super) calls: Option<bool>,
    pub(super) reply_fits: Option<bool>,
    pub(super) answer_fits: Option<bool>,
    /// The intent that was wanted, and the one that was found.
    pub(super) intents: Option<(String, String)>,
    /// Each target that was wanted, with the one that was found.
    pub(super) chosen: Option<Vec<ExpectedActual>>,
    /// What was wanted and what came instead.
    pub(super) wrong: Vec<String>,
}

/// What was wanted, and what was found in its place. One of them may be missing.
pub(super) type ExpectedActual = (Option<String>, Option<String>);

impl Verdict {
    /// Of a case that nothing was compared of yet.
    pub(super) fn of(file: &str, said: &str) -> Self {
        Self {
            file: file.to_owned(),
            case: said.to_owned(),
            said: said.to_owned(),
            reply: String::new(),
            intent: None,
            targets: None,
            slots: None,
            calls: None,
            reply_fits: None,
            answer_fits: None,
            intents: None,
            chosen: None,
            wrong: Vec::new(),
        }
    }

    /// Whether everything came out as it must.
    pub(super) fn is_right(&self) -> bool {
        self.wrong.is_empty()
    }
}
