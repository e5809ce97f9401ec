//! The apps that run here, with what their agents can do.

use convoke::App;
use futures::FutureExt;
use http::Method;

use super::schema_of;
use crate::reply::Reply;
use crate::resources::{AgentResource, AppList, AppResource, SkillResource};
use crate::route::{Answers, Route, Scope};

pub(super) const ROUTE: Route = Route {
    method: &Method::GET,
    path: "/api/v1/apps",
    scope: Scope::Service,
    name: "list_apps",
    summary: "The apps that run here",
    answers: &[(200, Answers::Json(schema_of::<AppList>))],
    handler: |call| {
        async move {
            let apps = call.service.registry().apps();
            let apps = apps.iter().map(|runtime| runtime.app());
            let apps = apps.filter(|app| call.principal.may_use(app.config.name.as_str()));
            let apps = apps.map(|app| resource(&app));
            Ok(Reply::json(&AppList {
                apps: apps.collect(),
            }))
        }
        .boxed()
    },
    ..Route::OF_USERS
};

pub(super) fn agents(app: &App) -> Vec<AgentResource> {
    let agents = app.agents.iter().map(|agent| AgentResource {
        name: agent.name.to_string(),
        description: agent.role.clone(),
        skills: agent
            .skills
            .iter()
            .map(|skill| SkillResource {
                name: skill.name.to_string(),
                description: skill.description.clone(),
                examples: skill.examples.clone(),
            })
            .collect(),
    });
    agents.collect()
}

pub(super) fn resource(app: &App) -> AppResource {
    AppResource {
        name: app.config.name.to_string(),
        description: app.config.description.clone(),
        version: app.config.version.clone(),
        path: format!("/apps/{}", app.config.name),
        agents: agents(app),
        workflows: app
            .workflows
            .iter()
            .map(|workflow| workflow.name.to_string())
            .collect(),
    }
}
