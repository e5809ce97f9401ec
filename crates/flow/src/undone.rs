//! Why a part of a request was not done, in the words of the user. Operators read the cause itself.

/// The cause of a part that did not end in time.
pub(crate) const TIME_OVER: &str = "its time limit passed";

/// The cause in plain words. `who` is the agent that did not do its part; `passing` is whether the same request may
/// succeed later.
pub(crate) fn in_user_words(who: &str, cause: &str, passing: bool) -> String {
    let who = who.replace('_', " ");
    let code = cause.split(':').next().unwrap_or_default();
    let problem = code.rsplit('.').next().unwrap_or_default().trim();
    match problem {
        "timeout" | "timed_out" | "deadline" | "stalled" | TIME_OVER => {
            format!("{who} took too long")
        }
        "not_reached" | "not_sent" | "connection_lost" | "unreachable" | "overloaded" => {
            format!("{who} is not available at the moment")
        }
        _ if passing => format!("{who} is not available at the moment"),
        "rejected" => "it was not approved".to_owned(),
        "unanswered" => "nobody approved it in time".to_owned(),
        _ if code.starts_with("budget.") => format!("{who} needed more than it may use"),
        _ => format!("something went wrong with {who}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_becomes_words_without_it() {
        for (cause, passing, expected) in [
            (
                "tool.not_reached: the tool server `music` could not be reached: 503",
                false,
                "music box is not available at the moment",
            ),
            (
                "llm.overloaded: 529",
                true,
                "music box is not available at the moment",
            ),
            (
                "x.busy: one at a time",
                true,
                "music box is not available at the moment",
            ),
            (
                "tool.timeout: no answer within 5s",
                true,
                "music box took too long",
            ),
            (TIME_OVER, false, "music box took too long"),
            ("call.rejected: not now", false, "it was not approved"),
            (
                "budget.tokens: the task's budget of tokens is used up",
                false,
                "music box needed more than it may use",
            ),
            (
                "tool.failed: no speaker",
                false,
                "something went wrong with music box",
            ),
            ("", false, "something went wrong with music box"),
        ] {
            assert_eq!(
                in_user_words("music_box", cause, passing),
                expected,
                "{cause}"
            );
        }
    }
}
