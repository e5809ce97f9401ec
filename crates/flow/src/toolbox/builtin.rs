//! The built-in tools: time, arithmetic and waiting.

use std::sync::Arc;
use std::time::Duration;

use convoke_app::BUILTIN_SERVER;
use convoke_model::Clock;
use convoke_tools::ToolReply;
use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::calculate::{self, MAX_EXPRESSION_CHARACTERS};
use super::rust_tool::{RustTool, ToolError};

/// The longest that `wait` waits. A tool's own time limit may be shorter.
pub const MAX_WAIT_SECONDS: u32 = 86_400;

/// Format of the time, RFC 3339.
const RFC_3339: &str = "%Y-%m-%dT%H:%M:%S%:z";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CurrentTime {
    /// IANA name of a time zone, such as Europe/Paris. UTC if left out.
    #[serde(default)]
    timezone: Option<String>,
}

/// Result of `current_time`.
#[derive(Debug, PartialEq, Serialize)]
struct CurrentTimeReply {
    time: String,
    weekday: String,
    unix: i64,
    timezone: String,
}

#[derive(Deserialize)]
struct Calculate {
    expression: String,
}

#[derive(Deserialize)]
struct Wait {
    seconds: f64,
}

/// The built-in tools, with this clock.
pub(super) fn tools(clock: Arc<dyn Clock>) -> Vec<RustTool> {
    vec![
        RustTool::new(
            "current_time",
            "The present date, time and weekday, in UTC or in a time zone.",
            move |_, arguments: CurrentTime| {
                std::future::ready(current_time(clock.now(), arguments.timezone.as_deref()))
            },
        ),
        RustTool::with_schema(
            "calculate",
            "Calculates an arithmetic expression, such as (3 + 4) * 2.5. Knows + - \
             * / % ^, parentheses, sqrt, abs, round, floor, ceil, min and max.",
            calculate_schema(),
            |_, arguments: Calculate| {
                let outcome = calculate::calculate(&arguments.expression)
                    .map(|result| json!({ "result": calculate::as_json(result) }))
                    .map_err(|error| ToolError::new(error.code(), error.to_string()));
                std::future::ready(outcome)
            },
        ),
        RustTool::with_schema(
            "wait",
            "Waits before going on.",
            wait_schema(),
            |_, arguments: Wait| async move {
                let time = Duration::try_from_secs_f64(arguments.seconds)
                    .map_err(|error| ToolError::new("wait.seconds", error.to_string()))?;
                tokio::time::sleep(time).await;
                Ok(json!({ "waited_seconds": arguments.seconds }))
            },
        ),
    ]
    .into_iter()
    .map(|tool| tool.server(BUILTIN_SERVER).read_only())
    .collect()
}

/// How long a call of `builtin.wait` waits. `None` for any other tool, and for arguments that the tool rejects.
pub(crate) fn wait_time(tool: &str, arguments: &Map<String, Value>) -> Option<Duration> {
    let is_wait = tool.split_once('.') == Some((BUILTIN_SERVER, "wait")) && arguments.len() == 1;
    let seconds = arguments.get("seconds").filter(|_| is_wait)?.as_f64()?;
    if !(0.0..=f64::from(MAX_WAIT_SECONDS)).contains(&seconds) {
        return None;
    }
    Duration::try_from_secs_f64(seconds).ok()
}

/// The reply of `builtin.wait` after its time.
pub(crate) fn waited(arguments: &Map<String, Value>) -> ToolReply {
    let mut reply = ToolReply::of(
        BUILTIN_SERVER,
        "wait",
        json!({ "waited_seconds": arguments.get("seconds") }),
    );
    reply.changed_nothing = true;
    reply
}

fn calculate_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "expression": {
                "type": "string",
                "description": "What to calculate, such as (3 + 4) * 2.5.",
                "minLength": 1,
                "maxLength": MAX_EXPRESSION_CHARACTERS,
            },
        },
        "required": ["expression"],
        "additionalProperties": false,
    })
}

fn wait_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "seconds": {
                "type": "number",
                "description": "How long to wait.",
                "minimum": 0,
                "maximum": MAX_WAIT_SECONDS,
            },
        },
        "required": ["seconds"],
        "additionalProperties": false,
    })
}

/// Uses the bundled time zones, so that results do not depend on the machine.
fn current_time(now: Timestamp, timezone: Option<&str>) -> Result<CurrentTimeReply, ToolError> {
    let zone = match timezone {
        None => TimeZone::UTC,
        Some(name) => TimeZoneDatabase::bundled().get(name).map_err(|_| {
            let message = format!(
                "there is no time zone `{name}`; write an IANA name such as Europe/Paris, or UTC"
            );
            ToolError::new("time.zone_unknown", message)
        })?,
    };
    let there = now.to_zoned(zone);
    Ok(CurrentTimeReply {
        time: there.strftime(RFC_3339).to_string(),
        weekday: there.strftime("%A").to_string(),
        unix: now.as_second(),
        timezone: there.time_zone().iana_name().unwrap_or("UTC").to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use convoke_app::BUILTIN_TOOLS;
    use convoke_model::SystemClock;

    use super::*;

    #[test]
    fn the_time_is_given_in_any_bundled_time_zone() {
        let moment: Timestamp = "2026-07-04T22:30:00Z".parse().unwrap();
        let paris = current_time(moment, Some("Europe/Paris")).unwrap();
        assert_eq!(
            paris,
            CurrentTimeReply {
                time: "2026-07-05T00:30:00+02:00".into(),
                weekday: "Sunday".into(),
                unix: 1_783_204_200,
                timezone: "Europe/Paris".into(),
            }
        );
        let here = current_time(moment, None).unwrap();
        assert_eq!(
            (
                here.time.as_str(),
                here.weekday.as_str(),
                here.timezone.as_str()
            ),
            ("2026-07-04T22:30:00+00:00", "Saturday", "UTC")
        );
        let winter: Timestamp = "2026-01-04T12:00:00Z".parse().unwrap();
        let kathmandu = current_time(winter, Some("Asia/Kathmandu")).unwrap();
        assert_eq!(kathmandu.time, "2026-01-04T17:45:00+05:45");
    }

    #[test]
    fn an_unknown_time_zone_is_an_error() {
        for name in ["Europe/Atlantis", "", "../../etc/passwd", "CET-1CEST"] {
            let error = current_time(Timestamp::UNIX_EPOCH, Some(name)).unwrap_err();
            assert_eq!(error.code, "time.zone_unknown", "{name}");
            assert!(error.message.contains("Europe/Paris"), "{error}");
        }
    }

    #[test]
    fn apps_are_checked_against_the_built_in_tools() {
        let mut box_of_tools: Vec<String> = tools(Arc::new(SystemClock))
            .iter()
            .map(|tool| format!("{tool:?}"))
            .collect();
        box_of_tools.sort();
        assert_eq!(box_of_tools.len(), BUILTIN_TOOLS.len());
        for (tool, name) in box_of_tools.iter().zip(BUILTIN_TOOLS) {
            assert!(tool.contains(&format!("name: \"{name}\"")), "{tool} {name}");
            assert!(tool.contains("ReadOnly"), "{tool}");
        }
    }
}
