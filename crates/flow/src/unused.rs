//! What the data domains say that they did not use of their questions, and what of it nobody used.

use std::collections::BTreeSet;

use crate::catalogue::words;

/// A question that a domain answered.
pub(crate) struct AnsweredQuestion<'a> {
    pub(crate) question: &'a str,
    /// The parts of it that the domain did not use.
    pub(crate) unused: &'a [String],
}

impl AnsweredQuestion<'_> {
    fn uses(&self, part: &[String]) -> bool {
        let asked: BTreeSet<String> = words(self.question).into_iter().collect();
        let unused: BTreeSet<String> = self.unused.iter().flat_map(|part| words(part)).collect();
        part.iter()
            .all(|word| asked.contains(word) && !unused.contains(word))
    }
}

/// What no domain used, each word once. Domains that get the same question share it: a word that one of them uses is
/// used. `is_for_another` is whether a part names a domain that gave no answer; the answer says that anyway.
pub(crate) fn unused_by_all(
    answered: &[AnsweredQuestion<'_>],
    is_for_another: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut named: BTreeSet<Vec<String>> = BTreeSet::new();
    let mut all: Vec<String> = Vec::new();
    for part in answered.iter().flat_map(|answered| answered.unused) {
        if is_for_another(part) {
            continue;
        }
        let unused = part.split_whitespace().filter(|token| {
            let token = words(token);
            let is_used = answered.iter().any(|other| other.uses(&token));
            !token.is_empty() && !is_used && named.insert(token)
        });
        let unused: Vec<&str> = unused.collect();
        if !unused.is_empty() {
            all.push(unused.join(" "));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_another_domain_uses_is_used() {
        let both = "low stock items that sell fastest in Germany";
        let (stock, sales) = (
            ["fastest in Germany".to_owned(), "sell".to_owned()],
            ["low".to_owned(), "in Germany".to_owned()],
        );
        let answered = [
            AnsweredQuestion {
                question: both,
                unused: &stock,
            },
            AnsweredQuestion {
                question: both,
                unused: &sales,
            },
        ];
        assert_eq!(unused_by_all(&answered, |_| false), ["in Germany"]);
        let first = &answered[..1];
        assert_eq!(
            unused_by_all(first, |part| part == "sell"),
            ["fastest in Germany"]
        );
    }
}
