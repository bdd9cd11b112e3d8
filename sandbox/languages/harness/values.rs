//! Values of Rust from and to the codec (sandbox/codec.py, byte for byte), as the Rust type asks.
//!
//! bool <-> bool; integers <-> int, in range; f32, f64 <-> float (an int goes in too); char <-> str of one;
//! String, &str, Cow<str> <-> str without lone surrogates; () <-> None; Option <-> None or what it holds; tuples
//! <-> tuple (a list goes in too); Vec, slices, arrays, VecDeque, LinkedList <-> list (a tuple or deque goes in
//! too, bytes where the items are u8); HashMap, BTreeMap <-> dict; HashSet, BTreeSet <-> set or frozenset; Box,
//! Rc, Arc, & and &mut <-> what they hold, which lives on. In a set and as a key of a dict a list becomes a tuple.

use std::any::{type_name, Any};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, LinkedList, VecDeque};
use std::error::Error;
use std::fmt::Debug;
use std::hash::{BuildHasher, Hash};
use std::rc::Rc;
use std::sync::Arc;

pub(crate) const CALLS: &str = env!("SANDBOX_CALLS");
const MAX_DEPTH: usize = 100;
const MAX_NODES: usize = 1_000_000;
const MAX_BYTES: usize = 64 << 20;
const MAX_TEXT: usize = 1000;
const MAX_NAME: usize = 100;

/// Why an argument does not fit.
pub struct Mismatch(pub String);

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

// -- reading

/// The arguments of one call, and what the function may change of them.
pub struct Input {
    data: &'static [u8],
    at: usize,
    changed: Vec<Box<dyn Fn(&mut Output)>>,
}

impl Input {
    pub(crate) fn new(data: &'static [u8]) -> Input {
        Input { data, at: 0, changed: Vec::new() }
    }

    /// Goes to the first argument and returns how many there are.
    pub(crate) fn begin(&mut self) -> usize {
        self.count();
        self.count()
    }

    fn peek(&self) -> u8 {
        self.data.get(self.at).copied().unwrap_or(0)
    }

    /// Reads a tag and the length or count after it.
    pub(crate) fn count(&mut self) -> usize {
        let mut count = 0;
        let mut shift = 0;
        self.at += 1;
        while let Some(&byte) = self.data.get(self.at) {
            self.at += 1;
            count |= ((byte & 127) as usize) << shift;
            shift += 7;
            if byte < 128 {
                break;
            }
        }
        count
    }

    fn bytes(&mut self) -> &'static [u8] {
        let size = self.count();
        let start = self.at;
        self.at += size;
        &self.data[start..self.at]
    }

    fn kind(&self) -> &'static str {
        match self.peek() {
            b'N' => "None",
            b'T' | b'F' => "bool",
            b'i' => "int",
            b'd' => "float",
            b'c' => "complex",
            b's' => "str",
            b'b' => "bytes",
            b'a' => "bytearray",
            b'l' => "list",
            b't' => "tuple",
            b'm' | b'o' | b'k' | b'f' => "dict",
            b'S' => "set",
            b'Z' => "frozenset",
            b'q' => "deque",
            b'r' => "range",
            b'D' => "Decimal",
            b'Q' => "Fraction",
            _ => "a value of another type",
        }
    }

    fn expect<T>(&self, tags: &[u8]) -> Result<(), Mismatch> {
        if tags.contains(&self.peek()) {
            return Ok(());
        }
        not::<T, _>(self.kind())
    }

    /// The low 128 bits of an int and whether it is negative; None where it has more than 129 bits.
    fn integer(&mut self) -> Option<(u128, bool)> {
        let bytes = self.bytes();
        let negative = bytes.last().map_or(false, |&byte| byte > 127);
        let fill = if negative { 255 } else { 0 };
        if bytes.len() > 17 || (bytes.len() == 17 && bytes[16] != fill) {
            return None;
        }
        let mut bits = [fill; 16];
        let size = bytes.len().min(16);
        bits[..size].copy_from_slice(&bytes[..size]);
        Some((u128::from_le_bytes(bits), negative))
    }

    fn text<T>(&mut self) -> Result<&'static str, Mismatch> {
        self.expect::<T>(b"s")?;
        std::str::from_utf8(self.bytes()).or_else(|_| not::<T, _>("a str with a lone surrogate"))
    }

    fn items<T: Take>(&mut self) -> Result<Vec<T>, Mismatch> {
        if let b'b' | b'a' = self.peek() {
            if let Some(items) = T::from_bytes(self) {
                return Ok(items);
            }
        }
        self.expect::<Vec<T>>(b"ltq")?;
        let count = self.count();
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(T::take(self)?);
        }
        Ok(items)
    }

    fn pairs<M, K: Take, V: Take>(&mut self) -> Result<Vec<(K, V)>, Mismatch> {
        self.expect::<M>(b"mokf")?;
        (0..self.count()).map(|_| Ok((K::take(self)?, V::take(self)?))).collect()
    }

    fn elements<S, T: Take>(&mut self) -> Result<Vec<T>, Mismatch> {
        self.expect::<S>(b"SZ")?;
        (0..self.count()).map(|_| T::take(self)).collect()
    }

    /// What a function that returns nothing has changed.
    pub(crate) fn give_changed(&self, out: &mut Output) {
        out.value();
        match &self.changed[..] {
            [] => out.tag(b'N'),
            [one] => one(out),
            several => {
                if out.open(b't', several.len()) {
                    several.iter().for_each(|one| one(out));
                    out.close();
                }
            }
        }
    }
}

fn not<T, R>(given: &str) -> Result<R, Mismatch> {
    Err(Mismatch(format!("{} was due, not {}", name_of::<T>(), given)))
}

/// A type that an argument can be made of.
pub trait Take: Sized {
    fn take(input: &mut Input) -> Result<Self, Mismatch>;

    /// Items made of bytes: for u8 alone.
    fn from_bytes(_: &mut Input) -> Option<Vec<Self>> {
        None
    }
}

macro_rules! bytes {
    (u8) => {
        fn from_bytes(input: &mut Input) -> Option<Vec<u8>> {
            Some(input.bytes().to_vec())
        }
    };
    ($other:ident) => {};
}

macro_rules! integers {
    ($($signed:ident $unsigned:ident)*) => {$(
        impl Take for $signed {
            fn take(input: &mut Input) -> Result<$signed, Mismatch> {
                input.expect::<$signed>(b"i")?;
                match input.integer() {
                    Some((bits, negative)) if (bits as i128 as $signed) as i128 as u128 == bits
                        && ((bits as $signed) < 0) == negative => Ok(bits as $signed),
                    _ => not::<$signed, _>("an int out of its range"),
                }
            }
        }
        impl Take for $unsigned {
            fn take(input: &mut Input) -> Result<$unsigned, Mismatch> {
                input.expect::<$unsigned>(b"i")?;
                match input.integer() {
                    Some((bits, false)) if (bits as $unsigned) as u128 == bits => Ok(bits as $unsigned),
                    _ => not::<$unsigned, _>("an int out of its range"),
                }
            }
            bytes! { $unsigned }
        }
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

integers! { i8 u8 i16 u16 i32 u32 i64 u64 i128 u128 isize usize }

macro_rules! floats {
    ($($name:ident)*) => {$(
        impl Take for $name {
            fn take(input: &mut Input) -> Result<$name, Mismatch> {
                input.expect::<$name>(b"di")?;
                if input.peek() == b'd' {
                    let mut bytes = [0; 8];
                    bytes.copy_from_slice(&input.data[input.at + 1..input.at + 9]);
                    input.at += 9;
                    return Ok(f64::from_be_bytes(bytes) as $name);
                }
                match input.integer() {
                    Some((bits, true)) => Ok(-(bits.wrapping_neg() as $name)),
                    Some((bits, false)) => Ok(bits as $name),
                    None => not::<$name, _>("an int of more than 128 bits"),
                }
            }
        }
        impl Give for $name {
            fn give(&self, out: &mut Output) {
                out.float(*self as f64);
            }
        }
    )*};
}

floats! { f32 f64 }

impl Take for bool {
    fn take(input: &mut Input) -> Result<bool, Mismatch> {
        input.expect::<bool>(b"TF")?;
        input.at += 1;
        Ok(input.data[input.at - 1] == b'T')
    }
}

impl Take for char {
    fn take(input: &mut Input) -> Result<char, Mismatch> {
        let mut characters = input.text::<char>()?.chars();
        match (characters.next(), characters.next()) {
            (Some(one), None) => Ok(one),
            _ => not::<char, _>("a str of anything but one character"),
        }
    }
}

impl Take for &'static str {
    fn take(input: &mut Input) -> Result<&'static str, Mismatch> {
        input.text::<&str>()
    }
}

impl Take for String {
    fn take(input: &mut Input) -> Result<String, Mismatch> {
        Ok(input.text::<String>()?.to_owned())
    }
}

impl Take for Cow<'static, str> {
    fn take(input: &mut Input) -> Result<Cow<'static, str>, Mismatch> {
        Ok(Cow::Borrowed(input.text::<Cow<str>>()?))
    }
}

impl Take for () {
    fn take(input: &mut Input) -> Result<(), Mismatch> {
        input.expect::<()>(b"N")?;
        input.at += 1;
        Ok(())
    }
}

impl<T: Take> Take for Option<T> {
    fn take(input: &mut Input) -> Result<Option<T>, Mismatch> {
        if input.peek() == b'N' {
            input.at += 1;
            return Ok(None);
        }
        T::take(input).map(Some)
    }
}

impl<T: Take> Take for &'static T {
    fn take(input: &mut Input) -> Result<&'static T, Mismatch> {
        Ok(Box::leak(Box::new(T::take(input)?)))
    }
}

impl<T: Take> Take for &'static [T] {
    fn take(input: &mut Input) -> Result<&'static [T], Mismatch> {
        Ok(Box::leak(input.items()?.into_boxed_slice()))
    }
}

/// Leaves the value where the function may change it, and where it can be read afterwards.
fn lend<T: Give + ?Sized + 'static>(input: &mut Input, value: Box<T>) -> &'static mut T {
    let place = Box::into_raw(value);
    input.changed.push(Box::new(move |out| unsafe { (*place).give(out) }));
    unsafe { &mut *place }
}

impl<T: Take + Give> Take for &'static mut T {
    fn take(input: &mut Input) -> Result<&'static mut T, Mismatch> {
        let value = Box::new(T::take(input)?);
        Ok(lend(input, value))
    }
}

impl<T: Take + Give> Take for &'static mut [T] {
    fn take(input: &mut Input) -> Result<&'static mut [T], Mismatch> {
        let items = input.items()?.into_boxed_slice();
        Ok(lend(input, items))
    }
}

impl Take for &'static mut str {
    fn take(input: &mut Input) -> Result<&'static mut str, Mismatch> {
        let text = input.text::<&str>()?.to_owned().into_boxed_str();
        Ok(lend(input, text))
    }
}

impl<T: Take, const N: usize> Take for [T; N] {
    fn take(input: &mut Input) -> Result<[T; N], Mismatch> {
        <[T; N]>::try_from(input.items()?).or_else(|_| not::<[T; N], _>("one of another length"))
    }
}

macro_rules! through {
    ($($name:ty: [$($bounds:tt)*] $make:expr;)*) => {$(
        impl<$($bounds)*> Take for $name {
            fn take(input: &mut Input) -> Result<$name, Mismatch> {
                let make = $make;
                make(input)
            }
        }
    )*};
}

through! {
    Box<T>: [T: Take] |input: &mut Input| T::take(input).map(Box::new);
    Rc<T>: [T: Take] |input: &mut Input| T::take(input).map(Rc::new);
    Arc<T>: [T: Take] |input: &mut Input| T::take(input).map(Arc::new);
    Box<[T]>: [T: Take] |input: &mut Input| input.items().map(Vec::into_boxed_slice);
    Vec<T>: [T: Take] |input: &mut Input| input.items();
    VecDeque<T>: [T: Take] |input: &mut Input| input.items().map(VecDeque::from);
    LinkedList<T>: [T: Take] |input: &mut Input| Ok(input.items()?.into_iter().collect());
    BTreeSet<T>: [T: Take + Ord] |input: &mut Input| Ok(input.elements::<Self, T>()?.into_iter().collect());
    HashSet<T, S>: [T: Take + Eq + Hash, S: BuildHasher + Default]
        |input: &mut Input| Ok(input.elements::<Self, T>()?.into_iter().collect());
    BTreeMap<K, V>: [K: Take + Ord, V: Take] |input: &mut Input| Ok(input.pairs::<Self, K, V>()?.into_iter().collect());
    HashMap<K, V, S>: [K: Take + Eq + Hash, V: Take, S: BuildHasher + Default]
        |input: &mut Input| Ok(input.pairs::<Self, K, V>()?.into_iter().collect());
}

macro_rules! tuples {
    ($($count:literal: $($name:ident $at:tt)*;)*) => {$(
        impl<$($name: Take),*> Take for ($($name,)*) {
            fn take(input: &mut Input) -> Result<Self, Mismatch> {
                input.expect::<Self>(b"lt")?;
                if input.count() != $count {
                    return not::<Self, _>("one of another length");
                }
                Ok(($($name::take(input)?,)*))
            }
        }
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

// -- writing

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
