//! What a certified query is run with: checked against what it takes, and bound by name.

use rusqlite::types::Value;
use serde::{Deserialize, Serialize};

use crate::calendar::LAST_DAY;
use crate::error::{MAX_LIMIT, Refusal};
use crate::period::Period;
use crate::reading::Given;
use crate::space::{CertifiedQuery, Products};
use crate::vocabulary::Closed;

/// How many lines are told if the question does not say.
pub(crate) const DEFAULT_LIMIT: i64 = 5;

/// The parameters of one run. What the query does not take, or what was not limited, is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Parameters {
    #[serde(flatten)]
    pub(crate) period: Option<Period>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) category: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) region: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) segment: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) channel: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) warehouse: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) products: Vec<String>,
}

/// Why a query cannot be run as it was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// It takes no such parameter. To leave it out would answer another question.
    NotTaken(&'static str),
    /// It is about products, and none was named.
    NoProducts,
    Refused(Refusal),
}

impl Parameters {
    /// What the query takes if nothing is said.
    pub(crate) fn usual(query: &CertifiedQuery) -> Self {
        Self {
            period: query.takes_period().then(|| Period::named(query.period)),
            limit: query.takes("limit").then_some(DEFAULT_LIMIT),
            ..Self::default()
        }
    }

    /// These, changed by what a question says.
    pub(crate) fn changed(mut self, query: &CertifiedQuery, given: &Given) -> Result<Self, Unfit> {
        for closed in Closed::ALL {
            let values = given.closed.get(&closed).map(Vec::as_slice);
            match values.unwrap_or_default() {
                [] => {}
                [value] if query.implies == Some(*value) => {}
                // A query that tells of every channel tells of those that are compared.
                [_, _, ..] if query.compares(closed.name()) => {}
                _ if !query.takes(closed.name()) => return Err(Unfit::NotTaken(closed.name())),
                [value] => *self.value_mut(closed) = Some((*value).to_owned()),
                _ => return Err(Unfit::Refused(Refusal::OneAtATime(closed.name()))),
            }
        }
        if let Some(period) = &given.period {
            if query.takes_period() {
                self.period = Some(period.clone().covered().map_err(Unfit::Refused)?);
            } else if !period.holds_today() {
                // What is only known of today cannot be told of another time.
                return Err(Unfit::NotTaken("period"));
            }
        }
        if let Some(limit) = given.limit
            && query.takes("limit")
        {
            if !(1..=MAX_LIMIT).contains(&limit) {
                return Err(Unfit::Refused(Refusal::Limit));
            }
            self.limit = Some(limit);
        }
        if !given.products.is_empty() {
            if !query.takes("products") {
                return Err(Unfit::NotTaken("product"));
            }
            self.products = given
                .products
                .iter()
                .map(|name| (*name).to_owned())
                .collect();
            // Whoever names seven products wants to hear of seven.
            let named = i64::try_from(self.products.len()).unwrap_or(MAX_LIMIT);
            if given.limit.is_none() && self.limit.is_some() {
                self.limit = self.limit.max(Some(named.min(MAX_LIMIT)));
            }
        }
        if query.products == Products::Needed && self.products.is_empty() {
            return Err(Unfit::NoProducts);
        }
        Ok(self)
    }

    /// The value of one of the SQL's parameters.
    pub(crate) fn bound(&self, name: &str) -> Value {
        let text = |value: &Option<String>| value.clone().map_or(Value::Null, Value::Text);
        let day = |day: jiff::civil::Date| Value::Text(day.to_string());
        match name {
            "from" => self
                .period
                .as_ref()
                .map_or(Value::Null, |period| day(period.from)),
            "to" => self
                .period
                .as_ref()
                .map_or(Value::Null, |period| day(period.to)),
            "category" => text(&self.category),
            "region" => text(&self.region),
            "segment" => text(&self.segment),
            "channel" => text(&self.channel),
            "warehouse" => text(&self.warehouse),
            "limit" => self.limit.map_or(Value::Null, Value::Integer),
            "products" if !self.products.is_empty() => {
                Value::Text(serde_json::json!(self.products).to_string())
            }
            _ => Value::Null,
        }
    }

    /// What it was limited to, in words that follow a noun.
    pub(crate) fn filters(&self) -> String {
        let parts = [
            self.category
                .as_ref()
                .map(|category| format!(" in {category}")),
            self.region
                .as_ref()
                .map(|region| format!(" in the {region}")),
            self.segment
                .as_ref()
                .map(|segment| format!(" for {segment} customers")),
            self.channel
                .as_ref()
                .map(|channel| format!(" by {channel}")),
            self.warehouse
                .as_ref()
                .map(|warehouse| format!(" in {warehouse}")),
        ];
        parts.into_iter().flatten().collect()
    }

    /// The period in words, with its days.
    pub(crate) fn during(&self) -> String {
        self.period.as_ref().map_or_else(String::new, |period| {
            format!(" {} ({} to {})", period.words, period.from, period.to)
        })
    }

    /// A single parameter in words.
    pub(crate) fn told(&self, name: &str) -> Option<String> {
        match name {
            "filters" => Some(self.filters()),
            "during" => Some(self.during()),
            "today" => Some(LAST_DAY.to_string()),
            _ => None,
        }
    }

    fn value_mut(&mut self, closed: Closed) -> &mut Option<String> {
        match closed {
            Closed::Category => &mut self.category,
            Closed::Region => &mut self.region,
            Closed::Segment => &mut self.segment,
            Closed::Channel => &mut self.channel,
            Closed::Warehouse => &mut self.warehouse,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::read;
    use crate::spaces;

    fn asked(space: &str, query: &str, question: &str) -> Result<Parameters, Unfit> {
        let space = spaces::by_id(space).unwrap();
        let query = space.query(query).unwrap();
        Parameters::usual(query).changed(query, &read(question, space).given)
    }

    #[test]
    fn what_is_not_said_is_as_usual_and_told() {
        let usual = asked("sales", "best_selling_products", "bestsellers").unwrap();
        assert_eq!(usual.limit, Some(5));
        assert_eq!(
            usual.during(),
            " in the last 30 days (2026-09-01 to 2026-09-30)"
        );
        assert_eq!(
            serde_json::json!(usual),
            serde_json::json!({
                "period": "in the last 30 days",
                "from": "2026-09-01",
                "to": "2026-09-30",
                "limit": 5,
            })
        );
    }

    #[test]
    fn what_a_query_does_not_take_is_not_left_out_silently() {
        let region = asked("inventory", "low_stock_products", "low stock in the north");
        assert_eq!(region, Err(Unfit::NotTaken("region")));
        let past = asked("inventory", "low_stock_products", "low stock last month");
        assert_eq!(past, Err(Unfit::NotTaken("period")));
        assert!(asked("inventory", "low_stock_products", "low stock today").is_ok());
        let product = asked("sales", "revenue_by_region", "Merino Socks by region");
        assert_eq!(product, Err(Unfit::NotTaken("product")));
    }

    #[test]
    fn values_that_are_compared_are_all_told_of() {
        let two = asked(
            "customer_behavior",
            "abandonment_by_channel",
            "Do app users abandon more carts than web users?",
        );
        assert_eq!(two.map(|two| two.channel), Ok(None));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let two = asked(
            "sales",
            "total_revenue",
            "revenue in the north and the south",
        );
        assert_eq!(two, Err(Unfit::Refused(Refusal::OneAtATime("region"))));
        for many in [
            "top 0 products",
            "top 51 products",
            "top 99999999999999999999",
        ] {
            let asked = asked("sales", "best_selling_products", many);
            assert_eq!(asked, Err(Unfit::Refused(Refusal::Limit)), "{many}");
        }
        let none = asked("inventory", "stock_of_products", "are they in stock");
        assert_eq!(none, Err(Unfit::NoProducts));
    }

    #[test]
    fn as_many_lines_are_told_as_products_are_named() {
        let named = "Merino Socks, Desk Lamp, Smart Watch, Power Bank, Boat Shoes, Silk Blouse";
        let asked = asked("customer_behavior", "most_abandoned_products", named).unwrap();
        assert_eq!(asked.limit, Some(6));
    }
}
