//! The fast path: the usual kinds of schema as a shape that accepts text in one pass.
//!
//! A shape answers one question, whether the library would *surely* accept a text. It says yes only
//! if so; "no" means "ask the library", which then gives the verdict and the reason. So a shape may
//! leave out whatever is rare or hard (escaped names, numbers with exponents, keywords not listed
//! here), and a mistake in that direction costs time, never correctness. For the same reason it
//! covers no keyword for which the rejection of a part would mean acceptance of the whole (`not`,
//! `oneOf`).

use jsonschema::Draft;
use serde_json::{Map, Value};

use super::document::SCHEMA_DEPTH_MAX;
use super::scan::Scan;

/// The most parts of one shape, references followed.
const PARTS_MAX: usize = 512;
/// The most properties of one object: required ones are bits of a word.
const PROPERTIES_MAX: usize = 64;
/// Keywords that assert nothing.
const ANNOTATIONS: [&str; 11] = [
    "$schema",
    "$comment",
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
];

/// Bits of [`Shape::types`].
pub(super) mod types {
    pub(in super::super) const NULL: u8 = 1;
    pub(in super::super) const BOOLEAN: u8 = 2;
    pub(in super::super) const OBJECT: u8 = 4;
    pub(in super::super) const ARRAY: u8 = 8;
    pub(in super::super) const STRING: u8 = 16;
    pub(in super::super) const INTEGER: u8 = 32;
    /// Numbers that are not written as integers.
    pub(in super::super) const FRACTION: u8 = 64;
    pub(in super::super) const ALL: u8 = 127;
}

/// What text must look like to be accepted. Small, because every value of a message meets one.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) types: u8,
    pub(super) object: Option<Box<ObjectShape>>,
    pub(super) array: Option<Box<ArrayShape>>,
    /// What else is asked, if anything.
    pub(super) rules: Option<Box<Rules>>,
}

/// What is asked of a value beyond its type and its parts.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    /// Bounds of a string's length in characters.
    pub(super) length: Option<(u64, u64)>,
    /// Bounds of a number, inclusive.
    pub(super) range: Option<(i64, i64)>,
    /// The only values allowed.
    pub(super) literals: Option<Vec<Literal>>,
    /// Shapes that the same text must have as well, and lists of shapes of which it must have one.
    pub(super) also: Vec<Shape>,
    pub(super) any: Vec<Vec<Shape>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ObjectShape {
    pub(super) properties: Vec<Property>,
    /// A bit for each property that must be there.
    pub(super) required: u64,
    /// The shape of all other properties; nothing if they are forbidden.
    pub(super) additional: Option<Shape>,
}

#[derive(Clone, Debug)]
pub(super) struct Property {
    pub(super) name: Box<str>,
    /// The name as it is usually written, with quotes and colon; nothing if it needs escapes.
    pub(super) written: Option<Box<[u8]>>,
    pub(super) shape: Shape,
}

#[derive(Clone, Debug)]
pub(super) struct ArrayShape {
    pub(super) items: Shape,
    pub(super) count: (u64, u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Literal {
    Null,
    Boolean(bool),
    Integer(i64),
    Text(Box<str>),
}

impl Shape {
    /// The shape of a schema that stands alone, or nothing if it uses something that shapes do not
    /// cover.
    pub(super) fn new(schema: &Value, draft: Draft) -> Option<Shape> {
        Compiler { root: schema, draft, parts: 0 }.shape(schema, 0)
    }

    /// Whether the library would accept this text for certain.
    pub(super) fn surely_accepts(&self, text: &str) -> bool {
        Scan::new(text).whole(self)
    }

    /// A shape that accepts everything.
    pub(super) const fn anything() -> Shape {
        Shape { types: types::ALL, object: None, array: None, rules: None }
    }
}

impl Rules {
    /// Whether nothing is asked but to have one other shape.
    fn is_one_shape(&self) -> bool {
        let Rules { length, range, literals, also, any } = self;
        length.is_none() && range.is_none() && literals.is_none() && also.len() == 1 && any.is_empty()
    }
}

struct Compiler<'a> {
    root: &'a Value,
    draft: Draft,
    parts: usize,
}

impl Compiler<'_> {
    fn shape(&mut self, node: &Value, depth: usize) -> Option<Shape> {
        self.parts += 1;
        if depth > SCHEMA_DEPTH_MAX || self.parts > PARTS_MAX {
            return None;
        }
        let keywords = match node {
            Value::Bool(true) => return Some(Shape::anything()),
            Value::Bool(false) => return Some(Shape { types: 0, ..Shape::anything() }),
            Value::Object(keywords) => keywords,
            _ => return None,
        };
        if let Some(reference) = keywords.get("$ref")
            && matches!(self.draft, Draft::Draft4 | Draft::Draft6 | Draft::Draft7)
        {
            return self.reference(reference, depth);
        }
        let (mut shape, mut rules) = (Shape::anything(), Rules::default());
        for (keyword, value) in keywords {
            self.keyword(&mut shape, &mut rules, keywords, keyword, value, depth)?;
        }
        // One inner shape and nothing else is that shape.
        if rules.is_one_shape()
            && shape.types == types::ALL
            && shape.object.is_none()
            && shape.array.is_none()
        {
            return rules.also.pop();
        }
        let Rules { length, range, literals, also, any } = &rules;
        let asks =
            length.is_some() || range.is_some() || literals.is_some() || !also.is_empty() || !any.is_empty();
        shape.rules = asks.then(|| Box::new(rules));
        Some(shape)
    }

    fn keyword(
        &mut self,
        shape: &mut Shape,
        rules: &mut Rules,
        keywords: &Map<String, Value>,
        keyword: &str,
        value: &Value,
        depth: usize,
    ) -> Option<()> {
        match keyword {
            "$ref" => rules.also.push(self.reference(value, depth)?),
            "type" => shape.types &= type_bits(value)?,
            "const" => rules.literals = Some(meet(rules.literals.take(), vec![literal(value)?])),
            "enum" => {
                let literals = value.as_array()?.iter().map(literal).collect::<Option<Vec<_>>>()?;
                rules.literals = Some(meet(rules.literals.take(), literals));
            }
            "properties" | "required" | "additionalProperties" => {
                if shape.object.is_none() {
                    shape.object = Some(Box::new(self.object(keywords, depth)?));
                }
            }
            "items" | "minItems" | "maxItems" => {
                if shape.array.is_none() {
                    shape.array = Some(Box::new(self.array(keywords, depth)?));
                }
            }
            "minLength" | "maxLength" => {
                rules.length = Some(bounds(keywords, "minLength", "maxLength")?);
            }
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {
                rules.range = Some(range(keywords)?);
            }
            "allOf" => {
                for node in value.as_array()? {
                    rules.also.push(self.shape(node, depth + 1)?);
                }
            }
            "anyOf" => {
                let branches = value.as_array()?.iter().map(|node| self.shape(node, depth + 1));
                rules.any.push(branches.collect::<Option<Vec<_>>>()?);
            }
            "uniqueItems" if *value == Value::Bool(false) => {}
            // From draft 2019-09 on, formats are annotations.
            "format" if matches!(self.draft, Draft::Draft201909 | Draft::Draft202012) => {}
            annotation if ANNOTATIONS.contains(&annotation) => {}
            _ => return None,
        }
        Some(())
    }

    fn reference(&mut self, reference: &Value, depth: usize) -> Option<Shape> {
        let target = self.root.pointer(reference.as_str()?.strip_prefix('#')?)?;
        self.shape(target, depth + 1)
    }

    fn object(&mut self, keywords: &Map<String, Value>, depth: usize) -> Option<ObjectShape> {
        let mut object = ObjectShape {
            additional: match keywords.get("additionalProperties") {
                None => Some(Shape::anything()),
                Some(Value::Bool(false)) => None,
                Some(node) => Some(self.shape(node, depth + 1)?),
            },
            ..ObjectShape::default()
        };
        if let Some(properties) = keywords.get("properties") {
            for (name, node) in properties.as_object()? {
                object.properties.push(property(name, self.shape(node, depth + 1)?));
            }
        }
        if let Some(required) = keywords.get("required") {
            for name in required.as_array()? {
                let name = name.as_str()?;
                let at = match object.properties.iter().position(|known| *known.name == *name) {
                    Some(at) => at,
                    None => {
                        // Required but not described: it looks like every other property, and may
                        // be forbidden.
                        object.properties.push(property(name, object.additional.clone()?));
                        object.properties.len() - 1
                    }
                };
                object.required |= 1_u64.checked_shl(u32::try_from(at).ok()?)?;
            }
        }
        (object.properties.len() <= PROPERTIES_MAX).then_some(object)
    }

    fn array(&mut self, keywords: &Map<String, Value>, depth: usize) -> Option<ArrayShape> {
        let items = match keywords.get("items") {
            None => Shape::anything(),
            Some(node @ (Value::Object(_) | Value::Bool(_))) => self.shape(node, depth + 1)?,
            Some(_) => return None,
        };
        Some(ArrayShape { items, count: bounds(keywords, "minItems", "maxItems")? })
    }
}

fn property(name: &str, shape: Shape) -> Property {
    let is_plain = name.chars().all(|character| character >= ' ' && !matches!(character, '"' | '\\'));
    let written = is_plain.then(|| format!("\"{name}\":").into_bytes().into());
    Property { name: name.into(), written, shape }
}

fn type_bits(value: &Value) -> Option<u8> {
    match value {
        Value::String(name) => type_bit(name),
        Value::Array(names) => names.iter().try_fold(0, |bits, name| Some(bits | type_bit(name.as_str()?)?)),
        _ => None,
    }
}

fn type_bit(name: &str) -> Option<u8> {
    Some(match name {
        "null" => types::NULL,
        "boolean" => types::BOOLEAN,
        "object" => types::OBJECT,
        "array" => types::ARRAY,
        "string" => types::STRING,
        "integer" => types::INTEGER,
        "number" => types::INTEGER | types::FRACTION,
        _ => return None,
    })
}

fn literal(value: &Value) -> Option<Literal> {
    Some(match value {
        Value::Null => Literal::Null,
        Value::Bool(value) => Literal::Boolean(*value),
        Value::Number(number) => Literal::Integer(number.as_i64()?),
        Value::String(text) => Literal::Text(text.as_str().into()),
        _ => return None,
    })
}

fn meet(mine: Option<Vec<Literal>>, others: Vec<Literal>) -> Vec<Literal> {
    match mine {
        None => others,
        Some(mine) => mine.into_iter().filter(|literal| others.contains(literal)).collect(),
    }
}

fn bounds(keywords: &Map<String, Value>, least: &str, most: &str) -> Option<(u64, u64)> {
    let bound = |keyword, default| keywords.get(keyword).map_or(Some(default), Value::as_u64);
    Some((bound(least, 0)?, bound(most, u64::MAX)?))
}

fn range(keywords: &Map<String, Value>) -> Option<(i64, i64)> {
    let bound = |keyword| keywords.get(keyword).map(|value| value.as_i64());
    let (mut least, mut most) = (i64::MIN, i64::MAX);
    if let Some(bound) = bound("minimum") {
        least = bound?;
    }
    if let Some(bound) = bound("maximum") {
        most = bound?;
    }
    if let Some(bound) = bound("exclusiveMinimum") {
        least = least.max(bound?.checked_add(1)?);
    }
    if let Some(bound) = bound("exclusiveMaximum") {
        most = most.min(bound?.checked_sub(1)?);
    }
    Some((least, most))
}
