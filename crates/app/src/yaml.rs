//! Parses YAML (and JSON, its subset) into a small tree in which every key and value has its position.
//! Hostile input is bounded here.

use std::collections::{BTreeMap, HashMap};

use saphyr_parser::{Event, Parser, ScalarStyle, Span, Tag};
use serde_json::{Number, Value};

use crate::characters::forbidden;
use crate::diagnostic::{Diagnostic, Severity};
use crate::source::{Position, Source, SourceRange};

/// Limit of a file, in bytes.
pub const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Limit of nested lists and maps.
pub const MAX_DEPTH: usize = 64;

/// Limit of values in one file, after expanding aliases.
pub const MAX_NODES: usize = 100_000;

/// Limit of reported problems per kind and file.
pub const MAX_PROBLEMS_PER_FILE: usize = 100;

/// A value with its position.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) place: SourceRange,
    /// The text as written, if the environment replaced a part. Messages quote this.
    pub(crate) written: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// One key of a map and its value.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_place: SourceRange,
    pub(crate) node: Node,
}

impl Node {
    fn new(kind: Kind, place: SourceRange) -> Self {
        Self {
            kind,
            place,
            written: None,
        }
    }

    /// The text, if it is one.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The keys and values, if it is a map.
    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.kind {
            Kind::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items, if it is a list.
    pub(crate) fn items(&self) -> &[Node] {
        match &self.kind {
            Kind::List(items) => items,
            _ => &[],
        }
    }

    /// The value of one key of a map.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.node)
    }

    fn entry(&self, key: &str) -> Option<&Entry> {
        let entries = self.entries();
        // Names are stored with `_` for `-`.
        entries.iter().find(|entry| entry.key == key).or_else(|| {
            entries
                .iter()
                .find(|entry| entry.key.replace('-', "_") == key)
        })
    }

    /// The value at a JSON pointer.
    pub(crate) fn find(&self, pointer: &str) -> Option<&Node> {
        segments(pointer).try_fold(self, |node, segment| node.child(&segment))
    }

    fn child(&self, segment: &str) -> Option<&Node> {
        match &self.kind {
            Kind::List(items) => items.get(segment.parse::<usize>().ok()?),
            _ => self.get(segment),
        }
    }

    /// The position of the value at a JSON pointer, or of its nearest ancestor in the file.
    pub(crate) fn place_of(&self, pointer: &str) -> SourceRange {
        let mut node = self;
        let mut place = self.place;
        for segment in segments(pointer) {
            let Some(child) = node.child(&segment) else {
                break;
            };
            // A map or list starts on the line after its key; the key's position is more useful.
            place = match (&child.kind, node.entry(&segment)) {
                (Kind::Map(_) | Kind::List(_) | Kind::Null, Some(entry)) => entry.key_place,
                _ => child.place,
            };
            node = child;
        }
        place
    }

    /// The position of the key at a JSON pointer.
    pub(crate) fn key_place_of(&self, pointer: &str) -> SourceRange {
        let key_place = pointer.rsplit_once('/').and_then(|(parent, key)| {
            let key = segments(&format!("/{key}")).next()?;
            Some(self.find(parent)?.entry(&key)?.key_place)
        });
        key_place.unwrap_or_else(|| self.place_of(pointer))
    }

    /// The plain JSON value.
    pub(crate) fn to_value(&self) -> Value {
        match &self.kind {
            Kind::Null => Value::Null,
            Kind::Bool(value) => Value::Bool(*value),
            Kind::Number(number) => Value::Number(number.clone()),
            Kind::Text(text) => Value::String(text.clone()),
            Kind::List(items) => items.iter().map(Self::to_value).collect(),
            Kind::Map(entries) => {
                let values = entries
                    .iter()
                    .map(|entry| (entry.key.clone(), entry.node.to_value()));
                Value::Object(values.collect())
            }
        }
    }

    /// Replaces every text for which `change` returns a new one; `change` also gets the position.
    pub(crate) fn replace_texts(
        &mut self,
        change: &mut impl FnMut(&str, SourceRange) -> Option<String>,
    ) {
        match &mut self.kind {
            Kind::Text(text) => {
                if let Some(changed) = change(text, self.place) {
                    self.written = Some(std::mem::replace(text, changed));
                }
            }
            Kind::List(items) => items.iter_mut().for_each(|item| item.replace_texts(change)),
            Kind::Map(entries) => {
                for entry in entries {
                    entry.node.replace_texts(change);
                }
            }
            _ => {}
        }
    }

    fn size_and_depth(&self) -> (usize, usize) {
        let children: Vec<(usize, usize)> = match &self.kind {
            Kind::List(items) => items.iter().map(Self::size_and_depth).collect(),
            Kind::Map(entries) => entries.iter().map(|e| e.node.size_and_depth()).collect(),
            _ => return (1, 0),
        };
        let size = 1 + children.iter().map(|child| child.0).sum::<usize>();
        let depth = 1 + children.iter().map(|child| child.1).max().unwrap_or(0);
        (size, depth)
    }
}

/// Appends a segment to a JSON pointer.
pub(crate) fn push(pointer: &mut String, segment: &str) {
    pointer.push('/');
    pointer.push_str(&segment.replace('~', "~0").replace('/', "~1"));
}

/// The segments of a JSON pointer, unescaped.
pub(crate) fn segments(pointer: &str) -> impl Iterator<Item = String> + '_ {
    pointer
        .split('/')
        .skip(1)
        .map(|segment| segment.replace("~1", "/").replace("~0", "~"))
}

/// Parses a file. `None` if it is empty or invalid, with diagnostics.
pub(crate) fn parse(source: &Source) -> (Option<Node>, Vec<Diagnostic>) {
    let mut builder = Builder::new(source);
    // The parser expects its caller to remove a byte order mark.
    let text = source
        .text()
        .strip_prefix('\u{feff}')
        .unwrap_or(source.text());
    if let Some(problem) = forbidden(source, text) {
        return (None, vec![problem]);
    }
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let goes_on = match event {
            Ok((event, span)) => builder.take(event, place_of(span)),
            Err(error) => {
                let marker = *error.marker();
                let place = place_of(Span::empty(marker));
                builder.syntax_error(place, error.info());
                false
            }
        };
        if !goes_on {
            return (None, builder.problems);
        }
    }
    if builder.root.is_none() {
        builder.problems.push(
            Diagnostic::of_file(
                Severity::Error,
                source.file(),
                "app.file_empty",
                "the file is empty",
            )
            .help("write its contents, or delete the file"),
        );
    }
    (builder.root, builder.problems)
}

fn place_of(span: Span) -> SourceRange {
    let position = |marker: saphyr_parser::Marker| Position {
        line: marker.line().max(1),
        column: marker.col() + 1,
    };
    SourceRange {
        start: position(span.start),
        end: position(span.end),
    }
}

/// A list or map being read.
struct OpenCollection {
    node: Node,
    anchor: usize,
    /// In a map: the key of the next value.
    key: Option<(String, SourceRange)>,
    /// In a map: the keys so far, with their lines.
    lines: HashMap<String, usize>,
}

struct Builder<'a> {
    source: &'a Source,
    open: Vec<OpenCollection>,
    root: Option<Node>,
    anchors: BTreeMap<usize, Node>,
    documents: usize,
    nodes: usize,
    problems: Vec<Diagnostic>,
}

impl<'a> Builder<'a> {
    fn new(source: &'a Source) -> Self {
        Self {
            source,
            open: Vec::new(),
            root: None,
            anchors: BTreeMap::new(),
            documents: 0,
            nodes: 0,
            problems: Vec::new(),
        }
    }

    fn error(
        &mut self,
        place: SourceRange,
        code: &'static str,
        message: impl Into<String>,
        help: &str,
    ) {
        let error = Diagnostic::at(Severity::Error, self.source, place, code, message);
        self.problems.push(error.help(help));
    }

    fn syntax_error(&mut self, place: SourceRange, info: &str) {
        let language = if self.source.file().rsplit('.').next() == Some("json") {
            "JSON"
        } else {
            "YAML"
        };
        if info.contains("unknown anchor") {
            let name = self.source.line(place.start.line).unwrap_or_default();
            let name = name.chars().skip(place.start.column);
            let name: String = name.take_while(|next| !next.is_whitespace()).collect();
            let message = format!("nothing before this is marked with `&{name}`");
            let help = "write the value out, or mark it with `&NAME` where it stands first";
            self.error(place, "app.alias_unknown", message, help);
            return;
        }
        let (place, help) = self.syntax_help(place, info);
        let message = format!("this is not {language}: {info}");
        self.error(place, "app.syntax", message, help);
    }

    /// What to do about a syntax error, and where.
    fn syntax_help(&self, place: SourceRange, info: &str) -> (SourceRange, &'static str) {
        if info.contains("tab") {
            let line = self.source.line(place.start.line).unwrap_or_default();
            let column = line.chars().position(|next| next == '\t');
            let column = column.map_or(place.start.column, |before| before + 1);
            let at = |column| Position {
                column,
                ..place.start
            };
            let tab = SourceRange {
                start: at(column),
                end: at(column + 1),
            };
            return (tab, "indent with spaces; there is a tab here");
        }
        let help = if info.contains("quoted scalar") {
            "close the quotation mark that opens here or on the line above"
        } else if info.contains("mapping values") {
            "put a text that contains a colon and a space into quotes"
        } else {
            "check the indentation, quotes and brackets here and on the line above"
        };
        (place, help)
    }

    /// Handles one event. Returns `false` to stop.
    fn take(&mut self, event: Event<'_>, place: SourceRange) -> bool {
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    self.error(
                        place,
                        "app.several_documents",
                        "the file holds several YAML documents",
                        "keep the first and move the others into separate files",
                    );
                    return false;
                }
                true
            }
            Event::Scalar(text, style, anchor, tag) => {
                let kind = self.scalar(&text, style, tag.as_deref(), place);
                self.place_node(Node::new(kind, place), anchor)
            }
            Event::SequenceStart(anchor, _) => self.begin(Kind::List(Vec::new()), anchor, place),
            Event::MappingStart(anchor, _) => self.begin(Kind::Map(Vec::new()), anchor, place),
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(open) => self.place_node(open.node, open.anchor),
                None => true,
            },
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor).cloned() else {
                    self.error(
                        place,
                        "app.alias_unknown",
                        "the alias is inside the value that it refers to",
                        "write the value out",
                    );
                    return false;
                };
                let (size, depth) = node.size_and_depth();
                self.nodes += size.saturating_sub(1);
                if self.open.len() + depth > MAX_DEPTH {
                    return self.too_deep(place);
                }
                self.place_node(Node { place, ..node }, 0)
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => true,
        }
    }

    fn begin(&mut self, kind: Kind, anchor: usize, place: SourceRange) -> bool {
        if self.open.len() >= MAX_DEPTH {
            return self.too_deep(place);
        }
        self.open.push(OpenCollection {
            node: Node::new(kind, place),
            anchor,
            key: None,
            lines: HashMap::new(),
        });
        true
    }

    fn too_deep(&mut self, place: SourceRange) -> bool {
        self.error(
            place,
            "app.too_deep",
            format!("lists and maps are nested more than {MAX_DEPTH} deep"),
            "make the structure flatter",
        );
        false
    }

    /// Adds a finished value to its parent. Returns `false` to stop.
    fn place_node(&mut self, node: Node, anchor: usize) -> bool {
        // An anchor keeps a copy, which counts too.
        self.nodes += 1 + if anchor > 0 {
            node.size_and_depth().0
        } else {
            0
        };
        if self.nodes > MAX_NODES {
            self.error(
                node.place,
                "app.too_many_values",
                format!("the file holds more than {MAX_NODES} values, counting repeated aliases"),
                "split the file, or use fewer aliases",
            );
            return false;
        }
        if self.problems.len() >= MAX_PROBLEMS_PER_FILE {
            return false;
        }
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        let Some(open) = self.open.last_mut() else {
            // An empty document reads as null.
            if !matches!(node.kind, Kind::Null) {
                self.root = Some(node);
            }
            return true;
        };
        match &mut open.node.kind {
            Kind::List(items) => items.push(node),
            Kind::Map(entries) => match open.key.take() {
                None => {
                    let place = node.place;
                    let Some(key) = key_text(node.kind) else {
                        self.error(
                            place,
                            "app.key_not_text",
                            "a list or a map cannot be a key",
                            "write a plain text before the `:`; put a template into quotes",
                        );
                        return false;
                    };
                    open.key = Some((key, place));
                }
                Some((key, key_place)) => match open.lines.get(&key).copied() {
                    None => {
                        open.lines.insert(key.clone(), key_place.start.line);
                        entries.push(Entry {
                            key,
                            key_place,
                            node,
                        });
                    }
                    Some(first) => self.error(
                        key_place,
                        "app.duplicate_key",
                        format!("the key `{key}` is already given on line {first}"),
                        "keep one of the two",
                    ),
                },
            },
            _ => {}
        }
        true
    }

    /// Reads a scalar by YAML 1.2's core schema: only plain scalars can be other than text.
    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        place: SourceRange,
    ) -> Kind {
        let is_text = tag.is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == "str");
        if let Some(tag) = tag.filter(|tag| !tag.is_yaml_core_schema() && tag.suffix != "!") {
            self.error(
                place,
                "app.tag_unknown",
                format!("the tag `{}{}` has no meaning here", tag.handle, tag.suffix),
                "leave the tag out",
            );
        }
        if is_text || !matches!(style, ScalarStyle::Plain) {
            return Kind::Text(text.to_owned());
        }
        match text {
            "" | "~" | "null" | "Null" | "NULL" => Kind::Null,
            "true" | "True" | "TRUE" => Kind::Bool(true),
            "false" | "False" | "FALSE" => Kind::Bool(false),
            _ => number(text).map_or_else(|| Kind::Text(text.to_owned()), Kind::Number),
        }
    }
}

fn key_text(kind: Kind) -> Option<String> {
    Some(match kind {
        Kind::Text(text) => text,
        Kind::Null => "null".to_owned(),
        Kind::Bool(value) => value.to_string(),
        Kind::Number(number) => number.to_string(),
        Kind::List(_) | Kind::Map(_) => return None,
    })
}

fn number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if let Some(hexadecimal) = text.strip_prefix("0x") {
        return u64::from_str_radix(hexadecimal, 16).ok().map(Number::from);
    }
    if let Some(octal) = text.strip_prefix("0o") {
        return u64::from_str_radix(octal, 8).ok().map(Number::from);
    }
    if !digits.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        || !digits.contains(|character: char| character.is_ascii_digit())
        || digits
            .contains(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | 'e' | 'E' | '+' | '-'))
    {
        return None;
    }
    let plain = text.strip_prefix('+').unwrap_or(text);
    if let Ok(whole) = plain.parse::<i64>() {
        return Some(Number::from(whole));
    }
    if let Ok(whole) = plain.parse::<u64>() {
        return Some(Number::from(whole));
    }
    plain.parse::<f64>().ok().and_then(Number::from_f64)
}
