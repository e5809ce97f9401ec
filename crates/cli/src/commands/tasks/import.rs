//! `convoke tasks import`: brings in tasks that were exported from another store.

use std::collections::{HashSet, VecDeque};
use std::path::Path;
use std::sync::Arc;

use convoke::StoreChoice;
use convoke_store::{BroughtIn, Store, StoreFuture};
use serde_json::json;

use super::archive::refused;
use super::import_folder::{ImportFolder, Listed};
use crate::cli::StoreArgs;
use crate::exit::{Exit, UsageError};
use crate::{output, progress, start};

/// Tasks that are on their way into the store at once: one wait for the disk serves them all.
const AT_ONCE: usize = 64;

pub(super) async fn import(
    dir: &Path,
    take_over: bool,
    args: &StoreArgs,
    json: bool,
) -> anyhow::Result<Exit> {
    // Before the store is so much as made.
    let folder = ImportFolder::read(dir)?;
    let store = open(args)?;
    check_conversations(&*store, &folder.tasks).await?;
    let mut import = Import {
        store: &*store,
        folder: &folder,
        kept: HashSet::new(),
        under_way: VecDeque::new(),
        imported: 0,
        existing: 0,
        skipped: 0,
    };
    let bar = progress::bar(folder.tasks.len(), "importing");
    for task in &folder.tasks {
        import.take(task, take_over).await?;
        bar.inc(1);
    }
    import.settle(0).await?;
    bar.finish_and_clear();
    import.tell(json);
    Ok(Exit::Done)
}

/// The store that the command line names. It is made if it is not there.
fn open(args: &StoreArgs) -> anyhow::Result<Arc<dyn Store>> {
    let choice = match &args.store {
        Some(url) => StoreChoice::of_url(url, &start::absolute(Path::new("")))?,
        None => StoreChoice::Sqlite(start::absolute(&args.data).join("store.db")),
    };
    if matches!(choice, StoreChoice::Memory) {
        let message = "a store in memory holds nothing once its process is gone; name a file";
        return Err(UsageError::new("store.memory", message).into());
    }
    Ok(choice.open()?)
}

/// A conversation belongs to one user, here as there.
async fn check_conversations(store: &dyn Store, tasks: &[Listed]) -> anyhow::Result<()> {
    let mut known = HashSet::new();
    for task in tasks {
        let Some(id) = task.conversation.filter(|id| known.insert(*id)) else {
            continue;
        };
        let here = store.conversation(id, None, 0).await?;
        if here.is_some_and(|here| here.owner != task.owner) {
            let why = format!("the conversation {id} belongs to somebody else in this store");
            return Err(refused("archive.foreign_conversation", &task.folder, why).into());
        }
    }
    Ok(())
}

/// An import under way.
struct Import<'a> {
    store: &'a dyn Store,
    folder: &'a ImportFolder,
    /// The definitions that are known to be in the store, because a task that names them is.
    kept: HashSet<&'a str>,
    /// Tasks on their way, oldest first, each with its definition.
    under_way: VecDeque<(&'a str, StoreFuture<BroughtIn>)>,
    imported: usize,
    existing: usize,
    skipped: usize,
}

impl<'a> Import<'a> {
    async fn take(&mut self, task: &'a Listed, take_over: bool) -> anyhow::Result<()> {
        if !task.status.is_final() && !take_over {
            match self.store.newest(task.id).await? {
                Some(_) => self.existing += 1,
                None => self.skipped += 1,
            }
            return Ok(());
        }
        let hash = task.definition.as_str();
        let definition = self.folder.definitions.get(hash);
        let definition = definition.filter(|_| !self.kept.contains(hash)).cloned();
        // It takes its place in the order from here on, whenever it is waited for.
        let brought_in = self.store.bring_in(task.archive()?, definition);
        self.under_way.push_back((hash, brought_in));
        self.settle(AT_ONCE).await
    }

    /// Waits until no more than so many are under way.
    async fn settle(&mut self, most: usize) -> anyhow::Result<()> {
        while self.under_way.len() > most {
            let Some((hash, brought_in)) = self.under_way.pop_front() else {
                break;
            };
            match brought_in.await? {
                BroughtIn::Created => {
                    self.imported += 1;
                    self.kept.insert(hash);
                }
                BroughtIn::Existing => self.existing += 1,
            }
        }
        Ok(())
    }

    fn tell(&self, json: bool) {
        let (imported, existing, skipped) = (self.imported, self.existing, self.skipped);
        if json {
            output::json_line(&json!({
                "imported": imported, "existing": existing, "skipped": skipped,
            }));
        } else {
            let tasks = if imported == 1 { "task" } else { "tasks" };
            let besides = |number: usize, what: &str| match number {
                0 => String::new(),
                1 => format!("; 1 was {what}"),
                more => format!("; {more} were {what}"),
            };
            let existing = besides(existing, "here already");
            let left_out = besides(skipped, "left out");
            output::line(format!("Imported {imported} {tasks}{existing}{left_out}."));
        }
        if skipped > 0 {
            output::note(
                "What is unfinished is left out: the store that it comes from would go on with it too, \
                 and its work would be done twice. Once nobody works there any more, import with \
                 --take-over.",
            );
        }
    }
}
