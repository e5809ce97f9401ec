//! `convoke keys`: makes, lists and revokes the API keys of a service.

use std::path::Path;

use convoke_model::{Clock as _, SystemClock};
use convoke_server::{
    KeyError, KeyFile, NewKey, ServerConfig, StoredKey, credential, user_of_name,
};
use jiff::Timestamp;
use serde_json::json;

use crate::cli::KeysCommand;
use crate::exit::{Exit, UsageError};
use crate::times::second;
use crate::{output, start};

pub(crate) fn run(command: &KeysCommand, json: bool) -> anyhow::Result<Exit> {
    let now = SystemClock.now();
    match command {
        KeysCommand::Create {
            settings,
            user,
            role,
            app,
            name,
            expires,
        } => {
            let settings = read(settings, json)?;
            let user = user_of_name(settings.auth.jwt.as_ref(), user)
                .map_err(|reason| UsageError::new("keys.user", reason))?;
            let new = NewKey {
                name: name.clone(),
                user,
                role: (*role).into(),
                apps: app.clone(),
                created_at: now,
                expires_at: now.checked_add(*expires).unwrap_or(Timestamp::MAX),
            };
            let (key, text) = file(&settings)?.create(new)?;
            let by = key.user.to_string();
            credential("create_key", &by, key.role, Some(&key.id));
            if json {
                let mut object = told(&key, now);
                object["key"] = text.into();
                output::json_line(&object);
            } else {
                output::line(text);
                let until = second(key.expires_at);
                output::note(format!(
                    "key {} until {until}; it is shown only now",
                    key.id
                ));
            }
        }
        KeysCommand::List { settings } => {
            list(&file(&read(settings, json)?)?.keys()?, now, json);
        }
        KeysCommand::Revoke { id, settings } => {
            let key = file(&read(settings, json)?)?.revoke(id, now)?;
            let of = key.user.to_string();
            credential("revoke_key", &of, key.role, Some(&key.id));
            if json {
                output::json_line(&told(&key, now));
            } else {
                output::note(format!("key {} is revoked", key.id));
            }
        }
    }
    Ok(Exit::Done)
}

fn read(settings: &Path, json: bool) -> anyhow::Result<ServerConfig> {
    start::server_settings(settings, &start::loader(Path::new("")), json)
}

fn file(settings: &ServerConfig) -> Result<KeyFile, KeyError> {
    let path = settings.auth.keys_file.as_ref();
    path.map(KeyFile::new).ok_or(KeyError::NoFile)
}

fn list(keys: &[StoredKey], now: Timestamp, json: bool) {
    if json {
        for key in keys {
            output::json_line(&told(key, now));
        }
        return;
    }
    if keys.is_empty() {
        output::line("No keys.");
        return;
    }
    let rows: Vec<_> = keys
        .iter()
        .map(|key| {
            let apps = key.apps.join(", ");
            [
                key.id.clone(),
                key.name.clone().unwrap_or_default(),
                key.user.to_string(),
                key.role.to_string(),
                if apps.is_empty() { "all".into() } else { apps },
                second(key.expires_at),
                state(key, now).to_owned(),
            ]
        })
        .collect();
    let headings = ["KEY", "NAME", "USER", "ROLE", "APPS", "UNTIL", "STATE"];
    output::line(output::table(headings, &rows, &[]));
}

fn told(key: &StoredKey, now: Timestamp) -> serde_json::Value {
    json!({
        "id": key.id, "name": key.name, "user": key.user, "role": key.role, "apps": key.apps,
        "created_at": key.created_at, "expires_at": key.expires_at, "revoked_at": key.revoked_at,
        "state": state(key, now),
    })
}

fn state(key: &StoredKey, now: Timestamp) -> &'static str {
    if key.revoked_at.is_some() {
        "revoked"
    } else if key.is_valid(now) {
        "valid"
    } else {
        "expired"
    }
}
