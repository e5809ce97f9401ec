//! The server's answers: certified queries, follow-ups, polling and refusals.

use std::time::Duration;

use convoke_serving::{Refuse, Sources};
use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::parameters::Parameters;
use crate::space::Products;
use crate::vocabulary::Closed;

/// Longer than any query, so that tests wait for queries and not for time.
const PATIENT: Duration = Duration::from_mins(2);

struct Shop {
    folder: TempDir,
    server: RetailServer,
}

impl Shop {
    fn new(answer_within: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = open(&folder, answer_within);
        Self { folder, server }
    }

    fn asks(&self, space: &str, query: &str, conversation: Option<&Value>) -> Outcome<Refusal> {
        let question = Question {
            query: query.to_owned(),
            conversation_id: conversation.map(|id| id.as_str().unwrap().to_owned()),
        };
        self.server.ask(spaces::by_id(space).unwrap(), &question)
    }

    fn ask(&self, space: &str, query: &str) -> Value {
        self.continue_conversation(space, query, None)
    }

    fn continue_conversation(
        &self,
        space: &str,
        query: &str,
        conversation: Option<&Value>,
    ) -> Value {
        let answer = self.asks(space, query, conversation);
        answer
            .unwrap_or_else(|error| panic!("{query}: {error}"))
            .content
    }

    fn refused(&self, space: &str, query: &str, conversation: Option<&Value>) -> String {
        match self.asks(space, query, conversation) {
            Err(Failure::Refused(refusal)) => refusal.code().to_owned(),
            other => panic!("{query}: {other:?}"),
        }
    }

    fn poll(&self, space: &str, conversation: &Value, message: &Value) -> Outcome<Refusal> {
        let poll = Poll {
            conversation_id: conversation.as_str().unwrap().to_owned(),
            message_id: message.as_str().unwrap().to_owned(),
        };
        self.server.poll(spaces::by_id(space).unwrap(), &poll)
    }
}

fn open(folder: &TempDir, answer_within: Duration) -> RetailServer {
    let store = Store::open(&folder.path().join("retail.db"), Sources::real()).unwrap();
    RetailServer::new(store, Options { answer_within }).unwrap()
}

#[test]
fn every_certified_query_finds_rows_with_its_defaults() {
    let shop = Shop::new(PATIENT);
    for space in spaces::ALL {
        for query in space.queries {
            let mut parameters = Parameters::defaults(query);
            if query.products == Products::Needed {
                parameters.products =
                    vec!["Trail Running Shoes".to_owned(), "Smart Watch".to_owned()];
            }
            let table = shop.server.reader.run(query.sql, &parameters);
            let table = table.unwrap_or_else(|error| panic!("{}: {error}", query.id));
            assert!(!table.rows.is_empty(), "{}", query.id);
            let sentence = describe(&query.answer, &parameters, &table);
            assert!(
                sentence.ends_with('.') && !sentence.contains("  "),
                "{}: {sentence}",
                query.id
            );
            // A name in the template without a column would leave a gap.
            for name in query
                .answer
                .lead
                .split('{')
                .chain(query.answer.each.split('{'))
                .skip(1)
            {
                let Some((name, _)) = name.split_once('}') else {
                    continue;
                };
                let name = name.split(':').next().unwrap();
                let known = parameters.as_words(name).is_some();
                assert!(
                    known || table.columns.iter().any(|column| column == name),
                    "{}: {name}",
                    query.id
                );
            }
            println!("{}.{}: {sentence}", space.id, query.id);
        }
    }
}

#[test]
fn an_answer_contains_the_sql_the_parameters_and_the_rows() {
    let shop = Shop::new(PATIENT);
    let answer = shop.ask(
        "customer_behavior",
        "Which products are abandoned in carts most often?",
    );
    assert_eq!(answer["status"], "completed");
    assert_eq!(answer["query_id"], "most_abandoned_products");
    assert_eq!(answer["columns"][0], "product");
    assert_eq!(answer["rows"].as_array().unwrap().len(), 5);
    assert_eq!(answer["parameters"]["period"], "in the last 30 days");
    assert!(answer["sql_query"].as_str().unwrap().contains(":category"));
    let sentence = answer["answer"].as_str().unwrap();
    assert!(
        sentence.contains("in the last 30 days (2026-09-01 to 2026-09-30)"),
        "{sentence}"
    );
    assert!(
        sentence.contains(answer["rows"][0][0].as_str().unwrap()),
        "{sentence}"
    );

    // The most abandoned products are hardly in stock, which is a pattern of the data set.
    let products: Vec<&str> = answer["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row[0].as_str().unwrap())
        .collect();
    let stock = format!("do we have them in stock: {}", products.join(", "));
    let stock = shop.ask("inventory", &stock);
    assert_eq!(stock["query_id"], "stock_of_products");
    for row in stock["rows"].as_array().unwrap() {
        assert_ne!(row[3], "in stock", "{stock}");
    }
}

#[test]
fn a_follow_up_changes_only_its_parameters() {
    let shop = Shop::new(PATIENT);
    let first = shop.ask("sales", "Which products sell best in the app?");
    let conversation = &first["conversation_id"];
    let next = |question: &str| shop.continue_conversation("sales", question, Some(conversation));
    let month = next("what about last month?");
    assert_eq!(month["query_id"], "best_selling_products");
    assert_eq!(month["parameters"]["from"], "2026-08-01");
    assert_eq!(month["parameters"]["channel"], "app");
    assert_eq!(month["conversation_id"], *conversation);
    assert_ne!(month["message_id"], first["message_id"]);
    let north = next("and in the north?");
    assert_eq!(north["parameters"]["region"], "north");
    assert_eq!(north["parameters"]["from"], "2026-08-01");
    let shoes = next("only footwear");
    assert_eq!(shoes["parameters"]["category"], "footwear");
    let ten = next("top 10 please");
    assert_eq!(ten["rows"].as_array().unwrap().len(), 10);
    // An independent question starts with defaults.
    let regions = next("Revenue by region");
    assert_eq!(regions["query_id"], "revenue_by_region");
    assert_eq!(regions["parameters"]["period"], "in the last 30 days");
    assert_eq!(regions["parameters"]["channel"], Value::Null);
    // A parameter that the last query does not take is declined.
    let code = shop.refused("sales", "and for Merino Socks?", Some(conversation));
    assert_eq!(code, "retail.no_certified_query");
}

#[test]
fn a_follow_up_can_name_or_refer_to_products() {
    let shop = Shop::new(PATIENT);
    let stock = shop.ask("inventory", "Is the Desk Lamp in stock?");
    let conversation = &stock["conversation_id"];
    let socks =
        shop.continue_conversation("inventory", "and for Merino Socks?", Some(conversation));
    assert_eq!(socks["parameters"]["products"], json!(["Merino Socks"]));
    let low = shop.continue_conversation(
        "inventory",
        "Which products are low in stock?",
        Some(conversation),
    );
    let them = shop.continue_conversation(
        "inventory",
        "how many of these products do we have?",
        Some(conversation),
    );
    assert_eq!(them["query_id"], "stock_of_products");
    let products = them["parameters"]["products"].as_array().unwrap();
    let described: Vec<&Value> = low["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row[0])
        .collect();
    assert_eq!(products.iter().collect::<Vec<_>>(), described);
    let nobody = shop.refused("inventory", "do we have them in stock?", None);
    assert_eq!(nobody, "retail.products_needed");
}

#[test]
fn slow_queries_are_polled() {
    let shop = Shop::new(Duration::ZERO);
    let initial_parameters = shop.ask("sales", "Which products are bought together?");
    assert_eq!(initial_parameters["status"], "running");
    assert_eq!(initial_parameters["answer"], "");
    assert_eq!(initial_parameters["rows"], json!([]));
    let (conversation, message) = (
        &initial_parameters["conversation_id"],
        &initial_parameters["message_id"],
    );
    shop.server.running.wait(message.as_str().unwrap(), PATIENT);
    let done = shop.poll("sales", conversation, message).unwrap().content;
    assert_eq!(done["status"], "completed");
    assert_eq!(done["message_id"], *message);
    assert_eq!(done["sql_query"], initial_parameters["sql_query"]);
    assert!(!done["rows"].as_array().unwrap().is_empty());
    let again = shop.poll("sales", conversation, message).unwrap().content;
    assert_eq!(again, done);
}

#[test]
fn a_message_left_by_a_dead_process_is_run_again() {
    let shop = Shop::new(PATIENT);
    let whole = shop.ask("marketing", "Which campaign performs best?");
    let (conversation, message) = (&whole["conversation_id"], &whole["message_id"]);
    let file = shop.folder.path().join("retail.db");
    // The state after a process was killed during a query.
    let killed = Connection::open(&file).unwrap();
    killed
        .execute("UPDATE messages SET status = 'running', result = NULL", [])
        .unwrap();
    let Shop { folder, server } = shop;
    drop(server);
    let server = open(&folder, PATIENT);
    let shop = Shop { folder, server };
    let polled = shop
        .poll("marketing", conversation, message)
        .unwrap()
        .content;
    assert_eq!(polled, whole);
    assert_eq!(polled["rows"][0][0], "Autumn Trail Launch");
}

#[test]
fn a_query_that_failed_says_so() {
    let shop = Shop::new(PATIENT);
    let whole = shop.ask("sales", "Revenue by month");
    let file = shop.folder.path().join("retail.db");
    let other = Connection::open(&file).unwrap();
    other
        .execute("UPDATE messages SET status = 'failed', result = NULL", [])
        .unwrap();
    let polled = shop.poll("sales", &whole["conversation_id"], &whole["message_id"]);
    assert_eq!(polled.unwrap_err().code(), "retail.query_failed");
}

#[test]
fn conversations_and_messages_belong_to_one_space() {
    let shop = Shop::new(PATIENT);
    let sales = shop.ask("sales", "What was our revenue last month?");
    let stock = shop.ask("inventory", "What is sold out?");
    let unknown = json!("nobody's");
    let (of_sales, of_stock) = (&sales["conversation_id"], &stock["conversation_id"]);
    let refused = |space: &str, id: &Value| shop.refused(space, "What is sold out?", Some(id));
    assert_eq!(
        refused("inventory", &unknown),
        "retail.conversation_not_found"
    );
    assert_eq!(
        refused("inventory", of_sales),
        "retail.conversation_of_other_space"
    );
    for (space, conversation, message, code) in [
        (
            "sales",
            &unknown,
            &sales["message_id"],
            "retail.conversation_not_found",
        ),
        (
            "sales",
            of_stock,
            &stock["message_id"],
            "retail.conversation_of_other_space",
        ),
        (
            "sales",
            of_sales,
            &stock["message_id"],
            "retail.message_not_found",
        ),
        ("sales", of_sales, &unknown, "retail.message_not_found"),
    ] {
        let polled = shop.poll(space, conversation, message).unwrap_err();
        assert_eq!(polled.code(), code, "{space}");
    }
}

#[test]
fn questions_that_cannot_be_answered_are_refused_with_a_code() {
    let shop = Shop::new(PATIENT);
    let long = format!("What was our revenue {}", "last month ".repeat(200));
    for (question, code) in [
        ("", "retail.query_empty"),
        ("  \n ", "retail.query_empty"),
        (long.as_str(), "retail.query_too_long"),
        ("tell me a joke", "retail.no_certified_query"),
        ("What was our revenue in July 2024?", "retail.period"),
        (
            "What was our revenue in the north and the south?",
            "retail.one_at_a_time",
        ),
        ("top 500 products by units sold", "retail.limit"),
        ("how many of them did we sell?", "retail.products_needed"),
    ] {
        assert_eq!(shop.refused("sales", question, None), code, "{question}");
    }
}

#[test]
fn text_of_a_question_never_becomes_sql() {
    let shop = Shop::new(PATIENT);
    let file = shop.folder.path().join("retail.db");
    let count = || -> i64 {
        let connection = Connection::open(&file).unwrap();
        connection
            .query_row("SELECT count(*) FROM orders", [], |row| row.get(0))
            .unwrap()
    };
    let before = count();
    // The product is found and bound; the text around it is ignored.
    let odd = "what is the stock of Merino Socks') OR 1=1 OR name IN ('Desk Lamp";
    if let Ok(answer) = shop.asks("inventory", odd, None) {
        assert_eq!(answer.content["rows"].as_array().unwrap().len(), 2);
    }
    for space in spaces::ALL {
        for query in space.queries {
            let hostile = "x' OR '1'='1'; DROP TABLE orders; --";
            let parameters = Parameters {
                category: Some(hostile.to_owned()),
                region: Some(hostile.to_owned()),
                segment: Some(hostile.to_owned()),
                channel: Some(hostile.to_owned()),
                warehouse: Some(hostile.to_owned()),
                products: vec![hostile.to_owned(), "\"]".to_owned()],
                ..Parameters::defaults(query)
            };
            let limited = Closed::ALL.iter().any(|closed| query.takes(closed.name()))
                || query.takes("products");
            let table = shop.server.reader.run(query.sql, &parameters).unwrap();
            assert!(
                !limited || table.rows.is_empty(),
                "{}: {:?}",
                query.id,
                table.rows
            );
        }
    }
    let write = shop
        .server
        .reader
        .run("DELETE FROM orders", &Parameters::default());
    assert!(write.is_err(), "queries can only read");
    assert_eq!(count(), before);
}

#[test]
fn old_conversations_are_forgotten() {
    let shop = Shop::new(PATIENT);
    let old = shop.ask("sales", "Revenue by month");
    let file = shop.folder.path().join("retail.db");
    let connection = Connection::open(&file).unwrap();
    connection
        .execute("UPDATE conversations SET created_ms = 0", [])
        .unwrap();
    let server = open(&shop.folder, PATIENT);
    let shop = Shop { server, ..shop };
    let code = shop.refused("sales", "and last month?", Some(&old["conversation_id"]));
    assert_eq!(code, "retail.conversation_not_found");
}
