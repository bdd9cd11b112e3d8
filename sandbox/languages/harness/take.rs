//! Arguments: values of Rust made of the codec's (sandbox/codec.py), as the parameter's type asks.
//!
//! bool, char and integers (in range) of bool, str of one and int; f32 and f64 of float or int; String, &str and
//! Cow<str> of str without lone surrogates; () of None; Option of None or what it holds; tuples of tuple or list;
//! Vec, slices, arrays, VecDeque, LinkedList of list, tuple or deque, those of u8 of bytes as well; HashMap and
//! BTreeMap of dict; HashSet and BTreeSet of set or frozenset; Box, Rc, Arc, & and &mut of what they hold. What
//! is borrowed lives on, so that a function may keep it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, LinkedList, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::rc::Rc;
use std::sync::Arc;

use crate::give::{name_of, Give, Output};

/// Why an argument does not fit.
pub struct Mismatch(pub String);

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
    ($($count:literal: $($name:ident)*;)*) => {$(
        impl<$($name: Take),*> Take for ($($name,)*) {
            fn take(input: &mut Input) -> Result<Self, Mismatch> {
                input.expect::<Self>(b"lt")?;
                if input.count() != $count {
                    return not::<Self, _>("one of another length");
                }
                Ok(($($name::take(input)?,)*))
            }
        }
    )*};
}

tuples! {
    1: A;
    2: A B;
    3: A B C;
    4: A B C D;
    5: A B C D E;
    6: A B C D E F;
    7: A B C D E F G;
    8: A B C D E F G H;
}
