//! The parameters of a certified query: validated, and bound by name.

use rusqlite::types::Value;
use serde::{Deserialize, Serialize};

use crate::calendar::LAST_DAY;
use crate::error::{MAX_LIMIT, Refusal};
use crate::period::Period;
use crate::reading::GivenParameters;
use crate::space::{CertifiedQuery, Products};
use crate::vocabulary::Closed;

/// The default number of rows.
pub(crate) const DEFAULT_LIMIT: i64 = 5;

/// The parameters of one run. Those that the query does not take, or that are not restricted, are
/// absent.
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
    pub(crate) campaign: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) products: Vec<String>,
}

/// Why a query cannot run with the given parameters.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ParameterError {
    /// The query has no such parameter. Ignoring it would answer another question.
    NotTaken(&'static str),
    /// It needs products, and none was named.
    NoProducts,
    Refused(Refusal),
}

impl Parameters {
    /// The query's defaults.
    pub(crate) fn defaults(query: &CertifiedQuery) -> Self {
        Self {
            period: query.takes_period().then(|| Period::named(query.period)),
            limit: query.takes("limit").then_some(DEFAULT_LIMIT),
            ..Self::default()
        }
    }

    /// Applies the parameters of a question.
    pub(crate) fn changed(
        mut self,
        query: &CertifiedQuery,
        given_parameters: &GivenParameters,
    ) -> Result<Self, ParameterError> {
        for closed in Closed::ALL {
            let values = given_parameters.closed.get(&closed).map(Vec::as_slice);
            match values.unwrap_or_default() {
                [] => {}
                [value] if query.implies == Some(*value) => {}
                // A query that compares channels shows all of the named ones.
                [_, _, ..] if query.compares(closed.name()) => {}
                _ if !query.takes(closed.name()) => {
                    return Err(ParameterError::NotTaken(closed.name()));
                }
                [value] => *self.value_mut(closed) = Some((*value).to_owned()),
                _ => return Err(ParameterError::Refused(Refusal::OneAtATime(closed.name()))),
            }
        }
        if let Some(period) = &given_parameters.period {
            if query.takes_period() {
                self.period = Some(period.clone().covered().map_err(ParameterError::Refused)?);
            } else if !period.holds_today() {
                // Data about today only cannot be given for another period.
                return Err(ParameterError::NotTaken("period"));
            }
        }
        if let Some(limit) = given_parameters.limit
            && query.takes("limit")
        {
            if !(1..=MAX_LIMIT).contains(&limit) {
                return Err(ParameterError::Refused(Refusal::Limit));
            }
            self.limit = Some(limit);
        }
        if !given_parameters.products.is_empty() {
            if !query.takes("products") {
                return Err(ParameterError::NotTaken("product"));
            }
            self.products = given_parameters
                .products
                .iter()
                .map(|name| (*name).to_owned())
                .collect();
            // Seven named products need seven rows.
            let named = i64::try_from(self.products.len()).unwrap_or(MAX_LIMIT);
            if given_parameters.limit.is_none() && self.limit.is_some() {
                self.limit = self.limit.max(Some(named.min(MAX_LIMIT)));
            }
        }
        if query.products == Products::Needed && self.products.is_empty() {
            return Err(ParameterError::NoProducts);
        }
        Ok(self)
    }

    /// The value of an SQL parameter.
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
            "campaign" => text(&self.campaign),
            "limit" => self.limit.map_or(Value::Null, Value::Integer),
            "products" if !self.products.is_empty() => {
                Value::Text(serde_json::json!(self.products).to_string())
            }
            _ => Value::Null,
        }
    }

    /// The restrictions, as words that follow a noun.
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
            self.campaign
                .as_ref()
                .map(|campaign| format!(" for {campaign}")),
        ];
        parts.into_iter().flatten().collect()
    }

    /// The period as words, with its days.
    pub(crate) fn during(&self) -> String {
        self.period.as_ref().map_or_else(String::new, |period| {
            format!(" {} ({} to {})", period.words, period.from, period.to)
        })
    }

    /// One parameter as words.
    pub(crate) fn as_words(&self, name: &str) -> Option<String> {
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
            Closed::Campaign => &mut self.campaign,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::read;
    use crate::spaces;

    fn parameters_of(
        space: &str,
        query: &str,
        question: &str,
    ) -> Result<Parameters, ParameterError> {
        let space = spaces::by_id(space).unwrap();
        let query = space.query(query).unwrap();
        Parameters::defaults(query).changed(query, &read(question, space).given_parameters)
    }

    #[test]
    fn defaults_are_used_and_described() {
        let defaults = parameters_of("sales", "best_selling_products", "bestsellers").unwrap();
        assert_eq!(defaults.limit, Some(5));
        assert_eq!(
            defaults.during(),
            " in the last 30 days (2026-09-01 to 2026-09-30)"
        );
        assert_eq!(
            serde_json::json!(defaults),
            serde_json::json!({
                "period": "in the last 30 days",
                "from": "2026-09-01",
                "to": "2026-09-30",
                "limit": 5,
            })
        );
    }

    #[test]
    fn an_unsupported_parameter_is_not_ignored() {
        let region = parameters_of("inventory", "low_stock_products", "low stock in the north");
        assert_eq!(region, Err(ParameterError::NotTaken("region")));
        let past = parameters_of("inventory", "low_stock_products", "low stock last month");
        assert_eq!(past, Err(ParameterError::NotTaken("period")));
        assert!(parameters_of("inventory", "low_stock_products", "low stock today").is_ok());
        let product = parameters_of("sales", "revenue_by_region", "Merino Socks by region");
        assert_eq!(product, Err(ParameterError::NotTaken("product")));
    }

    #[test]
    fn compared_values_are_all_described() {
        let two = parameters_of(
            "customer_behavior",
            "abandonment_by_channel",
            "Do app users abandon more carts than web users?",
        );
        assert_eq!(two.map(|two| two.channel), Ok(None));
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let two = parameters_of(
            "sales",
            "total_revenue",
            "revenue in the north and the south",
        );
        assert_eq!(
            two,
            Err(ParameterError::Refused(Refusal::OneAtATime("region")))
        );
        for many in [
            "top 0 products",
            "top 51 products",
            "top 99999999999999999999",
        ] {
            let parameters = parameters_of("sales", "best_selling_products", many);
            assert_eq!(
                parameters,
                Err(ParameterError::Refused(Refusal::Limit)),
                "{many}"
            );
        }
        let none = parameters_of("inventory", "stock_of_products", "are they in stock");
        assert_eq!(none, Err(ParameterError::NoProducts));
    }

    #[test]
    fn the_number_of_rows_follows_the_named_products() {
        let named = "Merino Socks, Desk Lamp, Smart Watch, Power Bank, Boat Shoes, Silk Blouse";
        let parameters =
            parameters_of("customer_behavior", "most_abandoned_products", named).unwrap();
        assert_eq!(parameters.limit, Some(6));
    }
}
