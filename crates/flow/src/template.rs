//! Renders replies and arguments from templates of the app.

use convoke_app::{TemplateContext, TemplateLanguage};
use serde_json::Value;

/// Renders the app's templates.
#[derive(Debug)]
pub(crate) struct Templates(TemplateLanguage);

impl Templates {
    pub(crate) fn new() -> Self {
        Self(TemplateLanguage::new())
    }

    /// Renders a template to trimmed text.
    pub(crate) fn text(
        &self,
        template: &str,
        context: &(impl TemplateContext + ?Sized),
    ) -> Result<String, String> {
        let text = self.0.text(template, context);
        text.map(|text| text.trim().to_owned())
            .map_err(|fault| fault.to_string())
    }

    /// Evaluates an expression.
    pub(crate) fn expression(
        &self,
        expression: &str,
        context: &(impl TemplateContext + ?Sized),
    ) -> Result<Value, String> {
        let value = self.0.value(expression, context);
        value.map_err(|fault| fault.to_string())
    }

    /// A value whose strings are templates. A string that is one expression keeps the expression's
    /// type, so that a number stays a number.
    pub(crate) fn value(
        &self,
        template: &Value,
        context: &(impl TemplateContext + ?Sized),
    ) -> Result<Value, String> {
        match template {
            Value::String(text) => match lone_expression(text) {
                Some(expression) => self.expression(expression, context),
                None => self.text(text, context).map(Value::String),
            },
            Value::Array(items) => items
                .iter()
                .map(|item| self.value(item, context))
                .collect::<Result<_, _>>()
                .map(Value::Array),
            Value::Object(fields) => fields
                .iter()
                .map(|(key, field)| Ok((key.clone(), self.value(field, context)?)))
                .collect::<Result<_, _>>()
                .map(Value::Object),
            plain => Ok(plain.clone()),
        }
    }
}

/// The expression inside `{{ … }}`, if a text is nothing else.
fn lone_expression(text: &str) -> Option<&str> {
    let inner = text.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    // `-` and `+` at the edge control white space outside, of which there is none here.
    let inner = inner.strip_prefix(['-', '+']).unwrap_or(inner);
    let inner = inner.strip_suffix(['-', '+']).unwrap_or(inner);
    (!inner.contains("{{") && !inner.contains("}}")).then(|| inner.trim())
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    fn context() -> Map<String, Value> {
        match json!({"title": "buy {{ milk }}", "count": 3}) {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }

    #[test]
    fn a_lone_expression_keeps_its_type_and_user_text_is_never_a_template() {
        let templates = Templates::new();
        let arguments =
            json!({"title": "{{ title }}", "count": "{{- count -}}", "note": "n={{ count }}"});
        let rendered = templates.value(&arguments, &context()).unwrap();
        assert_eq!(
            rendered,
            json!({"title": "buy {{ milk }}", "count": 3, "note": "n=3"})
        );
    }

    #[test]
    fn a_template_that_never_ends_is_stopped() {
        let endless =
            "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}";
        assert!(
            Templates::new()
                .text(endless, &Map::<String, Value>::new())
                .is_err()
        );
    }
}
