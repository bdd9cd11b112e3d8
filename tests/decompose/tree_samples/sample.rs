use std::collections::HashMap;
use std::fmt;
#[derive(Debug, Clone)]
struct Stack<T> { items: Vec<T> }
impl<T: Clone> Stack<T> {
    /// New.
    pub fn new() -> Self { Stack { items: Vec::new() } }
    fn push(&mut self, x: T) -> &mut Self { self.items.push(x); self }
    const fn size() -> usize { 1 }
}
impl<T> fmt::Display for Stack<T> { fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { write!(f, "{}", self.items.len()) } }
trait Shape { fn area(&self) -> f64; fn show(&self) -> String { format!("{}", self.area()) } }
impl Shape for f64 { fn area(&self) -> f64 { *self * *self } }
fn count<'a>(xs: &[&'a str]) -> HashMap<&'a str, usize> { let mut m = HashMap::new(); for x in xs { *m.entry(*x).or_insert(0) += 1; } m }
mod inner { pub fn twice(x: i32) -> i32 { x * 2 } }
fn main() { let mut s = Stack::new(); s.push(1); println!("{} {} {} {:?} {}", s, 2.0f64.show(), inner::twice(2), count(&["a"]), Stack::<i32>::size()); }
