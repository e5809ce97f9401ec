//! Counts work in tests: values passed to templates, nodes and edges visited. Unlike time, it does not depend on the
//! machine.

/// Adds to the work of this thread.
#[cfg(not(test))]
pub(crate) const fn count(_steps: usize) {}

/// Adds the size of a value, in JSON values, to the work of this thread.
#[cfg(not(test))]
pub(crate) const fn count_value(_value: &serde_json::Value) {}

#[cfg(test)]
pub(crate) use counting::{count, count_value, of};

#[cfg(test)]
mod counting {
    use std::cell::Cell;

    use serde_json::Value;

    thread_local! {
        static STEPS: Cell<usize> = const { Cell::new(0) };
    }

    /// Adds to the work of this thread.
    pub(crate) fn count(steps: usize) {
        STEPS.set(STEPS.get() + steps);
    }

    /// Adds the size of a value, in JSON values, to the work of this thread.
    pub(crate) fn count_value(value: &Value) {
        count(1);
        match value {
            Value::Array(items) => items.iter().for_each(count_value),
            Value::Object(fields) => fields.values().for_each(count_value),
            _ => {}
        }
    }

    /// The work that a closure does on this thread.
    pub(crate) fn of(work: impl FnOnce()) -> usize {
        let before = STEPS.get();
        work();
        STEPS.get() - before
    }
}
