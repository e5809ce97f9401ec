//! `convoke token`: makes a token for a service, for development.

use std::path::Path;

use convoke_model::{Clock as _, SystemClock};
use convoke_server::{AccessError, mint_token};
use serde_json::json;

use crate::cli::TokenArgs;
use crate::exit::Exit;
use crate::{output, start};

pub(crate) fn run(args: &TokenArgs, json: bool) -> anyhow::Result<Exit> {
    let settings = start::server_settings(&args.settings, &start::loader(Path::new("")), json)?;
    let jwt = settings.auth.jwt.as_ref().ok_or(AccessError::NoSecret)?;
    let now = SystemClock.now();
    let token = mint_token(jwt, &args.user, args.role.into(), now, args.expires)?;
    if json {
        output::json_line(&json!({ "token": token }));
    } else {
        output::line(token);
    }
    Ok(Exit::Done)
}
