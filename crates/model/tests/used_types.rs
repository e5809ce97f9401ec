//! No noun without a verb: every public type of the model is used by the code of another crate, or is a part of one that is.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The sources under a folder, without their comments and test modules.
fn sources(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![folder.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let source = fs::read_to_string(&path).unwrap();
                let code = source.split("#[cfg(test)]\nmod ").next().unwrap();
                let lines = code.lines();
                let lines = lines.filter(|line| !line.trim_start().starts_with("//"));
                found.push(lines.collect::<Vec<_>>().join("\n"));
            }
        }
    }
    found
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
}

/// Names in camel case.
fn types(text: &str) -> BTreeSet<String> {
    let is_type = |word: &&str| {
        word.starts_with(|first: char| first.is_ascii_uppercase())
            && word.contains(|letter: char| letter.is_ascii_lowercase())
    };
    words(text).filter(is_type).map(str::to_owned).collect()
}

/// What the text names of the model, by path or in an import.
fn named(source: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for after in source.split("convoke_model::").skip(1) {
        let end = match after.strip_prefix('{') {
            Some(list) => list.find('}').map_or(after.len(), |end| end + 1),
            None => after
                .find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
                .unwrap_or(after.len()),
        };
        found.extend(types(&after[..end]));
    }
    found
}

/// The types that each type's definition names.
fn parts(sources: &[String]) -> BTreeMap<String, BTreeSet<String>> {
    let mut parts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources {
        for keyword in ["pub struct ", "pub enum ", "pub type "] {
            for after in source.split(keyword).skip(1) {
                let name = words(after).next().unwrap().to_owned();
                let closed = if keyword == "pub type " { ";" } else { "\n}" };
                let end = after.find(closed).unwrap_or(after.len());
                parts.entry(name).or_default().extend(types(&after[..end]));
            }
        }
    }
    parts
}

/// The public types that nothing uses.
fn unused(public: &BTreeSet<String>, used: BTreeSet<String>, model: &[String]) -> BTreeSet<String> {
    let parts = parts(model);
    let mut used = used;
    // A draft and the validated type are one noun.
    let drafts: Vec<_> = used
        .iter()
        .filter_map(|name| name.strip_suffix("Fields"))
        .collect();
    let nouns: Vec<_> = drafts.into_iter().map(str::to_owned).collect();
    used.extend(nouns);
    let mut left: Vec<_> = used.iter().cloned().collect();
    while let Some(next) = left.pop() {
        for part in parts.get(&next).into_iter().flatten() {
            if used.insert(part.clone()) {
                left.push(part.clone());
            }
        }
    }
    public.difference(&used).cloned().collect()
}

#[test]
fn every_type_is_used_by_another_crate_or_is_a_part_of_one_that_is() {
    let model = sources(&crates().join("model/src"));
    let lib = fs::read_to_string(crates().join("model/src/lib.rs")).unwrap();
    let public = types(&lib[lib.find("pub use").unwrap()..]);
    let mut used = BTreeSet::new();
    for entry in fs::read_dir(crates()).unwrap() {
        let path = entry.unwrap().path();
        let is_user = !path.ends_with("model") && !path.ends_with("testkit");
        if is_user && path.join("src").is_dir() {
            for source in sources(&path.join("src")) {
                used.extend(named(&source));
            }
        }
    }
    assert!(public.len() > 100, "only {} types were found", public.len());
    let unused = unused(&public, used, &model);
    assert!(unused.is_empty(), "nothing uses {unused:?}");
}

#[test]
fn a_type_that_only_tests_and_unused_types_name_is_unused() {
    let model = [
        "pub struct Task {\n    state: State,\n}\npub enum State {\n    Open,\n}\n",
        "pub struct Plan {\n    step: PlanStep,\n}\npub struct PlanStep {\n}\npub type Alias = Valid<Task>;\n",
    ]
    .map(str::to_owned);
    let public = types("Task State Plan PlanStep Alias");
    let code = "use convoke_model::{Alias, Name};\nfn f() { convoke_model::words(Plan) }\n";
    let unused = unused(&public, named(code), &model);
    assert_eq!(unused, types("Plan PlanStep"));
}
