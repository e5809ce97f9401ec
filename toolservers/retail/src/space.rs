//! Spaces and their certified queries: the only SQL that is ever run for a question.

use crate::vocabulary::{self, CATEGORIES, Closed, REGIONS, SEGMENTS, WAREHOUSES};

/// What one domain can be asked.
#[derive(Debug)]
pub(crate) struct Space {
    /// The domain's name.
    pub(crate) id: &'static str,
    /// What its data is about, in a sentence for clients.
    pub(crate) about: &'static str,
    /// The tools that ask it and come back for the answer.
    pub(crate) query_tool: &'static str,
    pub(crate) poll_tool: &'static str,
    /// What `channel` means here.
    pub(crate) channels: &'static [vocabulary::Value],
    pub(crate) queries: &'static [CertifiedQuery],
    /// What people may ask it in vain, beside what belongs to other spaces.
    pub(crate) out_of_scope: &'static [&'static str],
}

impl Space {
    /// What a closed parameter can be here.
    pub(crate) fn values(&self, closed: Closed) -> &'static [vocabulary::Value] {
        match closed {
            Closed::Category => CATEGORIES,
            Closed::Region => REGIONS,
            Closed::Segment => SEGMENTS,
            Closed::Channel => self.channels,
            Closed::Warehouse => WAREHOUSES,
        }
    }

    pub(crate) fn query(&self, id: &str) -> Option<&'static CertifiedQuery> {
        self.queries.iter().find(|query| query.id == id)
    }
}

/// A query that somebody stands for.
#[derive(Debug)]
pub(crate) struct CertifiedQuery {
    pub(crate) id: &'static str,
    pub(crate) description: &'static str,
    /// Its parameters are bound by name. Which it names is what it takes.
    pub(crate) sql: &'static str,
    /// The period if the question names none, for a query that takes one.
    pub(crate) period: &'static str,
    pub(crate) products: Products,
    /// A value that a question names because the query is about it, such as new customers.
    pub(crate) implies: Option<&'static str>,
    /// Questions that it answers. They are learnt without their parameters.
    pub(crate) examples: &'static [&'static str],
    pub(crate) sentences: &'static [&'static str],
    pub(crate) answer: Sentence,
}

/// Whether a query is about products that the question names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Products {
    /// It takes them if it names the parameter.
    MayBeNamed,
    /// It makes no sense without them.
    Needed,
}

/// How a result is told. `{name}` is a column of the first row or a parameter; `{name:money}` is
/// an amount.
#[derive(Debug)]
pub(crate) struct Sentence {
    /// What comes before the rows, or all of it.
    pub(crate) lead: &'static str,
    /// How one row is told; nothing if the lead tells all.
    pub(crate) each: &'static str,
    /// What is said if there are no rows.
    pub(crate) none: &'static str,
}

impl CertifiedQuery {
    /// What a query has that says nothing else.
    pub(crate) const PLAIN: Self = Self {
        id: "",
        description: "",
        sql: "",
        period: "last 30 days",
        products: Products::MayBeNamed,
        implies: None,
        examples: &[],
        sentences: &[],
        answer: Sentence {
            lead: "",
            each: "",
            none: "Nothing fits{filters}{during}.",
        },
    };

    /// Whether the SQL names this parameter.
    pub(crate) fn takes(&self, parameter: &str) -> bool {
        let mut found = self.sql.match_indices(parameter);
        found.any(|(at, _)| {
            let after = self.sql[at + parameter.len()..].chars().next();
            self.sql[..at].ends_with(':')
                && !after.is_some_and(|next| next.is_alphanumeric() || next == '_')
        })
    }

    /// Whether it has a line for every value of a parameter.
    pub(crate) fn compares(&self, parameter: &str) -> bool {
        self.answer.each.contains(&format!("{{{parameter}}}"))
    }

    pub(crate) fn takes_period(&self) -> bool {
        self.takes("from")
    }
}
