//! Results: values of Rust as the codec's (sandbox/codec.py, byte for byte).
//!
//! bool, integers, floats, (), Option, tuples, maps and sets become what they are in Python; char, str, String and
//! Cow<str> become str; Vec, slices, arrays, VecDeque and LinkedList become list; Box, Rc, Arc, & and &mut become
//! what they hold. In a set and as a key of a dict a list becomes a tuple. Err is an error of the call: its text
//! where it is a string or a Box<dyn Error>, and else what Debug shows.

use std::any::{type_name, Any};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, LinkedList, VecDeque};
use std::error::Error;
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::Arc;

use crate::take::Mismatch;

const MAX_DEPTH: usize = 100;
const MAX_NODES: usize = 1_000_000;
const MAX_BYTES: usize = 64 << 20;
const MAX_TEXT: usize = 1000;
const MAX_NAME: usize = 100;

/// A type's name without the paths of its parts.
pub(crate) fn name_of<T: ?Sized>() -> String {
    let mut name = String::new();
    let mut start = 0; // where the last part of a path begins
    for character in type_name::<T>().chars() {
        if character == ':' {
            name.truncate(start);
            continue;
        }
        name.push(character);
        if !character.is_alphanumeric() && character != '_' {
            start = name.len();
        }
    }
    name
}

/// An outcome in the making; `refused` says why the value has no encoding, and nothing is written from then on.
/// While `frozen` is not 0 a list is written as a tuple and a set as a frozenset, which can be hashed.
pub struct Output {
    pub(crate) data: Vec<u8>,
    nodes: usize,
    depth: usize,
    frozen: usize,
    pub(crate) refused: Option<&'static str>,
}

impl Output {
    pub(crate) fn new() -> Output {
        Output { data: Vec::new(), nodes: 0, depth: 0, frozen: 0, refused: None }
    }

    pub(crate) fn restart(&mut self) {
        self.data.clear();
        self.nodes = 0;
        self.depth = 0;
        self.frozen = 0;
        self.refused = None;
    }

    pub(crate) fn value(&mut self) {
        self.restart();
        self.data.push(b'v');
    }

    pub(crate) fn error(&mut self, name: &str, message: &str, cause: &str) {
        self.described(b'e', name, message, cause);
    }

    pub(crate) fn argument_error(&mut self, position: usize, mismatch: &Mismatch) {
        self.error("ArgumentError", &format!("argument {}: {}", position, mismatch.0), "");
    }

    pub(crate) fn unencodable(&mut self, name: &str) {
        let why = self.refused.unwrap_or("");
        self.described(b'u', name, why, "");
    }

    fn described(&mut self, kind: u8, name: &str, message: &str, cause: &str) {
        self.restart();
        self.data.push(kind);
        self.open(b'l', 3);
        for (text, most) in [(name, MAX_NAME), (message, MAX_TEXT), (cause, MAX_NAME)] {
            let end = (0..=most.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
            self.text(&text.as_bytes()[..end.unwrap_or(0)]);
        }
    }

    fn refuse(&mut self, why: &'static str) {
        self.refused.get_or_insert(why);
    }

    fn more(&mut self, weight: usize) {
        self.nodes += weight;
        if self.nodes > MAX_NODES {
            self.refuse("more than 1000000 values");
        }
        if self.data.len() > MAX_BYTES {
            self.refuse("larger than 67108864 bytes");
        }
    }

    fn head(&mut self, tag: u8, mut count: usize) {
        self.data.push(tag);
        while count > 127 {
            self.data.push(count as u8 | 128);
            count >>= 7;
        }
        self.data.push(count as u8);
    }

    pub(crate) fn tag(&mut self, tag: u8) {
        self.more(1);
        self.data.push(tag);
    }

    pub(crate) fn integer(&mut self, bits: u128, negative: bool) {
        let magnitude = if negative { bits.wrapping_neg() } else { bits };
        let size = (128 - magnitude.leading_zeros() as usize) / 8 + 1;
        let mut body = [if negative { 255 } else { 0 }; 17];
        body[..16].copy_from_slice(&bits.to_le_bytes());
        self.more(1);
        self.head(b'i', size);
        self.data.extend_from_slice(&body[..size]);
    }

    fn float(&mut self, value: f64) {
        let bits = if value.is_nan() { 0x7ff8_0000_0000_0000 } else { value.to_bits() };
        self.tag(b'd');
        self.data.extend_from_slice(&bits.to_be_bytes());
    }

    pub(crate) fn text(&mut self, text: &[u8]) {
        self.more(1);
        if text.len() > MAX_BYTES {
            self.refuse("larger than 67108864 bytes");
        }
        if self.refused.is_none() {
            self.head(b's', text.len());
            self.data.extend_from_slice(text);
        }
    }

    /// Begins a container of `count` items; where it is refused, neither items nor `close` may follow.
    pub(crate) fn open(&mut self, tag: u8, count: usize) -> bool {
        let (weight, each) = match tag {
            b'm' => (5, 2),
            b'S' => (5, 1),
            _ => (1, 1),
        };
        self.more(weight);
        if self.depth >= MAX_DEPTH {
            self.refuse("nested deeper than 100");
        }
        // Told before the first item: writing millions of them would take long.
        if count > MAX_NODES || self.nodes + count * each > MAX_NODES {
            self.refuse("more than 1000000 values");
        }
        let tag = match (tag, self.frozen) {
            (_, 0) => tag,
            (b'l', _) => b't',
            (b'S', _) => b'Z',
            (b'm', _) => {
                self.refuse("a dict inside a set or as a key of a dict");
                tag
            }
            _ => tag,
        };
        if self.refused.is_some() {
            return false;
        }
        self.depth += 1;
        self.head(tag, count);
        true
    }

    pub(crate) fn close(&mut self) {
        self.depth -= 1;
    }

    fn list<'a, T: Give + 'a>(&mut self, count: usize, items: impl Iterator<Item = &'a T>) {
        if self.open(b'l', count) {
            items.for_each(|item| item.give(self));
            self.close();
        }
    }

    /// Writes what `one` makes of each item, in the order of the bytes that it makes.
    fn sorted<I>(&mut self, tag: u8, count: usize, items: impl Iterator<Item = I>, one: impl Fn(&mut Output, I)) {
        if !self.open(tag, count) {
            return;
        }
        let start = self.data.len();
        let mut parts: Vec<Vec<u8>> = Vec::with_capacity(count);
        for item in items {
            one(self, item);
            parts.push(self.data.split_off(start));
        }
        parts.sort_unstable();
        parts.iter().for_each(|part| self.data.extend_from_slice(part));
        self.close();
    }

    fn key<K: Give>(&mut self, key: &K) {
        self.frozen += 1;
        key.give(self);
        self.frozen -= 1;
    }
}

/// A type that a result may have.
pub trait Give {
    /// Whether it says nothing, so that what the function changed is its result.
    const NOTHING: bool = false;

    fn give(&self, out: &mut Output);

    /// Writes what a call that returned this came to.
    fn outcome(&self, out: &mut Output) {
        out.value();
        self.give(out);
    }
}

impl Give for () {
    const NOTHING: bool = true;

    fn give(&self, out: &mut Output) {
        out.tag(b'N');
    }
}

macro_rules! numbers {
    ($($signed:ident $unsigned:ident)*) => {$(
        impl Give for $signed {
            fn give(&self, out: &mut Output) {
                out.integer(*self as i128 as u128, *self < 0);
            }
        }
        impl Give for $unsigned {
            fn give(&self, out: &mut Output) {
                out.integer(*self as u128, false);
            }
        }
    )*};
}

numbers! { i8 u8 i16 u16 i32 u32 i64 u64 i128 u128 isize usize }

impl Give for f32 {
    fn give(&self, out: &mut Output) {
        out.float(f64::from(*self));
    }
}

impl Give for f64 {
    fn give(&self, out: &mut Output) {
        out.float(*self);
    }
}

impl Give for bool {
    fn give(&self, out: &mut Output) {
        out.tag(if *self { b'T' } else { b'F' });
    }
}

impl Give for char {
    fn give(&self, out: &mut Output) {
        out.text(self.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

impl Give for str {
    fn give(&self, out: &mut Output) {
        out.text(self.as_bytes());
    }
}

impl Give for String {
    fn give(&self, out: &mut Output) {
        out.text(self.as_bytes());
    }
}

impl<T: Give> Give for Option<T> {
    fn give(&self, out: &mut Output) {
        match self {
            Some(value) => value.give(out),
            None => out.tag(b'N'),
        }
    }
}

impl<T: Give, E: Debug + 'static> Give for Result<T, E> {
    fn give(&self, out: &mut Output) {
        match self {
            Ok(value) => value.give(out),
            Err(_) => out.refuse("an Err inside of it"),
        }
    }

    fn outcome(&self, out: &mut Output) {
        match self {
            Ok(value) => value.outcome(out),
            Err(error) => {
                // That name says that the fault is the caller's.
                let name = match name_of::<E>() {
                    name if name == "ArgumentError" => "own.ArgumentError".to_owned(),
                    name => name,
                };
                out.error(&name, &told(error), "")
            }
        }
    }
}

fn told<E: Debug + 'static>(error: &E) -> String {
    let any = error as &dyn Any;
    if let Some(boxed) = any.downcast_ref::<Box<dyn Error>>() {
        boxed.to_string()
    } else if let Some(boxed) = any.downcast_ref::<Box<dyn Error + Send + Sync>>() {
        boxed.to_string()
    } else if let Some(text) = any.downcast_ref::<String>() {
        text.clone()
    } else if let Some(text) = any.downcast_ref::<&str>() {
        (*text).to_owned()
    } else {
        format!("{:?}", error)
    }
}

macro_rules! held {
    ($($name:ty: $($bound:ident)?;)*) => {$(
        impl<T: Give $(+ ?$bound)?> Give for $name {
            fn give(&self, out: &mut Output) {
                (**self).give(out);
            }
        }
    )*};
}

held! {
    &T: Sized;
    &mut T: Sized;
    Box<T>: Sized;
    Rc<T>: Sized;
    Arc<T>: Sized;
}

impl<T: Give + ToOwned + ?Sized> Give for Cow<'_, T> {
    fn give(&self, out: &mut Output) {
        (**self).give(out);
    }
}

macro_rules! lists {
    ($($name:ty: [$($bounds:tt)*];)*) => {$(
        impl<$($bounds)*> Give for $name {
            fn give(&self, out: &mut Output) {
                out.list(self.len(), self.iter());
            }
        }
    )*};
}

lists! {
    [T]: [T: Give];
    [T; N]: [T: Give, const N: usize];
    Vec<T>: [T: Give];
    VecDeque<T>: [T: Give];
    LinkedList<T>: [T: Give];
}

macro_rules! sets {
    ($($name:ty: [$($bounds:tt)*];)*) => {$(
        impl<$($bounds)*> Give for $name {
            fn give(&self, out: &mut Output) {
                out.sorted(b'S', self.len(), self.iter(), |out, item| out.key(item));
            }
        }
    )*};
}

sets! {
    BTreeSet<T>: [T: Give];
    HashSet<T, S>: [T: Give, S];
}

impl<K: Give, V: Give> Give for BTreeMap<K, V> {
    fn give(&self, out: &mut Output) {
        if out.open(b'm', self.len()) {
            for (key, value) in self {
                out.key(key);
                value.give(out);
            }
            out.close();
        }
    }
}

/// In the order of the keys' bytes: the map's own is another one each time.
impl<K: Give, V: Give, S> Give for HashMap<K, V, S> {
    fn give(&self, out: &mut Output) {
        out.sorted(b'm', self.len(), self.iter(), |out, (key, value)| {
            out.key(key);
            value.give(out);
        });
    }
}

macro_rules! tuples {
    ($($count:literal: $($name:ident $at:tt)*;)*) => {$(
        impl<$($name: Give),*> Give for ($($name,)*) {
            fn give(&self, out: &mut Output) {
                if out.open(b't', $count) {
                    $(self.$at.give(out);)*
                    out.close();
                }
            }
        }
    )*};
}

tuples! {
    1: A 0;
    2: A 0 B 1;
    3: A 0 B 1 C 2;
    4: A 0 B 1 C 2 D 3;
    5: A 0 B 1 C 2 D 3 E 4;
    6: A 0 B 1 C 2 D 3 E 4 F 5;
    7: A 0 B 1 C 2 D 3 E 4 F 5 G 6;
    8: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7;
}
