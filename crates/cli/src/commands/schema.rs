//! `convoke schema`: the JSON Schema of every type that Convoke reads or writes.

use crate::exit::{Exit, UsageError};
use crate::output;

pub(crate) fn run(name: Option<&str>, json: bool) -> anyhow::Result<Exit> {
    let schemas = convoke_app::schemas();
    let Some(name) = name else {
        let names: Vec<_> = schemas.iter().map(|(name, _)| name.as_ref()).collect();
        if json {
            output::json_line(&names);
        } else {
            output::line(names.join("\n"));
        }
        return Ok(Exit::Done);
    };
    let found = schemas
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name));
    let Some((_, schema)) = found else {
        let nearest = schemas
            .iter()
            .map(|(known, _)| known.as_ref())
            .min_by_key(|known: &&str| {
                strsim::damerau_levenshtein(&known.to_lowercase(), &name.to_lowercase())
            });
        return Err(UsageError::new(
            "schema.unknown",
            format!(
                "there is no type `{name}`; did you mean `{}`? `convoke schema` lists all",
                nearest.unwrap_or_default()
            ),
        )
        .into());
    };
    if json {
        output::json_line(schema);
    } else {
        output::json_lines(schema);
    }
    Ok(Exit::Done)
}
