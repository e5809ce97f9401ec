//! `convoke tasks export`: tasks as a folder of files, to be kept, looked at or brought into another store.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use convoke_flow::trace as trace_of;
use convoke_model::{Redaction, Trace};
use convoke_store::{Archive, Filter, LoadedTask, Page, Store, TaskRecord, Viewer};
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::archive::{TASK_FILE, TRACE_FILE, WrittenTask};
use super::archive_checkpoint::{CheckpointFile, file_name};
use super::export_folder::{ExportFolder, File};
use super::{find, not_found};
use crate::cli::StoreArgs;
use crate::exit::Exit;
use crate::{output, progress, start};

/// Tasks asked for at a time.
const PAGE: usize = 1_000;

pub(super) async fn export(
    dir: &Path,
    named: &[String],
    args: &StoreArgs,
    json: bool,
) -> anyhow::Result<Exit> {
    let store = &*start::open_store_to_read(args)?;
    let tasks = if named.is_empty() {
        ordinals(store, Filter::default()).await?
    } else {
        families(store, named).await?
    };
    let mut export = Export {
        store,
        args,
        folder: ExportFolder::open(dir)?,
        definitions: HashMap::new(),
        exported: 0,
        replaced: 0,
        skipped: 0,
    };
    let bar = progress::bar(tasks.len(), "exporting");
    for task in tasks.into_values() {
        if let Err(export_obstacle) = export.take_out(task).await? {
            bar.suspend(|| output::note(export_obstacle));
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    export.tell(dir, json);
    Ok(Exit::Done)
}

/// An export under way.
struct Export<'a> {
    store: &'a dyn Store,
    args: &'a StoreArgs,
    folder: ExportFolder,
    /// What is known of the definitions that were written, by their hashes.
    definitions: HashMap<String, ExportedDefinition>,
    exported: usize,
    replaced: usize,
    skipped: usize,
}

/// What an export needs to know of a definition.
#[derive(Clone)]
struct ExportedDefinition {
    /// Whether the store has it. Old stores did not keep any.
    is_stored: bool,
    /// What its traces leave out.
    redaction: Redaction,
}

impl Export<'_> {
    /// Writes a task, or gives a sentence that says why it stays.
    async fn take_out(&mut self, id: Uuid) -> anyhow::Result<Result<(), String>> {
        // One that was removed in the meantime is nobody's loss.
        let Some(archive) = self.store.take_out(&Viewer::System, id).await? else {
            return Ok(Ok(()));
        };
        if let Some(why) = export_obstacle(self.store, &archive.record).await? {
            self.skipped += 1;
            let message = format!(
                "task {id} {why} and is left out; export it once it has ended or waits for a person"
            );
            return Ok(Err(message));
        }
        let known = self.definition(&archive.record.definition).await?;
        for blob in &archive.blobs {
            self.folder.put_blob(blob)?;
        }
        let task = WrittenTask::of(&archive, known.is_stored)?;
        let mut files = vec![file(TASK_FILE, &task)?];
        let number = archive.entries.len();
        for place in 0..number {
            if let Some(checkpoint) = CheckpointFile::of(&archive, place)? {
                files.push(file(&file_name(place, number), &checkpoint)?);
            }
        }
        files.push(file(
            TRACE_FILE,
            &self.trace(archive, &known.redaction).await?,
        )?);
        if self.folder.put_task(id, &files)? {
            self.replaced += 1;
        }
        self.exported += 1;
        Ok(Ok(()))
    }

    /// Writes a definition before the first task that names it, so that no task is ever there without.
    async fn definition(&mut self, hash: &str) -> anyhow::Result<ExportedDefinition> {
        if let Some(known) = self.definitions.get(hash) {
            return Ok(known.clone());
        }
        let definition = self.store.definition(hash).await?;
        if let Some(definition) = &definition {
            self.folder.put_definition(definition)?;
        }
        // Where the app cannot be read, everything is taken out that may be.
        let loader = start::loader(&self.args.data);
        let app = definition
            .as_ref()
            .and_then(|definition| loader.load_stored(definition, Path::new("")).ok());
        let known = ExportedDefinition {
            is_stored: definition.is_some(),
            redaction: app.map(|app| app.config.redaction).unwrap_or_default(),
        };
        self.definitions.insert(hash.to_owned(), known.clone());
        Ok(known)
    }

    /// What happened to a task and to those that it started, as far as they are in the export too: a trace
    /// follows from what stands beside it.
    async fn trace(&self, archive: Archive, redaction: &Redaction) -> anyhow::Result<Trace> {
        let (id, created_at) = (archive.record.id, archive.record.created_at);
        let mut children = Vec::new();
        for child in ordinals(self.store, children_of(id)).await?.into_values() {
            if let Some(child) = self.store.take_out(&Viewer::System, child).await?
                && export_obstacle(self.store, &child.record).await?.is_none()
            {
                children.push(loaded(child));
            }
        }
        let children: Vec<_> = children.iter().collect();
        match trace_of(&loaded(archive), &children, redaction) {
            Ok(trace) => Ok(trace),
            // The journal is what counts; a trace that cannot be told does not hold it back.
            Err(invalid) => {
                output::note(format!("the trace of task {id} is left empty: {invalid}"));
                Ok(Trace::begin(id, created_at)?)
            }
        }
    }

    fn tell(&self, dir: &Path, json: bool) {
        let (exported, skipped) = (self.exported, self.skipped);
        if json {
            output::json_line(&json!({
                "exported": exported, "skipped": skipped, "replaced": self.replaced,
                "definitions": self.definitions.values().filter(|known| known.is_stored).count(),
            }));
            return;
        }
        let tasks = if exported == 1 { "task" } else { "tasks" };
        let left_out = match skipped {
            0 => String::new(),
            1 => "; 1 is being worked on and was left out".to_owned(),
            more => format!("; {more} are being worked on and were left out"),
        };
        let dir = dir.display();
        output::line(format!("Exported {exported} {tasks} to {dir}{left_out}."));
    }
}

/// Why a task cannot leave: somebody works on it, or on the one that waits for it.
async fn export_obstacle(store: &dyn Store, record: &TaskRecord) -> anyhow::Result<Option<String>> {
    if record.status.is_final() {
        return Ok(None);
    }
    if !record.status.awaits_person() {
        return Ok(Some(format!("is {}", record.status)));
    }
    if record.worker.is_some() {
        return Ok(Some("was just taken up".into()));
    }
    let Some(parent) = record.parent else {
        return Ok(None);
    };
    // The answer to its question would reach the task here, but what comes of it not the parent there.
    let parent = store
        .newest(&Viewer::System, parent)
        .await?
        .map(|(parent, _)| parent);
    let at_work = |parent: &TaskRecord| {
        !parent.status.is_final() && (!parent.status.awaits_person() || parent.worker.is_some())
    };
    let parent = parent.filter(at_work);
    Ok(parent.map(|parent| {
        format!(
            "is a part of task {}, which is {}",
            parent.id, parent.status
        )
    }))
}

/// The tasks that a filter fits, oldest first.
async fn ordinals(store: &dyn Store, filter: Filter) -> anyhow::Result<BTreeMap<u64, Uuid>> {
    let mut found = BTreeMap::new();
    let mut after = None;
    loop {
        let page = Page { after, limit: PAGE };
        let page = store.query(&Viewer::System, filter.clone(), page).await?;
        found.extend(page.tasks.iter().map(|task| (task.ordinal, task.id)));
        after = page.next;
        if after.is_none() {
            return Ok(found);
        }
    }
}

/// The tasks that were named, and all that they started: without those, what they did is not whole.
async fn families(store: &dyn Store, named: &[String]) -> anyhow::Result<BTreeMap<u64, Uuid>> {
    let mut found = BTreeMap::new();
    let mut next = Vec::new();
    for name in named {
        let id = find(store, name).await?;
        let (record, _) = store
            .newest(&Viewer::System, id)
            .await?
            .ok_or_else(|| not_found(id))?;
        next.push((record.ordinal, id));
    }
    while let Some((ordinal, id)) = next.pop() {
        if found.insert(ordinal, id).is_none() {
            next.extend(ordinals(store, children_of(id)).await?);
        }
    }
    Ok(found)
}

fn children_of(parent: Uuid) -> Filter {
    Filter {
        parent: Some(parent),
        ..Filter::default()
    }
}

fn loaded(archive: Archive) -> LoadedTask {
    LoadedTask {
        record: archive.record,
        entries: archive.entries,
        messages: archive.messages,
        signals: Vec::new(),
    }
}

fn file(name: &str, value: &impl Serialize) -> anyhow::Result<File> {
    let text = serde_json::to_string_pretty(value)?;
    Ok((name.to_owned(), format!("{text}\n")))
}
