//! The starters: small apps that run as they are, to be changed.

/// A small app to start from.
#[derive(Debug, Clone, Copy)]
pub struct Starter {
    /// Its name, such as `todo`.
    pub name: &'static str,
    /// What it shows, in a line.
    pub description: &'static str,
    /// A request to try it with.
    pub request: &'static str,
    /// Its files, with their paths.
    pub(crate) files: &'static [(&'static str, &'static str)],
}

macro_rules! files {
    ($folder:literal: $($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!($folder, $path)))),*]
    };
}

/// All starters; the first one is made if none is named.
pub const STARTERS: [Starter; 4] = [
    Starter {
        name: "todo",
        description: "an assistant without a model: sentences, slots, one tool call and a reply",
        request: "remind me to buy milk",
        files: files!(
            "../starters/todo/": "convoke.yaml", "agents/assistant.yaml",
            "config/mcp_servers.yaml", "evals/create_task.yaml",
        ),
    },
    Starter {
        name: "model",
        description: "an assistant with a model, built-in tools and a budget",
        request: "what day is it?",
        files: files!("../starters/model/": "convoke.yaml", "agents/assistant.yaml", "evals/day.yaml"),
    },
    Starter {
        name: "approval",
        description: "a workflow that asks a person before it changes anything",
        request: "order a desk for the office",
        files: files!(
            "../starters/approval/": "convoke.yaml", "agents/clerk.yaml",
            "config/mcp_servers.yaml", "workflows/main.yaml", "evals/questions.yaml",
        ),
    },
    Starter {
        name: "python",
        description: "an app with a tool server of its own, in Python",
        request: "put rice into the pantry",
        files: files!(
            "../../../examples/pantry/": "convoke.yaml", "agents/keeper.yaml",
            "config/mcp_servers.yaml", "evals/requests.yaml", "tools/server.py",
        ),
    },
];

/// The placeholder for the app's name in `convoke.yaml`.
const PLACEHOLDER: &str = "name: NAME";

impl Starter {
    /// A starter by its name.
    pub fn named(name: &str) -> Option<&'static Self> {
        STARTERS.iter().find(|starter| starter.name == name)
    }

    /// The text of each file in an app of this name.
    pub(crate) fn texts(&self, name: &str) -> impl Iterator<Item = (&'static str, String)> {
        let named = format!("name: {name}");
        self.files.iter().map(move |(path, text)| {
            let text = match *path {
                "convoke.yaml" => text
                    .replace(PLACEHOLDER, &named)
                    .replace("name: pantry", &named),
                _ => (*text).to_owned(),
            };
            (*path, text)
        })
    }
}
