//! A query's result, and the sentence that describes it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::parameters::Parameters;
use crate::space::Sentence;

/// Limit of rows in the sentence; the result has all of them.
const DESCRIBED_ROWS: usize = 12;

/// A query's result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Table {
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<Value>>,
}

impl Table {
    /// The product names in it, without duplicates.
    pub(crate) fn products(&self) -> Vec<String> {
        let mut products: Vec<String> = Vec::new();
        let Some(place) = self.columns.iter().position(|column| column == "product") else {
            return products;
        };
        for name in self.rows.iter().filter_map(|row| row[place].as_str()) {
            if products.iter().all(|known| known != name) {
                products.push(name.to_owned());
            }
        }
        products
    }

    fn cell(&self, row: usize, column: &str) -> Option<&Value> {
        let place = self.columns.iter().position(|name| name == column)?;
        self.rows.get(row)?.get(place)
    }
}

/// The sentence for a result.
pub(crate) fn describe(sentence: &Sentence, parameters: &Parameters, table: &Table) -> String {
    if table.rows.is_empty() {
        return fill(sentence.none, parameters, table, 0);
    }
    let lead = fill(sentence.lead, parameters, table, 0);
    if sentence.each.is_empty() {
        return format!("{lead}.");
    }
    let described_rows = table.rows.len().min(DESCRIBED_ROWS);
    let mut rows: Vec<String> = (0..described_rows)
        .map(|row| fill(sentence.each, parameters, table, row))
        .collect();
    if table.rows.len() > described_rows {
        rows.push(format!("and {} more", table.rows.len() - described_rows));
    }
    format!("{lead}: {}.", rows.join("; "))
}

/// Fills parameters and a row's cells into the template.
fn fill(template: &str, parameters: &Parameters, table: &Table, row: usize) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else {
            break;
        };
        text.push_str(before);
        let (name, form) = name.split_once(':').unwrap_or((name, ""));
        let value = parameters
            .as_words(name)
            .or_else(|| Some(spoken(table.cell(row, name)?, form == "money")));
        text.push_str(&value.unwrap_or_default());
        rest = after;
    }
    text.push_str(rest);
    text
}

fn spoken(value: &Value, money: bool) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if money => {
            let amount = format!("{:.2}", number.as_f64().unwrap_or_default());
            format!("{} EUR", grouped(&amount))
        }
        Value::Number(number) => {
            let number = number.to_string();
            grouped(number.strip_suffix(".0").unwrap_or(&number))
        }
        Value::Null => "none".to_owned(),
        other => other.to_string(),
    }
}

/// A number with thousands separators.
fn grouped(number: &str) -> String {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let (sign, digits) = whole
        .strip_prefix('-')
        .map_or(("", whole), |digits| ("-", digits));
    let mut text = sign.to_owned();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if !fraction.is_empty() {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SENTENCE: Sentence = Sentence {
        lead: "Sold{filters}",
        each: "{product} {units} units for {revenue:money}",
        none: "Nothing was sold{filters}.",
    };

    fn table(rows: Vec<Vec<Value>>) -> Table {
        Table {
            columns: ["product", "units", "revenue"].map(str::to_owned).to_vec(),
            rows,
        }
    }

    #[test]
    fn rows_are_told_one_after_the_other() {
        let table = table(vec![
            vec![json!("Desk Lamp"), json!(1200), json!(1_234_567.5)],
            vec![json!("Boat Shoes"), json!(7.0), json!(-1000)],
        ]);
        let parameters = Parameters {
            category: Some("home".to_owned()),
            ..Parameters::default()
        };
        assert_eq!(
            describe(&SENTENCE, &parameters, &table),
            "Sold in home: Desk Lamp 1,200 units for 1,234,567.50 EUR; Boat Shoes 7 units for \
             -1,000.00 EUR."
        );
        assert_eq!(table.products(), ["Desk Lamp", "Boat Shoes"]);
    }

    #[test]
    fn no_rows_have_a_sentence_of_their_own() {
        let text = describe(&SENTENCE, &Parameters::default(), &table(Vec::new()));
        assert_eq!(text, "Nothing was sold.");
    }

    #[test]
    fn long_results_are_described_in_part() {
        let row = vec![json!("Desk Lamp"), json!(1), json!(1)];
        let text = describe(&SENTENCE, &Parameters::default(), &table(vec![row; 20]));
        assert!(text.ends_with("and 8 more."), "{text}");
    }
}
