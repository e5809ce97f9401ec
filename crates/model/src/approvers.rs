//! Who may answer a question of a task.

use std::collections::BTreeSet;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::user::UserId;
use crate::valid::{Report, Rules};

/// The role in which somebody answers. A service reads it from the verified token.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum UserRole {
    /// A user of the app. They see their own tasks only.
    User,
    /// An operator of the app.
    Operator,
    /// An administrator. They may whatever an operator may.
    Admin,
}

impl UserRole {
    const ALL: [Self; 3] = [Self::User, Self::Operator, Self::Admin];

    /// The spelling in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for UserRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Somebody who answers a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answerer {
    /// Who it is.
    pub user: UserId,
    /// In which role.
    pub role: UserRole,
}

/// Who may answer a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Approvers {
    /// The roles that may answer; all by default.
    pub roles: BTreeSet<UserRole>,
    /// Whether the user who made the request may answer, in whatever role.
    pub requester: bool,
}

impl Default for Approvers {
    fn default() -> Self {
        Self {
            roles: UserRole::ALL.into(),
            requester: true,
        }
    }
}

impl Approvers {
    /// Whether somebody may answer a question about the request of this user, or why not.
    pub fn check(&self, answerer: Answerer, requester: UserId) -> Result<(), String> {
        let role = answerer.role;
        let may = self.roles.contains(&role)
            || (role == UserRole::Admin && self.roles.contains(&UserRole::Operator));
        if !may {
            let roles: Vec<&str> = self.roles.iter().map(|role| role.as_str()).collect();
            let roles = roles.join(" or ");
            return Err(format!(
                "this question is for the role {roles}, not for {role}"
            ));
        }
        if !self.requester && answerer.user == requester {
            return Err("whoever made the request does not answer this question".to_owned());
        }
        Ok(())
    }
}

impl Rules for Approvers {
    fn rules(&self, report: &mut Report) {
        let others = self.roles.iter().any(|role| *role != UserRole::User);
        report.require(
            others || (self.requester && !self.roles.is_empty()),
            "roles",
            "approvers.nobody",
            "nobody may answer: users see only their own requests; add operator or admin to roles",
        );
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_role_and_the_requester_decide_who_may_answer() {
        let (ann, bob) = (UserId(Uuid::from_u128(1)), UserId(Uuid::from_u128(2)));
        let by = |user, role| Answerer { user, role };
        let operators = Approvers {
            roles: [UserRole::Operator].into(),
            requester: false,
        };
        for (answerer, may) in [
            (by(bob, UserRole::Operator), true),
            (by(bob, UserRole::Admin), true),
            (by(bob, UserRole::User), false),
            (by(ann, UserRole::Operator), false),
        ] {
            assert_eq!(operators.check(answerer, ann).is_ok(), may, "{answerer:?}");
        }
        for role in UserRole::ALL {
            assert!(Approvers::default().check(by(ann, role), ann).is_ok());
        }
        let admins = Approvers {
            roles: [UserRole::Admin].into(),
            requester: true,
        };
        assert!(admins.check(by(ann, UserRole::Operator), ann).is_err());
    }
}
