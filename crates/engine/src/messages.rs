//! The messages of a task: a list that only grows. Calls under way hold it as it was when they began, so it is shared, and
//! adding to it copies no more than its newest part.

use std::borrow::Cow;
use std::sync::Arc;

use convoke_model::Message;

/// The messages of a task so far. A clone is cheap.
///
/// They are in segments, each as long as all that come after it, or longer: there are few, and a message that is added
/// while clones exist is copied as many times as there are segments, however many messages there are.
#[derive(Debug, Clone, Default)]
pub struct Messages {
    segments: Vec<Arc<Vec<Message>>>,
}

impl Messages {
    /// Adds a message.
    pub(crate) fn push(&mut self, message: Message) {
        if let Some(last) = self.segments.last_mut()
            && let Some(last) = Arc::get_mut(last)
        {
            last.push(message);
        } else {
            self.segments.push(Arc::new(vec![message]));
        }
        while let [.., before, last] = &mut self.segments[..]
            && before.len() <= last.len()
        {
            let last = std::mem::take(Arc::make_mut(last));
            Arc::make_mut(before).extend(last);
            self.segments.pop();
        }
    }

    /// The first message: the request.
    pub fn first(&self) -> Option<&Message> {
        self.segments.first()?.first()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.segments.iter().map(|segment| segment.len()).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// The messages, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Message> + Clone {
        self.segments.iter().flat_map(|segment| segment.iter())
    }

    /// The messages as one slice. Copies them where they are in several segments.
    pub fn as_slice(&self) -> Cow<'_, [Message]> {
        match &self.segments[..] {
            [segment] => Cow::Borrowed(segment),
            _ => self.iter().cloned().collect(),
        }
    }
}

impl Extend<Message> for Messages {
    fn extend<I: IntoIterator<Item = Message>>(&mut self, messages: I) {
        messages.into_iter().for_each(|message| self.push(message));
    }
}

impl FromIterator<Message> for Messages {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Self {
        let messages: Vec<_> = messages.into_iter().collect();
        let segments = if messages.is_empty() {
            Vec::new()
        } else {
            vec![Arc::new(messages)]
        };
        Self { segments }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn message(number: usize) -> Message {
        Message::user(number.to_string(), Timestamp::UNIX_EPOCH).unwrap()
    }

    fn numbers(messages: &Messages) -> Vec<usize> {
        let said = messages.iter().map(|message| message.content.parse());
        said.collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn each_clone_keeps_the_messages_that_it_has() {
        let mut messages = Messages::default();
        let mut clones = Vec::new();
        for number in 0..200 {
            clones.push(messages.clone());
            messages.push(message(number));
            if number % 7 == 0 {
                clones.remove(clones.len() / 2);
            }
        }
        clones.push(messages);
        for clone in clones {
            let number = clone.len();
            assert_eq!(numbers(&clone), (0..number).collect::<Vec<_>>());
            assert_eq!(clone.as_slice().len(), number);
            assert_eq!(clone.is_empty(), number == 0);
            assert_eq!(clone.first(), clone.iter().next());
            assert_eq!(clone.iter().next_back(), clone.as_slice().last());
        }
    }

    /// How many messages are copied while so many are added and a clone of every state is held for a while.
    fn copied(number: usize) -> usize {
        let mut messages = Messages::default();
        let mut held = Vec::new();
        let mut copied = 0;
        for added in 0..number {
            held.push(messages.clone());
            if held.len() > 4 {
                held.remove(0);
            }
            let before: Vec<_> = messages.segments.iter().map(Arc::as_ptr).collect();
            messages.push(message(added));
            // A segment of its own holds what was added and what was copied into it.
            let new = messages.segments.iter();
            let new = new.filter(|segment| !before.contains(&Arc::as_ptr(segment)));
            copied += new.map(|segment| segment.len()).sum::<usize>();
        }
        copied
    }

    #[test]
    fn messages_that_calls_hold_are_not_copied_again_and_again() {
        let (once, twice) = (copied(5_000), copied(10_000));
        assert!(twice * 10 <= once * 22, "{once}, then {twice}");
    }

    #[test]
    fn messages_that_nobody_else_holds_stay_where_they_are() {
        let mut messages: Messages = [message(0)].into_iter().collect();
        messages.extend((1..1_000).map(message));
        assert!(matches!(messages.as_slice(), Cow::Borrowed(_)));
        assert_eq!(messages.len(), 1_000);
        assert!(Messages::from_iter([]).is_empty());
    }
}
