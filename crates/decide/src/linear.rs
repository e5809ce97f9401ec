//! One linear model per class, all trained together: support vector machines with squared hinge loss,
//! one against the rest, by dual coordinate descent.
//!
//! The weights of one feature for all classes are adjacent in memory. Scoring a text reads one row per
//! feature, which vectorises over classes, and training uses the same rows. The dual variables are kept
//! during training, so that examples can be removed from a trained model exactly; that makes held-out
//! scores for the calibration cheap.

use crate::features::Features;

/// Rows are padded to a multiple of this, so that loops over them have no remainder.
const LANES: usize = 16;

/// Smaller violations are not worth an update.
const TOLERANCE: f32 = 0.05;

/// One training example.
#[derive(Debug)]
pub(crate) struct Example {
    /// Its class; `None` if it belongs to no class.
    pub(crate) class: Option<usize>,
    pub(crate) features: Features,
    /// The cost of misclassifying it.
    pub(crate) cost: f32,
}

/// The trained weights.
#[derive(Debug, Clone)]
pub(crate) struct Linear {
    classes: usize,
    stride: usize,
    weights: Vec<f32>,
    bias: Vec<f32>,
}

/// Weights and the dual variables they result from.
#[derive(Debug, Clone)]
pub(crate) struct Training {
    pub(crate) model: Linear,
    dual: Vec<f32>,
}

impl Linear {
    fn zero(classes: usize, features: usize) -> Self {
        let stride = classes.next_multiple_of(LANES);
        Self {
            classes,
            stride,
            weights: vec![0.0; stride * features],
            bias: vec![0.0; stride],
        }
    }

    /// The scores of all classes; above 0 means that the class accepts the text.
    pub(crate) fn scores(&self, features: &Features) -> Vec<f32> {
        let mut scores = vec![0.0; self.stride];
        self.score_into(features, &mut scores);
        scores.truncate(self.classes);
        scores
    }

    fn score_into(&self, features: &Features, scores: &mut [f32]) {
        // A few classes at a time, so that their sums stay in registers.
        for (block, sums) in scores.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            let offset = block * LANES;
            sums.copy_from_slice(&self.bias[offset..offset + LANES]);
            let mut own = *sums;
            for &(number, weight) in &features.known {
                let start = number as usize * self.stride + offset;
                if let Some(row) = self.weights[start..].first_chunk::<LANES>() {
                    for lane in 0..LANES {
                        own[lane] += weight * row[lane];
                    }
                }
            }
            *sums = own;
        }
    }

    /// Adds `steps` times the features to the weights of the `changed` classes; `steps` is 0 for all
    /// others.
    fn add(&mut self, features: &Features, steps: &[f32], changed: &[usize]) {
        let most_changed = changed.len() * 4 > self.stride;
        for &class in changed {
            self.bias[class] += steps[class];
        }
        for &(number, weight) in &features.known {
            let row = &mut self.weights[number as usize * self.stride..][..self.stride];
            if most_changed {
                for (own, &step) in row.iter_mut().zip(steps) {
                    *own += weight * step;
                }
            } else {
                for &class in changed {
                    row[class] += weight * steps[class];
                }
            }
        }
    }
}

impl Training {
    /// An untrained model.
    pub(crate) fn new(classes: usize, features: usize, examples: usize) -> Self {
        let model = Linear::zero(classes, features);
        let dual = vec![0.0; model.stride * examples];
        Self { model, dual }
    }

    /// One pass over the examples that are not left out, in an order determined by `seed`.
    pub(crate) fn pass(&mut self, examples: &[Example], seed: u64, left_out: &[bool]) {
        let stride = self.model.stride;
        let mut scores = vec![0.0f32; stride];
        let mut steps = vec![0.0f32; stride];
        let mut changed: Vec<usize> = Vec::with_capacity(stride);
        for index in shuffled(examples.len(), seed) {
            if left_out.get(index).copied().unwrap_or(false) {
                continue;
            }
            let example = &examples[index];
            let slack = 0.5 / example.cost;
            // The constant feature of the bias adds 1 to the squared length.
            let curvature = 1.0 + squared_length(&example.features) + slack;
            self.model.score_into(&example.features, &mut scores);
            let dual = &mut self.dual[index * stride..][..stride];
            changed.clear();
            for class in 0..self.model.classes {
                let sign = sign(example, class);
                let violation = sign * scores[class] - 1.0 + dual[class] * slack;
                let renewed = (dual[class] - violation / curvature).max(0.0);
                let step = renewed - dual[class];
                if step.abs() * curvature > TOLERANCE {
                    dual[class] = renewed;
                    steps[class] = step * sign;
                    changed.push(class);
                }
            }
            self.model.add(&example.features, &steps, &changed);
            for &class in &changed {
                steps[class] = 0.0;
            }
        }
    }

    /// A copy without the left-out examples: their share of the weights is subtracted, and `passes` over
    /// the others readjust the rest.
    pub(crate) fn without(&self, examples: &[Example], left_out: &[bool], passes: u64) -> Linear {
        let mut rest = self.clone();
        for (index, example) in examples.iter().enumerate() {
            if left_out[index] {
                rest.remove_example(index, example);
            }
        }
        for seed in 0..passes {
            rest.pass(examples, seed + 100, left_out);
        }
        rest.model
    }

    fn remove_example(&mut self, index: usize, example: &Example) {
        let stride = self.model.stride;
        let mut steps = vec![0.0f32; stride];
        let mut changed = Vec::new();
        let duals = &mut self.dual[index * stride..][..stride];
        for (class, (dual, step)) in duals.iter_mut().zip(&mut steps).enumerate() {
            let dual = std::mem::take(dual);
            if dual > 0.0 {
                *step = -dual * sign(example, class);
                changed.push(class);
            }
        }
        self.model.add(&example.features, &steps, &changed);
    }
}

fn sign(example: &Example, class: usize) -> f32 {
    if example.class == Some(class) {
        1.0
    } else {
        -1.0
    }
}

fn squared_length(features: &Features) -> f32 {
    features
        .known
        .iter()
        .map(|&(_, weight)| weight * weight)
        .sum()
}

/// The numbers below `count` in an order determined by `seed` (a Fisher–Yates shuffle driven by an
/// xorshift generator).
fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for last in (1..count).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let below = last as u64 + 1;
        order.swap(last, usize::try_from(state % below).unwrap_or(last));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(class: usize, known: &[(u32, f32)]) -> Example {
        Example {
            class: Some(class),
            features: Features {
                known: known.to_vec(),
                unknown: 0.0,
            },
            cost: 1.0,
        }
    }

    fn trained(examples: &[Example]) -> Training {
        let mut training = Training::new(2, 3, examples.len());
        for seed in 0..40 {
            training.pass(examples, seed, &[]);
        }
        training
    }

    #[test]
    fn each_class_accepts_its_own_examples() {
        let examples = [
            example(0, &[(0, 1.0)]),
            example(1, &[(1, 1.0)]),
            example(1, &[(1, 1.0), (2, 1.0)]),
        ];
        let model = trained(&examples).model;
        for example in &examples {
            let scores = model.scores(&example.features);
            let class = example.class.unwrap();
            assert!(scores[class] > 0.0 && scores[1 - class] < 0.0, "{scores:?}");
        }
    }

    #[test]
    fn removing_an_example_equals_never_training_on_it() {
        let seen = [
            example(0, &[(0, 1.0)]),
            example(1, &[(1, 1.0)]),
            example(1, &[(0, 1.0)]),
        ];
        let never_seen = [example(0, &[(0, 1.0)]), example(1, &[(1, 1.0)])];
        let without = trained(&seen).without(&seen, &[false, false, true], 40);
        let probe = Features {
            known: vec![(0, 1.0)],
            unknown: 0.0,
        };
        let (left, right) = (
            without.scores(&probe),
            trained(&never_seen).model.scores(&probe),
        );
        for (left, right) in left.iter().zip(right) {
            assert!((left - right).abs() < 0.1, "{left} {right}");
        }
    }

    #[test]
    fn an_order_is_complete_and_determined_by_its_seed() {
        let mut order = shuffled(100, 7);
        assert_eq!(order, shuffled(100, 7));
        assert_ne!(order, shuffled(100, 8));
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }
}
