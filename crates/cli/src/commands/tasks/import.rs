//! `convoke tasks import`: brings in tasks that were exported from another store.

use std::collections::{HashSet, VecDeque};

use convoke_store::{Imported, Store, StoreFuture, Viewer};
use serde_json::{Value, json};

use super::archive::refused;
use super::import_folder::{ImportFolder, ListedTask};
use super::import_limits::ImportLimits;
use super::trust::{self, Disclosure};
use crate::cli::ImportArgs;
use crate::exit::Exit;
use crate::{output, progress, start};

/// Tasks that are on their way into the store at once: one wait for the disk serves them all.
const AT_ONCE: usize = 64;

pub(super) async fn import(args: &ImportArgs, json: bool) -> anyhow::Result<Exit> {
    // Before the store is so much as made.
    let folder = ImportFolder::read(&args.dir, args.limits.clone())?;
    let known = folder.definitions.keys().map(String::as_str);
    let trusted = trust::named(&args.trust, &known.collect::<Vec<_>>())?;
    let store = start::named_store(&args.store)?.open()?;
    check_conversations(&*store, &folder.tasks).await?;
    let mut import = Import {
        store: &*store,
        folder: &folder,
        limits: &args.limits,
        stored: HashSet::new(),
        under_way: VecDeque::new(),
        imported: 0,
        existing: 0,
        skipped: 0,
    };
    let bar = progress::bar(folder.tasks.len(), "importing");
    for task in &folder.tasks {
        import.take(task, args.take_over).await?;
        bar.inc(1);
    }
    import.settle(0, 0).await?;
    bar.finish_and_clear();
    let trust = import.trust(&trusted).await?;
    import.tell(&trust, json);
    Ok(Exit::Done)
}

/// A conversation belongs to one user and one app, here as there.
async fn check_conversations(store: &dyn Store, tasks: &[ListedTask]) -> anyhow::Result<()> {
    let mut known = HashSet::new();
    for task in tasks {
        let Some(id) = task.conversation.filter(|id| known.insert(*id)) else {
            continue;
        };
        let here = store.conversation(&Viewer::System, id, None, 0).await?;
        let Some(here) = here else {
            continue;
        };
        let whose = if here.owner != task.owner {
            Some("somebody else")
        } else if here.app != task.app {
            Some("another app")
        } else {
            None
        };
        if let Some(whose) = whose {
            let why = format!("the conversation {id} belongs to {whose} in this store");
            return Err(refused("archive.foreign_conversation", &task.path, why).into());
        }
    }
    Ok(())
}

/// An import under way.
struct Import<'a> {
    store: &'a dyn Store,
    folder: &'a ImportFolder,
    limits: &'a ImportLimits,
    /// The definitions that are known to be in the store, because a task that names them is.
    stored: HashSet<&'a str>,
    /// Tasks on their way, oldest first.
    under_way: VecDeque<ImportedTask<'a>>,
    imported: usize,
    existing: usize,
    skipped: usize,
}

/// A task on its way into the store.
struct ImportedTask<'a> {
    definition: &'a str,
    /// How much of it is held in memory.
    bytes: u64,
    brought_in: StoreFuture<Imported>,
}

/// What may run here of that which was brought in.
#[derive(Default)]
struct TrustPolicy {
    /// What the command line said of, just now.
    trusted: Vec<Disclosure>,
    /// What is left to its user.
    untrusted: Vec<Disclosure>,
}

impl<'a> Import<'a> {
    async fn take(&mut self, task: &'a ListedTask, take_over: bool) -> anyhow::Result<()> {
        if !task.status.is_final() && !take_over {
            match self.store.newest(&Viewer::System, task.id).await? {
                Some(_) => self.existing += 1,
                None => self.skipped += 1,
            }
            return Ok(());
        }
        let most = self.limits.task_bytes().number;
        self.settle(AT_ONCE - 1, most.saturating_sub(task.bytes))
            .await?;
        let hash = task.definition.as_str();
        let read = self.folder.definitions.get(hash);
        let definition = read.filter(|_| !self.stored.contains(hash));
        let definition = definition.map(|read| read.definition.clone());
        // It takes its place in the order from here on, whenever it is waited for.
        let brought_in = self.store.bring_in(self.folder.archive(task)?, definition);
        self.under_way.push_back(ImportedTask {
            definition: hash,
            bytes: task.bytes,
            brought_in,
        });
        Ok(())
    }

    /// Waits until no more than so many are under way, and no more than so many bytes of them.
    async fn settle(&mut self, most: usize, most_bytes: u64) -> anyhow::Result<()> {
        let mut bytes: u64 = self.under_way.iter().map(|task| task.bytes).sum();
        while self.under_way.len() > most || bytes > most_bytes {
            let Some(first) = self.under_way.pop_front() else {
                break;
            };
            bytes -= first.bytes;
            match first.brought_in.await? {
                Imported::Created => {
                    self.imported += 1;
                    self.stored.insert(first.definition);
                }
                Imported::Existing => self.existing += 1,
            }
        }
        Ok(())
    }

    /// Trusts the definitions that were named, and finds those that still are not trusted.
    async fn trust(&self, named: &HashSet<String>) -> anyhow::Result<TrustPolicy> {
        let mut trust = TrustPolicy::default();
        let mut hashes: Vec<_> = self.folder.definitions.keys().collect();
        hashes.sort();
        for hash in hashes {
            // One whose tasks were all left out is not here.
            let Some(definition) = self.store.definition(hash).await? else {
                continue;
            };
            if definition.trusted {
                continue;
            }
            let disclosure = Disclosure::of(&definition)?;
            if named.contains(hash) {
                self.store.trust(hash).await?;
                trust.trusted.push(disclosure);
            } else {
                trust.untrusted.push(disclosure);
            }
        }
        Ok(trust)
    }

    fn tell(&self, trust: &TrustPolicy, json: bool) {
        let (imported, existing, skipped) = (self.imported, self.existing, self.skipped);
        if json {
            let listed = |some: &[Disclosure]| some.iter().map(Disclosure::json).collect::<Value>();
            output::json_line(&json!({
                "imported": imported, "existing": existing, "skipped": skipped,
                "trusted": listed(&trust.trusted), "untrusted": listed(&trust.untrusted),
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
            for disclosure in &trust.trusted {
                output::note(format!("{disclosure}It is trusted now."));
            }
            for disclosure in &trust.untrusted {
                output::note(format!(
                    "{disclosure}It is not trusted, and its unfinished tasks wait. To let it run: convoke \
                     tasks trust {}",
                    disclosure.hash
                ));
            }
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
