//! `convoke token`: makes a token for a service, for development.

use std::path::Path;

use convoke_model::{Clock as _, SystemClock};
use convoke_server::{AccessError, NewToken, credential, mint_token};
use serde_json::json;

use crate::cli::TokenArgs;
use crate::exit::Exit;
use crate::{output, start};

pub(crate) fn run(args: &TokenArgs, json: bool) -> anyhow::Result<Exit> {
    let settings = start::server_settings(&args.settings, &start::loader(Path::new("")), json)?;
    let jwt = settings.auth.jwt.as_ref().ok_or(AccessError::NoSecret)?;
    let now = SystemClock.now();
    let new = NewToken {
        subject: &args.user,
        role: args.role.into(),
        apps: &args.app,
        lifetime: args.expires,
    };
    let token = mint_token(jwt, &new, now)?;
    credential("create_token", &args.user, new.role, None);
    if json {
        output::json_line(&json!({ "token": token }));
    } else {
        output::line(token);
    }
    Ok(Exit::Done)
}
