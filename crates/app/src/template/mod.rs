//! The template language of replies, arguments and conditions, and its limits. Checking and rendering
//! share the parser, so that a template which passes the check does not fail to parse when rendered.
//!
//! The language is Jinja as implemented by minijinja, without features that let a template keep or share
//! state: other templates, macros, namespaces, recursive loops. Without them, the number of operations
//! that a value depends on is bounded by the template's length.

mod known;
mod meter;
mod nesting;
mod strict;
mod walk;

pub(crate) use strict::UNORDERED;

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
use minijinja::{AutoEscape, Environment, Error, ErrorKind, machinery};
use serde_json::{Map, Value};

/// Limit of a template or expression, in bytes.
pub const MAX_TEMPLATE_BYTES: usize = 64 * 1024;

/// Limit of nesting: blocks, brackets, and operators that apply to each other's results, such as `not`,
/// `and`, `+`, `.` and `|`, added up.
pub const MAX_TEMPLATE_DEPTH: usize = 100;

/// Limit of operations in all expressions of a template.
pub const MAX_TEMPLATE_OPERATIONS: usize = 2_000;

/// Limit of steps of one rendering. A reply over a thousand items takes about a tenth of it.
pub const MAX_TEMPLATE_STEPS: u64 = 200_000;

/// Limit of the rendered text, in bytes.
pub const MAX_RENDERED_BYTES: usize = 1024 * 1024;

/// Limit of all texts and lists created by one rendering, in bytes.
pub const MAX_TEMPLATE_MEMORY: usize = 16 * 1024 * 1024;

/// Why a template is invalid or could not be rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateFault {
    /// Stable code.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub help: Option<String>,
    /// The faulty bytes of the template, if known.
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

    /// An error while rendering.
    fn failed(message: impl Into<String>) -> Self {
        Self {
            code: "template.failed",
            message: message.into(),
            help: None,
            range: None,
        }
    }

    fn of_rendering(error: &Error) -> Self {
        if error.kind() != ErrorKind::UndefinedError {
            return Self::failed(error.to_string());
        }
        let message = error.detail().unwrap_or("a value is undefined");
        let help = "ask for what may be missing by `is defined`, `or` or `default`";
        Self {
            code: "template.undefined",
            ..Self::failed(message)
        }
        .help(help)
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

    /// Whether a name without a value is known all the same, such as an optional slot. Any other is an error.
    fn may_be_absent(&self, _name: &str) -> bool {
        true
    }
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
    /// The contents of `{{ … }}`.
    Expression,
}

/// The syntax tree of a template or an expression.
enum Tree<'s> {
    Template(ast::Stmt<'s>),
    Expression(ast::Expr<'s>),
}

/// The template language: filters, tests and functions, without any template.
#[derive(Debug)]
pub struct TemplateLanguage(Environment<'static>);

impl Default for TemplateLanguage {
    fn default() -> Self {
        Self::new()
    }
}

impl TemplateLanguage {
    pub fn new() -> Self {
        let mut environment = Environment::new();
        environment.set_fuel(Some(MAX_TEMPLATE_STEPS));
        // These keep state or reveal internals.
        environment.remove_global("namespace");
        environment.remove_global("debug");
        meter::install(&mut environment);
        strict::install(&mut environment);
        Self(environment)
    }

    /// Renders a template over a context.
    pub fn text(
        &self,
        template: &str,
        context: &(impl TemplateContext + ?Sized),
    ) -> Result<String, TemplateFault> {
        let instructions = self.compile(template, Form::Template)?;
        let mut text = String::new();
        self.run(&instructions, context, &mut text)?;
        if text.len() > MAX_RENDERED_BYTES {
            let message = format!("the text has more than {MAX_RENDERED_BYTES} bytes");
            return Err(TemplateFault::failed(message));
        }
        Ok(text)
    }

    /// Evaluates an expression over a context.
    pub fn value(
        &self,
        expression: &str,
        context: &(impl TemplateContext + ?Sized),
    ) -> Result<Value, TemplateFault> {
        let instructions = self.compile(expression, Form::Expression)?;
        let value = self.run(&instructions, context, &mut String::new())?;
        let value = value.unwrap_or_default();
        meter::measure_size(&value, MAX_TEMPLATE_MEMORY)
            .map_err(|error| TemplateFault::of_rendering(&error))?;
        serde_json::to_value(value).map_err(|error| TemplateFault::failed(error.to_string()))
    }

    fn run(
        &self,
        instructions: &Instructions<'_>,
        context: &(impl TemplateContext + ?Sized),
        text: &mut String,
    ) -> Result<Option<minijinja::Value>, TemplateFault> {
        let root = minijinja::Value::from(self.named(instructions, context));
        let mut output = make_string_output(text);
        let blocks = BTreeMap::new();
        let environment: &Environment<'_> = &self.0;
        // Nothing that a panic may leave inconsistent is used afterwards.
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
            Err(_) => Err(TemplateFault::failed("the template engine failed")),
        }
    }

    /// All faults of a template that may use these names.
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
        let mut instructions = generator.finish().0;
        strict::instrument(&mut instructions, form == Form::Expression);
        meter::instrument(&mut instructions);
        Ok(instructions)
    }

    /// What a context has of the names that instructions look up.
    fn named(
        &self,
        instructions: &Instructions<'_>,
        context: &(impl TemplateContext + ?Sized),
    ) -> BTreeMap<String, minijinja::Value> {
        let mut values = BTreeMap::new();
        for instruction in (0..).map_while(|index| instructions.get(index)) {
            let (Instruction::Lookup(name) | Instruction::CallFunction(name, _)) = instruction
            else {
                continue;
            };
            if values.contains_key(*name) {
                continue;
            }
            let is_global = || self.0.globals().any(|(global, _)| global == *name);
            let value = match context.value_of(name) {
                Some(value) => minijinja::Value::from(Serde(&value)),
                None if context.may_be_absent(name) && !is_global() => strict::absent(name),
                None => continue,
            };
            values.insert((*name).to_owned(), value);
        }
        values
    }
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
    tree.map_err(|error| syntax_fault(text, form, &error))
}

fn syntax_fault(text: &str, form: Form, error: &Error) -> TemplateFault {
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
    let message = format!("the {what} cannot be parsed: {why}");
    let range = error.range().or_else(|| {
        let start = offset_of_line(text, error.line()?);
        Some(start..start)
    });
    let statement = why.strip_prefix("unknown statement ");
    let help = statement
        .and_then(walk::statement_help)
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
