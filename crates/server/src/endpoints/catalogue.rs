//! What an app consists of: its agents, skills, tools and domains.

use std::collections::BTreeMap;

use convoke::App;
use convoke_model::DomainTool;
use futures::FutureExt;
use http::Method;
use schemars::JsonSchema;
use serde::Serialize;

use super::{list_apps, schema_of};
use crate::reply::Reply;
use crate::resources::AgentResource;
use crate::route::{Answers, Route};

pub(super) const AGENTS: Route = Route {
    method: &Method::GET,
    path: "/api/v1/agents",
    name: "list_agents",
    summary: "The agents of the app, with their skills",
    answers: &[(200, Answers::Json(schema_of::<AgentList>))],
    handler: |call| {
        async move {
            let agents = list_apps::agents(&call.runtime()?.app());
            Ok(Reply::json(&AgentList { agents }))
        }
        .boxed()
    },
    ..Route::OF_USERS
};

pub(super) const SKILLS: Route = Route {
    path: "/api/v1/skills",
    name: "list_skills",
    summary: "What the app can do without a model",
    answers: &[(200, Answers::Json(schema_of::<SkillList>))],
    handler: |call| async move { Ok(Reply::json(&skills(&call.runtime()?.app()))) }.boxed(),
    ..AGENTS
};

pub(super) const TOOLS: Route = Route {
    path: "/api/v1/tools",
    name: "list_tools",
    summary: "The tools that the app names, and who uses them",
    answers: &[(200, Answers::Json(schema_of::<ToolList>))],
    handler: |call| async move { Ok(Reply::json(&tools(&call.runtime()?.app()))) }.boxed(),
    ..AGENTS
};

pub(super) const DOMAINS: Route = Route {
    path: "/api/v1/domains",
    name: "list_domains",
    summary: "The data that the app answers questions from",
    answers: &[(200, Answers::Json(schema_of::<DomainList>))],
    handler: |call| async move { Ok(Reply::json(&domains(&call.runtime()?.app()))) }.boxed(),
    ..AGENTS
};

/// The agents of an app.
#[derive(Debug, Serialize, JsonSchema)]
struct AgentList {
    agents: Vec<AgentResource>,
}

/// The skills of an app.
#[derive(Debug, Serialize, JsonSchema)]
struct SkillList {
    skills: Vec<AppSkill>,
}

/// A skill.
#[derive(Debug, Serialize, JsonSchema)]
struct AppSkill {
    name: String,
    /// The agent that has it.
    agent: String,
    description: String,
    examples: Vec<String>,
    /// The tool that it calls.
    tool: Option<String>,
    /// The workflow that it starts.
    workflow: Option<String>,
}

/// The tools of an app.
#[derive(Debug, Serialize, JsonSchema)]
struct ToolList {
    tools: Vec<AppTool>,
}

/// A tool, as the app names it.
#[derive(Debug, Serialize, JsonSchema)]
struct AppTool {
    name: String,
    /// The agents whose models may call it.
    agents: Vec<String>,
    /// The skills that call it, as `agent.skill`.
    skills: Vec<String>,
    /// The domains that it queries.
    domains: Vec<String>,
    /// The workflows that call it.
    workflows: Vec<String>,
}

/// The domains of an app.
#[derive(Debug, Serialize, JsonSchema)]
struct DomainList {
    domains: Vec<AppDomain>,
}

/// A data domain.
#[derive(Debug, Serialize, JsonSchema)]
struct AppDomain {
    name: String,
    display_name: String,
    description: String,
    capabilities: Vec<String>,
    examples: Vec<String>,
    related_domains: Vec<String>,
    /// Whether it is in use.
    enabled: bool,
}

fn skills(app: &App) -> SkillList {
    let of_agents = app.agents.iter().flat_map(|agent| {
        let skills = agent.skills.iter();
        skills.map(|skill| {
            let action = skill.action.as_ref();
            AppSkill {
                name: skill.name.to_string(),
                agent: agent.name.to_string(),
                description: skill.description.clone(),
                examples: skill.examples.clone(),
                tool: action.and_then(|action| action.tool.clone()),
                workflow: action.and_then(|action| Some(action.workflow.as_ref()?.to_string())),
            }
        })
    });
    SkillList {
        skills: of_agents.collect(),
    }
}

fn tools(app: &App) -> ToolList {
    let mut tools: BTreeMap<String, AppTool> = BTreeMap::new();
    let mut tool = |name: &str, note: &dyn Fn(&mut AppTool)| {
        let tool = tools.entry(name.to_owned()).or_insert_with(|| AppTool {
            name: name.to_owned(),
            agents: Vec::new(),
            skills: Vec::new(),
            domains: Vec::new(),
            workflows: Vec::new(),
        });
        note(tool);
    };
    for agent in &app.agents {
        for name in &agent.tools {
            tool(name, &|tool| tool.agents.push(agent.name.to_string()));
        }
        for skill in &agent.skills {
            let action = skill.action.as_ref();
            if let Some(name) = action.and_then(|action| action.tool.as_deref()) {
                let named = format!("{}.{}", agent.name, skill.name);
                tool(name, &|tool| tool.skills.push(named.clone()));
            }
        }
    }
    for domain in &app.domains {
        for name in domain.mcp_tools.iter().flat_map(DomainTool::tools) {
            tool(name, &|tool| tool.domains.push(domain.name.to_string()));
        }
    }
    for workflow in &app.workflows {
        for name in workflow
            .nodes
            .values()
            .filter_map(|node| node.tool.as_deref())
        {
            let named = workflow.name.to_string();
            tool(name, &|tool| {
                if !tool.workflows.contains(&named) {
                    tool.workflows.push(named.clone());
                }
            });
        }
    }
    ToolList {
        tools: tools.into_values().collect(),
    }
}

fn domains(app: &App) -> DomainList {
    let domains = app.domains.iter().map(|domain| AppDomain {
        name: domain.name.to_string(),
        display_name: domain.display_name.clone(),
        description: domain.description.clone(),
        capabilities: domain.capabilities.clone(),
        examples: domain.examples.clone(),
        related_domains: domain
            .related_domains
            .iter()
            .map(ToString::to_string)
            .collect(),
        enabled: domain.enabled,
    });
    DomainList {
        domains: domains.collect(),
    }
}
