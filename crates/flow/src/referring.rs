//! Which of several skills is meant where the same words may refer to things of several kinds: "cancel the second one"
//! after a list of orders, in an app with orders and appointments.

use convoke_decide::{Candidate, FoundBy, LocalDecision, Verdict};
use convoke_model::Reference;

use crate::catalogue::Catalogue;
use crate::memory::{Item, Memory, RequestTarget};
use crate::reference::{MentionedItems, ReferenceMatch, Wording, find, wording};

/// How well the words of a reference fit what was shown of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// Nothing is known for it.
    None,
    /// Several things of the kind may be meant.
    Several,
    /// A thing of the kind is meant: it was shown last, or has the label.
    One,
    /// The words name the kind.
    Noun,
}

/// Resolves an ambiguous decision between skills whose sentences match equally well: chooses the one whose reference
/// fits best what the conversation has shown.
pub(crate) fn of_kind(
    skills: &Catalogue,
    mut local: LocalDecision,
    memory: &Memory,
) -> LocalDecision {
    if local.verdict != Verdict::Ambiguous {
        return local;
    }
    let fits: Vec<Fit> = local
        .plausible()
        .iter()
        .map(|candidate| fit(skills, candidate, memory))
        .collect();
    let best = fits.iter().copied().max().unwrap_or(Fit::None);
    let mut fitting = fits.iter().enumerate().filter(|(_, fit)| **fit == best);
    if best > Fit::None
        && let (Some((index, _)), None) = (fitting.next(), fitting.next())
    {
        local.candidates = vec![local.candidates.swap_remove(index)];
        local.verdict = Verdict::Chosen;
    }
    local
}

/// The best fit of a candidate's references.
fn fit(skills: &Catalogue, candidate: &Candidate, memory: &Memory) -> Fit {
    let Some(RequestTarget::Skill(target)) = skills.target(&candidate.entry) else {
        return Fit::None;
    };
    let Some(skill) = skills
        .skill(target)
        .filter(|_| candidate.by == FoundBy::Pattern)
    else {
        return Fit::None;
    };
    let slots = skill.slots.iter();
    let references = slots.filter_map(|(name, slot)| {
        let words = candidate.slots.get(&name.as_str().replace('-', "_"))?;
        Some((slot.refers_to.as_ref()?, words))
    });
    let fits = references.map(|(reference, words)| fit_of(reference, words, memory));
    fits.max().unwrap_or(Fit::None)
}

fn fit_of(reference: &Reference, words: &str, memory: &Memory) -> Fit {
    let kind = reference.kind();
    let is_shown = |items: &[Item]| items.iter().any(|item| item.kind == kind);
    let shown = |items| if is_shown(items) { Fit::One } else { Fit::None };
    match wording(words, &reference.nouns) {
        (_, true) => Fit::Noun,
        (Wording::Pointer, _) => shown(&memory.shown),
        (Wording::Position, _) => shown(&memory.listed),
        (Wording::Label, _) => {
            let items = memory.mentioned.iter().filter(|item| item.kind == kind);
            let items: Vec<Item> = items.cloned().collect();
            match find(words, &items, MentionedItems::list(&items), &[]) {
                ReferenceMatch::One(_) => Fit::One,
                ReferenceMatch::Many(_) => Fit::Several,
                ReferenceMatch::Nothing => Fit::None,
            }
        }
    }
}
