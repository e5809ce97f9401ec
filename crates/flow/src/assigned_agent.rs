//! The agent that a task is assigned to, as its state and its messages tell.

use convoke_model::{Message, Name};
use serde_json::Value;

/// The agent that works on a task, or worked on it last, by the state after an entry and the messages until then. Of a workflow
/// in which no agent has worked, it is the workflow. `None` while it is not known who works on it, and for questions to data
/// domains alone.
pub fn assigned_agent<'a>(
    state: &Value,
    messages: impl DoubleEndedIterator<Item = &'a Message>,
) -> Option<Name> {
    let (program, metadata) = (&state["program"], &state["answer"]["metadata"]);
    let first = |told: &[&Value]| {
        let mut names = told.iter().filter_map(|told| told.as_str());
        names.find_map(|name| Name::new(name).ok())
    };
    let open = state["open"].as_array().into_iter().flatten();
    let at_work = open.map(|call| match &call["request"]["ask"] {
        Value::Null => &call["request"]["agent"],
        at_node => &at_node["agent"],
    });
    let at_work: Vec<_> = at_work.collect();
    let told = [
        &program["walk"]["state"]["current_agent"],
        &program["run"]["agent"],
        &program["target"]["agent"],
        &metadata["output"]["current_agent"],
        &metadata["agent"],
    ];
    let otherwise = [
        &program["decision"]["targets"][0]["agent"],
        &program["walk"]["workflow"],
        &metadata["workflow"],
    ];
    let spoke = || messages.rev().find_map(|message| message.agent.clone());
    first(&at_work)
        .or_else(|| first(&told))
        .or_else(spoke)
        .or_else(|| first(&otherwise))
}
