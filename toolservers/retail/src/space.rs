//! Spaces and their certified queries, the only SQL that runs for questions.

use crate::vocabulary::{self, CATEGORIES, Closed, REGIONS, SEGMENTS, WAREHOUSES};

/// One domain and its queries.
#[derive(Debug)]
pub(crate) struct Space {
    /// The domain's name.
    pub(crate) id: &'static str,
    /// Its data, in a sentence for clients.
    pub(crate) about: &'static str,
    /// The tools that ask and poll.
    pub(crate) query_tool: &'static str,
    pub(crate) poll_tool: &'static str,
    /// The values of `channel` in this space.
    pub(crate) channels: &'static [vocabulary::Value],
    pub(crate) queries: &'static [CertifiedQuery],
    /// Examples of questions that it does not answer, besides those of other spaces.
    pub(crate) out_of_scope: &'static [&'static str],
}

impl Space {
    /// The values of a closed parameter in this space.
    pub(crate) fn values(&self, closed: Closed) -> &'static [vocabulary::Value] {
        match closed {
            Closed::Category => CATEGORIES,
            Closed::Region => REGIONS,
            Closed::Segment => SEGMENTS,
            Closed::Channel => self.channels,
            Closed::Warehouse => WAREHOUSES,
            Closed::Campaign => &[],
        }
    }

    pub(crate) fn query(&self, id: &str) -> Option<&'static CertifiedQuery> {
        self.queries.iter().find(|query| query.id == id)
    }
}

/// A query whose SQL and meaning have been reviewed.
#[derive(Debug)]
pub(crate) struct CertifiedQuery {
    pub(crate) id: &'static str,
    pub(crate) description: &'static str,
    /// SQL with parameters bound by name. The names it uses are the parameters it takes.
    pub(crate) sql: &'static str,
    /// The default period, for a query that takes one.
    pub(crate) period: &'static str,
    pub(crate) products: Products,
    /// A value that questions name because the query is about it, such as new customers.
    pub(crate) implies: Option<&'static str>,
    /// Whether more of what it sorts is worse, as of abandoned carts. "Worst" then means the most.
    pub(crate) more_is_worse: bool,
    /// Example questions. Their parameters are removed for training.
    pub(crate) examples: &'static [&'static str],
    pub(crate) sentences: &'static [&'static str],
    pub(crate) answer: Sentence,
}

/// Whether a query is about named products.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Products {
    /// Optional, if it has the parameter.
    MayBeNamed,
    /// Required.
    Needed,
}

/// How a result is described. `{name}` is a column of the first row or a parameter; `{name:money}` is an
/// amount.
#[derive(Debug)]
pub(crate) struct Sentence {
    /// The text before the rows, or all of it.
    pub(crate) lead: &'static str,
    /// The text of one row; empty if the lead is all.
    pub(crate) each: &'static str,
    /// The text for an empty result.
    pub(crate) none: &'static str,
}

impl CertifiedQuery {
    /// Defaults of a query's fields.
    pub(crate) const PLAIN: Self = Self {
        id: "",
        description: "",
        sql: "",
        period: "last 30 days",
        products: Products::MayBeNamed,
        implies: None,
        more_is_worse: false,
        examples: &[],
        sentences: &[],
        answer: Sentence {
            lead: "",
            each: "",
            none: "Nothing fits{filters}{during}.",
        },
    };

    /// Whether the SQL uses this parameter.
    pub(crate) fn takes(&self, parameter: &str) -> bool {
        let mut found = self.sql.match_indices(parameter);
        found.any(|(at, _)| {
            let after = self.sql[at + parameter.len()..].chars().next();
            self.sql[..at].ends_with(':')
                && !after.is_some_and(|next| next.is_alphanumeric() || next == '_')
        })
    }

    /// Whether it has a row for every value of a parameter.
    pub(crate) fn compares(&self, parameter: &str) -> bool {
        self.answer.each.contains(&format!("{{{parameter}}}"))
    }

    pub(crate) fn takes_period(&self) -> bool {
        self.takes("from")
    }
}
