//! Checks the names, filters, tests and functions of a template, and rejects unsupported features. It
//! walks the same tree that is rendered.

use std::collections::HashSet;
use std::ops::Range;

use minijinja::Environment;
use minijinja::machinery::ast::{BinOpKind, Call, CallArg, CallType, Expr, Spanned, Stmt};

use super::known::{known_filters, known_tests};
use super::nesting::range;
use super::{Form, MAX_RENDERED_BYTES, TemplateFault, Tree};
use crate::spelling::{did_you_mean, nearest};

/// The faults of a template, in the order of its text. Without `names`, only unsupported features are
/// reported.
pub(super) fn faults(
    tree: &Tree<'_>,
    form: Form,
    environment: &Environment<'_>,
    names: Option<&[&str]>,
) -> Vec<TemplateFault> {
    let mut walk = Walk {
        form,
        environment,
        names,
        scopes: vec![HashSet::new()],
        reported: HashSet::new(),
        constant_bytes: 0,
        faults: Vec::new(),
    };
    match tree {
        Tree::Template(statement) => walk.statement(statement),
        Tree::Expression(expression) => {
            walk.expression(expression);
        }
    }
    let mut faults = walk.faults;
    faults.sort_by_key(|fault| fault.range.as_ref().map_or(0, |range| range.start));
    faults
}

/// Help for an unknown statement.
pub(super) fn statement_help(statement: &str) -> Option<String> {
    let stands_alone = ["include", "import", "from", "extends", "block"];
    if stands_alone.contains(&statement) {
        return Some(format!(
            "templates cannot use other templates; write out what `{statement}` would insert"
        ));
    }
    if ["macro", "call"].contains(&statement) {
        return Some("write it out where it is used, or use a `{% for … %}` loop".to_owned());
    }
    let statements = [
        "if",
        "for",
        "set",
        "with",
        "filter",
        "autoescape",
        "do",
        "raw",
    ];
    nearest(statement, statements).map(|near| format!("did you mean `{near}`?"))
}

fn suggestion(name: &str, known: &[&str], usual: &str) -> String {
    nearest(name, known.iter().copied()).map_or_else(
        || format!("Jinja has, for example, {usual}"),
        |near| format!("did you mean `{near}`?"),
    )
}

/// The size of a value that the parser computes before rendering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Constant {
    /// Known only when rendered.
    No,
    /// A number, a boolean or none.
    Plain,
    /// A text with at most this many bytes.
    Text(usize),
}

/// Limit of digits of a number as text.
const DIGITS: usize = 40;

impl Constant {
    fn bytes(self) -> usize {
        match self {
            Self::Text(bytes) => bytes,
            Self::No | Self::Plain => DIGITS,
        }
    }
}

struct Walk<'a> {
    form: Form,
    environment: &'a Environment<'a>,
    names: Option<&'a [&'a str]>,
    /// Names that the template itself defines, outermost scope first.
    scopes: Vec<HashSet<&'a str>>,
    /// Names that have been reported.
    reported: HashSet<&'a str>,
    /// Bytes of all texts computed before rendering.
    constant_bytes: usize,
    faults: Vec<TemplateFault>,
}

impl<'a> Walk<'a> {
    fn fault(&mut self, range: Range<usize>, code: &'static str, message: String) {
        self.faults.push(TemplateFault::at(range, code, message));
    }

    fn set_help(&mut self, help: Option<String>) {
        if let Some(fault) = self.faults.last_mut() {
            fault.help = help;
        }
    }

    fn assign(&mut self, target: &Expr<'a>) {
        match target {
            Expr::Var(variable) => {
                if let Some(scope) = self.scopes.last_mut() {
                    scope.insert(variable.id);
                }
            }
            Expr::List(list) => list.items.iter().for_each(|item| self.assign(item)),
            other => {
                let range = range(other.span());
                let message = "a template can set names, but not their fields".to_owned();
                self.fault(range, "app.template_unsupported", message);
                self.set_help(Some("set another name".to_owned()));
            }
        }
    }

    fn is_assigned(&self, name: &str) -> bool {
        self.scopes.iter().any(|scope| scope.contains(name))
    }

    fn is_global(&self, name: &str) -> bool {
        self.environment.globals().any(|(global, _)| global == name)
    }

    fn within(&mut self, walk: impl FnOnce(&mut Self)) {
        self.scopes.push(HashSet::new());
        walk(self);
        self.scopes.pop();
    }

    fn statements(&mut self, statements: &[Stmt<'a>]) {
        for statement in statements {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &Stmt<'a>) {
        match statement {
            Stmt::Template(template) => self.statements(&template.children),
            Stmt::EmitExpr(emit) => {
                self.expression(&emit.expr);
            }
            Stmt::EmitRaw(_) => {}
            Stmt::ForLoop(walked) => {
                if walked.recursive {
                    let at = range(walked.iter.span()).end;
                    let message = "a loop cannot call itself".to_owned();
                    self.fault(at..at, "app.template_unsupported", message);
                    self.set_help(Some(
                        "remove `recursive`, and nest a loop for each level".to_owned(),
                    ));
                }
                self.expression(&walked.iter);
                self.within(|walk| {
                    walk.assign(&walked.target);
                    if let Some(filter) = &walked.filter_expr {
                        walk.expression(filter);
                    }
                    if let Some(scope) = walk.scopes.last_mut() {
                        scope.insert("loop");
                    }
                    walk.statements(&walked.body);
                });
                self.statements(&walked.else_body);
            }
            Stmt::IfCond(condition) => {
                self.expression(&condition.expr);
                // Names set under a condition count as known after it.
                self.statements(&condition.true_body);
                self.statements(&condition.false_body);
            }
            Stmt::WithBlock(with) => self.within(|walk| {
                for (target, expression) in &with.assignments {
                    walk.expression(expression);
                    walk.assign(target);
                }
                walk.statements(&with.body);
            }),
            Stmt::Set(set) => {
                self.expression(&set.expr);
                self.assign(&set.target);
            }
            Stmt::SetBlock(set) => {
                if let Some(filter) = &set.filter {
                    self.expression(filter);
                }
                self.statements(&set.body);
                self.assign(&set.target);
            }
            Stmt::AutoEscape(escape) => {
                self.expression(&escape.enabled);
                self.statements(&escape.body);
            }
            Stmt::FilterBlock(block) => {
                self.expression(&block.filter);
                self.statements(&block.body);
            }
            Stmt::Do(call) => self.call(&call.call),
        }
    }

    fn optional(&mut self, expression: Option<&Expr<'a>>) {
        if let Some(expression) = expression {
            self.expression(expression);
        }
    }

    fn all(&mut self, expressions: &[Expr<'a>]) {
        for expression in expressions {
            self.expression(expression);
        }
    }

    fn expression(&mut self, expression: &Expr<'a>) -> Constant {
        match expression {
            Expr::Var(variable) => self.variable(variable.id, range(variable.span())),
            Expr::Const(constant) => {
                let text = constant.value.as_str().map(str::len);
                return text.map_or(Constant::Plain, Constant::Text);
            }
            Expr::UnaryOp(operation) => {
                return match self.expression(&operation.expr) {
                    Constant::No => Constant::No,
                    Constant::Plain | Constant::Text(_) => Constant::Plain,
                };
            }
            Expr::BinOp(operation) => {
                let left = self.expression(&operation.left);
                let right = self.expression(&operation.right);
                if left == Constant::No || right == Constant::No {
                    return Constant::No;
                }
                let number = match (left, right) {
                    (Constant::Text(_), Constant::Plain) => operation.right.as_const(),
                    (Constant::Plain, Constant::Text(_)) => operation.left.as_const(),
                    _ => None,
                };
                let (times, place) = (
                    number.and_then(|number| number.as_usize()),
                    range(operation.span()),
                );
                return self.constant_result(operation.op, left, right, times, place);
            }
            Expr::Compare(comparison) => {
                if let [_, _, ..] = comparison.ops.as_slice() {
                    let message = "a comparison has two sides".to_owned();
                    self.fault(
                        range(comparison.span()),
                        "app.template_unsupported",
                        message,
                    );
                    let help = "join two comparisons by `and`: `a < b and b < c`";
                    self.set_help(Some(help.to_owned()));
                }
                let mut constant = self.expression(&comparison.expr);
                for operation in &comparison.ops {
                    if self.expression(&operation.expr) == Constant::No {
                        constant = Constant::No;
                    }
                }
                return match constant {
                    Constant::No => Constant::No,
                    Constant::Plain | Constant::Text(_) => Constant::Plain,
                };
            }
            Expr::IfExpr(choice) => {
                self.expression(&choice.test_expr);
                self.expression(&choice.true_expr);
                self.optional(choice.false_expr.as_ref());
            }
            Expr::Filter(filter) => {
                self.optional(filter.expr.as_ref());
                let start = range(filter.span()).start;
                self.filter(filter.name, start..start + filter.name.len());
                self.check_name_arguments(filter.name, &filter.args);
                self.arguments(&filter.args);
            }
            Expr::Test(test) => {
                self.expression(&test.expr);
                let start = range(test.span()).start;
                self.test(test.name, start..start + test.name.len());
                self.arguments(&test.args);
            }
            Expr::GetAttr(field) => {
                self.expression(&field.expr);
            }
            Expr::GetItem(item) => {
                self.expression(&item.expr);
                self.expression(&item.subscript_expr);
            }
            Expr::Slice(slice) => {
                self.expression(&slice.expr);
                for part in [&slice.start, &slice.stop, &slice.step] {
                    self.optional(part.as_ref());
                }
            }
            Expr::Call(call) => self.call(call),
            Expr::List(list) => self.all(&list.items),
            Expr::Tuple(tuple) => self.all(&tuple.items),
            Expr::Map(map) => {
                self.all(&map.keys);
                self.all(&map.values);
            }
        }
        Constant::No
    }

    /// The parser evaluates constant expressions, so a short template could produce a text of any length
    /// before rendering starts.
    fn constant_result(
        &mut self,
        kind: BinOpKind,
        left: Constant,
        right: Constant,
        times: Option<usize>,
        place: Range<usize>,
    ) -> Constant {
        let bytes = match (kind, left, right) {
            (BinOpKind::Concat, ..) | (BinOpKind::Add, Constant::Text(_), Constant::Text(_)) => {
                left.bytes().saturating_add(right.bytes())
            }
            (BinOpKind::Mul, Constant::Text(bytes), _)
            | (BinOpKind::Mul, _, Constant::Text(bytes)) => {
                bytes.saturating_mul(times.unwrap_or(0))
            }
            (BinOpKind::ScAnd | BinOpKind::ScOr, Constant::Text(one), Constant::Text(other)) => {
                return Constant::Text(one.max(other));
            }
            (BinOpKind::ScAnd | BinOpKind::ScOr, Constant::Text(bytes), _)
            | (BinOpKind::ScAnd | BinOpKind::ScOr, _, Constant::Text(bytes)) => {
                return Constant::Text(bytes);
            }
            _ => return Constant::Plain,
        };
        self.constant_bytes = self.constant_bytes.saturating_add(bytes);
        if self.constant_bytes > MAX_RENDERED_BYTES {
            let message = format!("this creates a text of more than {MAX_RENDERED_BYTES} bytes");
            self.fault(place, "app.template_too_large", message);
            self.constant_bytes = 0;
            return Constant::No;
        }
        Constant::Text(bytes)
    }

    fn variable(&mut self, name: &'a str, place: Range<usize>) {
        let Some(names) = self.names else { return };
        if names.contains(&name) || self.is_assigned(name) || self.is_global(name) {
            return;
        }
        if self.reported.insert(name) {
            let code = "app.template_variable";
            match self.form {
                Form::Template => {
                    let message = format!("the template uses `{name}`, which is not defined here");
                    self.fault(place, code, message);
                    self.set_help(did_you_mean(name, names.iter().copied()));
                }
                Form::Expression => {
                    let message = format!("the expression uses `{name}`, which no node sets");
                    self.fault(place, code, message);
                    let near = nearest(name, names.iter().copied());
                    self.set_help(near.map(|near| format!("did you mean `{near}`?")));
                }
            }
        }
    }

    fn filter(&mut self, name: &str, place: Range<usize>) {
        if self.names.is_some() && !known_filters().contains(&name) {
            let message = format!("there is no filter `{name}`");
            self.fault(place, "app.filter_unknown", message);
            self.set_help(Some(suggestion(
                name,
                known_filters(),
                "`default`, `join`, `length` or `upper`",
            )));
        }
    }

    fn test(&mut self, name: &str, place: Range<usize>) {
        if self.names.is_some() && !known_tests().contains(&name) {
            let message = format!("there is no test `{name}`");
            self.fault(place, "app.test_unknown", message);
            self.set_help(Some(suggestion(
                name,
                known_tests(),
                "`defined`, `none`, `string` or `number`",
            )));
        }
    }

    /// Filters that take the name of another filter or test.
    fn check_name_arguments(&mut self, filter: &str, arguments: &[CallArg<'a>]) {
        let (index, is_filter) = match filter {
            "map" => (0, true),
            "select" | "reject" => (0, false),
            "selectattr" | "rejectattr" => (1, false),
            _ => return,
        };
        if let Some(CallArg::Pos(Expr::Const(constant))) = arguments.get(index)
            && let Some(name) = constant.value.as_str()
        {
            let place = range(constant.span());
            if is_filter {
                self.filter(name, place);
            } else {
                self.test(name, place);
            }
        }
    }

    fn arguments(&mut self, arguments: &[CallArg<'a>]) {
        for argument in arguments {
            let (CallArg::Pos(value)
            | CallArg::Kwarg(_, value)
            | CallArg::PosSplat(value)
            | CallArg::KwargSplat(value)) = argument;
            self.expression(value);
        }
    }

    fn call(&mut self, call: &Spanned<Call<'a>>) {
        match call.identify_call() {
            CallType::Function(name) => {
                let start = range(call.expr.span()).start;
                self.function(name, start..start + name.len());
            }
            CallType::Method(receiver, name) => {
                self.expression(receiver);
                let end = range(call.expr.span()).end;
                let place = end.saturating_sub(name.len())..end;
                self.method(receiver, name, call.args.is_empty(), place);
            }
            CallType::Object(callee) => {
                self.expression(callee);
                let message = "only functions can be called".to_owned();
                self.fault(range(call.span()), "app.function_unknown", message);
            }
        }
        self.arguments(&call.args);
    }

    fn function(&mut self, name: &'a str, place: Range<usize>) {
        let is_value = name == "loop" || self.is_assigned(name);
        if !is_value && self.is_global(name) {
            return;
        }
        let names = self.names.unwrap_or_default();
        let is_value = is_value || names.contains(&name);
        let message = if is_value {
            format!("`{name}` is a value and cannot be called")
        } else {
            format!("there is no function `{name}`")
        };
        self.fault(place, "app.function_unknown", message);
        let filter = known_filters().contains(&name);
        let help = if filter {
            Some(format!("`{name}` is a filter: write `value | {name}`"))
        } else if is_value {
            Some(format!("write `{name}` without brackets"))
        } else {
            let functions: Vec<&str> = self.environment.globals().map(|(name, _)| name).collect();
            did_you_mean(name, functions)
        };
        self.set_help(help);
    }

    fn method(&mut self, receiver: &Expr<'a>, name: &str, is_bare: bool, place: Range<usize>) {
        let of_loop = matches!(receiver, Expr::Var(variable) if variable.id == "loop");
        if of_loop && self.is_assigned("loop") {
            match name {
                // It returns one of its arguments, and there is none.
                "cycle" if is_bare => {
                    let message = "`loop.cycle` needs at least one argument";
                    self.fault(place, "app.template_method", message.to_owned());
                    return;
                }
                "cycle" | "changed" => return,
                _ => {}
            }
        }
        let message = format!("a value in a template has no method `{name}`");
        self.fault(place, "app.template_method", message);
        let help = if known_filters().contains(&name) {
            format!("there is a filter of that name: write `value | {name}`")
        } else {
            match nearest(name, known_filters().iter().copied()) {
                Some(near) => format!("did you mean the filter `value | {near}`?"),
                None => "use a filter, or compute it in a tool".to_owned(),
            }
        };
        self.set_help(Some(help));
    }
}
