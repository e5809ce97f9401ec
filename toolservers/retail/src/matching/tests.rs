//! Questions worded differently from all examples, and questions that must be declined.

use super::*;

mod declined;
mod held_out;
mod questions;

/// The query of a first question, if it is answered.
fn answered(matcher: &Matcher, space: &str, question: &str) -> Option<&'static str> {
    let space = spaces::by_id(space).unwrap();
    let understood = matcher.understand(space, question, None);
    understood.ok().map(|(query, _)| query.id)
}

/// Whether a question is literally one of the examples.
fn copied(question: &str) -> bool {
    let question_words = words(question);
    let mut queries = spaces::ALL.iter().flat_map(|space| space.queries);
    queries.any(|query| {
        query
            .examples
            .iter()
            .any(|example| words(example) == question_words)
    })
}

/// The number of questions that find their query, and the failures.
fn judge(questions: &[(&str, &str, &str)]) -> (usize, Vec<String>) {
    let matcher = Matcher::new().unwrap();
    let (mut right, mut wrong) = (0, Vec::new());
    for (space, query, question) in questions {
        assert!(!copied(question), "an example: {question}");
        let found = answered(&matcher, space, question);
        if found == Some(query) {
            right += 1;
        } else {
            wrong.push(format!("{space}: {question} -> {found:?}, not {query}"));
        }
    }
    (right, wrong)
}

#[test]
fn differently_worded_questions_find_their_query() {
    let (right, wrong) = judge(questions::QUESTIONS);
    let all = questions::QUESTIONS.len();
    println!("{right} of {all} right; {wrong:#?}");
    assert!(all >= 100);
    for space in spaces::ALL {
        let own = questions::QUESTIONS
            .iter()
            .filter(|(of, ..)| *of == space.id);
        assert!(own.count() >= 20, "{}", space.id);
    }
    assert!(right * 100 >= all * 95, "{right} of {all}: {wrong:#?}");
}

#[test]
fn held_out_questions_find_their_query_or_none() {
    let (right, wrong) = judge(held_out::QUESTIONS);
    let all = held_out::QUESTIONS.len();
    println!("{right} of {all} right; {wrong:#?}");
    assert!(right * 100 >= all * 80, "{right} of {all}: {wrong:#?}");
    let guessed = wrong.iter().filter(|wrong| wrong.contains("Some(")).count();
    assert!(guessed * 100 <= all * 5, "{wrong:#?}");
}

#[test]
fn unanswerable_questions_are_declined() {
    let matcher = Matcher::new().unwrap();
    let mut guessed = Vec::new();
    let everywhere = declined::EVERYWHERE
        .iter()
        .flat_map(|question| spaces::ALL.iter().map(move |space| (space.id, *question)));
    let all: Vec<_> = declined::IN_ONE_SPACE
        .iter()
        .copied()
        .chain(everywhere)
        .collect();
    for (space, question) in &all {
        assert!(!copied(question) || declined::IN_ONE_SPACE.contains(&(space, question)));
        if let Some(query) = answered(&matcher, space, question) {
            guessed.push(format!("{space}: {question} -> {query}"));
        }
    }
    println!("{} declined of {}", all.len() - guessed.len(), all.len());
    assert!(declined::EVERYWHERE.len() + declined::IN_ONE_SPACE.len() >= 40);
    assert!(guessed.is_empty(), "{guessed:#?}");
}

#[test]
fn the_questions_of_one_space_are_declined_in_all_others() {
    let matcher = Matcher::new().unwrap();
    let mut guessed = Vec::new();
    let mut all = 0;
    for (home, _, question) in questions::QUESTIONS {
        for space in spaces::ALL.iter().filter(|space| space.id != *home) {
            all += 1;
            if let Some(query) = answered(&matcher, space.id, question) {
                guessed.push(format!("{space}: {question} -> {query}", space = space.id));
            }
        }
    }
    println!("{} declined of {all}; {guessed:#?}", all - guessed.len());
    // Words alone cannot always distinguish "sales" from the sales of campaigns.
    assert!(guessed.len() * 100 <= all * 2, "{guessed:#?}");
}

#[test]
fn every_example_finds_its_own_query() {
    let matcher = Matcher::new().unwrap();
    for space in spaces::ALL {
        for query in space.queries {
            for example in query.examples {
                let reading = reading::read(example, space);
                let found = matcher.find(space, example, &reading).map(|found| found.id);
                assert_eq!(found, Some(query.id), "{}: {example}", space.id);
            }
        }
    }
}

/// The parts of an answered question that its query does not use.
fn unused(matcher: &Matcher, space: &str, question: &str) -> Option<Vec<String>> {
    let space = spaces::by_id(space).unwrap();
    let (query, _) = matcher.understand(space, question, None).ok()?;
    let reading = reading::read(question, space);
    Some(unused::unused(question, &reading, space, query))
}

#[test]
fn a_question_that_is_answered_as_a_whole_has_no_unused_part() {
    let matcher = Matcher::new().unwrap();
    let all = questions::QUESTIONS.iter().chain(held_out::QUESTIONS);
    let (mut answered, mut alarms) = (0, Vec::new());
    for (space, query, question) in all {
        if let Some(unused) = unused(&matcher, space, question) {
            answered += 1;
            if !unused.is_empty() {
                alarms.push(format!("{query}: {question} -> {unused:?}"));
            }
        }
    }
    println!(
        "{} of {answered} with an unused part; {alarms:#?}",
        alarms.len()
    );
    assert!(
        alarms.len() * 100 <= answered * 10,
        "{} of {answered}: {alarms:#?}",
        alarms.len()
    );
}

#[test]
fn a_refusal_names_questions_that_can_be_asked() {
    let matcher = Matcher::new().unwrap();
    let space = spaces::by_id("inventory").unwrap();
    let refused = matcher
        .understand(space, "tell me a joke", None)
        .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "The space inventory has no certified query for that. You can ask, for example: What is \
         the stock of Trail Running Shoes and Merino Socks? Which products are low in stock? Which \
         products are out of stock?"
    );
}

#[test]
fn products_that_are_only_referred_to_are_asked_for() {
    let matcher = Matcher::new().unwrap();
    for (space, question) in [
        ("inventory", "are these products in stock?"),
        ("inventory", "do we have them in stock?"),
        ("pricing", "how much do they cost?"),
        ("sales", "how many of them did we sell?"),
        (
            "customer_behavior",
            "how often are these products abandoned?",
        ),
    ] {
        let space = spaces::by_id(space).unwrap();
        let refused = matcher.understand(space, question, None).unwrap_err();
        assert!(
            matches!(refused, Refusal::ProductsNeeded { .. }),
            "{question}: {refused}"
        );
        assert!(refused.to_string().starts_with("Which products?"));
    }
}

#[test]
fn sql_is_distinguished_from_questions() {
    for sql in [
        "SELECT * FROM orders",
        "what is our revenue; DROP TABLE orders",
        "revenue' UNION SELECT name FROM customers",
        "what is our revenue -- and more",
        "DELETE FROM stock",
        "update products set name = 'x'",
    ] {
        assert!(speaks_sql(sql), "{sql}");
    }
    for question in [
        "which products did customers select from the app?",
        "which prices did drop?",
        "update me on the stock",
        "which campaign did we insert?",
    ] {
        assert!(!speaks_sql(question), "{question}");
    }
}
