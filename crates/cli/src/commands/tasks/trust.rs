//! `convoke tasks trust`: lets a definition run that came from another store, once its user has seen what it
//! would run.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::io::{BufRead, IsTerminal};

use convoke_app::{Reach, StoredApp};
use convoke_store::{Definition, Filter, Page, Store, Viewer};
use serde_json::{Value, json};

use super::archive::visible;
use super::{LOOK_BACK, MIN_PREFIX};
use crate::cli::StoreArgs;
use crate::exit::{Exit, UsageError};
use crate::{output, start};

pub(super) async fn trust(
    text: &str,
    confirmed: bool,
    args: &StoreArgs,
    json: bool,
) -> anyhow::Result<Exit> {
    let store = start::open_existing_store(args)?;
    let definition = find(&*store, text).await?;
    let disclosure = Disclosure::of(&definition)?;
    if !definition.trusted {
        if !json {
            output::note(&disclosure);
        }
        if !confirmed && (json || !confirm()?) {
            let message = "nothing was changed; to let it run, say so with --yes";
            return Err(UsageError::new("trust.unconfirmed", message).into());
        }
        store.trust(&definition.hash).await?;
    }
    if json {
        let mut told = disclosure.json();
        told["trusted"] = true.into();
        output::json_line(&told);
    } else if definition.trusted {
        output::line(format!("{} is trusted already.", definition.hash));
    } else {
        output::line(format!(
            "{} is trusted. Its tasks go on when its app runs: `convoke resume APP`. A `serve` that is \
             running takes them up once it is started again.",
            definition.hash
        ));
    }
    Ok(Exit::Done)
}

/// Asks the person at the terminal. Nobody there is a no.
fn confirm() -> std::io::Result<bool> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() || !output::is_watched() {
        return Ok(false);
    }
    output::note("Let it run here? Type yes to do so:");
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "yes"))
}

/// The definition that a hash, or the beginning of one that a task names, stands for.
async fn find(store: &dyn Store, text: &str) -> anyhow::Result<Definition> {
    if let Some(definition) = store.definition(text).await? {
        return Ok(definition);
    }
    let page = Page {
        after: None,
        limit: LOOK_BACK,
    };
    let tasks = store
        .query(&Viewer::System, Filter::default(), page)
        .await?
        .tasks;
    let known: BTreeSet<&str> = tasks.iter().map(|task| task.definition.as_str()).collect();
    let hash = one_of(text, known.into_iter())?;
    let definition = store.definition(hash).await?;
    Ok(definition.ok_or_else(|| not_found(text))?)
}

/// The definitions that are named among those that there are.
pub(super) fn named(names: &[String], known: &[&str]) -> Result<HashSet<String>, UsageError> {
    let one = |name: &String| one_of(name, known.iter().copied()).map(str::to_owned);
    names.iter().map(one).collect()
}

fn one_of<'a>(text: &str, known: impl Iterator<Item = &'a str>) -> Result<&'a str, UsageError> {
    let fitting: Vec<&str> = known
        .filter(|hash| hash.starts_with(text) && text.len() >= MIN_PREFIX)
        .collect();
    match fitting.as_slice() {
        [only] => Ok(only),
        [] => Err(not_found(text)),
        [..] => {
            let message = format!("`{text}` is too short to name one definition; write more of it");
            Err(UsageError::new("definition.ambiguous", message))
        }
    }
}

fn not_found(text: &str) -> UsageError {
    let message = format!("there is no definition `{}`", visible(text));
    UsageError::new("definition.not_found", message)
}

/// What a definition would run, as its user is told.
pub(super) struct Disclosure {
    pub(super) hash: String,
    name: String,
    reach: Reach,
}

impl Disclosure {
    /// Refuses files that do not give the hash: what is shown must be what would run.
    pub(super) fn of(definition: &Definition) -> Result<Self, UsageError> {
        let hash = definition.hash.clone();
        match StoredApp::read(&definition.files) {
            Ok(app) if app.has_hash(&hash) => Ok(Self {
                hash,
                name: app.name,
                reach: app.reach,
            }),
            _ => {
                let message = format!("the stored files do not have the hash {hash}");
                Err(UsageError::new("app.definition_changed", message))
            }
        }
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "definition": self.hash, "app": self.name, "commands": self.reach.commands,
            "addresses": self.reach.addresses, "models": self.reach.models,
            "environment": self.reach.environment,
        })
    }
}

impl fmt::Display for Disclosure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reach {
            commands,
            addresses,
            models,
            environment,
        } = &self.reach;
        let (hash, name) = (&self.hash, visible(&self.name));
        writeln!(
            f,
            "{hash} of the app {name} came from another store. It would"
        )?;
        for command in commands {
            write!(f, "  start  ")?;
            pairs(f, &command.env, "=")?;
            write!(f, "{}", word(&command.command))?;
            for argument in &command.args {
                write!(f, " {}", word(argument))?;
            }
            writeln!(f, "  (tool server {})", visible(&command.server))?;
        }
        for address in addresses {
            let (url, server) = (visible(&address.url), visible(&address.server));
            writeln!(f, "  call   {url}  (tool server {server})")?;
            for (header, value) in &address.headers {
                writeln!(f, "    with {}: {}", visible(header), quoted(value))?;
            }
        }
        for model in models {
            let (endpoint, model) = (visible(&model.endpoint), visible(&model.model));
            writeln!(f, "  ask    {endpoint}  (model {model})")?;
        }
        if !environment.is_empty() {
            let names: Vec<&str> = environment.iter().map(String::as_str).collect();
            writeln!(f, "  read   {} from the environment", names.join(", "))?;
        }
        if self.reach == Reach::default() {
            writeln!(f, "  reach nothing outside Convoke.")?;
        }
        Ok(())
    }
}

fn pairs(f: &mut fmt::Formatter<'_>, of: &BTreeMap<String, String>, by: &str) -> fmt::Result {
    for (name, value) in of {
        write!(f, "{}{by}{} ", visible(name), word(value))?;
    }
    Ok(())
}

/// A part of a command, in quotes unless it is plainly one part.
fn word(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=@%+,".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    quoted(text)
}

fn quoted(text: &str) -> String {
    format!("{text:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_a_command_cannot_look_like_two_or_like_none() {
        for (text, shown) in [
            ("--db", "--db"),
            ("a b", "\"a b\""),
            ("", "\"\""),
            ("a\u{1b}[2K\r\u{202e}", "\"a\\u{1b}[2K\\r\\u{202e}\""),
        ] {
            assert_eq!(word(text), shown);
        }
    }

    #[test]
    fn a_definition_is_named_by_enough_of_its_hash() {
        let known = ["abcd1", "abcd2", "ef"];
        let one = |text| one_of(text, known.into_iter()).map_err(|error| error.code);
        assert_eq!(one("abcd1"), Ok("abcd1"));
        assert_eq!(one("abcd"), Err("definition.ambiguous"));
        assert_eq!(one("abce"), Err("definition.not_found"));
        assert_eq!(one("ef"), Err("definition.not_found"), "too little of one");
    }
}
