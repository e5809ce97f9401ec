//! The text classifier: features, a linear model and the calibration of its scores.

use crate::calibration::{CONTENDERS, Calibration, Evidence, Observation};
use crate::features::{Features, Vocabulary};
use crate::linear::{Example, Linear, Training};

/// Passes over the examples; a fifth one changes almost no decision.
const PASSES: u64 = 4;

/// Passes that readjust a model after examples were removed.
const READJUSTING_PASSES: u64 = 2;

/// Folds of each class's examples, for scores of unseen examples.
const PARTS: usize = 9;

/// Groups of entries that are left out, for scores of texts that no entry covers.
const GROUPS: usize = 5;

/// With more training texts, every fifth fold and group is enough.
const MANY_TRAINING_TEXTS: usize = 2_000;

/// Fewer out-of-scope examples are not representative, so left-out entries are used in addition.
const ENOUGH_OUT_OF_SCOPE: usize = 30;

/// Weight of an example of a left-out entry: low, because it is closer to the other entries than most
/// out-of-scope texts.
const LEFT_OUT_WEIGHT: f64 = 0.02;

/// The share of a text's known part that remains when only its most common features are kept.
const COMMON_SHARE: f32 = 0.25;

/// Weight of a masked text.
const MASKED_WEIGHT: f64 = 0.05;

/// One training text.
#[derive(Debug, Clone)]
pub(crate) struct TrainingText {
    pub(crate) text: String,
    /// Its class; `None` for out-of-scope texts.
    pub(crate) class: Option<usize>,
    /// Whether it is a real utterance. Descriptions and words of patterns train the model a little, but
    /// are not used for calibration.
    pub(crate) is_utterance: bool,
}

/// The classifier's output for a text.
#[derive(Debug)]
pub(crate) struct Classification {
    /// The best classes with their probabilities, best first.
    pub(crate) ranked: Vec<(usize, f64)>,
    /// The probability that no class covers the text.
    pub(crate) none: f64,
}

/// The trained classifier.
#[derive(Debug)]
pub(crate) struct Classifier {
    vocabulary: Vocabulary,
    model: Linear,
    calibration: Calibration,
    knows_out_of_scope: bool,
}

impl Classifier {
    /// Trains a classifier. The result is deterministic.
    pub(crate) fn train(classes: usize, training_texts: &[TrainingText]) -> Self {
        let (vocabulary, features) = Vocabulary::learn(
            training_texts
                .iter()
                .map(|training_text| training_text.text.as_str()),
        );
        let mut examples: Vec<Example> = training_texts
            .iter()
            .zip(features)
            .map(|(training_text, features)| Example {
                // Out of scope is an additional class after the others.
                class: Some(training_text.class.unwrap_or(classes)),
                features,
                cost: if training_text.is_utterance { 1.0 } else { 0.3 },
            })
            .collect();
        // A text without any known feature must be rejected by every class.
        examples.push(Example {
            class: None,
            features: Features::default(),
            cost: 1.0,
        });
        let mut training = Training::new(classes + 1, vocabulary.len(), examples.len());
        for seed in 0..PASSES {
            training.pass(&examples, seed + 1, &[]);
        }
        let trial = Calibrator {
            classes,
            training_texts,
            examples: &examples,
            training: &training,
        };
        let calibration = Calibration::fit(&trial.observations());
        let knows_out_of_scope = trial.out_of_scope() > 0;
        Self {
            vocabulary,
            model: training.model,
            calibration,
            knows_out_of_scope,
        }
    }

    /// Classifies any text.
    pub(crate) fn classify(&self, text: &str) -> Classification {
        let features = self.vocabulary.features(text);
        let evidence = evidence(&self.model, &features, self.knows_out_of_scope, |_| true);
        let (shares, none) = self.calibration.probabilities(&evidence);
        let ranked = evidence
            .contenders
            .iter()
            .zip(shares)
            .map(|(&(class, _), share)| (class, share));
        Classification {
            ranked: ranked.collect(),
            none,
        }
    }
}

/// Collects calibration data: outputs of models for examples they have not seen.
struct Calibrator<'t> {
    classes: usize,
    training_texts: &'t [TrainingText],
    examples: &'t [Example],
    training: &'t Training,
}

impl Calibrator<'_> {
    fn out_of_scope(&self) -> usize {
        self.training_texts
            .iter()
            .filter(|training_text| training_text.class.is_none())
            .count()
    }

    fn lacks_out_of_scope(&self) -> bool {
        self.out_of_scope() < ENOUGH_OUT_OF_SCOPE
    }

    fn observations(&self) -> Vec<Observation> {
        let stride = if self.training_texts.len() > MANY_TRAINING_TEXTS {
            5
        } else {
            1
        };
        let mut observations = Vec::new();
        self.hold_out_parts(stride, &mut observations);
        if self.lacks_out_of_scope() {
            self.leave_out_entries(stride, &mut observations);
        }
        observations
    }

    /// Leaves out neighbouring examples together: authors write paraphrases next to each other, and a
    /// model that has seen one is more confident about the other than about a stranger's words.
    fn hold_out_parts(&self, stride: usize, observations: &mut Vec<Observation>) {
        let mut totals = vec![0usize; self.classes + 1];
        let class_of = |training_text: &TrainingText| training_text.class.unwrap_or(self.classes);
        for training_text in self
            .training_texts
            .iter()
            .filter(|training_text| training_text.is_utterance)
        {
            totals[class_of(training_text)] += 1;
        }
        let mut seen = vec![0usize; self.classes + 1];
        let parts: Vec<Option<usize>> = self
            .training_texts
            .iter()
            .map(|training_text| {
                let class = class_of(training_text);
                training_text.is_utterance.then(|| {
                    seen[class] += 1;
                    (seen[class] - 1) * PARTS / totals[class]
                })
            })
            .collect();
        for part in (0..PARTS).step_by(stride) {
            let held_out = self.marks(|index| parts[index] == Some(part));
            if !held_out.contains(&true) {
                continue;
            }
            let model = self
                .training
                .without(self.examples, &held_out, READJUSTING_PASSES);
            let knows_out_of_scope = self.out_of_scope() > 0;
            for (index, training_text) in self
                .training_texts
                .iter()
                .enumerate()
                .filter(|&(i, _)| held_out[i])
            {
                let features = &self.examples[index].features;
                if self.lacks_out_of_scope() {
                    observations.push(Observation {
                        evidence: evidence(&model, &masked(features), knows_out_of_scope, |_| true),
                        truth: None,
                        weight: MASKED_WEIGHT,
                    });
                }
                let evidence = evidence(&model, features, knows_out_of_scope, |_| true);
                observations.push(Observation {
                    evidence,
                    truth: training_text.class,
                    weight: 1.0,
                });
            }
        }
    }

    /// Leaves out whole entries: for the remaining model, their examples are out of scope.
    fn leave_out_entries(&self, stride: usize, observations: &mut Vec<Observation>) {
        let groups = GROUPS.min(self.classes);
        if groups < 2 {
            return;
        }
        for group in (0..groups).step_by(stride) {
            let is_left_out = |class: usize| class % groups == group;
            let left_out =
                self.marks(|index| self.training_texts[index].class.is_some_and(is_left_out));
            let model = self
                .training
                .without(self.examples, &left_out, READJUSTING_PASSES);
            let knows_out_of_scope = self.out_of_scope() > 0;
            for (index, training_text) in self.training_texts.iter().enumerate() {
                if left_out[index] && training_text.is_utterance {
                    let features = &self.examples[index].features;
                    let evidence = evidence(&model, features, knows_out_of_scope, |class| {
                        !is_left_out(class)
                    });
                    observations.push(Observation {
                        evidence,
                        truth: None,
                        weight: LEFT_OUT_WEIGHT,
                    });
                }
            }
        }
    }

    /// Marks training texts; additional examples after them stay unmarked.
    fn marks(&self, is_marked: impl Fn(usize) -> bool) -> Vec<bool> {
        (0..self.examples.len())
            .map(|index| index < self.training_texts.len() && is_marked(index))
            .collect()
    }
}

/// A text of which only the most common features are known, such as "what is the … of …": a typical text
/// about something else.
fn masked(features: &Features) -> Features {
    // Numbers are ordered from common to rare.
    let mut known = features.known.clone();
    known.sort_unstable_by_key(|&(number, _)| number);
    let square = |&(_, weight): &(u32, f32)| weight * weight;
    let whole: f32 = known.iter().map(square).sum();
    let mut left = 0.0;
    known.retain(|feature| {
        left += square(feature);
        left <= COMMON_SHARE * whole
    });
    let remaining: f32 = known.iter().map(square).sum();
    let share = if whole > 0.0 { remaining / whole } else { 0.0 };
    Features {
        known,
        unknown: 1.0 - (1.0 - features.unknown) * share,
    }
}

fn evidence(
    model: &Linear,
    features: &Features,
    knows_out_of_scope: bool,
    is_contender: impl Fn(usize) -> bool,
) -> Evidence {
    let mut scores = model.scores(features);
    let reject = scores.pop().filter(|_| knows_out_of_scope).unwrap_or(-1.0);
    let mut contenders: Vec<(usize, f32)> = scores
        .into_iter()
        .enumerate()
        .filter(|&(class, _)| is_contender(class))
        .collect();
    let better = |left: &(usize, f32), right: &(usize, f32)| {
        right.1.total_cmp(&left.1).then(left.0.cmp(&right.0))
    };
    if contenders.len() > CONTENDERS {
        contenders.select_nth_unstable_by(CONTENDERS - 1, better);
        contenders.truncate(CONTENDERS);
    }
    contenders.sort_unstable_by(better);
    Evidence {
        contenders,
        reject,
        unknown: features.unknown,
    }
}
