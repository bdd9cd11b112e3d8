//! Calls a Rust function with arguments decoded as its parameter types ask.
//!
//! This is a library of its own, with take.rs and give.rs, compiled once a toolchain. The solution is the root of
//! the program; its last lines hand the function to `Probe`. The contract is that of sandbox/languages/base.py.
//!
//! A function has at most 8 parameters. One that returns `()` returns what it changed: the argument of its one
//! parameter that is a `&mut`, a tuple of them where there are more, None where there is none. `Err` and a
//! panic are errors of the call; the type of a panic is "panic".

mod give;
mod take;

pub use give::{Give, Output};
pub use take::{Input, Mismatch, Take};

use std::alloc::{GlobalAlloc, Layout, System};
use std::any::Any;
use std::cell::RefCell;
use std::io::Write;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

extern "C" {
    fn close(descriptor: i32) -> i32;
    fn fcntl(descriptor: i32, command: i32, ...) -> i32;
    fn fflush(stream: *mut u8) -> i32;
    fn getpid() -> i32;
    fn signal(number: i32, handler: usize) -> usize;
    fn write(descriptor: i32, data: *const u8, size: usize) -> isize;
    fn _exit(status: i32) -> !;
}

const CALLS: &str = env!("SANDBOX_CALLS");
const RESULTS: i32 = 3;
const LEAST_DESCRIPTOR: i32 = 10;
const F_DUPFD_CLOEXEC: i32 = 1030;
const SIGABRT: i32 = 6;
const SIG_DFL: usize = 0;
const CHANNEL_LOST: i32 = 71;
const BROKEN: i32 = 70;
const HEAD: usize = 13;
// How the standard library's panic begins where a thread was refused.
const NO_THREAD: &str = "failed to spawn thread";

static CHANNEL: AtomicI32 = AtomicI32::new(-1);
static OWNER: AtomicI32 = AtomicI32::new(0);
static NONCE: AtomicU64 = AtomicU64::new(0);

// -- frames

fn send(kind: u8, payload: &[u8]) {
    let mut head = [0; HEAD];
    // A fork of the solution that comes back here is not the one that was asked.
    if unsafe { getpid() } != OWNER.load(Ordering::Relaxed) {
        unsafe { _exit(0) }
    }
    head[..8].copy_from_slice(&NONCE.load(Ordering::Relaxed).to_le_bytes());
    head[8] = kind;
    head[9..].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    for mut part in [&head[..], payload] {
        while !part.is_empty() {
            let sent = unsafe { write(CHANNEL.load(Ordering::Relaxed), part.as_ptr(), part.len()) };
            if sent <= 0 {
                unsafe { _exit(CHANNEL_LOST) }
            }
            part = &part[sent as usize..];
        }
    }
}

fn failure(category: &str, name: &str, message: &str, cause: &str) -> ! {
    let mut out = Output::new();
    out.open(b'l', 4);
    for text in [category, name, message, cause] {
        out.text(text.as_bytes());
    }
    send(b'X', &out.data);
    unsafe { _exit(1) }
}

fn give_up(what: &str) -> ! {
    eprintln!("sandbox: {}", what);
    unsafe { _exit(BROKEN) }
}

// -- memory

/// The allocator of the program: it remembers that memory was refused, which is what an abort is about then.
pub struct Memory;

static REFUSED: AtomicBool = AtomicBool::new(false);

fn noted(place: *mut u8) -> *mut u8 {
    if place.is_null() {
        REFUSED.store(true, Ordering::Relaxed);
    } else if REFUSED.load(Ordering::Relaxed) {
        REFUSED.store(false, Ordering::Relaxed);
    }
    place
}

unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        noted(System.alloc(layout))
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        noted(System.alloc_zeroed(layout))
    }
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        noted(System.realloc(place, layout, size))
    }
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        System.dealloc(place, layout)
    }
}

extern "C" fn on_abort(number: i32) {
    if REFUSED.load(Ordering::Relaxed) {
        // The encoding of ["load", "MemoryError", "refused", "memory"]: nothing can be allocated here.
        send(b'X', b"l\x04s\x04loads\x0bMemoryErrors\x07refuseds\x06memory");
        unsafe { _exit(1) }
    }
    // Back to its default, which takes effect when this returns.
    unsafe { signal(number, SIG_DFL) };
}

// -- calls

/// A function that can be called with the arguments of a call; `M` is the tuple of its parameters.
pub trait Entry<M> {
    const COUNT: usize;
    fn call(&self, input: &mut Input, out: &mut Output);
}

macro_rules! entries {
    ($($count:literal: $($name:ident)*;)*) => {$(
        impl<F, R, $($name),*> Entry<($($name,)*)> for F
        where
            F: Fn($($name),*) -> R,
            R: Give,
            $($name: Take,)*
        {
            const COUNT: usize = $count;
            #[allow(non_snake_case, unused_mut, unused_assignments, unused_variables)]
            fn call(&self, input: &mut Input, out: &mut Output) {
                let mut position = 0;
                $(
                    position += 1;
                    let $name = match <$name as Take>::take(input) {
                        Ok(value) => value,
                        Err(mismatch) => return out.argument_error(position, &mismatch),
                    };
                )*
                if input.count() != 0 {
                    return out.error("ArgumentError", "the language has no keyword arguments", "");
                }
                match catch_unwind(AssertUnwindSafe(|| self($($name),*))) {
                    Ok(result) if R::NOTHING => input.give_changed(out),
                    Ok(result) => result.outcome(out),
                    Err(payload) => {
                        let text = told(&*payload);
                        let cause = if text.starts_with(NO_THREAD) { "processes" } else { "" };
                        out.error("panic", text, cause)
                    }
                }
                if out.refused.is_some() {
                    out.unencodable(&give::name_of::<R>());
                }
            }
        }
    )*};
}

entries! {
    0: ;
    1: A;
    2: A B;
    3: A B C;
    4: A B C D;
    5: A B C D E;
    6: A B C D E G;
    7: A B C D E G H;
    8: A B C D E G H I;
}

fn told(payload: &(dyn Any + Send)) -> &str {
    if let Some(text) = payload.downcast_ref::<&str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else {
        ""
    }
}

/// Holds the solution's function. Of the two traits below the compiler takes the first whose bounds hold.
pub struct Probe<F>(pub F);

pub trait Callable<M> {
    /// Runs all calls and ends the process; `own` is how many of the parameters are no arguments (self).
    fn run(&self, name: &str, own: usize) -> !;
}

impl<F: Entry<M>, M> Callable<M> for Probe<F> {
    fn run(&self, _: &str, own: usize) -> ! {
        serve(|input, out| {
            let given = input.begin();
            let due = F::COUNT - own;
            if given != due {
                out.error("ArgumentError", &format!("{} arguments were due, {} given", due, given), "");
            } else {
                self.0.call(input, out);
            }
        })
    }
}

pub trait Otherwise {
    fn run(&self, name: &str, own: usize) -> !;
}

impl<F> Otherwise for &Probe<F> {
    fn run(&self, name: &str, _: usize) -> ! {
        missing(&format!("{} takes or returns a type that no value fits", name))
    }
}

/// Says that there is nothing to call, and ends the process.
pub fn missing(message: &str) -> ! {
    open();
    failure("missing", "NameError", message, "")
}

/// Reads the calls and takes the result channel away from its usual number.
fn open() -> &'static [u8] {
    let path = CALLS;
    let data = std::fs::read(path).unwrap_or_else(|_| give_up("no calls to read"));
    let _ = std::fs::remove_file(path);
    if data.len() < 12 {
        give_up("the calls are cut off");
    }
    let data: &'static [u8] = Box::leak(data.into_boxed_slice());
    let mut nonce = [0; 8];
    nonce.copy_from_slice(&data[..8]);
    NONCE.store(u64::from_le_bytes(nonce), Ordering::Relaxed);
    unsafe {
        let channel = fcntl(RESULTS, F_DUPFD_CLOEXEC, LEAST_DESCRIPTOR);
        if channel < 0 {
            give_up("no result channel");
        }
        CHANNEL.store(channel, Ordering::Relaxed);
        close(RESULTS);
        OWNER.store(getpid(), Ordering::Relaxed);
        signal(SIGABRT, on_abort as extern "C" fn(i32) as usize);
    }
    &data[8..]
}

fn serve(call: impl Fn(&mut Input, &mut Output)) -> ! {
    thread_local!(static OUT: RefCell<Output> = RefCell::new(Output::new()));
    let mut left = open();
    let count = number(&mut left);
    send(b'R', &[]);
    OUT.with(|out| {
        let mut out = out.borrow_mut();
        for _ in 0..count {
            let size = number(&mut left);
            let (data, rest) = left.split_at(size);
            left = rest;
            out.restart();
            call(&mut Input::new(data), &mut out);
            send(b'O', &out.data);
        }
    });
    let mut out = Output::new();
    out.integer(0, false);
    send(b'D', &out.data);
    let _ = std::io::stdout().flush();
    unsafe {
        fflush(std::ptr::null_mut());
        _exit(0)
    }
}

fn number(left: &mut &[u8]) -> usize {
    let (head, rest) = left.split_at(4);
    *left = rest;
    u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize
}
