//! The template language of replies, arguments and conditions: what may be written in it, and how much a template
//! may do. Files are checked and replies are rendered by the same code, so that what passes the one does not fail
//! in the other for what it is.
//!
//! It is Jinja as minijinja reads it, less what lets a template keep or share something: other templates, macros,
//! namespaces, recursive loops. Without them a value can depend on no more operations than the template has.

mod known;
mod meter;
mod nesting;
mod walk;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use minijinja::machinery::{
    CodeGenerator, Instruction, Instructions, ast, eval, make_string_output,
};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Error, UndefinedBehavior, machinery};
use serde_json::{Map, Value};

/// The most bytes of a template or an expression.
pub const MAX_TEMPLATE_BYTES: usize = 64 * 1024;

/// How deep a template may be nested: blocks, brackets, and operators that work on each other's results, such as
/// `not`, `and`, `+`, `.` and `|`, added up.
pub const MAX_TEMPLATE_DEPTH: usize = 100;

/// The most operations that a template may be written with, in all its expressions together.
pub const MAX_TEMPLATE_OPERATIONS: usize = 2_000;

/// The most steps that rendering a template takes. A reply over a thousand items takes about a tenth of it.
pub const MAX_TEMPLATE_STEPS: u64 = 200_000;

/// The most bytes of the text that a template gives.
pub const MAX_RENDERED_BYTES: usize = 1024 * 1024;

/// The most bytes of all the texts and lists together that a template makes on its way.
pub const MAX_TEMPLATE_MEMORY: usize = 16 * 1024 * 1024;

/// Why a template cannot be used, or gave nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateFault {
    /// Stable and greppable.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
    /// Which bytes of the template are at fault, as far as that is known.
    pub range: Option<Range<usize>>,
}

impl TemplateFault {
    fn at(range: Range<usize>, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            help: None,
            range: Some(range),
        }
    }

    fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// What came in the way while a template was rendered.
    fn failed(message: impl Into<String>) -> Self {
        Self {
            code: "template.failed",
            message: message.into(),
            help: None,
            range: None,
        }
    }

    fn of_rendering(error: &Error) -> Self {
        Self::failed(error.to_string())
    }
}

impl fmt::Display for TemplateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

/// The names that a template may speak of. Only those that it does speak of are looked up, so that a large context costs
/// nothing where it is not used.
pub trait TemplateContext {
    /// What a name stands for, if it stands for anything.
    fn value_of(&self, name: &str) -> Option<Cow<'_, Value>>;
}

impl TemplateContext for Map<String, Value> {
    fn value_of(&self, name: &str) -> Option<Cow<'_, Value>> {
        self.get(name).map(Cow::Borrowed)
    }
}

/// Whether a text is a template with expressions in it, or one expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Text with `{{ … }}` and `{% … %}`.
    Template,
    /// What could stand within `{{ … }}`.
    Expression,
}

/// A template or an expression as a tree.
enum Tree<'s> {
    Template(ast::Stmt<'s>),
    Expression(ast::Expr<'s>),
}

/// The template language. It holds everything that templates can use, and no template.
#[derive(Debug)]
pub struct TemplateLanguage(Environment<'static>);

impl Default for TemplateLanguage {
    fn default() -> Self {
        Self::new()
    }
}

impl TemplateLanguage {
    /// The language with all its filters, tests and functions.
    pub fn new() -> Self {
        let mut environment = Environment::new();
        environment.set_fuel(Some(MAX_TEMPLATE_STEPS));
        // A node that was never come to has given nothing, and so has no fields either.
        environment.set_undefined_behavior(UndefinedBehavior::Chainable);
        // These keep something, or tell what is none of the user's business.
        environment.remove_global("namespace");
        environment.remove_global("debug");
        meter::install(&mut environment);
        Self(environment)
    }

    /// The text that a template gives over a context.
    pub fn text(
        &self,
        template: &str,
        context: &(impl TemplateContext + ?Sized),
    ) -> Result<String, TemplateFault> {
        let mut instructions = self.compile(template, Form::Template)?;
        meter::measure(&mut instructions);
        let mut text = String::new();
        self.run(&instructions, context, &mut text)?;
        if text.len() > MAX_RENDERED_BYTES {
            let message = format!("the text has more than {MAX_RENDERED_BYTES} bytes");
            return Err(TemplateFault::failed(message));
        }
        Ok(text)
    }

    /// What an expression gives over a context.
    pub fn value(
        &self,
        expression: &str,
        context: &(impl TemplateContext + ?Sized),
    ) -> Result<Value, TemplateFault> {
        let mut instructions = self.compile(expression, Form::Expression)?;
        meter::measure(&mut instructions);
        let value = self.run(&instructions, context, &mut String::new())?;
        let value = value.unwrap_or_default();
        meter::weigh(&value, MAX_TEMPLATE_MEMORY)
            .map_err(|error| TemplateFault::of_rendering(&error))?;
        serde_json::to_value(value).map_err(|error| TemplateFault::failed(error.to_string()))
    }

    fn run(
        &self,
        instructions: &Instructions<'_>,
        context: &(impl TemplateContext + ?Sized),
        text: &mut String,
    ) -> Result<Option<minijinja::Value>, TemplateFault> {
        let root = minijinja::Value::from(Serde(&named(instructions, context)));
        let mut output = make_string_output(text);
        let blocks = BTreeMap::new();
        let environment: &Environment<'_> = &self.0;
        // Nothing that was under way is looked at after a panic.
        let rendered = catch_unwind(AssertUnwindSafe(|| {
            eval(
                environment,
                instructions,
                root,
                &blocks,
                &mut output,
                AutoEscape::None,
            )
            .map(|(value, _)| value)
        }));
        match rendered {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(TemplateFault::of_rendering(&error)),
            Err(_) => Err(TemplateFault::failed("the template engine gave up")),
        }
    }

    /// Everything that is wrong with a template that may speak of the `names`.
    pub(crate) fn check(&self, text: &str, form: Form, names: &[&str]) -> Vec<TemplateFault> {
        match parse(text, form) {
            Ok(tree) => walk::faults(&tree, form, &self.0, Some(names)),
            Err(fault) => vec![fault],
        }
    }

    fn compile<'s>(&self, text: &'s str, form: Form) -> Result<Instructions<'s>, TemplateFault> {
        let tree = parse(text, form)?;
        if let Some(fault) = walk::faults(&tree, form, &self.0, None).into_iter().next() {
            return Err(fault);
        }
        let mut generator = CodeGenerator::new("<template>", text);
        match &tree {
            Tree::Template(statement) => generator.compile_stmt(statement),
            Tree::Expression(expression) => generator.compile_expr(expression),
        }
        Ok(generator.finish().0)
    }
}

/// What a context has of the names that instructions look up.
fn named<'c>(
    instructions: &Instructions<'_>,
    context: &'c (impl TemplateContext + ?Sized),
) -> BTreeMap<String, Cow<'c, Value>> {
    let mut values = BTreeMap::new();
    for instruction in (0..).map_while(|index| instructions.get(index)) {
        if let Instruction::Lookup(name) | Instruction::CallFunction(name, _) = instruction
            && !values.contains_key(*name)
            && let Some(value) = context.value_of(name)
        {
            values.insert((*name).to_owned(), value);
        }
    }
    values
}

/// Reads a template, unless it is too large or too deep to be read.
fn parse(text: &str, form: Form) -> Result<Tree<'_>, TemplateFault> {
    nesting::check(text, form)?;
    let tree = match form {
        Form::Template => {
            machinery::parse(text, "<template>", SyntaxConfig::default()).map(Tree::Template)
        }
        Form::Expression => machinery::parse_expr(text).map(Tree::Expression),
    };
    tree.map_err(|error| misunderstood(text, form, &error))
}

fn misunderstood(text: &str, form: Form, error: &Error) -> TemplateFault {
    let (what, code, help) = match form {
        Form::Template => (
            "template",
            "app.template",
            "write expressions as `{{ name }}` and blocks as `{% if … %}…{% endif %}`",
        ),
        Form::Expression => (
            "expression",
            "app.expression",
            "write a condition without braces, such as `routing_key == \"yes\"`",
        ),
    };
    let why = error
        .detail()
        .map_or_else(|| error.kind().to_string(), str::to_owned);
    let message = format!("the {what} cannot be understood: {why}");
    let range = error.range().or_else(|| {
        let start = offset_of_line(text, error.line()?);
        Some(start..start)
    });
    let statement = why.strip_prefix("unknown statement ");
    let help = statement
        .and_then(walk::instead_of)
        .unwrap_or_else(|| help.to_owned());
    TemplateFault {
        code,
        message,
        help: Some(help),
        range,
    }
}

fn offset_of_line(text: &str, line: usize) -> usize {
    text.split_inclusive('\n')
        .take(line.saturating_sub(1))
        .map(str::len)
        .sum()
}
