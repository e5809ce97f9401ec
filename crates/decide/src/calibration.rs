//! Calibrates scores: a confidence of 0.8 is right four times in five.
//!
//! A softmax turns the scores of the best classes and one more option, "none of them", into
//! probabilities. Its parameters are fitted to scores of examples that the model had not seen,
//! regularised by a prior that dominates when such examples are few.

/// The number of best classes that take part in the softmax.
pub(crate) const CONTENDERS: usize = 8;

/// Three slopes for the scores (everywhere, above −½, above 0), and three terms of "none of them": a
/// constant, the score of the out-of-scope class, and the unknown share of the text.
const TERMS: usize = 6;

/// The model's output for one text.
#[derive(Debug, Clone)]
pub(crate) struct Evidence {
    /// The best classes with their scores, best first.
    pub(crate) contenders: Vec<(usize, f32)>,
    /// The score of the out-of-scope class; −1 without one.
    pub(crate) reject: f32,
    /// The share of the text that occurs in no example, 0 to 1.
    pub(crate) unknown: f32,
}

/// Evidence for a text with a known class.
#[derive(Debug)]
pub(crate) struct Observation {
    /// The output of a model that had not seen the text.
    pub(crate) evidence: Evidence,
    /// The correct class, or `None`.
    pub(crate) truth: Option<usize>,
    /// Its weight in the fit.
    pub(crate) weight: f64,
}

/// Turns evidence into probabilities.
#[derive(Debug, Clone)]
pub(crate) struct Calibration {
    terms: [f64; TERMS],
}

/// Averages over catalogues of 3 to 150 entries; a small catalogue moves them only as far as its
/// examples require.
const PRIOR: [f64; TERMS] = [8.0, -2.0, 0.0, -4.0, 3.5, 4.5];

/// Regularisation strength of each term.
const PRIOR_STRENGTH: [f64; TERMS] = [0.1, 0.3, 0.5, 1.0, 1.0, 1.0];

/// Newton's method converges within a few steps; more means that it diverges.
const MAX_STEPS: usize = 30;

impl Default for Calibration {
    fn default() -> Self {
        Self { terms: PRIOR }
    }
}

impl Calibration {
    /// Fits the terms by Newton's method with step halving. The likelihood is concave, so the optimum is
    /// unique.
    pub(crate) fn fit(observations: &[Observation]) -> Self {
        let mut terms = PRIOR;
        let mut reached = Fit::of(&terms, observations);
        for _ in 0..MAX_STEPS {
            let step = solve(reached.curvature, reached.gradient);
            let mut length = 1.0;
            let next = loop {
                let mut moved = terms;
                for (term, change) in moved.iter_mut().zip(step) {
                    *term += length * change;
                }
                let fit = Fit::of(&moved, observations);
                if fit.likelihood > reached.likelihood {
                    break Some((moved, fit));
                }
                length /= 2.0;
                if length < 1e-3 {
                    break None;
                }
            };
            let Some((moved, fit)) = next else { break };
            let gained = fit.likelihood - reached.likelihood;
            (terms, reached) = (moved, fit);
            if gained < 1e-6 {
                break;
            }
        }
        let sound = terms.iter().all(|term| term.is_finite())
            && terms[0] > 0.0
            && terms[0] + terms[1] > 0.0
            && terms[0] + terms[1] + terms[2] > 0.0;
        // A higher score must never mean a lower confidence, whatever unusual examples suggest.
        if sound {
            Self { terms }
        } else {
            Self::default()
        }
    }

    /// The probability of each contender, in order, and of "none of them".
    pub(crate) fn probabilities(&self, evidence: &Evidence) -> (Vec<f64>, f64) {
        let mut shares = probabilities(&self.terms, evidence);
        let none = shares.pop().unwrap_or(1.0);
        (shares, none)
    }
}

fn class_terms(score: f32) -> [f64; TERMS] {
    let score = f64::from(score);
    [score, (score + 0.5).max(0.0), score.max(0.0), 0.0, 0.0, 0.0]
}

fn none_terms(evidence: &Evidence) -> [f64; TERMS] {
    [
        0.0,
        0.0,
        0.0,
        1.0,
        f64::from(evidence.reject) + 1.0,
        f64::from(evidence.unknown),
    ]
}

fn dot(left: &[f64; TERMS], right: &[f64; TERMS]) -> f64 {
    left.iter()
        .zip(right)
        .map(|(left, right)| left * right)
        .sum()
}

/// The terms of each contender, and last of "none of them".
fn options(evidence: &Evidence) -> impl Iterator<Item = [f64; TERMS]> {
    let contenders = evidence
        .contenders
        .iter()
        .map(|&(_, score)| class_terms(score));
    contenders.chain(std::iter::once(none_terms(evidence)))
}

/// The probabilities of the contenders, and last of "none of them".
fn probabilities(terms: &[f64; TERMS], evidence: &Evidence) -> Vec<f64> {
    let mut shares: Vec<f64> = options(evidence)
        .map(|option| dot(&option, terms))
        .collect();
    let highest = shares.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut sum = 0.0;
    for share in &mut shares {
        *share = (*share - highest).exp();
        sum += *share;
    }
    for share in &mut shares {
        *share /= sum;
    }
    shares
}

/// The likelihood of the observations under some terms, with its derivatives.
struct Fit {
    likelihood: f64,
    gradient: [f64; TERMS],
    curvature: [[f64; TERMS]; TERMS],
}

impl Fit {
    fn of(terms: &[f64; TERMS], observations: &[Observation]) -> Self {
        let mut fit = Self {
            likelihood: 0.0,
            gradient: [0.0; TERMS],
            curvature: [[0.0; TERMS]; TERMS],
        };
        for term in 0..TERMS {
            let away = PRIOR[term] - terms[term];
            fit.likelihood -= 0.5 * PRIOR_STRENGTH[term] * away * away;
            fit.gradient[term] = PRIOR_STRENGTH[term] * away;
            fit.curvature[term][term] = PRIOR_STRENGTH[term];
        }
        for observation in observations {
            fit.add(terms, observation);
        }
        fit
    }

    fn add(&mut self, terms: &[f64; TERMS], observation: &Observation) {
        let evidence = &observation.evidence;
        let truth = match observation.truth {
            None => evidence.contenders.len(),
            Some(class) => {
                match evidence
                    .contenders
                    .iter()
                    .position(|&(other, _)| other == class)
                {
                    Some(position) => position,
                    // A correct class outside the contenders gives no information about their shares.
                    None => return,
                }
            }
        };
        let weight = observation.weight;
        let shares = probabilities(terms, evidence);
        let options: Vec<[f64; TERMS]> = options(evidence).collect();
        self.likelihood += weight * shares[truth].max(f64::MIN_POSITIVE).ln();
        let mut mean = [0.0; TERMS];
        for (option, share) in options.iter().zip(&shares) {
            for (mean, value) in mean.iter_mut().zip(option) {
                *mean += share * value;
            }
        }
        for term in 0..TERMS {
            self.gradient[term] += weight * (options[truth][term] - mean[term]);
        }
        for (option, share) in options.iter().zip(&shares) {
            for row in 0..TERMS {
                let from_mean = weight * share * (option[row] - mean[row]);
                for column in 0..TERMS {
                    self.curvature[row][column] += from_mean * (option[column] - mean[column]);
                }
            }
        }
    }
}

/// Solves a small symmetric positive definite system by elimination.
fn solve(mut matrix: [[f64; TERMS]; TERMS], mut right: [f64; TERMS]) -> [f64; TERMS] {
    for pivot in 0..TERMS {
        let upper = matrix[pivot];
        for row in pivot + 1..TERMS {
            let factor = matrix[row][pivot] / upper[pivot];
            for (value, above) in matrix[row].iter_mut().zip(upper) {
                *value -= factor * above;
            }
            right[row] -= factor * right[pivot];
        }
    }
    let mut solution = [0.0; TERMS];
    for row in (0..TERMS).rev() {
        let known: f64 = (row + 1..TERMS)
            .map(|column| matrix[row][column] * solution[column])
            .sum();
        solution[row] = (right[row] - known) / matrix[row][row];
    }
    solution
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(best: f32, second: f32, unknown: f32) -> Evidence {
        Evidence {
            contenders: vec![(0, best), (1, second)],
            reject: -1.0,
            unknown,
        }
    }

    fn observation(best: f32, second: f32, truth: Option<usize>) -> Observation {
        Observation {
            evidence: evidence(best, second, 0.3),
            truth,
            weight: 1.0,
        }
    }

    #[test]
    fn probabilities_sum_to_one_and_follow_the_scores() {
        let (shares, none) = Calibration::default().probabilities(&evidence(0.5, -0.8, 0.2));
        assert!((shares.iter().sum::<f64>() + none - 1.0).abs() < 1e-9);
        assert!(shares[0] > 0.9 && shares[0] > shares[1], "{shares:?}");
    }

    #[test]
    fn an_unknown_text_makes_none_of_them_likely() {
        let calibration = Calibration::default();
        let (_, familiar) = calibration.probabilities(&evidence(-0.6, -0.9, 0.1));
        let (_, strange) = calibration.probabilities(&evidence(-0.6, -0.9, 1.0));
        assert!(strange > familiar);
    }

    #[test]
    fn confidence_equals_how_often_the_same_evidence_was_right() {
        let observations: Vec<Observation> = (0..1_000)
            .map(|index| observation(-0.2, -0.4, Some(usize::from(index % 10 >= 6))))
            .collect();
        let (shares, _) = Calibration::fit(&observations).probabilities(&observations[0].evidence);
        assert!((shares[0] - 0.6).abs() < 0.05, "{shares:?}");
    }

    #[test]
    fn examples_that_invert_scores_do_not_invert_confidence() {
        let observations: Vec<Observation> = (0..1_000)
            .map(|_| observation(0.9, -0.9, Some(1)))
            .collect();
        let (shares, _) = Calibration::fit(&observations).probabilities(&evidence(0.9, -0.9, 0.3));
        assert!(shares[0] > shares[1], "{shares:?}");
    }
}
