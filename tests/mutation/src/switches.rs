//! Writes mutants into a file's code, each behind a switch: `if crate::mutant_switch::on(7) { a - b } else { a + b }`.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use anyhow::{Context, Result};
use proc_macro2::{LineColumn, Span};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::catalog::{Genre, Mutant};

/// The module that the switches ask. A test process reads once which mutant is on, and notes which switches it reaches.
pub(crate) const SWITCH_MODULE: &str = r#"
#[doc(hidden)]
#[allow(clippy::all, clippy::pedantic, clippy::disallowed_methods, missing_docs, unreachable_pub, dead_code)]
pub mod mutant_switch {
    use std::io::Write as _;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Mutex, OnceLock};

    static SETTINGS: OnceLock<(Option<usize>, Option<String>)> = OnceLock::new();
    static REACHED: [AtomicBool; 8192] = [const { AtomicBool::new(false) }; 8192];
    static FILE: Mutex<()> = Mutex::new(());

    pub fn on(mutant: usize) -> bool {
        let (active, trace) = SETTINGS.get_or_init(|| {
            let active = std::env::var("CONVOKE_MUTANT").ok().and_then(|mutant| mutant.parse().ok());
            (active, std::env::var("CONVOKE_MUTANT_TRACE").ok())
        });
        if let Some(trace) = trace {
            if !REACHED[mutant].swap(true, Ordering::Relaxed) {
                let _guard = FILE.lock();
                if let Ok(mut file) = std::fs::OpenOptions::new().append(true).create(true).open(trace) {
                    let _ = file.write_all(format!("{mutant}\n").as_bytes());
                }
            }
        }
        *active == Some(mutant)
    }
}
"#;

/// How many switches [`SWITCH_MODULE`] has room for.
pub(crate) const MOST_MUTANTS: usize = 8_192;

/// What every switch begins with, followed by its number and a closing parenthesis.
pub(crate) const SWITCH: &str = "crate::mutant_switch::on(";

/// What a function with an opaque type of iterator is made to return.
const NO_ITEMS: &str = "::std::iter::empty()";

/// A file's code with switches, and the mutants that found their place. A mutant has none in what is evaluated at compile time,
/// and in a condition that binds with `let`.
pub(crate) fn write(code: &str, mutants: &[&Mutant]) -> Result<(String, BTreeSet<usize>)> {
    let mut wanted = Wanted::new();
    for mutant in mutants {
        let place = (mutant.line, mutant.column, mutant.genre);
        let replacement = (mutant.id, mutant.replacement.clone());
        wanted.entry(place).or_default().push(replacement);
    }
    let parsed = syn::parse_file(code).context("cannot parse")?;
    let mut finder = Finder {
        wanted: &wanted,
        sites: Vec::new(),
        compile_time: 0,
        found: BTreeSet::new(),
    };
    finder.visit_file(&parsed);
    let Finder {
        mut sites, found, ..
    } = finder;
    // What encloses others comes first, and what is inserted at a place comes before what begins there.
    sites.sort_by_key(|site| {
        (
            site.range.0,
            site.range.0 != site.range.1,
            Reverse(site.range.1),
            site.rank,
        )
    });
    let switched = Renderer {
        code,
        sites: &sites,
    }
    .render((0, code.len()), 0);
    Ok((switched, found))
}

/// By line, column and kind of change: the mutants there, each with what it writes instead.
type Wanted = HashMap<(usize, usize, Genre), Vec<(usize, String)>>;

/// Bytes of the code, from and to.
type Range = (usize, usize);

/// A place in the code that has switches.
struct Site {
    range: Range,
    /// Of two sites with the same range, the lower rank encloses the other.
    rank: u8,
    kind: SiteKind,
}

enum SiteKind {
    /// Text that is inserted, and replaces nothing.
    Insertion(String),
    Binary {
        left: Range,
        operator: Range,
        right: Range,
        mutants: Vec<(usize, String)>,
    },
    Unary {
        operand: Range,
        operator: Range,
        mutant: usize,
    },
    Guard {
        mutants: Vec<(usize, String)>,
    },
    /// Fields that a mutant leaves out of an expression such as `Options { lease, ..defaults }`.
    Struct {
        fields: Vec<(usize, Range)>,
    },
}

struct Finder<'a> {
    wanted: &'a Wanted,
    sites: Vec<Site>,
    /// How many items around are evaluated at compile time, where no switch can be asked.
    compile_time: usize,
    found: BTreeSet<usize>,
}

impl Finder<'_> {
    fn mutants_at(&mut self, place: LineColumn, genre: Genre) -> Vec<(usize, String)> {
        if self.compile_time > 0 {
            return Vec::new();
        }
        let mutants = self
            .wanted
            .get(&(place.line, place.column, genre))
            .cloned()
            .unwrap_or_default();
        self.found.extend(mutants.iter().map(|(id, _)| id));
        mutants
    }

    fn insert(&mut self, at: usize, text: String) {
        self.sites.push(Site {
            range: (at, at),
            rank: 0,
            kind: SiteKind::Insertion(text),
        });
    }

    fn replace(&mut self, span: Span, rank: u8, kind: SiteKind) {
        self.sites.push(Site {
            range: range(span),
            rank,
            kind,
        });
    }

    /// A function that returns something at once.
    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let Some(first) = block.stmts.first().map(Spanned::span) else {
            return;
        };
        for (id, value) in self.mutants_at(first.start(), Genre::FnValue) {
            if value == NO_ITEMS {
                // The function has one type only, so that its own value has to become empty.
                let (start, end) = range(block.span());
                self.insert(start + 1, " let items = {".to_owned());
                let most = format!("if {} {{ 0 }} else {{ usize::MAX }}", switch(id));
                self.insert(end - 1, format!("}}; items.take({most}) "));
                continue;
            }
            let is_unit = matches!(signature.output, syn::ReturnType::Default) && value == "()";
            let value = if is_unit { String::new() } else { value };
            self.insert(
                range(first).0,
                format!("if {} {{ return {value}; }} ", switch(id)),
            );
        }
    }

    fn at_compile_time(&mut self, applies: bool, visit: impl FnOnce(&mut Self)) {
        self.compile_time += usize::from(applies);
        visit(self);
        self.compile_time -= usize::from(applies);
    }
}

impl<'a> Visit<'a> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.at_compile_time(item.sig.constness.is_some(), |finder| {
            finder.function(&item.sig, &item.block);
            visit::visit_item_fn(finder, item);
        });
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.at_compile_time(item.sig.constness.is_some(), |finder| {
            finder.function(&item.sig, &item.block);
            visit::visit_impl_item_fn(finder, item);
        });
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_const(&mut self, item: &'a syn::ItemConst) {
        self.at_compile_time(true, |finder| visit::visit_item_const(finder, item));
    }

    fn visit_impl_item_const(&mut self, item: &'a syn::ImplItemConst) {
        self.at_compile_time(true, |finder| visit::visit_impl_item_const(finder, item));
    }

    fn visit_item_static(&mut self, item: &'a syn::ItemStatic) {
        self.at_compile_time(true, |finder| visit::visit_item_static(finder, item));
    }

    fn visit_type(&mut self, item: &'a syn::Type) {
        self.at_compile_time(true, |finder| visit::visit_type(finder, item));
    }

    fn visit_expr_binary(&mut self, expression: &'a syn::ExprBinary) {
        if !binds(&expression.left) && !binds(&expression.right) {
            let mutants = self.mutants_at(expression.op.span().start(), Genre::BinaryOperator);
            if !mutants.is_empty() {
                let (left, right) = (
                    range(expression.left.span()),
                    range(expression.right.span()),
                );
                let operator = range(expression.op.span());
                self.replace(
                    expression.span(),
                    2,
                    SiteKind::Binary {
                        left,
                        operator,
                        right,
                        mutants,
                    },
                );
            }
        }
        visit::visit_expr_binary(self, expression);
    }

    fn visit_expr_unary(&mut self, expression: &'a syn::ExprUnary) {
        let mutants = self.mutants_at(expression.op.span().start(), Genre::UnaryOperator);
        if let Some((mutant, _)) = mutants.first() {
            let kind = SiteKind::Unary {
                operand: range(expression.expr.span()),
                operator: range(expression.op.span()),
                mutant: *mutant,
            };
            self.replace(expression.span(), 2, kind);
        }
        visit::visit_expr_unary(self, expression);
    }

    fn visit_expr_match(&mut self, expression: &'a syn::ExprMatch) {
        for arm in &expression.arms {
            match &arm.guard {
                Some((_, guard)) if !binds(guard) => {
                    let mutants = self.mutants_at(guard.span().start(), Genre::MatchArmGuard);
                    if !mutants.is_empty() {
                        self.replace(guard.span(), 1, SiteKind::Guard { mutants });
                    }
                }
                Some(_) => {}
                None => {
                    for (id, _) in self.mutants_at(arm.span().start(), Genre::MatchArm) {
                        self.insert(range(arm.pat.span()).1, format!(" if !{}", switch(id)));
                    }
                }
            }
        }
        visit::visit_expr_match(self, expression);
    }

    fn visit_expr_struct(&mut self, expression: &'a syn::ExprStruct) {
        if expression.rest.is_some() {
            let mut fields = Vec::new();
            for pair in expression.fields.pairs() {
                let span = pair.value().span();
                let end = pair
                    .punct()
                    .map_or(range(span).1, |comma| range(comma.span()).1);
                for (id, _) in self.mutants_at(span.start(), Genre::StructField) {
                    fields.push((id, (range(span).0, end)));
                }
            }
            if !fields.is_empty() {
                self.replace(expression.span(), 2, SiteKind::Struct { fields });
            }
        }
        visit::visit_expr_struct(self, expression);
    }
}

fn range(span: Span) -> Range {
    let bytes = span.byte_range();
    (bytes.start, bytes.end)
}

fn switch(mutant: usize) -> String {
    format!("{SWITCH}{mutant})")
}

/// Whether a condition binds with `let`, which is allowed only where it stands.
fn binds(condition: &syn::Expr) -> bool {
    struct Search(bool);
    impl<'a> Visit<'a> for Search {
        fn visit_expr_let(&mut self, _: &'a syn::ExprLet) {
            self.0 = true;
        }
        // A `let` within these is a condition of their own.
        fn visit_expr_closure(&mut self, _: &'a syn::ExprClosure) {}
        fn visit_expr_block(&mut self, _: &'a syn::ExprBlock) {}
        fn visit_expr_match(&mut self, _: &'a syn::ExprMatch) {}
        fn visit_expr_if(&mut self, _: &'a syn::ExprIf) {}
    }
    let mut search = Search(false);
    search.visit_expr(condition);
    search.0
}

struct Renderer<'a> {
    code: &'a str,
    sites: &'a [Site],
}

impl Renderer<'_> {
    /// The code of a range, with the sites in it from the given one on.
    fn render(&self, range: Range, mut next: usize) -> String {
        let mut rendered = String::new();
        let mut at = range.0;
        while let Some(site) = self.sites.get(next).filter(|site| site.range.0 < range.1) {
            let (from, to) = site.range;
            if from >= at && to <= range.1 {
                rendered.push_str(&self.code[at..from]);
                rendered.push_str(&self.site(next));
                at = to;
            }
            // What lies within a site was rendered with it.
            next += 1;
        }
        rendered.push_str(&self.code[at..range.1]);
        rendered
    }

    fn site(&self, index: usize) -> String {
        let site = &self.sites[index];
        let within = |range: Range| self.render(range, index + 1);
        let mut rendered = "(".to_owned();
        let mut case = |mutant: usize, code: String| {
            rendered.extend(["if ", &switch(mutant), " { ", &code, " } else "]);
        };
        let original = match &site.kind {
            SiteKind::Insertion(text) => return text.clone(),
            SiteKind::Binary {
                left,
                operator,
                right,
                mutants,
            } => {
                let (left, right) = (within(*left), within(*right));
                for (mutant, other) in mutants {
                    case(*mutant, format!("{left} {other} {right}"));
                }
                format!("{left} {} {right}", &self.code[operator.0..operator.1])
            }
            SiteKind::Unary {
                operand,
                operator,
                mutant,
            } => {
                let operand = within(*operand);
                case(*mutant, operand.clone());
                format!("{}{operand}", &self.code[operator.0..operator.1])
            }
            SiteKind::Guard { mutants } => {
                for (mutant, other) in mutants {
                    case(*mutant, other.clone());
                }
                within(site.range)
            }
            SiteKind::Struct { fields } => {
                for (mutant, field) in fields {
                    let before = within((site.range.0, field.0));
                    case(*mutant, before + &within((field.1, site.range.1)));
                }
                within(site.range)
            }
        };
        rendered + &format!("{{ {original} }})")
    }
}
