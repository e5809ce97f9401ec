//! The route table: every endpoint once. Routing, the OpenAPI document, metrics labels and the tests of who sees what are
//! made from it.

use convoke::Runtime;
use convoke_model::UserRole;
use futures::future::BoxFuture;
use http::Method;
use schemars::{Schema, SchemaGenerator};

use crate::call::Call;
use crate::endpoints::{self, schema_of};
use crate::problem::{Problem, ProblemDetails};
use crate::reply::Reply;

/// Who may call an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody, without a token.
    Public,
    /// Whoever has this role, or one above it.
    Role(UserRole),
}

/// Where an endpoint stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Once, for the whole service.
    Service,
    /// For every app: under `/apps/NAME`, and at the root for the app of the root.
    App,
}

/// The form of a successful answer.
#[derive(Clone, Copy)]
pub(crate) enum Answers {
    /// A JSON document.
    Json(SchemaOf),
    /// A stream of server-sent events.
    Events,
    /// Another media type.
    Text(&'static str),
    /// Any media type.
    Binary,
    /// A status alone.
    Nothing,
}

/// The form of an answer that is an error.
#[derive(Clone, Copy)]
pub(crate) struct Errors {
    pub(crate) media_type: &'static str,
    pub(crate) schema: SchemaOf,
    /// Writes an error, with the app of the path if there is one.
    pub(crate) write: fn(Problem, Option<&Runtime>) -> Reply,
}

impl Errors {
    /// Problem details.
    pub(crate) const PROBLEMS: Self = Self {
        media_type: "application/problem+json",
        schema: schema_of::<ProblemDetails>,
        write: |problem, _| problem.into(),
    };
}

pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;
pub(crate) type Handler = fn(Call) -> BoxFuture<'static, Result<Reply, Problem>>;

/// A parameter of the query.
#[derive(Clone, Copy)]
pub(crate) struct QueryParameter {
    pub(crate) name: &'static str,
    pub(crate) schema: SchemaOf,
    pub(crate) description: &'static str,
}

/// An endpoint.
#[derive(Clone, Copy)]
pub struct Route {
    /// The method.
    pub method: &'static Method,
    /// The path, with parameters in braces. `{task}`, `{blob}` and `{conversation}` name things that belong to a
    /// user.
    pub path: &'static str,
    /// Where it stands.
    pub scope: Scope,
    /// Who may call it.
    pub access: Access,
    /// Whether an operator sees the things of all users of the app here. Everybody else sees their own.
    pub operated: bool,
    /// Whether every call is written to the audit log.
    pub audited: bool,
    /// Its name in the OpenAPI document, in metrics and in logs.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    pub(crate) query: &'static [QueryParameter],
    pub(crate) request: Option<SchemaOf>,
    pub(crate) answers: &'static [(u16, Answers)],
    pub(crate) errors: Errors,
    pub(crate) handler: Handler,
}

impl Route {
    /// An endpoint of every app and for every user, of which the rest is to be filled in.
    pub(crate) const OF_USERS: Self = Self {
        method: &Method::GET,
        path: "",
        scope: Scope::App,
        access: Access::Role(UserRole::User),
        operated: false,
        audited: false,
        name: "",
        summary: "",
        query: &[],
        request: None,
        answers: &[],
        errors: Errors::PROBLEMS,
        handler: |_| {
            let missing = Problem::not_found("service.no_such_path", "there is nothing here");
            Box::pin(std::future::ready(Err(missing)))
        },
    };
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

/// The table.
pub fn routes() -> &'static [Route] {
    endpoints::TABLE
}

/// The values of a path's parameters.
#[derive(Debug, Clone, Default)]
pub(crate) struct PathParameters(Vec<(&'static str, String)>);

impl PathParameters {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// The endpoint of a path.
pub(crate) enum Found {
    Route {
        route: &'static Route,
        /// The app that the path names.
        app: Option<String>,
        parameters: PathParameters,
    },
    /// The path exists with these methods only.
    OtherMethods(Vec<&'static Method>),
    Nothing,
}

/// Finds the endpoint of a request.
pub(crate) fn find(method: &Method, path: &str) -> Found {
    let (app, rest) = match path
        .strip_prefix("/apps/")
        .and_then(|rest| rest.split_once('/'))
    {
        Some((app, rest)) => (Some(app), rest),
        None => (None, path.strip_prefix('/').unwrap_or(path)),
    };
    let reachable = routes().iter();
    let reachable = reachable.filter(|route| app.is_none() || route.scope == Scope::App);
    let mut matching: Vec<_> = reachable
        .filter_map(|route| Some((route, matches(route.path, rest)?)))
        .collect();
    // A path that is written out is not one with a parameter, whatever the method.
    if matching.iter().any(|(_, parameters)| parameters.is_empty()) {
        matching.retain(|(_, parameters)| parameters.is_empty());
    }
    let methods: Vec<_> = matching.iter().map(|(route, _)| route.method).collect();
    let mut matching = matching.into_iter();
    match matching.find(|(route, _)| route.method == method) {
        Some((route, parameters)) => Found::Route {
            route,
            app: app.map(Into::into),
            parameters,
        },
        None if methods.is_empty() => Found::Nothing,
        None => Found::OtherMethods(methods),
    }
}

fn matches(template: &'static str, path: &str) -> Option<PathParameters> {
    let mut parameters = PathParameters::default();
    let mut segments = path.split('/');
    for expected in template.trim_start_matches('/').split('/') {
        let segment = segments.next()?;
        match expected
            .strip_prefix('{')
            .and_then(|name| name.strip_suffix('}'))
        {
            Some(name) if !segment.is_empty() => parameters.0.push((name, segment.into())),
            None if expected == segment => {}
            _ => return None,
        }
    }
    segments.next().is_none().then_some(parameters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_and_method_stands_in_the_table_once() {
        let mut seen = std::collections::BTreeSet::new();
        let mut names = std::collections::BTreeSet::new();
        for route in routes() {
            assert!(
                seen.insert((route.path, route.method.as_str())),
                "{route:?}"
            );
            assert!(names.insert(route.name), "{route:?}");
            assert!(route.path.starts_with('/'), "{route:?}");
        }
    }

    #[test]
    fn a_path_is_found_for_an_app_and_at_the_root_and_nothing_else_is() {
        let found = |method, path| match find(method, path) {
            Found::Route {
                route,
                app,
                parameters,
            } => Some((route.name, app, parameters.get("task").map(str::to_owned))),
            _ => None,
        };
        let task = Some("7".to_owned());
        let root = found(&Method::GET, "/api/v1/tasks/7");
        assert_eq!(root, Some(("get_task", None, task.clone())));
        let of_app = found(&Method::GET, "/apps/todo/api/v1/tasks/7");
        assert_eq!(of_app, Some(("get_task", Some("todo".into()), task)));
        for path in [
            "/api/v1/tasks/7/",
            "/api/v1/tasks//cancel",
            "/apps/todo/healthz",
            "/apps/todo",
            "//",
            "",
        ] {
            assert_eq!(found(&Method::GET, path), None, "{path}");
        }
        let Found::OtherMethods(methods) = find(&Method::DELETE, "/api/v1/tasks") else {
            panic!("the path exists")
        };
        assert_eq!(methods, [&Method::POST, &Method::GET]);
        let Found::OtherMethods(methods) = find(&Method::GET, "/api/v1/tasks/cancel") else {
            panic!("it is no task")
        };
        assert_eq!(methods, [&Method::POST]);
    }
}
