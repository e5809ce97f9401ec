//! The text classifier: features, a linear model over them, and a calibration of its scores.

use crate::calibration::{CONTENDERS, Calibration, Evidence, Observation};
use crate::features::{Features, Vocabulary};
use crate::linear::{Example, Linear, Training};

/// Passes over the examples; a fifth changes hardly any decision.
const PASSES: u64 = 4;

/// Passes that settle a model after some of its examples were taken out.
const SETTLING_PASSES: u64 = 2;

/// Each class's examples are held out in this many parts, for scores of unseen examples.
const PARTS: usize = 9;

/// Entries are left out in this many groups, for scores of texts that no entry covers.
const GROUPS: usize = 5;

/// With more lessons than this, every fifth of the parts and groups says enough.
const MANY_LESSONS: usize = 2_000;

/// Fewer out-of-scope examples than this do not show what out of scope looks like, so that entries
/// that were left out stand in for it.
const ENOUGH_OUT_OF_SCOPE: usize = 30;

/// What an example of an entry that was left out counts for. It is close to what the other entries
/// cover, closer than most of what people say, hence little.
const LEFT_OUT_WEIGHT: f64 = 0.02;

/// How much of a text's known part is left when all but its most common features are blotted out.
const COMMON_SHARE: f32 = 0.25;

/// What a blotted text counts for.
const BLOTTED_WEIGHT: f64 = 0.05;

/// One text to learn from.
#[derive(Debug, Clone)]
pub(crate) struct TrainingText {
    pub(crate) text: String,
    /// The class it belongs to, or none for what no class covers.
    pub(crate) class: Option<usize>,
    /// Whether people say it so. A description or a pattern's words teach a little, but tell
    /// nothing about how sure the model may be.
    pub(crate) spoken: bool,
}

/// What the classifier makes of a text.
#[derive(Debug)]
pub(crate) struct Judgement {
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
    /// Learns from the lessons; the same lessons always give the same classifier.
    pub(crate) fn train(classes: usize, lessons: &[TrainingText]) -> Self {
        let (vocabulary, features) =
            Vocabulary::learn(lessons.iter().map(|lesson| lesson.text.as_str()));
        let mut examples: Vec<Example> = lessons
            .iter()
            .zip(features)
            .map(|(lesson, features)| Example {
                // Out of scope is a class of its own, behind the others.
                class: Some(lesson.class.unwrap_or(classes)),
                features,
                cost: if lesson.spoken { 1.0 } else { 0.3 },
            })
            .collect();
        // Of a text that shares nothing with any example every class must say no.
        examples.push(Example {
            class: None,
            features: Features::default(),
            cost: 1.0,
        });
        let mut training = Training::new(classes + 1, vocabulary.len(), examples.len());
        for seed in 0..PASSES {
            training.pass(&examples, seed + 1, &[]);
        }
        let trial = Trial {
            classes,
            lessons,
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

    /// Judges any text.
    pub(crate) fn judge(&self, text: &str) -> Judgement {
        let features = self.vocabulary.features(text);
        let evidence = evidence(&self.model, &features, self.knows_out_of_scope, |_| true);
        let (shares, none) = self.calibration.probabilities(&evidence);
        let ranked = evidence
            .contenders
            .iter()
            .zip(shares)
            .map(|(&(class, _), share)| (class, share));
        Judgement {
            ranked: ranked.collect(),
            none,
        }
    }
}

/// Puts a trained model on trial: what would it have said of examples it had not seen?
struct Trial<'t> {
    classes: usize,
    lessons: &'t [TrainingText],
    examples: &'t [Example],
    training: &'t Training,
}

impl Trial<'_> {
    fn out_of_scope(&self) -> usize {
        self.lessons
            .iter()
            .filter(|lesson| lesson.class.is_none())
            .count()
    }

    fn lacks_out_of_scope(&self) -> bool {
        self.out_of_scope() < ENOUGH_OUT_OF_SCOPE
    }

    fn observations(&self) -> Vec<Observation> {
        let stride = if self.lessons.len() > MANY_LESSONS {
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

    /// Holds out neighbouring examples together: people write paraphrases side by side, and a model
    /// that has seen the one would look surer of the other than it will be of a stranger's words.
    fn hold_out_parts(&self, stride: usize, observations: &mut Vec<Observation>) {
        let mut totals = vec![0usize; self.classes + 1];
        let class_of = |lesson: &TrainingText| lesson.class.unwrap_or(self.classes);
        for lesson in self.lessons.iter().filter(|lesson| lesson.spoken) {
            totals[class_of(lesson)] += 1;
        }
        let mut seen = vec![0usize; self.classes + 1];
        let parts: Vec<Option<usize>> = self
            .lessons
            .iter()
            .map(|lesson| {
                let class = class_of(lesson);
                lesson.spoken.then(|| {
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
                .without(self.examples, &held_out, SETTLING_PASSES);
            let knows_out_of_scope = self.out_of_scope() > 0;
            for (index, lesson) in self
                .lessons
                .iter()
                .enumerate()
                .filter(|&(i, _)| held_out[i])
            {
                let features = &self.examples[index].features;
                if self.lacks_out_of_scope() {
                    observations.push(Observation {
                        evidence: evidence(&model, &blotted(features), knows_out_of_scope, |_| {
                            true
                        }),
                        truth: None,
                        weight: BLOTTED_WEIGHT,
                    });
                }
                let evidence = evidence(&model, features, knows_out_of_scope, |_| true);
                observations.push(Observation {
                    evidence,
                    truth: lesson.class,
                    weight: 1.0,
                });
            }
        }
    }

    /// Leaves whole entries out: for the model that remains, their examples are out of scope.
    fn leave_out_entries(&self, stride: usize, observations: &mut Vec<Observation>) {
        let groups = GROUPS.min(self.classes);
        if groups < 2 {
            return;
        }
        for group in (0..groups).step_by(stride) {
            let is_left_out = |class: usize| class % groups == group;
            let left_out = self.marks(|index| self.lessons[index].class.is_some_and(is_left_out));
            let model = self
                .training
                .without(self.examples, &left_out, SETTLING_PASSES);
            let knows_out_of_scope = self.out_of_scope() > 0;
            for (index, lesson) in self.lessons.iter().enumerate() {
                if left_out[index] && lesson.spoken {
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

    /// Marks lessons; the examples behind them, which are no lessons, stay unmarked.
    fn marks(&self, is_marked: impl Fn(usize) -> bool) -> Vec<bool> {
        (0..self.examples.len())
            .map(|index| index < self.lessons.len() && is_marked(index))
            .collect()
    }
}

/// A text of which only the most common features are known, the "what is the … of …" of the
/// examples' language: this is how a text looks that is about something else.
fn blotted(features: &Features) -> Features {
    // Numbers go from the most to the least common.
    let mut known = features.known.clone();
    known.sort_unstable_by_key(|&(number, _)| number);
    let square = |&(_, weight): &(u32, f32)| weight * weight;
    let whole: f32 = known.iter().map(square).sum();
    let mut left = 0.0;
    known.retain(|feature| {
        left += square(feature);
        left <= COMMON_SHARE * whole
    });
    let kept: f32 = known.iter().map(square).sum();
    let share = if whole > 0.0 { kept / whole } else { 0.0 };
    Features {
        known,
        unknown: 1.0 - (1.0 - features.unknown) * share,
    }
}

fn evidence(
    model: &Linear,
    features: &Features,
    knows_out_of_scope: bool,
    takes_part: impl Fn(usize) -> bool,
) -> Evidence {
    let mut scores = model.scores(features);
    let reject = scores.pop().filter(|_| knows_out_of_scope).unwrap_or(-1.0);
    let mut contenders: Vec<(usize, f32)> = scores
        .into_iter()
        .enumerate()
        .filter(|&(class, _)| takes_part(class))
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
