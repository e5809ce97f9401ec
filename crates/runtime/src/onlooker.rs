//! Who looks at an app's tasks: one of its users, or a viewer that the caller has made.

use convoke_model::UserId;
use convoke_store::Viewer;

use crate::runtime::Runtime;

/// Who looks: a [`UserId`] sees what is that user's, a [`Viewer`] whatever it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Onlooker {
    /// A user of the app.
    User(UserId),
    /// Somebody whose rights the caller has checked.
    Viewer(Viewer),
}

impl From<UserId> for Onlooker {
    fn from(user: UserId) -> Self {
        Self::User(user)
    }
}

impl From<Viewer> for Onlooker {
    fn from(viewer: Viewer) -> Self {
        Self::Viewer(viewer)
    }
}

impl Onlooker {
    pub(crate) fn viewer(self, runtime: &Runtime) -> Viewer {
        match self {
            Self::User(user) => runtime.viewer(user),
            Self::Viewer(viewer) => viewer,
        }
    }
}
