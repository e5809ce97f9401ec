//! Measures the nesting of a template from its tokens before it is parsed: the parser and everything
//! after it recurse once per level, and a template that is too deep would overflow the stack.

use std::ops::Range;

use minijinja::machinery::{Span, Token, tokenize};
use minijinja::syntax::SyntaxConfig;

use super::{Form, MAX_TEMPLATE_BYTES, MAX_TEMPLATE_DEPTH, MAX_TEMPLATE_OPERATIONS, TemplateFault};

/// Levels added by a bracket: the expression before it is nested as well.
const BRACKET_LEVELS: usize = 2;

/// Rejects a template that is too large, too deep, or has too many operations.
pub(super) fn check(text: &str, form: Form) -> Result<(), TemplateFault> {
    if text.len() > MAX_TEMPLATE_BYTES {
        let start = (0..=MAX_TEMPLATE_BYTES)
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0);
        let message = format!(
            "the template has {} bytes; at most {MAX_TEMPLATE_BYTES} are allowed",
            text.len()
        );
        let fault = TemplateFault::at(start..text.len(), "app.template_too_large", message);
        return Err(fault.help("make it shorter, or return the text from a tool"));
    }
    let mut nesting = Nesting::default();
    let in_expression = form == Form::Expression;
    if in_expression {
        nesting.open(1);
    }
    for token in tokenize(text, in_expression, SyntaxConfig::default()) {
        // The parser stops at an invalid token too.
        let Ok((token, span)) = token else { break };
        nesting.take(&token);
        if nesting.depth() > MAX_TEMPLATE_DEPTH {
            let message =
                format!("the template is nested more than {MAX_TEMPLATE_DEPTH} levels deep");
            let fault = TemplateFault::at(range(span), "app.template_too_deep", message);
            return Err(fault.help("split it, with `{% set … %}` for the parts"));
        }
        if nesting.operations > MAX_TEMPLATE_OPERATIONS {
            let message =
                format!("the template has more than {MAX_TEMPLATE_OPERATIONS} operations");
            let fault = TemplateFault::at(range(span), "app.template_too_large", message);
            return Err(fault.help("make it shorter, or compute it in a tool"));
        }
    }
    Ok(())
}

pub(super) fn range(span: Span) -> Range<usize> {
    span.start_offset as usize..span.end_offset as usize
}

/// An expression being read: of a tag, or in brackets. Of parts separated by commas or colons, the
/// deepest counts.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    /// Levels above this expression.
    own: usize,
    /// Operators so far. Each may apply to the result of all earlier ones.
    operators: usize,
    /// The deepest closed bracket in it.
    within: usize,
    /// The deepest of the parts before it.
    before: usize,
}

impl Part {
    fn next(&mut self) {
        self.before = self.before.max(self.operators + self.within);
        self.operators = 0;
        self.within = 0;
    }

    fn depth(&self) -> usize {
        self.own + self.before.max(self.operators + self.within)
    }
}

#[derive(Debug, Default)]
struct Nesting {
    /// Levels of each open block: one, plus one for each `elif`.
    blocks: Vec<usize>,
    /// The tag being read, and its open brackets.
    parts: Vec<Part>,
    /// The first word of the tag, once it has been read.
    keyword: Option<Keyword>,
    /// Whether the next token is the first of a statement.
    at_start: bool,
    /// Whether the last token was `.` or `|`, so that the next word is a name.
    at_name: bool,
    operations: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keyword {
    /// Opens a block.
    Opens,
    /// Opens a block unless it assigns a value.
    Sets,
    /// Continues with another condition, nested in the previous one.
    Continues,
    /// Closes a block.
    Closes,
    /// Any other keyword.
    Other,
}

impl Keyword {
    fn of(word: &str) -> Self {
        match word {
            "if" | "for" | "with" | "filter" | "autoescape" | "block" | "macro" | "call" => {
                Self::Opens
            }
            "set" => Self::Sets,
            "elif" => Self::Continues,
            word if word.starts_with("end") => Self::Closes,
            _ => Self::Other,
        }
    }
}

impl Nesting {
    fn depth(&self) -> usize {
        let blocks: usize = self.blocks.iter().sum();
        let ways: usize = self
            .parts
            .iter()
            .rev()
            .skip(1)
            .map(|part| part.own + part.operators)
            .sum();
        blocks + ways + self.parts.last().map_or(0, Part::depth)
    }

    fn open(&mut self, own: usize) {
        self.parts.push(Part {
            own,
            ..Part::default()
        });
    }

    fn close(&mut self) {
        // The tag itself is closed only by its end.
        if self.parts.len() > 1
            && let Some(closed) = self.parts.pop()
            && let Some(part) = self.parts.last_mut()
        {
            part.within = part.within.max(closed.depth());
        }
    }

    fn operator(&mut self) {
        self.operations += 1;
        if let Some(part) = self.parts.last_mut() {
            part.operators += 1;
        }
    }

    fn take(&mut self, token: &Token<'_>) {
        let at_start = std::mem::take(&mut self.at_start);
        let at_name = std::mem::take(&mut self.at_name);
        match token {
            Token::VariableStart => {
                self.parts.clear();
                self.open(1);
                self.keyword = None;
            }
            Token::BlockStart => {
                self.parts.clear();
                self.open(1);
                self.keyword = None;
                self.at_start = true;
            }
            Token::VariableEnd => self.parts.clear(),
            Token::BlockEnd => self.end_statement(),
            Token::Ident(word) if at_start => self.keyword = Some(Keyword::of(word)),
            Token::Ident("and" | "or" | "not" | "in" | "is" | "if" | "else") if !at_name => {
                self.operator();
            }
            Token::Dot | Token::Pipe => {
                self.operator();
                self.at_name = true;
            }
            Token::Plus
            | Token::Minus
            | Token::Mul
            | Token::Div
            | Token::FloorDiv
            | Token::Pow
            | Token::Mod
            | Token::Tilde
            | Token::Eq
            | Token::Ne
            | Token::Gt
            | Token::Gte
            | Token::Lt
            | Token::Lte => self.operator(),
            Token::BracketOpen | Token::ParenOpen | Token::BraceOpen => {
                self.operator();
                self.open(BRACKET_LEVELS);
            }
            Token::BracketClose | Token::ParenClose | Token::BraceClose => self.close(),
            Token::Comma | Token::Colon => {
                if let Some(part) = self.parts.last_mut() {
                    part.next();
                }
            }
            Token::Assign => {
                if self.keyword == Some(Keyword::Sets) && self.parts.len() == 1 {
                    self.keyword = Some(Keyword::Other);
                }
            }
            Token::TemplateData(_)
            | Token::Ident(_)
            | Token::Str(_)
            | Token::String(_)
            | Token::Int(_)
            | Token::Int128(_)
            | Token::Float(_) => {}
        }
    }

    fn end_statement(&mut self) {
        self.parts.clear();
        match self.keyword.take() {
            Some(Keyword::Opens | Keyword::Sets) => self.blocks.push(1),
            Some(Keyword::Continues) => {
                if let Some(levels) = self.blocks.last_mut() {
                    *levels += 1;
                }
            }
            Some(Keyword::Closes) => {
                self.blocks.pop();
            }
            Some(Keyword::Other) | None => {}
        }
    }
}
