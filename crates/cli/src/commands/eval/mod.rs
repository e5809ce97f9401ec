//! `convoke eval`: says every eval case to the app, through the real engine and the real tool
//! servers, and compares what comes out. Each case is a user of its own, so that none sees another's
//! data. The same cases may be said to a second configuration, to see both side by side.

mod against;
mod comparing;
mod confusion;
mod deeds;
mod judging;
mod junit;
mod measuring;
mod reporting;
mod targets;
mod verdict;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use convoke::{App, StoreChoice};
use convoke_app::EvalCase;
use futures::StreamExt;
use futures::stream;
use tempfile::TempDir;

use crate::cli::{EvalArgs, ModelArgs};
use crate::exit::{Exit, UsageError};
use crate::stopping::StopSignals;
use crate::{log, output, progress, start};
use against::Opponent;
use comparing::Outcome;
use judging::Judge;
use verdict::Verdict;

pub(crate) use targets::Target;

/// A case with the file that it stands in.
type Case<'a> = (&'a str, &'a EvalCase);

/// An app with a model, ready to be asked.
struct Configuration {
    name: String,
    app: Arc<App>,
    model: ModelArgs,
    /// What the app's tool servers keep, gone afterwards.
    data: TempDir,
}

pub(crate) async fn run(args: &EvalArgs, json: bool) -> anyhow::Result<Exit> {
    let other = args.against.as_deref().map(Opponent::read).transpose()?;
    let own = (args.app.clone(), args.model.clone());
    let first = Configuration::load(own, start::load_app_to_eval, json)?;
    let second = other
        .map(|other| {
            let other = other.of(&args.app, &args.model);
            Configuration::load(other, start::load_app, json)
        })
        .transpose()?;
    let cases = chosen(&first.app, args)?;
    let both = || [Some(&first), second.as_ref()].into_iter().flatten();
    let lookups = both().flat_map(|one| judging::lookups(&one.app));
    let judge = Judge {
        lookups: args.by_model.then(|| lookups.collect()),
    };
    // Whatever cannot be run is told before anything is.
    let mut running = Vec::new();
    for configuration in both() {
        running.push((configuration, configuration.running_app(args.by_model)?));
    }
    let mut signals = StopSignals::new()?;
    let mut outcomes = Vec::new();
    for (configuration, app) in running {
        let heard = configuration.hear_all(app, &cases, &judge, args.concurrent);
        let Some(verdicts) = signals.unless_asked(heard).await else {
            return Ok(Exit::Interrupted);
        };
        let verdicts = verdicts?;
        let bar = &first.app.config.evals;
        outcomes.push(Outcome {
            configuration: configuration.name.clone(),
            measures: measuring::measures(&verdicts, bar, args.by_model),
            verdicts,
        });
    }
    tell(args, &first.app, &outcomes, json)
}

impl Configuration {
    /// Reads an app's folder, with a data folder of its own.
    fn load(
        (folder, model): (PathBuf, ModelArgs),
        load: fn(&Path, &Path, &ModelArgs, bool) -> anyhow::Result<Arc<App>>,
        json: bool,
    ) -> anyhow::Result<Self> {
        let data = tempfile::tempdir().context("no folder for the cases' data can be made")?;
        Ok(Self {
            name: against::in_words(&folder, &model),
            app: load(&folder, data.path(), &model, json)?,
            model,
            data,
        })
    }

    /// The app as it is to be asked.
    fn running_app(&self, by_model: bool) -> anyhow::Result<Arc<App>> {
        if !by_model {
            return Ok(Arc::clone(&self.app));
        }
        let put_away = start::put_skills_away(&self.app);
        put_away.with_context(|| self.name.clone())
    }

    /// Says all cases to the app.
    async fn hear_all(
        &self,
        app: Arc<App>,
        cases: &[Case<'_>],
        judge: &Judge,
        concurrent: u16,
    ) -> anyhow::Result<Vec<Verdict>> {
        // Another app may have been loaded since, and what one wants kept out of logs is its own.
        log::follow(&app);
        let runtime =
            start::runtime(app, StoreChoice::Memory, self.data.path(), &self.model).await?;
        let bar = progress::bar(cases.len(), "cases");
        let verdicts: Vec<anyhow::Result<Verdict>> = stream::iter(cases)
            .map(|(file, case)| {
                let (runtime, bar) = (&runtime, &bar);
                async move {
                    let verdict = judge.hear(runtime, file, case).await;
                    bar.inc(1);
                    verdict
                }
            })
            .buffered(concurrent.into())
            .collect()
            .await;
        bar.finish_and_clear();
        runtime.shutdown().await?;
        verdicts.into_iter().collect()
    }
}

/// Tells what came of the cases. How the command ends goes by the first configuration.
fn tell(args: &EvalArgs, app: &App, outcomes: &[Outcome], json: bool) -> anyhow::Result<Exit> {
    let [first, others @ ..] = outcomes else {
        return Ok(Exit::Done);
    };
    if let Some(file) = &args.junit {
        let report = junit::report(app.config.name.as_str(), &first.verdicts);
        std::fs::write(file, report)
            .with_context(|| format!("{} cannot be written", file.display()))?;
    }
    if args.confusion && !json {
        for outcome in outcomes {
            if !others.is_empty() {
                output::line(&outcome.configuration);
            }
            let tables = confusion::tables(&outcome.verdicts);
            if !tables.is_empty() {
                output::line(format!("{tables}\n"));
            }
        }
    }
    match (others.first(), json) {
        (None, true) => {
            output::json_line(&reporting::data(&first.verdicts, &first.measures));
        }
        (None, false) => reporting::show(&first.verdicts, &first.measures),
        (Some(second), true) => output::json_line(&comparing::data(first, second)),
        (Some(second), false) => comparing::show(first, second),
    }
    Ok(if measuring::passed(&first.measures) {
        Exit::Done
    } else {
        Exit::NotDone
    })
}

/// The cases that the command line asks for.
fn chosen<'a>(app: &'a App, args: &EvalArgs) -> anyhow::Result<Vec<Case<'a>>> {
    let only = args.only.as_deref();
    let mut cases: Vec<_> = app
        .evals
        .iter()
        .flat_map(|set| set.cases.iter().map(|case| (set.file.as_str(), case)))
        .filter(|(file, case)| {
            only.is_none_or(|text| file.contains(text) || case.title().contains(text))
        })
        .collect();
    if let Some(sample) = args.sample {
        cases = spread(cases, sample.into());
    }
    if cases.is_empty() {
        let message = match only.filter(|_| !app.evals.is_empty()) {
            Some(only) => format!("no eval case has `{only}` in its title or file"),
            None => "the app has no eval cases; write some into its folder `evals`, or record a task as one with \
                     `convoke tasks record`"
                .to_owned(),
        };
        return Err(UsageError::new("eval.no_cases", message).into());
    }
    Ok(cases)
}

/// So many of the cases, from the first to the last in equal steps.
fn spread<T>(cases: Vec<T>, number: usize) -> Vec<T> {
    let all = cases.len().max(1);
    let number = number.min(all);
    let taken = |index: &usize| index * number / all != (index + 1) * number / all;
    let cases = cases.into_iter().enumerate();
    cases
        .filter(|(index, _)| taken(index))
        .map(|(_, case)| case)
        .collect()
}
